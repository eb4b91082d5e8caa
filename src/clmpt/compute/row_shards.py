"""Tables whose rows are divided among the processes, in contiguous shards.

A step needs a few rows of such a table: every process gives those that it has, and gets the sum of
their gradients. The table itself never travels. In a single process a shard is the whole table and
everything here an ordinary look-up.

Not DTensor's own operators: they have no look-up with a sparse gradient and no log-sum-exp over
shards. Shards are those of DTensor, though, so that checkpoints can be divided anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute import distributed

# Shapes: N rows of a shard, A rows to look up, D width

_BYTES_AT_ONCE = 2**26  # of rows that are sent to be written


@dataclass(frozen=True)
class RowShard:
    """Which rows this process has of a table with `count` rows in `parts` shards."""

    count: int
    start: int
    stop: int
    parts: int = 1

    @classmethod
    def whole(cls, count: int) -> RowShard:
        return cls(count, 0, count)

    @classmethod
    def own(cls, count: int) -> RowShard:
        """
        >>> RowShard.own(10)
        RowShard(count=10, start=0, stop=10, parts=1)
        """
        rows = distributed.own_rows(count)
        return cls(count, rows.start, rows.stop, distributed.processes())

    @property
    def most(self) -> int:
        """The rows of the largest shard: the same in every process."""
        return -(-self.count // self.parts)

    def within(self, start: int, stop: int) -> slice:
        """Which of the rows from `start` to `stop` are in this shard, counted from `start`.

        >>> RowShard(10, 4, 8, 3).within(6, 10)
        slice(0, 2, None)
        """
        first = min(max(self.start, start), stop) - start
        return slice(first, max(min(self.stop, stop) - start, first))

    def has(self, row_A: Tensor) -> Tensor:
        return (row_A >= self.start) & (row_A < self.stop)

    def look_up(self, table_ND: Tensor, row_A: Tensor, sparse: bool = False) -> Tensor:
        """Rows of the whole table, of which `table_ND` is this process's shard.

        All processes must call it, each for the rows that it needs, and all must go backward.
        Gradients are summed. With `sparse`, that of the table has the rows that were asked for.
        """
        if self.parts == 1:
            return functional.embedding(row_A, table_ND, sparse=sparse)
        found_AD: Tensor = _LookUp.apply(table_ND, row_A, self, sparse)  # type: ignore[no-untyped-call]
        return found_AD

    def parts_of(self, table_ND: Tensor) -> Iterator[Tensor]:
        """The whole table, piece by piece, in the process that writes files; nothing in the others,
        which must iterate all the same."""
        if self.parts == 1:
            yield table_ND
            return
        at_once = max(1, _BYTES_AT_ONCE // max(table_ND[:1].nbytes, 1))
        rows = [distributed.rows_of(self.count, number) for number in range(self.parts)]
        for number, own in enumerate(rows):
            for start in range(own.start, own.stop, at_once):
                size = min(at_once, own.stop - start)
                piece = distributed.sent_to_first(
                    table_ND[self.within(start, start + size)]
                    if own.start == self.start
                    else table_ND.new_empty(size, *table_ND.shape[1:]),
                    number,
                )
                if piece is not None:
                    yield piece

    def logsumexp(self, scores_BN: Tensor) -> Tensor:
        """Over the scores of all shards, of which each process has its own."""
        if self.parts == 1:
            return scores_BN.logsumexp(1)
        largest_B = distributed.largest(largest_of(scores_BN, 1))
        return distributed.total((scores_BN - largest_B[:, None]).exp().sum(1)).log() + largest_B

    def gathered(self, scores_BN: Tensor, row_BC: Tensor) -> Tensor:
        """The scores at some rows of the whole table."""
        if self.parts == 1:
            return scores_BN.gather(1, row_BC)
        here_BC = self.has(row_BC)
        found_BC = scores_BN.new_zeros(row_BC.shape)
        row, column = here_BC.nonzero(as_tuple=True)
        found_BC[row, column] = scores_BN[row, row_BC[row, column] - self.start]
        return distributed.total(found_BC)

    def best(self, scores_BN: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The largest scores of all shards and their rows in the whole table, largest first; each
        process has the scores of its own rows."""
        own = scores_BN.topk(min(count, scores_BN.shape[1]), 1)
        if self.parts == 1:
            return own.values, own.indices
        missing = (0, min(count, self.most) - own.values.shape[1])
        values = functional.pad(own.values, missing, value=-torch.inf)
        rows = functional.pad(own.indices + self.start, missing)
        all_values, all_rows = (torch.cat(distributed.alike(t), 1) for t in (values, rows))
        best = all_values.topk(min(count, self.count), 1)
        return best.values, all_rows.gather(1, best.indices)


def largest_of(scores: Tensor, dimension: int) -> Tensor:
    """The maximum along a dimension; -∞ if it is empty, as in a process without rows."""
    if scores.shape[dimension]:
        return scores.amax(dimension)
    return scores.new_full([n for at, n in enumerate(scores.shape) if at != dimension], -torch.inf)


class _LookUp(torch.autograd.Function):
    """Every process tells the others which of their rows it needs, and they send them."""

    @staticmethod
    def forward(ctx: Any, table_ND: Tensor, row_A: Tensor, shard: RowShard, sparse: bool) -> Tensor:
        order_A = row_A.argsort(stable=True)
        sorted_A = row_A[order_A]
        wanted = torch.bincount(sorted_A // shard.most, minlength=shard.parts).tolist()
        asked, given = distributed.exchanged(sorted_A, wanted)
        own = asked - shard.start
        sorted_AD = distributed.returned(table_ND[own], given, wanted)
        ctx.save_for_backward(order_A, own)
        ctx.counts, ctx.sparse, ctx.shape = (wanted, given), sparse, table_ND.shape
        return torch.empty_like(sorted_AD).index_copy_(0, order_A, sorted_AD)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        order_A, own = ctx.saved_tensors
        slope_D = distributed.returned(grads[0][order_A], *ctx.counts)
        if ctx.sparse:
            found = distributed.rows_tensor(own, slope_D, ctx.shape)
        else:
            found = torch.ops.aten.embedding_dense_backward(slope_D, own, ctx.shape[0], -1, False)
        return found, None, None, None
