"""Progress of long-running work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Progress:
    """A stage, how much of it is done, and a detail to show.

    `total` is None if it is not known in advance.
    """

    stage: str
    done: int
    total: int | None = None
    detail: str = ""


ReportProgress = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Ignores progress."""


def as_one_stage(whole: ReportProgress, stage: str) -> ReportProgress:
    """Reports all stages as one, with their names as its detail.

    >>> seen = []
    >>> as_one_stage(seen.append, "sampling")(Progress("2p", 5, 30))
    >>> seen
    [Progress(stage='sampling', done=5, total=30, detail='2p')]
    """
    return lambda now: whole(replace(now, stage=stage, detail=now.detail or now.stage))


def with_look(whole: ReportProgress, look: Callable[[], None]) -> ReportProgress:
    """Also looks at something whenever there is progress."""

    def report(now: Progress) -> None:
        whole(now)
        look()

    return report


def part_of(whole: ReportProgress, stage: str, before: int, total: int | None) -> ReportProgress:
    """Reports a part's progress as that of the whole, `before` of which is already done.

    >>> seen = []
    >>> part_of(seen.append, "sampling", 10, 30)(Progress("2p", 5))
    >>> seen
    [Progress(stage='sampling', done=15, total=30, detail='2p')]
    """

    def report(part: Progress) -> None:
        detail = part.detail or part.stage
        whole(replace(part, stage=stage, done=before + part.done, total=total, detail=detail))

    return report
