"""Devices and their memory."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import torch

from clmpt.errors import SettingError

_FORGET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def find_device(name: str) -> torch.device:
    """The device of this name; 'auto' is an accelerator if there is one, else the CPU."""
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        (torch.ones(2, device=device) + 1).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError):
        raise SettingError(
            f"The device '{name}' cannot be used here. Try 'cpu' or 'auto'."
        ) from None
    return device


def work_clock(device: torch.device) -> float:
    """Seconds of processor time; on an accelerator, whose work the processor does not do, seconds
    on the clock."""
    return time.process_time() if device.type == "cpu" else time.perf_counter()


def forget_peak_memory(device: torch.device) -> None:
    """Resets `peak_memory`, where the platform allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):  # only on Linux
            _FORGET.write_text("5")


def peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of the GPU, or of this process; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
        return 1024 * int(found[1]) if found else 0
    except OSError:
        with contextlib.suppress(ImportError):
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes, on macOS
        return 0
