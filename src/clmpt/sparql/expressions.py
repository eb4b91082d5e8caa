"""Expressions over columns of solutions: computed once for each distinct row of their variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

import numpy as np

from clmpt.budget import check_budget
from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import Bools, Ints
from clmpt.graph.rdf_dataset import TermIds
from clmpt.logic.algebra import (
    Aggregate,
    Call,
    ExistsTest,
    Expression,
    expression_variables,
    sub_expressions,
)
from clmpt.logic.formula import Variable
from clmpt.logic.iris import BASE
from clmpt.logic.rdf_terms import Blank, Iri, Literal, RdfTerm
from clmpt.logic.sparql_tokens import resolved_iri
from clmpt.sparql.functions import CHANGING, FUNCTIONS, plain
from clmpt.sparql.solutions import UNBOUND, Solutions, group_numbers
from clmpt.sparql.values import (
    ExpressionError,
    effective_truth,
    equals,
    now,
    truth,
)

Row: TypeAlias = Sequence[RdfTerm | None]
Compiled: TypeAlias = Callable[[Row], RdfTerm]


@dataclass
class Surroundings:
    """What expressions of one query have in common: the time, the base and new blank nodes."""

    terms: TermIds
    base: str = ""
    named: Callable[[Iri], int] | None = None  # what a plain name stands for
    moment: Literal = field(default_factory=now)
    numbers: count[int] = field(default_factory=lambda: count(1))
    labelled: dict[tuple[int, str], Blank] = field(default_factory=dict)  # BNODE("x"), by row
    row: int = 0

    def constant(self, term: RdfTerm) -> RdfTerm:
        """A constant of the query; names stand for things, as in patterns."""
        if not isinstance(term, Iri):
            return term
        plain_name = term.text.startswith(BASE) and self.named
        number = plain_name(term) if plain_name else self.terms.find(term)
        return self.terms.term(number) if number >= 0 else term

    def blank(self) -> Blank:
        return Blank(f"new{next(self.numbers)}")


def differs_by_row(expression: Expression) -> bool:
    """Whether rows with the same values can have different values of it."""
    calls = (one.name for one in sub_expressions(expression) if isinstance(one, Call))
    return not CHANGING.isdisjoint(calls)


def column_of(expression: Expression, solutions: Solutions, surroundings: Surroundings) -> Ints:
    """The value of an expression in every row; -1 where it has none."""
    if isinstance(expression, Variable):
        return solutions.column(expression)
    terms = surroundings.terms
    if isinstance(expression, Iri | Literal | Blank):
        constant = surroundings.constant(expression)
        return np.full(solutions.rows, terms.id_of(constant), np.int64)
    variables = expression_variables(expression)
    places = {variable: place for place, variable in enumerate(variables)}
    compute = compiled_expression(expression, places, surroundings)
    rows_NC = solutions.matrix(variables)
    if differs_by_row(expression):
        group_N = first_G = np.arange(solutions.rows)
    else:
        group_N, first_G = group_numbers(rows_NC)
    found_G = np.full(len(first_G), UNBOUND, np.int64)
    term = terms.term
    for number, row in enumerate(rows_NC[first_G].tolist()):
        if number % 1024 == 0:
            check_budget()
        surroundings.row = number
        try:
            value = compute([None if one < 0 else term(one) for one in row])
        except ExpressionError:
            continue
        found_G[number] = terms.id_of(value)
    return found_G[group_N]


def holds(expression: Expression, solutions: Solutions, surroundings: Surroundings) -> Bools:
    """Where a condition is true; an error counts as false."""
    value_N = column_of(expression, solutions, surroundings)
    known, place_N = np.unique(value_N, return_inverse=True)
    return np.array([_is_true(one, surroundings.terms) for one in known.tolist()], np.bool_)[
        place_N
    ]


def _is_true(number: int, terms: TermIds) -> bool:
    try:
        return number >= 0 and effective_truth(terms.term(number))
    except ExpressionError:
        return False


def compiled_expression(
    expression: Expression, places: dict[Variable, int], surroundings: Surroundings
) -> Compiled:
    """A function of a row of terms, in which `places` says where each variable is."""
    if isinstance(expression, Iri | Literal | Blank):  # blank nodes come from an EXISTS around it
        constant = surroundings.constant(expression)
        return lambda row: constant  # noqa: ARG005
    if isinstance(expression, Variable):
        return _value_at(places[expression])
    assert not isinstance(expression, ExistsTest | Aggregate), "replaced by variables before"
    special = _SPECIAL.get(expression.name)
    if special is not None:
        return special(expression, places, surroundings)
    function = FUNCTIONS.get(expression.name)
    if function is None:
        raise UnsupportedQuery(
            f"There is no function {expression.name}",
            "Use SPARQL's own functions and casts",
            expression.position,
        )
    parts = [compiled_expression(one, places, surroundings) for one in expression.arguments]
    if len(parts) == 1:
        (only,) = parts
        return lambda row: function(only(row))
    if len(parts) == 2:
        left, right = parts
        return lambda row: function(left(row), right(row))
    return lambda row: function(*(part(row) for part in parts))


def _value_at(place: int) -> Compiled:
    def value(row: Row) -> RdfTerm:
        found = row[place]
        if found is None:
            raise ExpressionError("a variable has no value")
        return found

    return value


def _all_compiled(
    call: Call, places: dict[Variable, int], surroundings: Surroundings
) -> list[Compiled]:
    return [compiled_expression(one, places, surroundings) for one in call.arguments]


def _connective(decides: bool) -> Callable[..., Compiled]:
    """`||` (decided by true) and `&&` (by false): a deciding part outweighs errors in others."""

    def make(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
        parts = _all_compiled(call, places, surroundings)

        def value(row: Row) -> RdfTerm:
            failed = None
            for part in parts:
                try:
                    if effective_truth(part(row)) == decides:
                        return truth(decides)
                except ExpressionError as error:  # noqa: PERF203
                    failed = error
            if failed:
                raise failed
            return truth(not decides)

        return value

    return make


def _not(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    (inner,) = _all_compiled(call, places, surroundings)
    return lambda row: truth(not effective_truth(inner(row)))


def _bound(call: Call, places: dict[Variable, int], _: Surroundings) -> Compiled:
    (variable,) = call.arguments
    assert isinstance(variable, Variable)
    place = places[variable]
    return lambda row: truth(row[place] is not None)


def _if(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    test, yes, no = _all_compiled(call, places, surroundings)
    return lambda row: yes(row) if effective_truth(test(row)) else no(row)


def _coalesce(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    parts = _all_compiled(call, places, surroundings)

    def value(row: Row) -> RdfTerm:
        for part in parts:
            try:
                return part(row)
            except ExpressionError:  # noqa: PERF203
                continue
        raise ExpressionError("no value")

    return value


def _in(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    wanted, *others = _all_compiled(call, places, surroundings)

    def value(row: Row) -> RdfTerm:
        left, failed = wanted(row), None
        for other in others:
            try:
                if equals(left, other(row)):
                    return truth(True)
            except ExpressionError as error:  # noqa: PERF203
                failed = error
        if failed:
            raise failed
        return truth(False)

    return value


def _iri(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    (inner,) = _all_compiled(call, places, surroundings)

    def value(row: Row) -> RdfTerm:
        found = inner(row)
        if isinstance(found, Iri):
            return found
        reference = plain(found)
        if re.search(r"[<>\"{}|^`\\\x00-\x20]", reference):
            raise ExpressionError("not an IRI")
        return Iri(resolved_iri(surroundings.base, reference) if surroundings.base else reference)

    return value


def _bnode(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:
    if not call.arguments:
        return lambda row: surroundings.blank()  # noqa: ARG005
    (inner,) = _all_compiled(call, places, surroundings)

    def value(row: Row) -> RdfTerm:
        label = plain(inner(row))
        return surroundings.labelled.setdefault((surroundings.row, label), surroundings.blank())

    return value


def _now(call: Call, places: dict[Variable, int], surroundings: Surroundings) -> Compiled:  # noqa: ARG001
    return lambda row: surroundings.moment  # noqa: ARG005


_SPECIAL: dict[str, Callable[[Call, dict[Variable, int], Surroundings], Compiled]] = {
    "||": _connective(True),
    "&&": _connective(False),
    "!": _not,
    "BOUND": _bound,
    "IF": _if,
    "COALESCE": _coalesce,
    "IN": _in,
    "IRI": _iri,
    "URI": _iri,
    "BNODE": _bnode,
    "NOW": _now,
}
