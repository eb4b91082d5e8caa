"""The processors that are really ours: not all that a container sees may be used."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_processors(cgroup: Path = _CGROUP, processors: int | None = None) -> int:
    """Processors that this process may use: by affinity, and by the quota of its control group."""
    if processors is None:
        has_affinity = hasattr(os, "sched_getaffinity")  # Linux alone has it
        processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _quota(cgroup)
    return max(1, min(processors, math.ceil(quota) if quota else processors))


def _quota(cgroup: Path) -> float | None:
    """Processors' worth of time per second; None where nothing limits it."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        limit, period = (cgroup / "cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):  # the older layout
        limit = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()
        period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text()
        return None if int(limit) < 0 else int(limit) / int(period)
    return None
