"""Fragments of HTML for notebooks, readable on light and on dark backgrounds.

Styles are inline, because a style sheet would apply to the whole notebook; pictures are images for
the same reason. Colours are those of the page, or middle tones that stand out on both backgrounds.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

from clmpt.display.text import clean

_CELL = "text-align:left;vertical-align:top;padding:.2em .9em .2em 0"
_QUIET = "opacity:.75;font-size:90%"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BAR = "display:inline-block;height:.6em;border-radius:.15em;margin-right:.5em"


def as_html(text: str) -> str:
    """Any text as HTML that shows it and does nothing else.

    >>> as_html("<b>Ugetsu</b>")
    '&lt;b&gt;Ugetsu&lt;/b&gt;'
    """
    return escape(clean(text), quote=True)


def html_block(title: str, *parts: str) -> str:
    """Parts below a title, which is text; the parts are HTML."""
    heading = f'<div style="font-weight:600;margin:.2em 0">{as_html(title)}</div>'
    return f'<div style="overflow-x:auto">{heading}{"".join(parts)}</div>'


def html_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; headers are text, cells are HTML."""
    head = "".join(f'<th scope="col" style="{_CELL}">{as_html(header)}</th>' for header in headers)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return (
        '<table style="border-collapse:collapse;margin:.3em 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def html_bar(share: float, text: str) -> str:
    """A bar for a number from 0 to 1, and what it says in words."""
    width = 7 * min(max(share, 0.0), 1.0)
    bar = f'<span aria-hidden="true" style="{_BAR};width:{width:.2f}em;background:#3b82d0"></span>'
    room = '<span style="display:inline-block;width:8em">'
    return f'<span style="white-space:nowrap">{room}{bar}</span>{as_html(text)}</span>'


def html_notes(notes: Iterable[str]) -> str:
    """Lines of text below a table."""
    return "".join(f'<div style="{_QUIET}">{as_html(note)}</div>' for note in notes)


def html_picture(svg: str, description: str) -> str:
    """A self-contained SVG as an image: none of its styles, ids or contents reach the page."""
    data = base64.b64encode(_NOT_XML.sub("\ufffd", svg).encode()).decode()
    return (
        f'<img alt="{as_html(description)}" src="data:image/svg+xml;base64,{data}" '
        'style="max-width:100%;background:#fff;border-radius:.4em">'
    )
