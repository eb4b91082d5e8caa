"""What models cost, as a table: times, memory, parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clmpt.pages.entry import Entry
from clmpt.pages.page import Table

DASH = "–"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.1f} s"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:.2f} GB"


def parameters(count: float) -> str:
    """
    >>> parameters(17_099_264), parameters(1_640), parameters(0)
    ('17.1 M', '1.6 k', '0')
    """
    if not count:
        return "0"
    return f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count / 1e3:.1f} k"


_COSTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("pre-training", "pre-training", _minutes),
    ("training", "training", _minutes),
    ("processor", "processor time of its steps", _minutes),
    ("steps", "steps", "{:,.0f}".format),
    ("evaluation", "evaluation", _minutes),
    ("answering", "processor time of a query", _milliseconds),
    ("pre-training memory", "memory: pre-training", _gigabytes),
    ("training memory", "training", _gigabytes),
    ("evaluation memory", "evaluation", _gigabytes),
    ("trained", "parameters: trained", parameters),
    ("frozen", "frozen", parameters),
)


def costs_table(entries: Sequence[Entry]) -> Table:
    rows = [
        [
            entry.name,
            *(write(entry.costs[key]) if key in entry.costs else DASH for key, _, write in _COSTS),
        ]
        for entry in entries
    ]
    return Table(["cost", *(title for _, title, _ in _COSTS)], rows)
