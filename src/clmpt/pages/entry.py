"""Rows of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clmpt.logic.shapes import EPFO, NEGATION

AVERAGES = {"Avg_p": EPFO, "Avg_n": NEGATION}
MEAN = "mean"  # over all shapes of a report


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
    family: str = ""  # its name without the seed of training
    variant: str = ""  # what all seeds of one variant have in common, and no other; empty: unknown
    seed: int | None = None
    trials: list[dict[str, Any]] = field(default_factory=list)  # among which it was chosen

    def figure(self, column: str, measure: str = "mrr") -> float | None:
        """The MRR, or another measure, of a shape or an average; None unless all of its shapes are
        there."""
        known = {str(row["shape"]): float(row[measure]) for row in self.report["shapes"]}
        names = AVERAGES.get(column, tuple(known) if column == MEAN else (column,))
        found = [known[name] for name in names if name in known]
        return sum(found) / len(found) if found and len(found) == len(names) else None


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, with repeated names numbered."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        seen[entry.name] += 1
        number = seen[entry.name]
        found.append(replace(entry, name=f"{entry.name} ({number})") if number > 1 else entry)
    return found
