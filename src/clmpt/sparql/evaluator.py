"""SPARQL algebra over an RDF dataset, operator by operator as the standard defines it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from clmpt.budget import check_budget
from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import Bools, EdgeIndex, Ints
from clmpt.graph.rdf_dataset import RdfDataset, TermIds
from clmpt.logic.algebra import (
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
    Select,
    Service,
    Values,
    Where,
    Without,
    conjuncts,
    in_scope,
)
from clmpt.logic.formula import Variable
from clmpt.logic.iris import BASE
from clmpt.logic.rdf_terms import Iri, Literal
from clmpt.sparql.expressions import Surroundings, column_of, differs_by_row, holds
from clmpt.sparql.grouping import grouped
from clmpt.sparql.labels import LABEL_SERVICE, asks_labels, with_labels
from clmpt.sparql.matching import GraphMatcher
from clmpt.sparql.naming import NameResolver
from clmpt.sparql.paths import PathFollower
from clmpt.sparql.solutions import (
    UNBOUND,
    Solutions,
    compatible,
    distinct_rows,
    group_numbers,
    join,
    merged,
    shares_value,
    stacked,
)
from clmpt.sparql.substitution import joins_alike, mentioned, substituted
from clmpt.sparql.values import FALSE, TRUE, sort_key

Needed = frozenset[Variable] | None


@dataclass(frozen=True)
class Evaluator:
    """`index` is the active graph; `graphs` are the ids of those that GRAPH can name.

    Where `needed` is given, only these variables count, and not how often a solution occurs. Where
    `most` is given, that many solutions are enough.
    """

    dataset: RdfDataset
    names: NameResolver
    index: EdgeIndex
    graphs: tuple[int, ...]
    surroundings: Surroundings

    @property
    def terms(self) -> TermIds:
        return self.names.terms

    def solutions(
        self, pattern: Pattern, needed: Needed = None, most: int | None = None
    ) -> Solutions:
        check_budget()
        if isinstance(pattern, Basic):
            matcher = GraphMatcher(self.dataset, self.names, self.index)
            return matcher.basic(pattern.triples, needed, most)
        if isinstance(pattern, JoinAll):
            return self.joined(pattern, needed, most)
        if isinstance(pattern, AnyOf):
            return stacked([self.solutions(part, needed) for part in pattern.parts])
        if isinstance(pattern, Optionally):
            return self.optionally(pattern, needed)
        if isinstance(pattern, Without):
            return self.without(pattern)
        if isinstance(pattern, Where):
            return self.where(pattern, needed)
        if isinstance(pattern, Bind):
            inner = self.solutions(pattern.inner, _and(needed, mentioned(pattern.expression)))
            self.surroundings.labelled.clear()
            return inner.extended(pattern.variable, self.column(pattern.expression, inner))
        if isinstance(pattern, InGraph):
            return self.in_graph(pattern, needed)
        if isinstance(pattern, Values):
            return self.values(pattern)
        if isinstance(pattern, Service):
            return self.service(pattern)
        return self.select(pattern.select)

    # --- patterns ---------------------------------------------------------------------------------

    def where(self, pattern: Where, needed: Needed) -> Solutions:
        inner, condition = pattern.inner, pattern.condition
        equal = _required(condition) if isinstance(inner, Basic) else {}
        fixed = {v: iri for v, iri in equal.items() if v in mentioned(inner)}
        needed = _and(needed, mentioned(condition))
        found = self.solutions(substituted(inner, fixed) if fixed else inner, needed)
        for variable, iri in fixed.items():  # instead of joining first and dropping most rows
            number = self.id_of(iri)
            found = found.extended(variable, np.full(found.rows, number, np.int64))
        return found.take(self.holds(condition, found))

    def joined(self, pattern: JoinAll, needed: Needed, most: int | None) -> Solutions:
        parts = pattern.parts
        if needed is not None:
            scopes = [frozenset(in_scope(part)) for part in parts]
            shared = {v for v in frozenset().union(*scopes) if sum(v in s for s in scopes) > 1}
            needed = needed | shared
        found = Solutions.single()
        for part in parts:
            enough = most if part is parts[-1] else None
            found = join(found, self.solutions(part, needed), enough)
            if not found.rows:
                return Solutions.none(in_scope(pattern))
        return found

    def optionally(self, pattern: Optionally, needed: Needed) -> Solutions:
        if needed is not None:
            common = frozenset(in_scope(pattern.left)) & frozenset(in_scope(pattern.right))
            needed = needed | common
            if pattern.condition is not None:
                needed |= mentioned(pattern.condition)
        left, right = self.solutions(pattern.left, needed), self.solutions(pattern.right, needed)
        return self.with_optional(left, right, pattern.condition)

    def with_optional(
        self, left: Solutions, right: Solutions, condition: Expression | None
    ) -> Solutions:
        """Rows of both sides that go together, and those of the left side that have no partner."""
        found, matched = [], np.zeros(left.rows, np.bool_)
        for at_left, at_right in compatible(left, right):
            both = merged(left, right, at_left, at_right)
            if condition is not None:
                kept = self.holds(condition, both)
                both, at_left = both.take(kept), at_left[kept]
            matched[at_left] = True
            found.append(both)
        names = {**left.columns, **right.columns}
        return stacked([Solutions.none(names), *found, left.take(~matched)])

    def without(self, pattern: Without) -> Solutions:
        left = self.solutions(pattern.left)
        right = self.solutions(pattern.right, frozenset(left.columns))
        removed = np.zeros(left.rows, np.bool_)
        for at_left, at_right in compatible(left, right):
            shares = shares_value(left, right, at_left, at_right)
            removed[at_left[shares]] = True
        return left.take(~removed)

    def in_graph(self, pattern: InGraph, needed: Needed) -> Solutions:
        if not isinstance(pattern.graph, Variable):
            number = self.names.term(pattern.graph)
            if number not in self.graphs:
                return Solutions.none(in_scope(pattern))
            return replace(self, index=self.dataset.named(number)).solutions(pattern.inner, needed)
        found = [Solutions.none(in_scope(pattern))]
        for number in self.graphs:
            here = replace(self, index=self.dataset.named(number))
            inner = here.solutions(pattern.inner, _and(needed, frozenset({pattern.graph})))
            name = Solutions({pattern.graph: np.full(1, number, np.int64)}, 1)
            found.append(join(inner, name))
        return stacked(found)

    def values(self, pattern: Values) -> Solutions:
        ids = [
            [UNBOUND if term is None else self.id_of(term) for term in row] for row in pattern.rows
        ]
        rows_NC = np.array(ids, np.int64).reshape(len(ids), len(pattern.variables))
        columns = {v: rows_NC[:, at] for at, v in enumerate(pattern.variables)}
        return Solutions(columns, len(ids))

    def id_of(self, term: Iri | Literal) -> int:
        """Also of a term that the graph lacks."""
        plain_name = isinstance(term, Iri) and term.text.startswith(BASE)
        found = self.names.term(term) if plain_name else -1
        return found if found >= 0 else self.terms.id_of(term)

    def service(self, pattern: Service) -> Solutions:
        if pattern.endpoint == LABEL_SERVICE or pattern.silent:
            return Solutions.single()  # labels are added to the finished solutions
        raise UnsupportedQuery(
            "SERVICE asks another server, which is not done here",
            "Import its data first (clmpt import http://…/sparql), or leave it out",
            pattern.position,
        )

    # --- conditions -------------------------------------------------------------------------------

    def column(self, expression: Expression, solutions: Solutions) -> Ints:
        expression, solutions = self.tested(expression, solutions)
        return column_of(expression, solutions, self.surroundings)

    def holds(self, expression: Expression, solutions: Solutions) -> Bools:
        if isinstance(expression, ExistsTest):
            return self.exists(expression.pattern, solutions) ^ expression.negated
        if isinstance(expression, Call) and expression.name == "&&":
            kept = np.ones(solutions.rows, np.bool_)
            for part in expression.arguments:  # each condition sees only what passed those before
                kept[kept] = self.holds(part, solutions.take(kept))
            return kept
        return holds(*self.tested(expression, solutions), self.surroundings)

    def tested(self, expression: Expression, solutions: Solutions) -> tuple[Expression, Solutions]:
        """The expression with a variable for each EXISTS, and the columns of these."""
        if isinstance(expression, ExistsTest):
            variable = Variable(f".exists{len(solutions.columns)}")
            found = self.exists(expression.pattern, solutions) ^ expression.negated
            true, false = (self.terms.id_of(term) for term in (TRUE, FALSE))
            return variable, solutions.extended(variable, np.where(found, true, false))
        if isinstance(expression, Call):
            arguments = []
            for argument in expression.arguments:
                argument, solutions = self.tested(argument, solutions)
                arguments.append(argument)
            return replace(expression, arguments=tuple(arguments)), solutions
        return expression, solutions

    def exists(self, pattern: Pattern, solutions: Solutions) -> Bools:
        """For which rows a pattern has a solution, once their values are put into it."""
        outer = [v for v in solutions.columns if v in mentioned(pattern)]
        group_N, first_G = group_numbers(solutions.matrix(outer))
        rows = solutions.keep(outer).take(first_G)
        inner, condition = pattern, None
        if isinstance(pattern, Where):
            inner, condition = pattern.inner, pattern.condition
        if self._joins_alike(inner, rows):
            found_G = self._semijoin(inner, condition, rows)
        else:
            found = [self._exists_in(pattern, rows, at) for at in range(rows.rows)]
            found_G = np.array(found, np.bool_)
        return found_G[group_N]

    def _joins_alike(self, pattern: Pattern, rows: Solutions) -> bool:
        outer = frozenset(rows.columns)
        if joins_alike(pattern, outer, outer):
            return True
        nodes = PathFollower(self.dataset, self.names, self.index).nodes()
        known = np.append(nodes, UNBOUND)
        strange = (v for v in outer if np.setdiff1d(rows.column(v), known).size)
        return joins_alike(pattern, outer, frozenset(strange))

    def _semijoin(self, pattern: Pattern, condition: Expression | None, rows: Solutions) -> Bools:
        needed = frozenset(rows.columns)
        if condition is not None:
            needed |= mentioned(condition)
        inner = self.solutions(pattern, needed)
        found = np.zeros(rows.rows, np.bool_)
        for at_left, at_right in compatible(rows, inner):
            if condition is not None:
                kept = self.holds(condition, merged(rows, inner, at_left, at_right))
                at_left = at_left[kept]
            found[at_left] = True
        return found

    def _exists_in(self, pattern: Pattern, rows: Solutions, at: int) -> bool:
        terms = {
            variable: self.terms.term(int(column[at]))
            for variable, column in rows.columns.items()
            if column[at] != UNBOUND
        }
        return self.solutions(substituted(pattern, terms), frozenset()).rows > 0

    # --- SELECT -----------------------------------------------------------------------------------

    def select(self, select: Select) -> Solutions:
        """The result of a SELECT: its columns, in order."""
        needed: Needed = None
        made = [one.expression for one in select.columns or () if one.expression is not None]
        counts = select.grouped or asks_labels(select.where) or any(map(differs_by_row, made))
        if select.distinct and not counts:
            needed = frozenset(select.names).union(
                *map(mentioned, made),
                *(mentioned(key.expression) for key in select.order),
            )
        stop = None if select.limit is None else select.offset + select.limit
        whole = counts or select.distinct or select.order or select.having
        inner = self.solutions(select.where, needed, None if whole else stop)
        found = with_labels(self.dataset, self.terms, select, inner)
        if select.grouped:
            groups = grouped(select, found, self.surroundings, self.column)
            select, found = groups.select, groups.solutions
        for condition in select.having:
            found = found.take(self.holds(condition, found))
        self.surroundings.labelled.clear()  # rows are others than those before
        for column in select.columns or ():
            if column.expression is not None:
                found = found.extended(column.variable, self.column(column.expression, found))
        found = self.ordered(select, found).keep(select.names)
        if select.distinct:
            found = distinct_rows(found)
        return found.take(slice(select.offset, stop))

    def ordered(self, select: Select, solutions: Solutions) -> Solutions:
        ranks = []
        for key in select.order:
            value_N = self.column(key.expression, solutions)
            known, place_N = np.unique(value_N, return_inverse=True)
            terms = [None if one < 0 else self.terms.term(one) for one in known.tolist()]
            keys = [sort_key(term)[:4] for term in terms]  # beyond that, values are equal
            order = sorted(range(len(terms)), key=keys.__getitem__)
            rank, last = np.zeros(len(terms), np.int64), 0
            for before, at in pairwise(order):
                last += keys[before] != keys[at]
                rank[at] = last
            ranks.append(-rank[place_N] if key.descending else rank[place_N])
        return solutions.take(np.lexsort(ranks[::-1])) if ranks else solutions


def _and(needed: Needed, further: Collection[Variable]) -> Needed:
    return None if needed is None else needed | frozenset(further)


def _required(condition: Expression) -> dict[Variable, Iri]:
    """The variables that a condition equates with an IRI."""
    found: dict[Variable, Iri] = {}
    for one in conjuncts(condition):
        if isinstance(one, Call) and one.name in ("=", "SAMETERM"):
            for variable, iri in (one.arguments, one.arguments[::-1]):
                if isinstance(variable, Variable) and isinstance(iri, Iri):
                    found.setdefault(variable, iri)
    return found
