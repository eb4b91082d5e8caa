"""Rows of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clmpt.logic.shapes import EPFO, NEGATION

AVERAGES = {"Avg_p": EPFO, "Avg_n": NEGATION}


@dataclass(frozen=True)
class Entry:
    """A row of a comparison: an evaluated model and its metadata."""

    name: str
    report: dict[str, Any]
    benchmark: str = ""
    published: str = ""  # the published row that it reproduces
    costs: dict[str, float] = field(default_factory=dict)
    training_log: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, dict[str, Any]] = field(default_factory=dict)  # by stage
    queries: dict[str, str] = field(default_factory=dict)  # their origin, by split
    is_official: bool = True  # evaluated only on the benchmark's own queries
    graph_differs: list[str] = field(default_factory=list)  # from the published one

    def figure(self, shape: str, measure: str = "mrr") -> float | None:
        """Of one shape: its MRR, or another measure of a report."""
        found = (one[measure] for one in self.report["shapes"] if one["shape"] == shape)
        return next(map(float, found), None)

    def average(self, name: str, measure: str = "mrr") -> float | None:
        """Avg_p or Avg_n; None unless all of its shapes are there."""
        found = [self.figure(shape, measure) for shape in AVERAGES[name]]
        there = [figure for figure in found if figure is not None]
        return sum(there) / len(there) if there and len(there) == len(found) else None


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, with repeated names numbered."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        seen[entry.name] += 1
        number = seen[entry.name]
        found.append(replace(entry, name=f"{entry.name} ({number})") if number > 1 else entry)
    return found
