"""Limits on the time and memory that answering may take.

A limit is kept by asking: code that loops or allocates calls `check_budget`, which is almost free
without a limit. One operation on whole arrays is never cut short, so a limit is met a little late.
"""

from __future__ import annotations

import os
import sys
import time
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType

from clmpt.errors import Cancelled, OutOfBudget

_LARGE = 2**20  # bytes; smaller requests are counted only now and then
_PAUSE = 0.01  # seconds between two looks at the memory in use
_STATM = Path("/proc/self/statm")


class Budget:
    """At most so many seconds, and so many bytes on top of those in use at its start; None is no
    limit. It begins with the `with` block; inside another one, both apply. A thread that is started
    inside has none, unless it is run in a copy of the context.

    >>> with Budget(seconds=10, bytes=2**30):
    ...     check_budget(bytes_needed=2**20)
    >>> with Budget(seconds=0):
    ...     check_budget()
    Traceback (most recent call last):
    clmpt.errors.OutOfBudget: It would exceed the time limit of 0 s. Ask for less, or allow more.
    """

    def __init__(self, seconds: float | None = None, bytes: int | None = None) -> None:  # noqa: A002
        self.seconds, self.bytes = seconds, bytes
        self._deadline, self._held, self._looked = float("inf"), 0, 0.0
        self._cancelled = False
        self._outer: Budget | None = None
        self._token: Token[Budget | None] | None = None

    def __enter__(self) -> Budget:
        self._deadline = time.monotonic() + (float("inf") if self.seconds is None else self.seconds)
        self._held = 0 if self.bytes is None else memory_in_use()
        self._looked = 0.0
        self._outer = _current.get()
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)

    def cancel(self) -> None:
        """From another thread: what is under way stops at its next look at the budget."""
        self._cancelled = True

    def check(self, bytes_needed: int = 0) -> None:
        if self._cancelled:
            raise Cancelled
        now = time.monotonic()
        if now > self._deadline:
            raise OutOfBudget(f"the time limit of {self.seconds:g} s")
        if self.bytes is not None and (bytes_needed >= _LARGE or now > self._looked + _PAUSE):
            self._looked = now
            if memory_in_use() - self._held + bytes_needed > self.bytes:
                raise OutOfBudget(f"the memory limit of {size_in_words(self.bytes)}")
        if self._outer is not None:
            self._outer.check(bytes_needed)


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def check_budget(bytes_needed: int = 0) -> None:
    """Raises OutOfBudget if a limit is exceeded, or would be by taking so many bytes more."""
    budget = _current.get()
    if budget is not None:
        budget.check(bytes_needed)


def memory_in_use() -> int:
    """The bytes that this process holds, without files that are mapped; where the system does not
    say, the most it ever held, or 0."""
    try:
        resident, shared = _STATM.read_text().split()[1:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        if sys.platform == "win32":
            return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def size_in_words(size: int) -> str:
    """
    >>> size_in_words(300), size_in_words(3 * 2**29)
    ('300 B', '1.5 GiB')
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
