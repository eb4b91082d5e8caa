"""GROUP BY and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import Ints
from clmpt.logic.algebra import Aggregate, Call, Expression, Select
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import Literal, RdfTerm
from clmpt.sparql.expressions import Surroundings
from clmpt.sparql.functions import number_in, str_
from clmpt.sparql.solutions import UNBOUND, Solutions, group_numbers
from clmpt.sparql.values import (
    DECIMAL,
    INTEGER,
    ExpressionError,
    Numeric,
    computed,
    literal_of,
    sort_key,
)


@dataclass(frozen=True)
class Grouped:
    """A SELECT whose aggregates have become variables, and their columns."""

    select: Select
    solutions: Solutions


def grouped(
    select: Select,
    solutions: Solutions,
    surroundings: Surroundings,
    column: Callable[[Expression, Solutions], Ints],
    weights: npt.NDArray[np.float64] | None = None,
) -> Grouped:
    """The groups of a SELECT. With weights, COUNT sums them up; of equal values, the first's."""
    for key in select.keys:
        if key.expression is not None:
            solutions = solutions.extended(key.variable, column(key.expression, solutions))
    variables = [key.variable for key in select.keys]
    group_N, first_G = group_numbers(solutions.matrix(variables))
    count = len(first_G) if variables else 1
    columns = {v: solutions.column(v)[first_G] for v in variables}
    found = Solutions(columns, count)
    made: dict[Aggregate, Variable] = {}
    # HAVING comes before the columns are computed, but everyday queries use their names in it.
    named = {one.variable: one.expression for one in select.columns or () if one.expression}

    def in_full(expression: Expression) -> Expression:
        if isinstance(expression, Variable):
            return named.get(expression, expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(in_full, expression.arguments)))
        return expression

    def without(expression: Expression) -> Expression:
        """The expression with variables for its aggregates."""
        if isinstance(expression, Aggregate):
            return made.setdefault(expression, Variable(f".aggregate{len(made)}"))
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(without, expression.arguments)))
        return expression

    select = replace(
        select,
        columns=tuple(
            replace(one, expression=None if one.expression is None else without(one.expression))
            for one in select.columns or ()
        ),
        having=tuple(without(in_full(one)) for one in select.having),
        order=tuple(replace(one, expression=without(one.expression)) for one in select.order),
    )
    for aggregate, variable in made.items():
        argument_N = _arguments(aggregate, solutions, column)
        values = _aggregated(aggregate, argument_N, group_N, count, surroundings, weights)
        found = found.extended(variable, values)
    return Grouped(select, found)


def _arguments(
    aggregate: Aggregate, solutions: Solutions, column: Callable[[Expression, Solutions], Ints]
) -> Ints:
    """What is aggregated, row by row; for COUNT(*), numbers that are equal for equal rows."""
    if aggregate.argument is not None:
        return column(aggregate.argument, solutions)
    shown = [v for v in solutions.columns if not v.name.startswith(".")]
    return group_numbers(solutions.matrix(shown))[0]


def _aggregated(
    aggregate: Aggregate,
    value_N: Ints,
    group_N: Ints,
    count: int,
    surroundings: Surroundings,
    weights: npt.NDArray[np.float64] | None,
) -> Ints:
    terms = surroundings.terms
    if aggregate.distinct:
        _, kept = group_numbers(np.stack([group_N, value_N], axis=1))
        kept = np.sort(kept)
        group_N, value_N = group_N[kept], value_N[kept]
        weights = None if weights is None else weights[kept]
    if aggregate.name == "COUNT":
        there = value_N != UNBOUND
        own = None if weights is None else weights[there]
        counted = np.bincount(group_N[there], own, count).tolist()
        numbers = map(_integer, counted) if weights is None else map(_expected, counted)
        return np.array([terms.id_of(number) for number in numbers], np.int64)
    order = np.argsort(group_N, kind="stable")
    bounds = group_N[order].searchsorted(np.arange(count + 1)).tolist()
    found = np.full(count, UNBOUND, np.int64)
    for at, (start, stop) in enumerate(pairwise(bounds)):
        members = value_N[order[start:stop]].tolist()
        try:
            values = [None if one < 0 else terms.term(one) for one in members]
            found[at] = terms.id_of(_AGGREGATES[aggregate.name](values, aggregate))
        except ExpressionError:
            continue
    return found


def _integer(value: int) -> Literal:
    return literal_of(Numeric(value, INTEGER))


def _expected(value: float) -> Literal:
    """An expected number, to three decimals."""
    return literal_of(Numeric(Decimal(f"{value:.3f}"), DECIMAL))


Values = Sequence[RdfTerm | None]


def _total(values: Values) -> Numeric:
    total = Numeric(0, INTEGER)
    for value in values:
        if value is None:
            raise ExpressionError("a value is lacking")
        total = computed("+", total, number_in(value))
    return total


def _sum(values: Values, _: Aggregate) -> RdfTerm:
    return literal_of(_total(values))


def _average(values: Values, _: Aggregate) -> RdfTerm:
    if not values:
        return _integer(0)
    found = computed("/", _total(values), Numeric(len(values), INTEGER))
    if isinstance(found.value, Decimal) and found.value == found.value.to_integral_value():
        found = replace(found, value=found.value.quantize(Decimal("1.0")))
    return literal_of(found)


def _least(values: Values, _: Aggregate) -> RdfTerm:
    return _chosen(values, min)


def _greatest(values: Values, _: Aggregate) -> RdfTerm:
    return _chosen(values, max)


def _chosen(values: Values, choose: Callable[..., RdfTerm]) -> RdfTerm:
    known = [value for value in values if value is not None]
    if not known:
        raise ExpressionError("no values")
    return choose(known, key=sort_key)


def _sample(values: Values, _: Aggregate) -> RdfTerm:
    found = next((value for value in values if value is not None), None)
    if found is None:
        raise ExpressionError("no values")
    return found


def _concatenated(values: Values, aggregate: Aggregate) -> RdfTerm:
    if any(value is None for value in values):
        raise ExpressionError("a value is lacking")
    return Literal(aggregate.separator.join(str_(value).text for value in values if value))


_AGGREGATES: dict[str, Callable[[Values, Aggregate], RdfTerm]] = {
    "SUM": _sum,
    "AVG": _average,
    "MIN": _least,
    "MAX": _greatest,
    "SAMPLE": _sample,
    "GROUP_CONCAT": _concatenated,
}
