"""What people and programs get to see: tables on a terminal, tabs in a pipe, JSON when asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def show_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A drawn table on a terminal; otherwise one line a row with tabs, headers first."""
    if not sys.stdout.isatty():
        for row in (headers, *rows):
            sys.stdout.write("\t".join(clean(str(cell)) for cell in row) + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, header in enumerate(headers):
        numeric = bool(rows) and all(_is_numeric(row[number]) for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(_cell(cell))) for cell in row))
    console = Console()
    if title:
        console.print(Text(title, style="bold"))
    console.print(table)


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


def tell(text: str) -> None:
    """For the person at the terminal, not for a pipe: standard error."""
    sys.stderr.write(text + "\n")


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
