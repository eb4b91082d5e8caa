"""Values put into a pattern in place of its variables, as EXISTS does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from clmpt.logic.algebra import (
    Aggregate,
    AlternativePath,
    AnyOf,
    Basic,
    Bind,
    Call,
    ExistsTest,
    Expression,
    InGraph,
    InversePath,
    JoinAll,
    Optionally,
    Path,
    Pattern,
    RepeatedPath,
    Select,
    Selected,
    SequencePath,
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


def joins_alike(pattern: Pattern, outer: frozenset[Variable], strange: frozenset[Variable]) -> bool:
    """Whether putting values of `outer` into a pattern is the same as joining its solutions with
    them, so that it can be evaluated once for all of them. May say no where it is.

    `strange` are those of `outer` that may have values which are no nodes of the active graph: a
    path without steps leads from such a value to itself, but no variable has it in a solution.
    """

    def alike(*parts: Pattern) -> bool:
        return all(joins_alike(part, outer, strange) for part in parts)

    if isinstance(pattern, Basic):
        empty = (one for one in pattern.triples if _may_be_empty(one.predicate))
        return not any(one.variables & strange for one in empty)
    if isinstance(pattern, Values):
        return True
    if isinstance(pattern, JoinAll | AnyOf):
        return alike(*pattern.parts)
    if isinstance(pattern, InGraph):
        return joins_alike(pattern.inner, outer, outer)
    if isinstance(pattern, Where):
        fixed = mentioned(pattern.condition) & outer
        return fixed <= _certain(pattern.inner) and alike(pattern.inner)
    if isinstance(pattern, Bind):
        fixed = mentioned(pattern.expression) & outer
        new = pattern.variable not in outer
        return new and fixed <= _certain(pattern.inner) and alike(pattern.inner)
    if isinstance(pattern, Optionally):
        condition = mentioned(pattern.condition) if pattern.condition is not None else frozenset()
        fixed = (mentioned(pattern.right) | condition) & outer
        return fixed <= _certain(pattern.left) and alike(pattern.left, pattern.right)
    if isinstance(pattern, Without):
        return alike(pattern.left) and not mentioned(pattern.right) & outer
    if not isinstance(pattern, Subquery):
        return False
    select = pattern.select
    visible = outer.intersection(select.names)
    if not visible or _is_joined(select, visible):
        return True
    made = (one.expression for one in select.columns or () if one.expression is not None)
    inside = joins_alike(select.where, visible, strange & visible)
    return inside and not any(mentioned(one) & visible for one in made)


def _may_be_empty(path: Path | Variable) -> bool:
    """Whether a path can have no steps."""
    if isinstance(path, RepeatedPath):
        return path.mark != "+" or _may_be_empty(path.path)
    if isinstance(path, InversePath):
        return _may_be_empty(path.path)
    if isinstance(path, SequencePath):
        return all(map(_may_be_empty, path.parts))
    return isinstance(path, AlternativePath) and any(map(_may_be_empty, path.parts))


def _certain(pattern: Pattern) -> frozenset[Variable]:
    """Variables that have a value in every solution."""
    if isinstance(pattern, Basic):
        return mentioned(pattern)
    if isinstance(pattern, JoinAll):
        return frozenset[Variable]().union(*map(_certain, pattern.parts))
    if isinstance(pattern, AnyOf):
        first, *rest = map(_certain, pattern.parts)
        return first.intersection(*rest)
    if isinstance(pattern, Optionally | Without):
        return _certain(pattern.left)
    if isinstance(pattern, Where | Bind | InGraph):
        return _certain(pattern.inner)
    return frozenset()


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
    if _is_joined(select, visible):
        rows = tuple(_constant(term) for term in visible.values())
        return JoinAll((pattern, Values(tuple(visible), (rows,))))
    columns = tuple(
        one if one.variable not in visible else _bound(one, visible) for one in select.columns or ()
    )
    where = substituted(select.where, visible)
    if select.columns is None:
        return Subquery(replace(select, where=where))
    return Subquery(replace(select, columns=columns, where=where))


def _is_joined(select: Select, visible: Collection[Variable]) -> bool:
    """Whether values from outside meet the results of a subquery, and not its pattern."""
    computed = any(one.expression and one.variable in visible for one in select.columns or ())
    return select.grouped or select.limit is not None or bool(select.offset) or computed


def _bound(column: Selected, terms: Terms) -> Selected:
    return Selected(column.variable, _constant(terms[column.variable]))
