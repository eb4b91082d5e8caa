"""How many threads to compute with: as many as the work is worth and the processors allow.

PyTorch starts one per processor that it sees. In a container with a quota that is too many, and
small tensors are computed faster by one thread than by several that wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clmpt.compute.processors import available_processors

_PRODUCTS_PER_THREAD = 5e8  # operations of a step that are worth another thread: about 10 ms


def threads_for(products: float, processors: int | None = None) -> int:
    """How many threads suit steps of so many operations.

    >>> threads_for(1e6, processors=8), threads_for(1e12, processors=8)
    (1, 8)
    """
    most = available_processors() if processors is None else processors
    return int(max(1, min(most, products // _PRODUCTS_PER_THREAD)))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """PyTorch computes with so many threads within the block."""
    before = torch.get_num_threads()
    if count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count != before:
            torch.set_num_threads(before)
