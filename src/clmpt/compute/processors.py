"""The processors that this process may use: a container may see more than it can use."""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_FOR_TORCH = {
    # Idle threads sleep after microseconds instead of spinning for milliseconds: on a busy machine
    # the default makes small models several times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "5000",
    # Large tensors are in pages of 2 MB: a gradient of a whole table is made in every step, and
    # thousands of small pages would take longer than its numbers.
    "THP_MEM_ALLOC_ENABLE": "1",
}


def available_processors(cgroup: Path = _CGROUP, processors: int | None = None) -> int:
    """The number of processors allowed by CPU affinity and by the cgroup's quota; of several
    processes that torchrun started on this machine, a share of them."""
    if processors is None:
        has_affinity = hasattr(os, "sched_getaffinity")  # only on Linux
        processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _quota(cgroup)
    sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(processors, math.ceil(quota) if quota else processors) // sharing)


def prepare_torch() -> None:
    """Sets, unless the user has, how PyTorch's threads wait and how it allocates. It is read when
    PyTorch is loaded: afterwards this does nothing."""
    if "torch" not in sys.modules:
        for name, value in _FOR_TORCH.items():
            os.environ.setdefault(name, value)


def _quota(cgroup: Path) -> float | None:
    """The quota in processors; None if unlimited."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        limit, period = (cgroup / "cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):  # cgroup v1
        limit = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()
        period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text()
        return None if int(limit) < 0 else int(limit) / int(period)
    return None
