"""*Or* as 1 - Π (1 - x), where it is written.

The maximum can be taken at the end, over the alternatives of the normal form; this union cannot. So
an *or* that speaks of one variable only is computed first, as a question of its own, and its values
stand in the outer question as an atom with a relation made up for it. An *or* that speaks of
several variables is left to the normal form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import AnyInts, EdgeIndex, Ints
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Or,
    Placeholder,
    Query,
    loose_variables,
    placeholders,
)
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.truth_values.rows import SparseRows, TruthRows, joined

_OWN = Placeholder("_query")  # stands for the number of the query


@dataclass(frozen=True)
class Union:
    """An *or* within a query: its branches as questions about its variable."""

    relation: Placeholder
    branches: tuple[Query, ...]


def with_unions_apart(query: Query) -> tuple[Query, list[Union]]:
    """The query with an atom in place of every *or* about a single variable, and these.

    >>> from clmpt.logic.shapes import shape
    >>> outer, (union,) = with_unions_apart(shape("up"))
    >>> print(outer)
    ?y : $_or0($_query, ?x1) & $r3(?x1, ?y)
    >>> print(*union.branches, sep="; ")
    ?x1 : $r1($s1, ?x1); ?x1 : $r2($s2, ?x1)
    """
    found: list[Union] = []

    def apart(formula: Formula) -> Formula:
        if isinstance(formula, And):
            return And(tuple(apart(part) for part in formula.parts))
        if isinstance(formula, Exists):
            return Exists(formula.variables, apart(formula.body))
        if not isinstance(formula, Or) or len(loose := loose_variables(formula)) != 1:
            return formula
        (variable,) = loose
        relation = Placeholder(f"_or{len(found)}")
        branches = tuple(Query(variable, part, None, query.limits) for part in formula.parts)
        found.append(Union(relation, branches))
        return Atom(relation, _OWN, variable)

    return Query(query.free, apart(query.body), None, query.limits), found


def filled_in(template: Query, group: QueryGroup, first: int = 0) -> QueryGroup:
    """A part of a group's template as a group of its own, with the same values. Its unions are
    relations from number `first` on."""
    given = [dict(zip(names, columns.T, strict=True)) for names, columns in _values(group)]
    given[0][_OWN.name] = np.arange(len(group), dtype=np.int32)
    entity_names, relation_names = placeholders(template)
    for number, name in enumerate(n for n in relation_names if n not in given[1]):
        given[1][name] = np.full(len(group), first + number, np.int32)
    columns = [
        np.stack([own[name] for name in names], 1) if names else np.empty((len(group), 0), np.int32)
        for own, names in zip(given, (entity_names, relation_names), strict=True)
    ]
    return QueryGroup(group.name, template, columns[0], columns[1], group.easy, group.hard)


def _values(group: QueryGroup) -> list[tuple[tuple[str, ...], AnyInts]]:
    entity_names, relation_names = placeholders(group.template)
    return [(entity_names, group.entities), (relation_names, group.relations)]


@dataclass(frozen=True)
class RowsWithUnions:
    """Rows of truth values, and those of unions: row q of a union is its vector for query q."""

    source: TruthRows
    unions: tuple[SparseRows, ...]

    @property
    def index(self) -> EdgeIndex:
        return self.source.index

    @property
    def first(self) -> int:
        """The number of the first union as a directed relation."""
        return 2 * self.index.relations

    def rows(self, entity_U: Ints, directed_U: Ints, fine: bool = False) -> SparseRows:
        plain = np.flatnonzero(directed_U < self.first)
        parts, order = [self.source.rows(entity_U[plain], directed_U[plain], fine)], [plain]
        for number, union in enumerate(self.unions):
            own = np.flatnonzero(directed_U == self.first + number)
            parts.append(union.take(entity_U[own]))
            order.append(own)
        place_U = np.empty(len(entity_U), np.int64)
        place_U[np.concatenate(order)] = np.arange(len(entity_U))
        return joined(parts).take(place_U)
