"""The number of threads: as many as the work is worth and the processors allow.

PyTorch starts one per processor that it sees. That is too many in a container with a quota, and
small tensors are faster with one thread than with several that wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clmpt.compute.processors import available_processors

_PRODUCTS_PER_THREAD = 5e8  # operations per step that justify another thread: about 10 ms


def threads_for(products: float, processors: int | None = None) -> int:
    """The number of threads for steps of this many operations.

    >>> threads_for(1e6, processors=8), threads_for(1e12, processors=8)
    (1, 8)
    """
    most = available_processors() if processors is None else processors
    return int(max(1, min(most, products // _PRODUCTS_PER_THREAD)))


def step_threads(products: float) -> int:
    """The number of threads for a training step of this many operations, 0 if that is unknown:
    never more than PyTorch uses now."""
    return min(torch.get_num_threads(), threads_for(products or math.inf))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets the number of PyTorch threads within the block."""
    before = torch.get_num_threads()
    if count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count != before:
            torch.set_num_threads(before)
