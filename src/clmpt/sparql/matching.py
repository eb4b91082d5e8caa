"""Basic graph patterns against one graph: fixed relations by the exact engine, the rest step by
step from what is already bound."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import Bools, EdgeIndex, Ints
from clmpt.graph.rdf_dataset import RdfDataset
from clmpt.logic.algebra import PatternTerm, TriplePattern
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import Blank, Iri, Literal, RdfTerm
from clmpt.sparql.naming import NameResolver
from clmpt.sparql.paths import PathFollower, edges_at
from clmpt.sparql.solutions import Solutions, join
from clmpt.symbolic.engine import Engine, SlotValues
from clmpt.symbolic.plan import planned

# Shapes: N rows, T triples


@dataclass(frozen=True)
class GraphMatcher:
    dataset: RdfDataset
    names: NameResolver
    index: EdgeIndex

    def basic(
        self,
        triples: Sequence[TriplePattern],
        needed: Collection[Variable] | None = None,
        most: int | None = None,
    ) -> Solutions:
        """The solutions of a basic pattern, or `most` of them. If `needed` is given, only these
        variables count, and how often a solution occurs does not."""
        if any(isinstance(one.predicate, Literal | Blank) for one in triples):  # from EXISTS
            return Solutions.none(frozenset[Variable]().union(*(one.variables for one in triples)))
        fixed = [one for one in triples if isinstance(one.predicate, Iri)]
        open_ = [one for one in triples if not isinstance(one.predicate, Iri)]
        wanted = None
        if needed is not None:
            wanted = frozenset(needed).union(*(one.variables for one in open_))
        tables = [self._fixed(part, wanted) for part in _components(fixed)]
        while open_ and all(table.rows for table in tables):
            chosen = max(open_, key=lambda one: self._known_ends(one, tables))
            open_.remove(chosen)
            tables = self._with(chosen, tables)
        found = Solutions.single()
        for table in sorted(tables, key=lambda table: table.rows):
            found = join(found, table, most)  # no two tables share a variable
        if open_ or not found.rows:
            return Solutions.none(frozenset[Variable]().union(*(one.variables for one in triples)))
        return found

    # --- fixed relations --------------------------------------------------------------------------

    def _fixed(
        self, triples: Sequence[TriplePattern], wanted: frozenset[Variable] | None
    ) -> Solutions:
        variables = sorted(
            frozenset[Variable]().union(*(one.variables for one in triples)),
            key=lambda variable: variable.name,
        )
        outputs = tuple(v for v in variables if wanted is None or v in wanted)
        entities: list[int] = []
        relations: list[int] = []
        ends: list[tuple[int | str, int | str]] = []

        def end(term: PatternTerm) -> int | str:
            if isinstance(term, Variable):
                return term.name
            entities.append(self.names.term(term))
            return len(entities) - 1

        for triple in triples:
            assert isinstance(triple.predicate, Iri)
            relations.append(self.names.predicate(triple.predicate))
            ends.append((end(triple.subject), end(triple.object)))
        stored = all(0 <= number < self.index.entities for number in entities)
        if min(relations) < 0 or not stored:
            return Solutions.none(outputs)
        _, plan = planned((tuple(ends), ()), outputs)
        batch = SlotValues(np.array([entities], np.int64), np.array([relations], np.int64))
        table = Engine(self.index).run(plan, batch)
        return Solutions(
            {v: np.asarray(table.columns[v]).astype(np.int64) for v in outputs}, len(table)
        )

    # --- variable relations and paths -------------------------------------------------------------

    def _known_ends(self, triple: TriplePattern, tables: list[Solutions]) -> tuple[int, int]:
        bound = {variable for table in tables for variable in table.columns}
        ends = (triple.subject, triple.object)
        constant = sum(not isinstance(end, Variable) for end in ends)
        return constant, sum(end in bound for end in ends)

    def _with(self, triple: TriplePattern, tables: list[Solutions]) -> list[Solutions]:
        """The tables with a triple added: those that it touches become one."""
        base = Solutions.single()
        if isinstance(triple.subject, Variable) and isinstance(triple.object, Variable):
            near = [t for t in tables if {triple.subject, triple.object} & t.columns.keys()]
            base = min(near, key=lambda table: table.rows, default=base)
        found = self._step(base, triple)
        rest = []
        for table in tables:
            if table is base:
                continue
            if table.columns.keys() & found.columns.keys():
                found = join(found, table)
            else:
                rest.append(table)
        return [*rest, found]

    def _step(self, base: Solutions, triple: TriplePattern) -> Solutions:
        start, stop = self._ids(triple.subject, base), self._ids(triple.object, base)
        if isinstance(triple.predicate, Variable):
            row_N, subject_N, relation_N, object_N = self._edges(base.rows, start, stop)
            values = [(triple.predicate, self.dataset.predicate_terms_P[relation_N])]
        else:
            follower = PathFollower(self.dataset, self.names, self.index)
            row_N, subject_N, object_N = follower.pairs(triple.predicate, base.rows, start, stop)
            values = []
        values += [(triple.subject, subject_N), (triple.object, object_N)]  # type: ignore[list-item]
        found = base.take(row_N)
        kept = np.ones(found.rows, np.bool_)
        columns = dict(found.columns)
        for term, value_N in values:
            kept &= self._agrees(term, value_N, columns)
            if isinstance(term, Variable):
                columns.setdefault(term, value_N)
        return Solutions(columns, found.rows).take(kept)

    def _agrees(self, term: PatternTerm, value_N: Ints, columns: dict[Variable, Ints]) -> Bools:
        if isinstance(term, Variable):
            known = columns.get(term)
            return np.ones(len(value_N), np.bool_) if known is None else known == value_N
        return np.equal(value_N, self._constant(term))

    def _constant(self, term: RdfTerm) -> int:
        """Also of a term that the graph lacks: a path without steps leads from it to itself."""
        found = self.names.term(term)
        return found if found >= 0 else self.names.terms.id_of(term)

    def _ids(self, term: PatternTerm, base: Solutions) -> Ints | None:
        """The values of a term in each row; None for a variable that has none yet."""
        if isinstance(term, Variable):
            return base.columns.get(term)
        return np.full(base.rows, self._constant(term), np.int64)

    def _edges(
        self, rows: int, start_N: Ints | None, stop_N: Ints | None
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """All triples from a subject or to an object: row, subject, relation, object."""
        index = self.index
        if start_N is None and stop_N is None:
            all_T = index.forward_triples().astype(np.int64)
            row_N = np.repeat(np.arange(rows), len(all_T))
            subject, relation, object_ = (np.tile(all_T[:, at], rows) for at in range(3))
            return row_N, subject, relation, object_
        near_N = start_N if start_N is not None else stop_N
        assert near_N is not None
        row_N, relation_N, far_N = edges_at(index, near_N, start_N is not None)
        ends = (near_N[row_N], far_N) if start_N is not None else (far_N, near_N[row_N])
        return row_N, ends[0], relation_N, ends[1]


def _components(triples: Sequence[TriplePattern]) -> list[list[TriplePattern]]:
    """Triples in groups that share no variable."""
    groups: list[tuple[set[Variable], list[TriplePattern]]] = []
    for triple in triples:
        near = [group for group in groups if group[0] & triple.variables]
        apart = [group for group in groups if not group[0] & triple.variables]
        variables = set(triple.variables).union(*(group[0] for group in near))
        members = [one for group in near for one in group[1]]
        groups = [*apart, (variables, [*members, triple])]
    return [members for _, members in groups]
