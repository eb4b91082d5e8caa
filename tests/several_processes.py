"""Functions in several processes at once, as torchrun would start them, but in a moment."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.queues import Queue
from typing import Any

import torch

from clmpt.compute.joining import joined_processes
from service_process import free_port


def in_processes(number: int, work: Callable[[], Any], failing: bool = False) -> list[Any]:
    """What the work returns in each of the processes, in their order; or if all of them should
    fail, how they do."""
    fork = multiprocessing.get_context("fork")
    results: Queue[Any] = fork.Queue()
    port = free_port()
    workers = [
        fork.Process(target=_work, args=(rank, number, port, work, results), daemon=True)
        for rank in range(number)
    ]
    for worker in workers:
        worker.start()
    found = dict(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(30)
    for rank, (result, trouble) in found.items():
        assert (trouble is not None) == failing, f"process {rank}:\n{trouble}"
        found[rank] = trouble if failing else result
    return [found[rank] for rank in range(number)]


def _work(rank: int, number: int, port: int, work: Callable[[], Any], results: Any) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(number), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)  # the parent's other threads did not come along
    try:
        with joined_processes():
            result, trouble = work(), None
    except BaseException:
        result, trouble = None, traceback.format_exc()
    results.put((rank, (result, trouble)))
