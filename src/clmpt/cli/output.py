"""Output for people and programs: tables on a terminal, tabs when piped, JSON on request."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmpt.display.text import clean as clean
from clmpt.display.text import counted as counted

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console

_PICTURE = 88  # width of a picture of a terminal, in characters


@dataclass(frozen=True)
class TerminalTable:
    """Cells under headers; `styles` colour the rows, if given."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    styles: Sequence[str] = ()


def show_table(table: TerminalTable) -> None:
    """A drawn table on a terminal; when piped, one row per line with tabs, headers first."""
    if not sys.stdout.isatty():
        for row in (table.headers, *table.rows):
            sys.stdout.write("\t".join(clean(str(cell)) for cell in row) + "\n")
        return
    from rich.console import Console

    _print(table, Console())


def draw_table(table: TerminalTable) -> str:
    """The table as on a terminal, as a self-contained SVG."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.box import SIMPLE_HEAD
    from rich.console import Console

    console = Console(record=True, width=_PICTURE, file=io.StringIO(), force_terminal=True)
    _print(table, console, SIMPLE_HEAD)  # vertical lines need the exact font they were made for
    no_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="clmpt", code_format=no_fonts, unique_id="clmpt")


def _print(table: TerminalTable, console: Console, box: Box | None = None) -> None:
    from rich.box import HEAVY_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box or HEAVY_HEAD)
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
    """Rows below headers; without headers, further rows of the same table."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    show = (lambda cell: clean(str(cell))) if sys.stdout.isatty() else str
    lines = (headers, *rows) if headers else rows
    writer.writerows([[show(cell) for cell in row] for row in lines])


def _is_numeric(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell).rstrip("%").replace(".", "").isdigit()


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def show_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def show_json_line(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def command_name() -> str:
    """How to run this command: by name, or by the path that was typed if only that works."""
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


def tell_finished(out: Path) -> None:
    tell(f"{out} is already finished; here is what it contains.")


@contextmanager
def told_if_repeated(out: Path) -> Iterator[None]:
    """Says so if what the block writes exists, in which case the block refuses all but the same."""
    repeated = out.exists()
    yield
    if repeated:
        tell(f"{out} is already there, the same as it would be written now.")


def write_once(out: Path, text: str) -> None:
    """Writes a text to a new file, or says that it is there already."""
    from clmpt.storage.files import new_file

    with told_if_repeated(out), new_file(out, replaces=False) as scratch:
        scratch.write_text(text, encoding="utf-8")


def tell(text: str) -> None:
    """Writes to standard error: for the user at the terminal, even when the output is piped."""
    sys.stderr.write(text + "\n")
