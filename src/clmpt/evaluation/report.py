"""Figures of one reasoner by shape, with notes needed to compare them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clmpt.display.text import counted
from clmpt.evaluation.ranks import Figures, Floats
from clmpt.logic.shapes import EPFO, NEGATION


@dataclass(frozen=True)
class ShapeResult:
    """How well the queries of one shape were answered.

    `by_missing` has the figures by the number of missing links of a hard answer; a query counts
    for each number that occurs among its answers.
    """

    name: str
    figures: Figures
    standard_error: float | None  # of the MRR; None for a single query
    hard_answers: int
    by_missing: dict[int, Figures]
    notes: tuple[str, ...] = ()  # where the scores only approximate the query
    rows_Q4: Floats | None = field(default=None, repr=False, compare=False)  # of each query
    checksum: int = field(default=0, repr=False, compare=False)  # of the queries and their answers


@dataclass(frozen=True)
class Report:
    """Results by shape. `observed` are the splits that easy answers follow from, if known;
    `conditions` are what another report must share with this one to be compared with it."""

    model: str
    shapes: tuple[ShapeResult, ...]
    observed: tuple[str, ...] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict, repr=False)

    def average(self, names: Sequence[str]) -> float | None:
        """The mean MRR of the named shapes; None unless all are present."""
        found = {shape.name: shape.figures.mrr for shape in self.shapes}
        if not set(names) <= set(found):
            return None
        return float(np.mean([found[name] for name in names]))

    @property
    def mean(self) -> float:
        """The mean MRR of all shapes."""
        if not self.shapes:
            return float("nan")
        return float(np.mean([shape.figures.mrr for shape in self.shapes]))

    @property
    def averages(self) -> dict[str, float]:
        named = {"Avg_p": self.average(EPFO), "Avg_n": self.average(NEGATION)}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def notes(self) -> list[str]:
        """Notes needed to compare these figures with others."""
        queries = sum(shape.figures.count for shape in self.shapes)
        answers = sum(shape.hard_answers for shape in self.shapes)
        found = [
            f"{queries:,} queries, {answers:,} hard answers, each ranked among non-answers; ties "
            "at mean rank; mean over a query's hard answers, then over queries."
        ]
        if self.observed:
            found.append(f"Easy answers follow from {' + '.join(self.observed)}.")
        if self.about.get("approximate"):
            found.append(
                "Approximate: an index found the best entities of each query, and all others rank "
                "after them, tied."
            )
        marked = [(shape.name, note) for shape in self.shapes for note in shape.notes]
        found += [f"{names} (*): {note}" for note, names in _by_note(marked).items()]
        left_out = _by_note(self.about.get("left_out", {}).items())
        return found + [f"{names}: left out, since {note}." for note, names in left_out.items()]

    def __repr__(self) -> str:
        shapes = counted(len(self.shapes), "shape")
        return f"<Report on {self.model!r}: {shapes}, mean MRR {self.mean:.3f}>"

    def _repr_html_(self) -> str:
        from clmpt.evaluation.report_html import report_html

        return report_html(self)

    def as_plain(self) -> dict[str, Any]:
        return {
            "model": self.model,
            **{name: round(value, 6) for name, value in self.averages.items()},
            "mean": self.mean,
            "shapes": [
                {
                    "shape": shape.name,
                    **shape.figures.as_plain(),
                    "standard_error": shape.standard_error,
                    "hard_answers": shape.hard_answers,
                    "by_missing_links": {
                        str(number): found.as_plain() for number, found in shape.by_missing.items()
                    },
                    "notes": list(shape.notes),
                }
                for shape in self.shapes
            ],
            "observed": list(self.observed) if self.observed else None,
            "notes": self.notes,
            **self.about,
        }


def _by_note(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The names that have each note."""
    found: dict[str, list[str]] = {}
    for name, note in named:
        found.setdefault(note, []).append(name)
    return {note: ", ".join(names) for note, names in found.items()}
