"""Values put into a pattern in place of its variables, as EXISTS does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clmpt.logic.algebra import (
    Aggregate,
    AnyOf,
    Basic,
    Bind,
    Call,
    ExistsTest,
    Expression,
    InGraph,
    JoinAll,
    Optionally,
    Pattern,
    Selected,
    Service,
    Subquery,
    TriplePattern,
    Values,
    Where,
    Without,
    in_scope,
)
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import Iri, Literal, RdfTerm

Terms = Mapping[Variable, RdfTerm]


def mentioned(part: Pattern | Expression) -> frozenset[Variable]:
    """All variables in a pattern or expression that a value from outside could replace."""
    if isinstance(part, Variable):
        return frozenset({part})
    if isinstance(part, Basic):
        return frozenset[Variable]().union(*(triple.variables for triple in part.triples))
    if isinstance(part, JoinAll | AnyOf):
        return frozenset[Variable]().union(*map(mentioned, part.parts))
    if isinstance(part, Optionally):
        condition = mentioned(part.condition) if part.condition is not None else frozenset()
        return mentioned(part.left) | mentioned(part.right) | condition
    if isinstance(part, Without):
        return mentioned(part.left) | mentioned(part.right)
    if isinstance(part, Where):
        return mentioned(part.inner) | mentioned(part.condition)
    if isinstance(part, Bind):
        return mentioned(part.inner) | mentioned(part.expression) | {part.variable}
    if isinstance(part, InGraph):
        own = {part.graph} if isinstance(part.graph, Variable) else set()
        return mentioned(part.inner) | own
    if isinstance(part, Values):
        return frozenset(part.variables)
    if isinstance(part, Subquery):
        return frozenset(part.select.names)
    if isinstance(part, Call):
        return frozenset[Variable]().union(*map(mentioned, part.arguments))
    if isinstance(part, Aggregate):
        return mentioned(part.argument) if part.argument is not None else frozenset()
    if isinstance(part, ExistsTest):
        return mentioned(part.pattern)
    return frozenset(in_scope(part.inner)) if isinstance(part, Service) else frozenset()


def substituted(pattern: Pattern, terms: Terms) -> Pattern:
    """The pattern with terms in place of some of its variables."""
    if isinstance(pattern, Basic):
        return Basic(tuple(_triple(triple, terms) for triple in pattern.triples))
    if isinstance(pattern, JoinAll | AnyOf):
        return replace(pattern, parts=tuple(substituted(part, terms) for part in pattern.parts))
    if isinstance(pattern, Optionally):
        condition = pattern.condition
        return Optionally(
            substituted(pattern.left, terms),
            substituted(pattern.right, terms),
            None if condition is None else in_expression(condition, terms),
        )
    if isinstance(pattern, Without):
        return Without(substituted(pattern.left, terms), substituted(pattern.right, terms))
    if isinstance(pattern, Where):
        return Where(substituted(pattern.inner, terms), in_expression(pattern.condition, terms))
    if isinstance(pattern, Bind):
        inner = substituted(pattern.inner, terms)
        expression = in_expression(pattern.expression, terms)
        if pattern.variable in terms:  # what is bound must be the value from outside
            same = Call("SAMETERM", (expression, _constant(terms[pattern.variable])))
            return Where(inner, same)
        return Bind(inner, pattern.variable, expression)
    if isinstance(pattern, InGraph):
        return replace(
            pattern,
            graph=_end(pattern.graph, terms),
            inner=substituted(pattern.inner, terms),
        )
    if isinstance(pattern, Values):
        return _values(pattern, terms)
    if isinstance(pattern, Subquery):
        return _subquery(pattern, terms)
    return pattern


def in_expression(expression: Expression, terms: Terms) -> Expression:
    if isinstance(expression, Variable):
        return _end(expression, terms)  # type: ignore[no-any-return]
    if isinstance(expression, Call):
        if expression.name == "BOUND" and expression.arguments[0] in terms:
            return Call("SAMETERM", (Literal(""), Literal("")))
        return replace(
            expression,
            arguments=tuple(in_expression(one, terms) for one in expression.arguments),
        )
    if isinstance(expression, ExistsTest):
        return replace(expression, pattern=substituted(expression.pattern, terms))
    return expression


def _end(term: Any, terms: Terms) -> Any:
    return terms.get(term, term) if isinstance(term, Variable) else term


def _constant(term: RdfTerm) -> Iri | Literal:
    return term  # type: ignore[return-value]  # blank nodes are constants here, too


def _triple(triple: TriplePattern, terms: Terms) -> TriplePattern:
    ends = (triple.subject, triple.predicate, triple.object)
    return TriplePattern(*(_end(end, terms) for end in ends))


def _values(pattern: Values, terms: Terms) -> Pattern:
    """The rows that agree with the terms, without the columns of these."""
    kept = [at for at, variable in enumerate(pattern.variables) if variable not in terms]
    rows = tuple(
        tuple(row[at] for at in kept)
        for row in pattern.rows
        if all(
            value is None or variable not in terms or value == terms[variable]
            for variable, value in zip(pattern.variables, row, strict=True)
        )
    )
    return Values(tuple(pattern.variables[at] for at in kept), rows)


def _subquery(pattern: Subquery, terms: Terms) -> Pattern:
    """Only what a subquery selects is visible; its own variables are others."""
    select = pattern.select
    visible = {v: term for v, term in terms.items() if v in select.names}
    if not visible:
        return pattern
    if select.grouped or select.limit is not None or select.offset:
        rows = tuple(_constant(term) for term in visible.values())
        return JoinAll((pattern, Values(tuple(visible), (rows,))))
    columns = tuple(
        one if one.variable not in visible or one.expression is not None else _bound(one, visible)
        for one in select.columns or ()
    )
    where = substituted(select.where, visible)
    if select.columns is None:
        return Subquery(replace(select, where=where))
    return Subquery(replace(select, columns=columns, where=where))


def _bound(column: Selected, terms: Terms) -> Selected:
    return Selected(column.variable, _constant(terms[column.variable]))
