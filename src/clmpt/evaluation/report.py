"""One report for every reasoner: the paper's protocol, and what it leaves unsaid.

Each hard answer of a query is ranked among non-answers, all easy and other hard answers removed,
ties at mean rank. Figures are means over a query's hard answers, then over the queries of a shape.
Sums are kept, not ranks, so memory does not grow with the number of queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.evaluation.ranks import Figures, Floats, filtered_ranks, united
from clmpt.graph.builder import no_progress, tell_more
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import EPFO, NEGATION
from clmpt.pages.charts import Bars, draw_bars
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.reasoner import Reasoner
from clmpt.storage.files import new_folder
from clmpt.symbolic.missing_links import missing_links

COST = "cost.json"
_SCORES_AT_ONCE = 2**25  # numbers, 128 MiB
_QUERIES_AT_ONCE = 1024
_QUERIES_AT_FIRST = 64  # before the number of entities is seen


@dataclass(frozen=True)
class ShapeResult:
    """How well the queries of one shape were answered.

    `by_missing` has the same figures for the hard answers that miss so many links; a query counts
    for each number of which it has answers.
    """

    name: str
    figures: Figures
    standard_error: float | None  # of the MRR; None for a single query
    hard_answers: int
    by_missing: dict[int, Figures]
    notes: tuple[str, ...] = ()  # in what the scores fall short of what was asked


@dataclass(frozen=True)
class Report:
    """Results by shape. `observed` are the splits that easy answers follow from, where known."""

    model: str
    shapes: tuple[ShapeResult, ...]
    observed: tuple[str, ...] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def average(self, names: Sequence[str]) -> float | None:
        """The mean MRR of some shapes; None unless all of them are there."""
        found = {shape.name: shape.figures.mrr for shape in self.shapes}
        if not set(names) <= set(found):
            return None
        return float(np.mean([found[name] for name in names]))

    @property
    def mean(self) -> float:
        """The mean MRR of all shapes that are there."""
        if not self.shapes:
            return float("nan")
        return float(np.mean([shape.figures.mrr for shape in self.shapes]))

    @property
    def averages(self) -> dict[str, float]:
        named = {"Avg_p": self.average(EPFO), "Avg_n": self.average(NEGATION)}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def notes(self) -> list[str]:
        """What a reader must know to compare these figures with others."""
        queries = sum(shape.figures.count for shape in self.shapes)
        answers = sum(shape.hard_answers for shape in self.shapes)
        found = [
            f"{queries:,} queries, {answers:,} hard answers, each ranked among non-answers; ties "
            "at mean rank; mean over a query's hard answers, then over queries."
        ]
        if self.observed:
            found.append(f"Easy answers follow from {' + '.join(self.observed)}.")
        notes: dict[str, list[str]] = {}
        for shape in self.shapes:
            for note in shape.notes:
                notes.setdefault(note, []).append(shape.name)
        return found + [f"{', '.join(names)} (*): {note}" for note, names in notes.items()]

    # --- for people and programs ------------------------------------------------------------------

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

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headers and rows, MRR and Hits times 100; the last columns by missing links."""
        most = max((number for shape in self.shapes for number in shape.by_missing), default=0)
        headers = ["shape", "MRR", "±", "Hits@1", "Hits@3", "Hits@10", "queries"]
        headers += [f"{n} missing" for n in range(1, most + 1)]
        rows = [
            [
                shape.name + "*" * bool(shape.notes),
                *_hundredths(shape.figures.mrr),
                *(_hundredths(shape.standard_error) if shape.standard_error is not None else [""]),
                *_hundredths(
                    shape.figures.hits_at_1, shape.figures.hits_at_3, shape.figures.hits_at_10
                ),
                f"{shape.figures.count}",
                *(_by_missing(shape.by_missing.get(n)) for n in range(1, most + 1)),
            ]
            for shape in self.shapes
        ]
        for name, value in self.averages.items():
            rows.append([name, *_hundredths(value), *[""] * (len(headers) - 2)])
        return headers, rows

    def markdown(self) -> str:
        headers, rows = self.table()
        lines = [f"# {self.model}", ""]
        lines += [_cells(headers), _cells(["---"] + ["---:"] * (len(headers) - 1))]
        lines += [_cells(row) for row in rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join([*lines, ""])

    def svg(self) -> str:
        """MRR by shape, with bars for one standard error."""
        bars = [
            Bars(shape.name, 100 * shape.figures.mrr, 100 * (shape.standard_error or 0))
            for shape in self.shapes
        ]
        return draw_bars(f"{self.model}: MRR × 100", bars)

    def save(self, folder: str | Path, cost: dict[str, float] | None = None) -> None:
        """A new folder with the report as Markdown, as JSON and as a picture.

        What it cost, where given, has a file of its own: the rest is the same for the same model.
        """
        with new_folder(Path(folder)) as scratch:
            if cost:
                (scratch / COST).write_text(_json(cost), encoding="utf-8")
            for name, text in (
                ("report.md", self.markdown() + "\n![MRR by shape](report.svg)\n"),
                ("report.json", _json(self.as_plain())),
                ("report.svg", self.svg()),
            ):
                (scratch / name).write_text(text, encoding="utf-8")


def evaluate(
    reasoner: Reasoner,
    groups: Sequence[QueryGroup],
    model: str,
    graph: KnowledgeGraph | None = None,
    observed: tuple[str, ...] | None = None,
    about: dict[str, Any] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Report:
    """Answers every query that has hard answers. With a graph and what of it was observed (the
    rest being what hard answers need), figures are split by the number of missing links."""
    missing: Callable[[QueryGroup], Ints] | None = None
    if graph is not None and observed:
        missing = partial(missing_links, graph=graph, observed=observed)
    shapes, done = [], 0
    for group in groups:
        if not len(group.hard.entities):
            continue
        tell = partial(tell_more, progress, group.name, done) if progress else no_progress
        shapes.append(_evaluate_group(reasoner, group, missing, tell))
        done += len(group)
    return Report(model, tuple(shapes), observed, about or {})


def _evaluate_group(
    reasoner: Reasoner,
    group: QueryGroup,
    missing: Callable[[QueryGroup], Ints] | None,
    progress: Callable[[int], None],
) -> ShapeResult:
    whole, parts = _Sums(), dict[int, _Sums]()
    for start, ranks_T, part in _ranked(reasoner, group):
        whole.add(ranks_T, part.hard.owners)
        if missing is not None:
            own_T = missing(part)
            for number in np.unique(own_T[own_T > 0]).tolist():
                sums = parts.setdefault(number, _Sums())
                sums.add(ranks_T[own_T == number], part.hard.owners[own_T == number])
        progress(start + len(part))
    return ShapeResult(
        group.name,
        whole.figures(),
        whole.standard_error(),
        len(group.hard.entities),
        {number: parts[number].figures() for number in sorted(parts)},
        reasoner.notes(group.template),
    )


def _ranked(reasoner: Reasoner, group: QueryGroup) -> Iterator[tuple[int, Floats, QueryGroup]]:
    """The ranks of all hard answers, chunk by chunk."""
    step, start = _QUERIES_AT_FIRST, 0
    while start < len(group):
        part = group.take(slice(start, start + step))
        scores_QE = reasoner.score([part])
        known = united(part.easy, part.hard)
        yield start, filtered_ranks(scores_QE, part.hard, known), part
        start += len(part)
        step = max(1, min(_QUERIES_AT_ONCE, _SCORES_AT_ONCE // max(scores_QE.shape[1], 1)))


class _Sums:
    """Running sums over queries of what figures are made of."""

    def __init__(self) -> None:
        self.queries, self.squares = 0, 0.0
        self.totals = np.zeros(4)

    def add(self, ranks_T: Floats, owner_T: Ints) -> None:
        """Ranks of answers, with the query each belongs to; queries without any do not count."""
        _, owner_T = np.unique(owner_T, return_inverse=True)
        counts = np.bincount(owner_T)
        columns = (1 / ranks_T, ranks_T <= 1, ranks_T <= 3, ranks_T <= 10)
        means = [np.bincount(owner_T, column) / counts for column in columns]
        self.totals += [mean.sum() for mean in means]
        self.squares += float((means[0] ** 2).sum())
        self.queries += len(counts)

    def figures(self) -> Figures:
        mrr, first, third, tenth = (self.totals / max(self.queries, 1)).tolist()
        return Figures(mrr, first, third, tenth, self.queries)

    def standard_error(self) -> float | None:
        if self.queries < 2:
            return None
        mean = self.totals[0] / self.queries
        variance = max(self.squares / self.queries - mean**2, 0.0)
        return float(np.sqrt(variance / (self.queries - 1)))


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _hundredths(*values: float) -> list[str]:
    return [f"{100 * value:.1f}" for value in values]


def _by_missing(figures: Figures | None) -> str:
    return f"{100 * figures.mrr:.1f} ({figures.count})" if figures else ""


def _cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
