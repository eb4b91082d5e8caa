"""Connecting the processes that torchrun, srun or Kubernetes started, which then work as one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
from torch import distributed as torch_distributed
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from clmpt.compute import distributed
from clmpt.errors import PeerFailed, SettingError

_PROCESSES, _ON_MACHINE = "WORLD_SIZE", "LOCAL_RANK"  # as torchrun sets them
_CONNECTION = ("gloo", "NCCL", "onnection", "peer")
_TROUBLE = "clmpt/trouble/{}"  # in the store: why a process ends
_PAUSE = 0.02  # seconds between looks into the store
_PATIENCE = timedelta(minutes=30)  # for the last of them to start
_LONGEST_WAIT = timedelta(hours=12)  # for work of one of them; a death is noticed at once


def is_launched() -> bool:
    """Whether this is one of several processes that torchrun started."""
    return int(os.environ.get(_PROCESSES, "1")) > 1


@contextmanager
def joined_processes() -> Iterator[None]:
    """The processes that torchrun started, working as one within the block."""
    if not is_launched():
        yield
        return
    backend = _backend()
    try:
        store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
        store = PrefixStore(_round(store, rank, size), store)
        torch_distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=_LONGEST_WAIT
        )
    except (RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise SettingError(
            f"The processes cannot reach each other ({why}). Start them with --processes N or with "
            "torchrun, and see that its port is free."
        ) from None
    try:
        yield
        distributed.wait_for_all()  # so that none is gone while another still listens to it
    except PeerFailed:
        raise
    except Exception as error:
        # Each backend has its own words for a connection that is gone.
        if not isinstance(error, RuntimeError) or not any(w in str(error) for w in _CONNECTION):
            with suppress(RuntimeError):  # the store may be gone, and must not hide the error
                store.set(_TROUBLE.format(rank), f"process {rank + 1} of {size}: {error}")
            raise
        why = _trouble_of_others(store, size)
        raise PeerFailed(
            f"Another process of this run has ended{why}. Run the same command again to resume."
        ) from None
    finally:
        torch_distributed.destroy_process_group()


def _trouble_of_others(store: Store, size: int) -> str:
    """What one of them said before it ended; one that was killed said nothing."""
    keys = map(_TROUBLE.format, range(size))
    try:
        said = [bytes(store.get(key)).decode() for key in keys if store.check([key])]
    except RuntimeError:  # the store was in the process that is gone
        return ""
    return f" ({said[0].rstrip('.')})" if said else ""


def _round(store: Store, rank: int, size: int) -> str:
    """A name for this start of the processes, which no earlier one had.

    If torchrun restarts them, they find the addresses of those before in its store. So the first
    process counts starts, and tells the others when they ask; each asks under a new number.
    """
    if rank:
        asked = store.add(f"clmpt/asked/{rank}", 1)
        answer = f"clmpt/answer/{rank}/{asked}"
        while not store.check([answer]):
            time.sleep(_PAUSE)
        found = bytes(store.get(answer)).decode()
        store.set(f"clmpt/heard/{rank}/{found}", "")
        return found
    found = f"clmpt/{store.add('clmpt/starts', 1)}"
    missing = set(range(1, size))
    deadline = time.monotonic() + _PATIENCE.total_seconds()
    while missing:
        for other in sorted(missing):
            store.set(f"clmpt/answer/{other}/{store.add(f'clmpt/asked/{other}', 0)}", found)
            if store.check([f"clmpt/heard/{other}/{found}"]):
                missing.discard(other)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} of {size} processes did not start")
        time.sleep(_PAUSE)
    return found


def _backend() -> str:
    """What carries tensors of the CPU and of GPUs, one of which this process takes."""
    if not torch_distributed.is_available() or not torch_distributed.is_gloo_available():
        raise SettingError(
            "This PyTorch cannot connect processes: it was built without Gloo. Use one process, or "
            "install another build."
        )
    if not torch.cuda.is_available() or not torch_distributed.is_nccl_available():
        return "gloo"
    torch.cuda.set_device(int(os.environ.get(_ON_MACHINE, "0")) % torch.cuda.device_count())
    return "cpu:gloo,cuda:nccl"
