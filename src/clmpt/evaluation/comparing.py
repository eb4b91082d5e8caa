"""Models compared query by query: their figures, and which differences are more than chance.

Refuses to pair what was not measured on the same queries in the same way. Knows nothing of folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clmpt.display.frames import data_frame
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.paired_tests import RESAMPLES, Floats, Tested, holm, paired_tests
from clmpt.evaluation.query_figures import FIGURES, QueryFigures
from clmpt.logic.shapes import EPFO, NEGATION

if TYPE_CHECKING:
    import pandas

_AVERAGES: dict[str, tuple[str, ...]] = {"Avg_p": EPFO, "Avg_n": NEGATION}
_MEAN = "mean"  # of all shapes, where there are neither of these averages
SIGNIFICANT = 0.05
ROWS = (
    *("figure", "model", "baseline", "of", "value", "baseline_value", "difference"),
    *("low", "high", "p", "p_holm", "queries", "seeds", "baseline_seeds"),
)


@dataclass(frozen=True)
class ComparedModel:
    """A model's figures of every query, for each seed that it was trained with; `notes` say by
    shape where its scores only approximate the query."""

    name: str
    seeds: tuple[QueryFigures, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def shapes(self) -> list[str]:
        return list(self.seeds[0].rows)

    def by_shape(self, figure: str) -> dict[str, Floats]:
        """SQ: a row for each seed."""
        return {
            shape: np.stack([one.figure(shape, figure) for one in self.seeds])
            for shape in self.shapes
        }

    def mean_of(self, figure: str, shapes: Sequence[str]) -> tuple[float, float | None] | None:
        """The mean over queries, shapes and seeds, and the standard deviation over seeds, which a
        single seed does not have; None unless all shapes are there."""
        if not set(shapes) <= set(self.shapes):
            return None
        rows = self.by_shape(figure)
        mean_S = np.mean([rows[shape].mean(1) for shape in shapes], axis=0)
        deviation = float(mean_S.std(ddof=1)) if len(mean_S) > 1 else None
        return float(mean_S.mean()), deviation


@dataclass(frozen=True)
class Difference:
    """By how much a model is above the baseline: one figure, of a shape or an average.

    `p_holm` is corrected for all differences of the same figure.
    """

    figure: str
    model: str
    of: str
    baseline: float
    value: float
    tested: Tested
    p_holm: float | None
    queries: int

    @property
    def direction(self) -> int:
        """1 if it is significantly above the baseline, -1 if below, else 0."""
        if self.p_holm is None or self.p_holm >= SIGNIFICANT:
            return 0
        return 1 if self.tested.difference > 0 else -1


@dataclass(frozen=True)
class Comparison:
    """Models, the baseline first; `columns` are the shapes that make up each shape or average."""

    models: tuple[ComparedModel, ...]
    figures: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    differences: tuple[Difference, ...]
    resamples: int
    seed: int

    @property
    def baseline(self) -> str:
        return self.models[0].name

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every difference with all its numbers, by the names of `ROWS`."""
        seeds = {model.name: len(model.seeds) for model in self.models}
        found = []
        for one in self.differences:
            tested = one.tested
            values = (one.figure, one.model, self.baseline, one.of, one.value, one.baseline)
            tests = (tested.difference, tested.low, tested.high, tested.p, one.p_holm)
            row = (*values, *tests, one.queries, seeds[one.model], seeds[self.baseline])
            found.append(dict(zip(ROWS, row, strict=True)))
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame; needs pandas."""
        rows = self.rows
        return data_frame({name: [row[name] for row in rows] for name in ROWS})

    def __repr__(self) -> str:
        names = ", ".join(repr(model.name) for model in self.models[1:])
        return f"<Comparison of {names} with {self.baseline!r}>"

    def difference(self, model: str, figure: str, of: str) -> Difference | None:
        wanted = (model, figure, of)
        return next((d for d in self.differences if (d.model, d.figure, d.of) == wanted), None)


def compare_models(
    models: Sequence[ComparedModel],
    baseline: str | None = None,
    figures: Sequence[str] = FIGURES[:1],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """All models against one, by default the first."""
    first = _baseline(models, baseline)
    others = [model for model in models if model is not first]
    for model in others:
        check_same(first, model)
    columns = _columns([first, *others])
    averages = {name: shapes for name, shapes in columns.items() if shapes != (name,)}
    asked = [(figure, model) for figure in figures for model in others]
    pairs = [(first.by_shape(figure), model.by_shape(figure)) for figure, model in asked]
    tested = paired_tests(pairs, averages, resamples, seed)
    found: list[Difference] = []
    for wanted in figures:
        rows = [
            _difference(first, model, figure, of, columns[of], results[of])
            for (figure, model), results in zip(asked, tested, strict=True)
            for of in columns
            if figure == wanted and of in results
        ]
        corrected = holm([row.tested.p for row in rows])
        found += [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]
    return Comparison((first, *others), tuple(figures), columns, tuple(found), resamples, seed)


def _baseline(models: Sequence[ComparedModel], name: str | None) -> ComparedModel:
    if len(models) < 2:
        raise DataError(
            f"Only {models[0].name!r} is there, and nothing to compare it with. Name another run, "
            "or a folder of 'clmpt reproduce' with several variants."
        )
    if name is None:
        return models[0]
    by_name = {model.name: model for model in models}
    if name not in by_name:
        raise SettingError(f"There is no run '{name}'. Available: {', '.join(by_name)}.")
    return by_name[name]


def _columns(models: Sequence[ComparedModel]) -> dict[str, tuple[str, ...]]:
    """All shapes, then the averages that some model has, or else the mean."""
    found = {shape: (shape,) for model in models for shape in model.shapes}
    averages = {
        name: shapes
        for name, shapes in _AVERAGES.items()
        if any(set(shapes) <= set(model.shapes) for model in models)
    }
    common = tuple(name for name in found if all(name in model.shapes for model in models))
    if not averages and len(common) > 1:
        averages = {_MEAN: common}
    return {**found, **averages}


def _difference(
    first: ComparedModel,
    model: ComparedModel,
    figure: str,
    of: str,
    shapes: Sequence[str],
    tested: Tested,
) -> Difference:
    means = [one.mean_of(figure, shapes) for one in (first, model)]
    before, after = (found[0] for found in means if found)
    queries = sum(len(first.seeds[0].rows[shape]) for shape in shapes)
    return Difference(figure, model.name, of, before, after, tested, None, queries)


# --- what can be paired ---------------------------------------------------------------------------


def check_same(first: ComparedModel, other: ComparedModel) -> None:
    """Refuses models that were not measured on the same queries in the same way."""
    common = [shape for shape in first.shapes if shape in other.shapes]
    if not common:
        raise DataError(f"'{first.name}' and '{other.name}' have no shape in common.")
    for one in first.seeds:
        for another in other.seeds:
            problem = _problem(one, another, common)
            if problem:
                raise DataError(f"'{first.name}' and '{other.name}' cannot be compared: {problem}")


def check_seeds(model: ComparedModel) -> None:
    """Refuses to take different measurements for seeds of one model."""
    first, *others = model.seeds
    for other in others:
        problem = _problem(first, other, list(first.rows))
        if set(first.rows) != set(other.rows):
            problem = "they were measured on different shapes."
        if problem:
            raise DataError(f"These are no seeds of one model '{model.name}': {problem}")


def _problem(one: QueryFigures, other: QueryFigures, shapes: Sequence[str]) -> str:
    """Why two measurements cannot be paired; empty if they can."""
    theirs = (one.conditions, other.conditions)
    if _differ(*theirs, "graph"):
        return "they were measured on different graphs."
    if _differ(*theirs, "known"):
        facts = [" + ".join(map(str, about.get("known") or ["unknown splits"])) for about in theirs]
        return f"the first may use the facts of {facts[0]}, the second those of {facts[1]}."
    if _differ(*theirs, "approximate"):
        return "only one of them was measured with an index, whose ranks are approximate."
    other_queries = [
        shape
        for shape in shapes
        if one.checksums[shape] != other.checksums[shape]
        or one.rows[shape].shape != other.rows[shape].shape
    ]
    if other_queries:
        return f"they were measured on different queries of {', '.join(other_queries)}."
    return ""


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return bool(one.get(name) != other.get(name))
