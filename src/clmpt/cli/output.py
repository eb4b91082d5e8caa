"""What people and programs get to see: tables on a terminal, tabs in a pipe, JSON when asked."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console

_PICTURE = 88  # characters that a picture of a terminal is wide


@dataclass(frozen=True)
class Table:
    """Cells under headers; `styles` colour the rows, where given."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    styles: Sequence[str] = ()


def show_table(table: Table) -> None:
    """A drawn table on a terminal; otherwise one line a row with tabs, headers first."""
    if not sys.stdout.isatty():
        for row in (table.headers, *table.rows):
            sys.stdout.write("\t".join(clean(str(cell)) for cell in row) + "\n")
        return
    from rich.console import Console

    _print(table, Console())


def draw_table(table: Table) -> str:
    """The table as on a terminal, as an SVG picture that needs nothing from elsewhere."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.box import SIMPLE_HEAD
    from rich.console import Console

    console = Console(record=True, width=_PICTURE, file=io.StringIO(), force_terminal=True)
    _print(table, console, SIMPLE_HEAD)  # upright lines need the very font they were made for
    no_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="clmpt", code_format=no_fonts, unique_id="clmpt")


def _print(table: Table, console: Console, box: Box | None = None) -> None:
    from rich.box import HEAVY_HEAD
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=box or HEAVY_HEAD)
    for number, header in enumerate(table.headers):
        numeric = bool(table.rows) and all(_is_numeric(row[number]) for row in table.rows)
        drawn.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for number, row in enumerate(table.rows):
        style = table.styles[number] if table.styles else ""
        drawn.add_row(*(Text(clean(_cell(cell))) for cell in row), style=style)
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(drawn)


def show_csv(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    show = (lambda cell: clean(str(cell))) if sys.stdout.isatty() else str
    writer.writerows([[show(cell) for cell in row] for row in (headers, *rows)])


def _is_numeric(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell).rstrip("%").replace(".", "").isdigit()


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def clean(text: str) -> str:
    """Names come from strangers: line breaks and control codes are shown, not obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "fact"), counted(2000, "fact")
    ('1 fact', '2,000 facts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def command_name() -> str:
    """How to call us: by name, unless only the path that was typed leads here."""
    typed = Path(sys.argv[0])
    if shutil.which("clmpt") or typed.stem != "clmpt" or not typed.exists():
        return "clmpt"
    here = Path.cwd()
    return shlex.quote(str(typed.relative_to(here) if typed.is_relative_to(here) else typed))


def duration(seconds: float) -> str:
    """
    >>> duration(75), duration(7300)
    ('1 min 15 s', '2 h 01 min')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def tell(text: str) -> None:
    """For the person at the terminal, not for a pipe: standard error."""
    sys.stderr.write(text + "\n")


_EVERY = 30.0  # seconds between lines about a stage where there is no terminal


@contextmanager
def stages() -> Iterator[Callable[[str, int, int, str], None]]:
    """A function (stage, done, total, line) that draws a bar for each stage and leaves it there;
    where there is no terminal it tells a line when a stage begins, and now and then."""
    if not sys.stderr.isatty():
        told: dict[str, float] = {}
        first: dict[str, tuple[float, int]] = {}

        def line_by_line(name: str, done: int, total: int, line: str) -> None:
            now = time.monotonic()
            if name not in told or now - told[name] > _EVERY:
                began, before = first.setdefault(name, (now, done))
                left = (now - began) * (total - done) / (done - before) if done > before else 0.0
                parts = [f"{name}: {done:,} of {total:,}", line]
                parts.append(f"{duration(left)} left" if left else "")
                tell(", ".join(part for part in parts if part))
                told[name] = now

        yield line_by_line
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description:<17}"),
        BarColumn(24),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[line]}"),
        console=Console(stderr=True),
    )
    tasks: dict[str, TaskID] = {}

    def finish(names: Sequence[str]) -> None:
        for name in names:
            total = bars.tasks[tasks[name]].total
            bars.update(tasks[name], completed=total or 0)

    with bars:

        def draw(name: str, done: int, total: int, line: str) -> None:
            if name not in tasks:
                finish(list(tasks))  # a stage may end early
                tasks[name] = bars.add_task(name, total=total, line="")
            bars.update(tasks[name], completed=done, total=total, line=line)

        yield draw
        finish(list(tasks))


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[str, int], None]]:
    """A function (what, how many so far) that draws a bar on a terminal and is silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _what, _done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()] if total else []
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("", total=total)
        yield lambda what, done: bar.update(task, description=what, completed=done)
