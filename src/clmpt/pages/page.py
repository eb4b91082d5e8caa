"""A page of headings, text, tables and pictures, as Markdown and as HTML.

The HTML is self-contained: styles and pictures are inline, and it loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; margin: 2rem auto; padding: 0 1rem;
  max-width: 84rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 2.2rem; }
h3 { font-size: 1.05rem; margin-top: 1.6rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid #d8dee4; text-align: right;
  white-space: nowrap; }
th { border-bottom: 2px solid #8c959f; font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
.text td, .text th { text-align: left; white-space: normal; }
tr.quiet td { color: #57606a; }
svg { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
details { margin: .6rem 0; } summary { cursor: pointer; }
code { font: .88em ui-monospace, monospace; }
@media print { body { margin: 0; max-width: none; } }
"""


@dataclass(frozen=True)
class Heading:
    """A heading; levels start at 2, below the page's title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Cells under headers: figures or text. Rows from `quiet_from` on are greyed out."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    quiet_from: int | None = None
    is_text: bool = False


@dataclass(frozen=True)
class Picture:
    """An SVG, and the name of its file for Markdown."""

    name: str
    text: str
    svg: str


Block = Heading | Text | Bullets | Table | Picture


@dataclass(frozen=True)
class Page:
    """A title and blocks below it."""

    title: str
    blocks: Sequence[Block]

    @property
    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks if isinstance(block, Picture)]

    def markdown(self) -> str:
        parts = [f"# {_plain(self.title)}", *map(_markdown, self.blocks)]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        body = "\n".join(map(_html, self.blocks))
        title = escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
        )


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_plain(text)}"
        case Text(text):
            return _plain(text)
        case Bullets(items):
            return "\n".join(f"- {_plain(item)}" for item in items)
        case Table(headers, rows, _, is_text):
            under = ["---"] + ["---" if is_text else "---:"] * (len(headers) - 1)
            return "\n".join(_cells(row) for row in (headers, under, *rows))
        case Picture(name, text, _):
            return f"![{_plain(text)}]({name})"


def _cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in row) + " |"


def _plain(text: str) -> str:
    """Text escaped for Markdown: names are untrusted."""
    return re.sub(r"([\\*_<>\[\]])", r"\\\1", " ".join(text.split()))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case Table(headers, rows, quiet_from, is_text):
            head = "".join(f"<th>{escape(header)}</th>" for header in headers)
            body = "".join(
                f"<tr{_quiet(number, quiet_from)}>"
                + "".join(f"<td>{escape(cell)}</td>" for cell in row)
                + "</tr>\n"
                for number, row in enumerate(rows)
            )
            kind = ' class="text"' if is_text else ""
            return f'<div class="wide"><table{kind}><tr>{head}</tr>\n{body}</table></div>'
        case Picture(_, text, svg):
            return f'<figure role="img" aria-label="{escape(text)}">{svg}</figure>'


def _quiet(number: int, quiet_from: int | None) -> str:
    return ' class="quiet"' if quiet_from is not None and number >= quiet_from else ""
