"""How far long work has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Progress:
    """A stage of work, how much of it is done, and a line about it.

    `total` is None where nobody knows it in advance.
    """

    stage: str
    done: int
    total: int | None = None
    detail: str = ""


ReportProgress = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """For callers who do not watch."""


def part_of(whole: ReportProgress, stage: str, before: int, total: int | None) -> ReportProgress:
    """Reports a part's progress as that of the whole, of which `before` was done already.

    >>> seen = []
    >>> part_of(seen.append, "sampling", 10, 30)(Progress("2p", 5))
    >>> seen
    [Progress(stage='sampling', done=15, total=30, detail='2p')]
    """

    def report(part: Progress) -> None:
        detail = part.detail or part.stage
        whole(replace(part, stage=stage, done=before + part.done, total=total, detail=detail))

    return report
