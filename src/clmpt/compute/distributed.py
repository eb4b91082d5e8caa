"""Several processes that work as one: the only module that asks which one this is.

`joining.py` connects them. In a single process everything here is an identity, so callers need not
know how many there are, nor which they are.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as torch_distributed

from clmpt.errors import AlreadyFinished, ClmptError, PeerFailed, SettingError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

K = TypeVar("K")
T = TypeVar("T")

_SENT_TOGETHER = 2**21  # numbers of one message, so that small tensors are not one each


class _Traffic:
    """Bytes that this process has given to others, for measurements."""

    sent: int = 0


traffic = _Traffic()


def _number() -> int:
    return torch_distributed.get_rank() if _several() else 0


def _several() -> bool:
    return torch_distributed.is_available() and torch_distributed.is_initialized()


def processes() -> int:
    return torch_distributed.get_world_size() if _several() else 1


def is_shown() -> bool:
    """Whether this process tells the user how it goes; one of them does."""
    return int(os.environ.get("RANK", "0")) == 0  # as torchrun sets it


# --- sharing work out -----------------------------------------------------------------------------


def own_share(count: int) -> slice:
    """Which of `count` things, in order, are this process's; shares differ by one at most.

    >>> own_share(10)
    slice(0, 10, None)
    """
    return _share(count, _number(), processes())


def _share(count: int, number: int, of: int) -> slice:
    """
    >>> [_share(5, number, 3) for number in range(3)]
    [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    return slice(number * count // of, (number + 1) * count // of)


def own_rows(count: int) -> slice:
    """Which of a table's rows are this process's, as DTensor divides them: the last processes may
    have fewer, or none.

    >>> own_rows(10)
    slice(0, 10, None)
    """
    return rows_of(count, _number())


def rows_of(count: int, number: int) -> slice:
    """The rows of one of the processes."""
    most = -(-count // processes())
    return slice(min(number * most, count), min((number + 1) * most, count))


def own_turns(count: int) -> range:
    """Which of `count` pieces of work are this process's, if they are dealt out like cards.

    >>> own_turns(3)
    range(0, 3)
    """
    return range(_number(), count, processes())


def total(value: Tensor) -> Tensor:
    """The sum over all processes; each has the same."""
    if _several():
        value = value.clone()
        add_up(value)
    return value


def largest(value: Tensor) -> Tensor:
    """The maximum over all processes, number by number."""
    if _several():
        value = value.clone()
        torch_distributed.all_reduce(value, torch_distributed.ReduceOp.MAX)
        _count_traffic(value)
    return value


def from_all(own: T) -> list[T]:
    """What each process has, in their order; plain values."""
    if not _several():
        return [own]
    found: list[Any] = [None] * processes()
    torch_distributed.all_gather_object(found, own)
    return found


def entries_of_all(own: dict[K, T]) -> dict[K, T]:
    """The entries of all processes."""
    return {key: value for part in from_all(own) for key, value in part.items()}


def alike(own: Tensor) -> list[Tensor]:
    """The tensors of all processes, which have the same shape."""
    if not _several():
        return [own]
    found = [torch.empty_like(own) for _ in range(processes())]
    torch_distributed.all_gather(found, own.contiguous())
    traffic.sent += own.nbytes * (processes() - 1)
    return found


def sent_to_first(value: Tensor, number: int) -> Tensor | None:
    """The value of one of the processes, in the process that writes files; None in the others. All
    call it; a process that only receives gives an array of the same shape."""
    if not _several() or number == _number() == 0:
        return value
    if number == _number():
        torch_distributed.send(value.contiguous(), 0)
        traffic.sent += value.nbytes
    if _number() or number == 0:
        return None
    torch_distributed.recv(value, number)
    return value


def exchanged(value: Tensor, counts: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Gives the first `counts[0]` rows to the first process and so on. Returns the rows that the
    processes gave this one, in their order, and how many each of them gave."""
    if not _several():
        return value, list(counts)
    sent = torch.tensor(counts, device=value.device)
    received = torch.empty_like(sent)
    torch_distributed.all_to_all_single(received, sent)
    return _sent_by_counts(value, list(counts), received.tolist()), received.tolist()


def returned(value: Tensor, counts: Sequence[int], given: Sequence[int]) -> Tensor:
    """The answer to `exchanged`, whose `given` rows each process gets answers for."""
    return value if not _several() else _sent_by_counts(value, list(counts), list(given))


def _sent_by_counts(value: Tensor, sent: list[int], received: list[int]) -> Tensor:
    found = value.new_empty(sum(received), *value.shape[1:])
    torch_distributed.all_to_all_single(found, value.contiguous(), received, sent)
    traffic.sent += (len(value) - sent[_number()]) * value[:1].nbytes
    return found


def sum_gradients(parameters: Iterable[Tensor], by_rows: Tensor | None = None) -> None:
    """Makes every process's gradients the sum of all; what no process uses has none, as in a single
    one. `by_rows` is a table whose gradients are sparse, with rows that may differ."""
    if not _several():
        return
    wanted = list(parameters)
    uses = total(torch.tensor([float(parameter.grad is not None) for parameter in wanted]))
    waiting: list[Tensor] = []
    for parameter, is_used in zip(wanted, uses.tolist(), strict=True):
        if not is_used:
            continue
        if parameter is by_rows:
            parameter.grad = _sum_of_rows(parameter)
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.numel() >= _SENT_TOGETHER:
            add_up(parameter.grad)
            continue
        waiting.append(parameter.grad)
        if sum(gradient.numel() for gradient in waiting) >= _SENT_TOGETHER:
            _add_up_together(waiting)
            waiting = []
    _add_up_together(waiting)


def _add_up_together(values: list[Tensor]) -> None:
    """`add_up` of many small tensors in one message."""
    if values:
        together = torch.cat([value.reshape(-1) for value in values])
        add_up(together)
        parts = torch.split(together, [value.numel() for value in values])
        for value, part in zip(values, parts, strict=True):
            value.copy_(part.view_as(value))


def _sum_of_rows(table: Tensor) -> Tensor:
    found = table.grad
    if found is None:
        found = rows_tensor(
            torch.empty(0, dtype=torch.int64), table[:0].detach(), tuple(table.shape)
        )
    own = found.coalesce()
    parts = zip(_rows_from_all(own.indices()[0]), _rows_from_all(own.values()), strict=True)
    rows, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return rows_tensor(rows, values, tuple(table.shape)).coalesce()


def rows_tensor(row_U: Tensor, values_UD: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Some rows of a table, as the gradient of a look-up has them."""
    return torch.sparse_coo_tensor(row_U[None], values_UD, shape, check_invariants=False)


def _rows_from_all(own: Tensor) -> list[Tensor]:
    """The rows of all processes, however many each has."""
    counts = [torch.zeros((), dtype=torch.int64, device=own.device) for _ in range(processes())]
    torch_distributed.all_gather(counts, torch.tensor(len(own), device=own.device))
    most = max(int(count) for count in counts)
    padded = own.new_zeros(most, *own.shape[1:])
    padded[: len(own)] = own
    return [part[: int(count)] for part, count in zip(alike(padded), counts, strict=True)]


def add_up(value: Tensor) -> None:
    """Replaces the value by the sum over all processes."""
    if _several():
        torch_distributed.all_reduce(value)
        _count_traffic(value)


def _count_traffic(value: Tensor) -> None:
    traffic.sent += 2 * value.nbytes * (processes() - 1) // processes()  # of a ring


def any_of(flag: bool) -> bool:
    """Whether it is so in any process."""
    return bool(total(torch.tensor(float(flag)))) if _several() else flag


def mesh(device: str = "cpu") -> DeviceMesh:
    """All processes in a row, as DTensor knows them."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (processes(),))


@contextmanager
def quiet_checkpoints() -> Iterator[None]:
    """Without the advice that torch.distributed.checkpoint gives to programmers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- what only one may do -------------------------------------------------------------------------


def by_one(work: Callable[..., Any]) -> Callable[..., None]:
    """The work in one of the processes, nothing in the others: for what is written to files."""

    def done(*words: Any, **named: Any) -> None:
        if _number() == 0:
            work(*words, **named)

    return done


def made_by_one(work: Callable[[], T]) -> T:
    """What the work gives in one of the processes, in all of them; a plain value."""
    if not _several():
        return work()
    found: list[Any] = [None]
    if _number() == 0:
        try:
            found = [(work(), None)]
        except ClmptError as error:
            found = [(None, str(error))]
    torch_distributed.broadcast_object_list(found, 0)
    value, trouble = found[0]
    if trouble is not None:
        raise PeerFailed(trouble)
    return value  # type: ignore[no-any-return]


@contextmanager
def held_by_one(context: AbstractContextManager[Any]) -> Iterator[None]:
    """A context that one of the processes enters, such as a lock."""
    if _number():
        yield
        return
    with context:
        yield


def in_turn(work: Callable[[], T]) -> T:
    """The work in one process after the other: the first makes something, the others find it. If it
    fails there, it fails everywhere."""
    if not _several():
        return work()
    failed: list[Any] = [None]
    if _number() == 0:
        try:
            found = work()
        except ClmptError as error:
            failed = [(isinstance(error, AlreadyFinished), str(error))]
            torch_distributed.broadcast_object_list(failed, 0)
            raise
    torch_distributed.broadcast_object_list(failed, 0)
    if failed[0] is not None:
        finished, told = failed[0]
        raise AlreadyFinished(told) if finished else PeerFailed(told)
    for turn in range(1, processes()):  # one by one: the work may take a lock
        if turn == _number():
            found = work()
        torch_distributed.barrier()
    return found


def agree(value: str, what: str) -> None:
    """Refuses to go on if processes were started with something different."""
    if not _several():
        return
    found: list[Any] = [None] * processes()
    torch_distributed.all_gather_object(found, value)
    if len(set(found)) > 1:
        raise SettingError(
            f"The processes do not agree on {what}. Start all of them with the same command."
        )


class Together:
    """The processes, for code that shares work out and must not depend on torch."""

    def turns(self, count: int) -> range:
        return own_turns(count)

    def by_one(self, work: Callable[[], T]) -> T:
        return made_by_one(work)

    def held(self, context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
        return held_by_one(context)

    def wait(self) -> None:
        wait_for_all()

    def agree(self, value: str, what: str) -> None:
        agree(value, what)


def wait_for_all() -> None:
    if _several():
        torch_distributed.barrier()
