"""Progress on standard error: bars on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clmpt.cli.output import duration, tell
from clmpt.progress import Progress, ReportProgress, silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_EVERY = 30.0  # seconds between lines about a stage


@contextmanager
def stage_bars() -> Iterator[ReportProgress]:
    """A bar per stage, which stays on screen; without a terminal, a line when a stage starts and
    occasionally after that."""
    if not sys.stderr.isatty():
        yield _LineByLine()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    bars = Bars(
        TextColumn("{task.description:<18}"),
        BarColumn(24),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
        console=Console(stderr=True),
    )
    with bars:
        drawn = _OnTerminal(bars)
        yield drawn
        drawn.finish()


class _LineByLine:
    def __init__(self) -> None:
        self.printed: dict[str, float] = {}
        self.first: dict[str, tuple[float, int]] = {}

    def __call__(self, now: Progress) -> None:
        moment = time.monotonic()
        if now.stage in self.printed and moment - self.printed[now.stage] <= _EVERY:
            return
        began, before = self.first.setdefault(now.stage, (moment, now.done))
        total, left = now.total or 0, 0.0
        if now.done > before:
            left = (moment - began) * (total - now.done) / (now.done - before)
        parts = [f"{now.stage}: {now.done:,} of {total:,}", now.detail]
        parts.append(f"{duration(left)} left" if left > 0 else "")
        tell(", ".join(part for part in parts if part))
        self.printed[now.stage] = moment


class _OnTerminal:
    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, now: Progress) -> None:
        if now.stage not in self.tasks:
            self.finish()  # a stage may end early
            self.tasks[now.stage] = self.bars.add_task(now.stage, total=now.total, detail="")
        self.bars.update(
            self.tasks[now.stage], completed=now.done, total=now.total, detail=now.detail
        )

    def finish(self) -> None:
        for task in self.tasks.values():
            self.bars.update(task, completed=self.bars.tasks[task].total or 0)


@contextmanager
def progress_bar(
    describe: Callable[[Progress], str] = lambda now: now.stage,
) -> Iterator[ReportProgress]:
    """A bar that disappears when the work is done; silent where there is no terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    bar = Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda now: bar.update(
            task, description=describe(now), completed=now.done, total=now.total
        )
