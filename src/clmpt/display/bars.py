"""Progress for Python: a table in a notebook, a line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from clmpt.display.html import as_html, html_bar, html_table
from clmpt.display.text import clean
from clmpt.progress import Progress, ReportProgress, silent

_PAUSE = 0.2  # seconds between drawings
_WIDTH = 24  # characters of a bar
_LINE = 79

ShowProgress = bool | ReportProgress  # True: where somebody watches; False: nowhere


@contextmanager
def shown_progress(progress: ShowProgress) -> Iterator[ReportProgress]:
    """What to report progress to: a given function, or a display for whoever is watching."""
    if callable(progress):
        yield progress
        return
    bars = _bars() if progress else None
    if bars is None:
        yield silent
        return
    try:
        yield bars
    finally:
        bars.close()


def _bars() -> _Bars | None:
    notebook = _notebook()
    if notebook is not None:
        return _InNotebook(notebook)
    return _OnTerminal(sys.stderr) if sys.stderr.isatty() else None


def _notebook() -> Any:
    """IPython's display module if this is a notebook; nothing is imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display

    return display


@dataclass
class _Stage:
    began: float
    now: Progress
    ended: float | None = None

    @property
    def share(self) -> float:
        return 1.0 if self.ended else self.now.done / self.now.total if self.now.total else 0.0

    @property
    def text(self) -> str:
        seconds = (self.ended or time.monotonic()) - self.began
        return f"{self.share:4.0%}  {seconds:5.0f} s"


@dataclass
class _Bars:
    """Stages in order. A new one ends the one before it, however much of it was done."""

    stages: dict[str, _Stage] = field(default_factory=dict)
    drawn: float = 0.0

    def __call__(self, now: Progress) -> None:
        moment = time.monotonic()
        is_new = now.stage not in self.stages
        if is_new:
            self.end_stage(moment)
            self.stages[now.stage] = _Stage(moment, now)
        self.stages[now.stage].now = now
        if is_new or moment - self.drawn >= _PAUSE:
            self.drawn = moment
            self.draw()

    def end_stage(self, moment: float) -> None:
        for stage in self.stages.values():
            stage.ended = stage.ended or moment

    def draw(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.end_stage(time.monotonic())
        if self.stages:
            self.draw()


class _OnTerminal(_Bars):
    """One line, drawn over; a finished stage stays."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream

    def end_stage(self, moment: float) -> None:
        last = next(reversed(self.stages.values()), None)
        super().end_stage(moment)
        if last is not None:
            self.draw()
            self.stream.write("\n")

    def draw(self) -> None:
        stage = next(reversed(self.stages.values()))
        bar = "█" * round(_WIDTH * stage.share)
        line = f"{clean(stage.now.stage):<22} {bar:·<{_WIDTH}} {stage.text}  {stage.now.detail}"
        self.stream.write(f"\r{clean(line)[:_LINE]:<{_LINE}}")
        self.stream.flush()

    def close(self) -> None:
        self.end_stage(time.monotonic())


class _InNotebook(_Bars):
    """A table that is replaced as the work goes on."""

    def __init__(self, notebook: Any) -> None:
        super().__init__()
        self.notebook = notebook
        self.handle: Any = None

    def draw(self) -> None:
        rows = [
            [as_html(name), html_bar(stage.share, stage.text), as_html(stage.now.detail)]
            for name, stage in self.stages.items()
        ]
        shown = self.notebook.HTML(html_table(["stage", "done", ""], rows))
        if self.handle is None:
            self.handle = self.notebook.display(shown, display_id=True)
        else:
            self.handle.update(shown)
