"""Runs a plan with truth values in place of facts, over many queries of one shape at once.

The steps are those of the exact solver: *and* multiplies, *some* takes the maximum (or, a setting,
1 - Π (1 - x)), *not* is 1 - min(1, s x). A table has a value per row; a variable that is no longer
needed is forgotten by keeping the best rows. On a tree this passes vectors of values towards the
free variable; with cycles, tables have several columns, which conditions on their values.

Work is limited where it would grow with the number of entities: only the likeliest values of a
variable are followed along predicted links, the others along known facts alone. `bound_B` of a
result is an upper bound on the value of anything left out by this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clmpt.budget import check_budget
from clmpt.graph.edges import AnyInts, Bools, Ints, positions
from clmpt.logic.formula import Variable
from clmpt.reasoners.truth_values.rows import SparseRows, TruthRows, Values, joined, known_rows
from clmpt.reasoners.truth_values.value_tables import (
    ValueTable,
    best_of_each,
    best_rows,
    best_values,
    concatenated,
    join_keys,
    noisy_or,
    united_values,
)
from clmpt.symbolic.engine import SlotValues
from clmpt.symbolic.plan import (
    Check,
    Filter,
    Forget,
    Grow,
    Join,
    Plan,
    Refuse,
    Scan,
    Seed,
    plan_for,
)
from clmpt.symbolic.skeleton import Slot, SlotEdge, is_anchored
from clmpt.symbolic.tables import need_rows

# Shapes: B queries of a batch, N rows of a table, U distinct rows of truth values, E entities


@dataclass(frozen=True)
class Effort:
    """How much is computed. `sources` is how many values of a variable are followed along
    predicted links, `scanned` from how many entities a question without constants starts, `entries`
    how many rows a table may have; 0 stands for all. Values below `least` are not followed."""

    sources: int = 0
    scanned: int = 0
    entries: int = 0
    least: float = 0.0


EVERYTHING = Effort()


@dataclass(frozen=True)
class ValueEngine:
    """`derivations` is how many of the best ways to fill the other variables are kept for each
    value of the outputs, with the values they fill in; 0 keeps values only. With `unites`, *some*
    is 1 - Π (1 - x) instead of the maximum, except where derivations are kept; the bound then holds
    for each value that is left out, not for all of them together."""

    source: TruthRows
    scale: float
    effort: Effort = EVERYTHING
    derivations: int = 0
    unites: bool = False

    def run(
        self, plan: Plan, batch: SlotValues, predicts_B: Bools | None = None
    ) -> tuple[ValueTable, Values]:
        """The values of the plan's outputs for every query, and the bound on what was left out.

        Queries that `predicts_B` excludes see known facts only.
        """
        if predicts_B is None:
            predicts_B = np.ones(len(batch), np.bool_)
        return ValueRun(self, plan, batch, predicts_B).result()

    def some(self, own_N: AnyInts, value_N: Values, count: int) -> Values:
        """The value of *some* over the values of each owner."""
        if self.unites:
            return noisy_or(own_N, value_N, count)
        found_U = np.zeros(count, np.float32)
        np.maximum.at(found_U, own_N, value_N)
        return found_U

    def negated(self, value_N: Values) -> Values:
        found_N: Values = (1 - np.minimum(1, self.scale * value_N)).astype(np.float32)
        return found_N


class ValueRun:
    """One plan over one batch."""

    def __init__(
        self, engine: ValueEngine, plan: Plan, batch: SlotValues, predicts_B: Bools
    ) -> None:
        self.engine, self.plan, self.batch, self.predicts_B = engine, plan, batch, predicts_B
        self.index = engine.source.index
        self.queries, self.entities = len(batch), engine.source.index.entities
        self.factor_B = np.ones(self.queries, np.float32)
        self.bound_B = np.zeros(self.queries, np.float32)
        self.tables: dict[int, ValueTable] = {}

    def result(self) -> tuple[ValueTable, Values]:
        for step in self.plan.steps:
            check_budget()
            self.perform(step)
        if self.plan.table is None:
            query_B = np.arange(self.queries)
            table = ValueTable(query_B, {}, np.ones(self.queries, np.float32), {})
        else:
            table = self.tables[self.plan.table]
        return table.times(self.factor_B[table.query_N]), self.bound_B

    def perform(self, step: object) -> None:
        if isinstance(step, Check):
            self.factor_B = self.factor_B * self.constant_values(step.edge)
        elif isinstance(step, Seed):
            self.tables[step.table] = self.seed(step)
        elif isinstance(step, Scan):
            self.tables[step.table] = self.scan(step.edge)
        elif isinstance(step, Join):
            self.tables[step.table] = self.join(self.tables[step.table], self.tables[step.other])
        elif isinstance(step, Grow):
            self.tables[step.table] = self.grow(self.tables[step.table], step)
        elif isinstance(step, Filter):
            self.tables[step.table] = self.filter(self.tables[step.table], step)
        elif isinstance(step, Refuse):
            self.refuse(step)
        elif isinstance(step, Forget):
            self.tables[step.table] = self.forget(self.tables[step.table], step.keep)

    # --- truth values of atoms --------------------------------------------------------------------

    def directed(self, edge: SlotEdge, forwards: bool) -> Ints:
        relation_B: Ints = self.batch.relations_BR[:, edge.relation]
        return relation_B if forwards else self.index.inverse(relation_B)

    def from_constant(self, edge: SlotEdge) -> tuple[SparseRows, AnyInts]:
        """The rows of an atom with a constant, read from it, and each query's row."""
        forwards = isinstance(edge.head, Slot)
        constant = edge.head if forwards else edge.tail
        assert isinstance(constant, Slot)
        entity_B = self.batch.entities_BS[:, constant.number]
        return self.rows(entity_B, self.directed(edge, forwards), self.predicts_B, fine=True)

    def rows(
        self, entity_N: AnyInts, directed_N: AnyInts, predicted_N: Bools, fine: bool = False
    ) -> tuple[SparseRows, Ints]:
        """Distinct rows, from the predictor or from known facts alone, and the row of each
        lookup. Rows of constants are fine: there are few of them, and where several meet, what
        one of them cuts off is lost to all."""
        predicted_N = predicted_N | (directed_N >= 2 * self.index.relations)  # unions: given
        code_N = (directed_N * np.int64(self.entities) + entity_N) * 2 + predicted_N
        distinct_U, row_N = np.unique(code_N, return_inverse=True)
        predicted_U = distinct_U % 2 == 1
        directed_U, entity_U = np.divmod(distinct_U // 2, self.entities)
        order = np.concatenate([np.flatnonzero(~predicted_U), np.flatnonzero(predicted_U)])
        few = int((~predicted_U).sum())
        place_U = np.empty(len(order), np.int64)
        place_U[order] = np.arange(len(order))
        entity_U, directed_U = entity_U[order], directed_U[order]
        known = known_rows(self.index, entity_U[:few], directed_U[:few])
        if few == len(order):
            return known, place_U[row_N]
        likely = self.engine.source.rows(entity_U[few:], directed_U[few:], fine)
        return (joined([known, likely]) if few else likely), place_U[row_N]

    def constant_values(self, edge: SlotEdge) -> Values:
        assert isinstance(edge.tail, Slot)
        rows, row_B = self.from_constant(edge)
        return rows.at(row_B, self.batch.entities_BS[:, edge.tail.number], self.entities)

    def at_rows(self, table: ValueTable, edge: SlotEdge) -> Values:
        """The truth value of an atom in each row, read from the constant or from the variable that
        was bound first."""
        if isinstance(edge.head, Slot) or isinstance(edge.tail, Slot):
            far = edge.tail if isinstance(edge.head, Slot) else edge.head
            assert isinstance(far, Variable)
            rows, row_B = self.from_constant(edge)
            return rows.at(row_B[table.query_N], table.columns[far], self.entities)
        forwards = reads_forwards(edge, list(table.columns))
        near, far = (edge.head, edge.tail) if forwards else (edge.tail, edge.head)
        assert isinstance(near, Variable)
        assert isinstance(far, Variable)
        predicted_N = self.followed(table, near)
        directed_N = self.directed(edge, forwards)[table.query_N]
        rows, row_N = self.rows(table.columns[near], directed_N, predicted_N)
        return rows.at(row_N, table.columns[far], self.entities)

    def followed(self, table: ValueTable, near: Variable) -> Bools:
        """Which rows are followed along predicted links: those of their query's likeliest values
        of a variable. The value of the best one that is not goes into the bound."""
        asked_N = self.predicts_B[table.query_N]
        most = self.engine.effort.sources
        if not most or not len(table):
            return asked_N
        if len(table.columns) == 1:  # every row is a source of its own
            chosen_N = best_of_each(table.query_N, table.value_N, most)
            self.leave_out(table.query_N[~chosen_N], table.value_N[~chosen_N])
            return asked_N & chosen_N
        code_N = table.query_N * np.int64(self.entities) + table.columns[near]
        source_U, own_N = np.unique(code_N, return_inverse=True)
        best_U = np.zeros(len(source_U), np.float32)
        np.maximum.at(best_U, own_N, table.value_N)
        query_U = source_U // self.entities
        chosen_U = best_of_each(query_U, best_U, most)
        self.leave_out(query_U[~chosen_U], best_U[~chosen_U])
        return asked_N & chosen_U[own_N]

    def leave_out(self, query_U: AnyInts, value_U: Values) -> None:
        np.maximum.at(self.bound_B, query_U, value_U)

    # --- steps ------------------------------------------------------------------------------------

    def seed(self, step: Seed) -> ValueTable:
        first, *others = step.edges
        rows, row_B = self.from_constant(first)
        own = rows.take(row_B)
        query_N = np.repeat(np.arange(self.queries), own.counts_U)
        table = ValueTable(query_N, {step.variable: own.entity_X}, own.value_X, {})
        for edge in others:
            table = table.times(self.at_rows(table, edge))
        return table

    def scan(self, edge: SlotEdge) -> ValueTable:
        """All pairs of an atom: known ones, and those predicted from a limited number of heads,
        heads that have such facts first."""
        assert isinstance(edge.head, Variable)
        assert isinstance(edge.tail, Variable)
        parts = []
        for query in range(self.queries):
            relation = int(self.batch.relations_BR[query, edge.relation])
            having = self.index.with_relation(relation)
            rest = np.setdiff1d(np.arange(self.entities), having)
            head_U = np.concatenate([having, rest])
            most = self.engine.effort.scanned or len(head_U)
            if most < len(head_U) and self.predicts_B[query]:
                self.leave_out(np.array([query]), np.ones(1, np.float32))
            predicted_U = (np.arange(len(head_U)) < most) & self.predicts_B[query]
            rows, row_U = self.rows(head_U, np.full(len(head_U), relation), predicted_U)
            found = rows.take(row_U)
            head_N = np.repeat(head_U, found.counts_U)
            same = head_N == found.entity_X if edge.head == edge.tail else slice(None)
            columns = {edge.head: head_N[same], edge.tail: found.entity_X[same]}
            query_N = np.full(len(head_N), query)[same]
            parts.append(ValueTable(query_N, columns, found.value_X[same], {}))
        return self.limited(concatenated(parts, (edge.head, edge.tail)))

    def grow(self, table: ValueTable, step: Grow) -> ValueTable:
        if self.engine.effort.least:
            kept_N = table.value_N >= self.engine.effort.least
            self.leave_out(table.query_N[~kept_N], table.value_N[~kept_N])
            table = table.take(kept_N)
        predicted_N = self.followed(table, step.start)
        directed_N = self.directed(step.edge, step.edge.tail == step.stop)[table.query_N]
        rows, row_N = self.rows(table.columns[step.start], directed_N, predicted_N)
        count_N = rows.counts_U[row_N]
        most = self.engine.effort.entries
        if most and int(count_N.sum()) > most:  # the best rows first
            kept = self.affordable(table, count_N, most)
            table, row_N, count_N = table.take(kept), row_N[kept], count_N[kept]
        need_rows(int(count_N.sum()), len(table.columns) + len(table.decided) + 1)
        at = positions(rows.offsets_U1[row_N], count_N)
        source_X = np.repeat(np.arange(len(table)), count_N)
        grown = table.take(source_X)
        grown.columns[step.stop] = rows.entity_X[at]
        return replace(grown, value_N=grown.value_N * rows.value_X[at])

    def affordable(self, table: ValueTable, count_N: Ints, most: int) -> AnyInts:
        order = np.argsort(-table.value_N, kind="stable")
        fits = np.cumsum(count_N[order]) <= most
        fits[0] = True
        self.leave_out(table.query_N[order[~fits]], table.value_N[order[~fits]])
        return np.sort(order[fits])

    def limited(self, table: ValueTable) -> ValueTable:
        most = self.engine.effort.entries
        if not most or len(table) <= most:
            return table
        return table.take(self.affordable(table, np.ones(len(table), np.int64), most))

    def filter(self, table: ValueTable, step: Filter) -> ValueTable:
        value_N = self.at_rows(table, step.edge)
        return table.times(value_N if step.holds else self.engine.negated(value_N))

    def join(self, left: ValueTable, right: ValueTable) -> ValueTable:
        shared = [variable for variable in left.columns if variable in right.columns]
        left_key, right_key = join_keys(left, right, shared, (self.queries, self.entities))
        order = np.argsort(right_key, kind="stable")
        start_N = np.searchsorted(right_key[order], left_key, "left")
        count_N = np.searchsorted(right_key[order], left_key, "right") - start_N
        need_rows(int(count_N.sum()), len(left.columns) + len(right.columns))
        at_N = order[positions(start_N, count_N)]
        matched = right.take(at_N)
        found = left.take(np.repeat(np.arange(len(left)), count_N))
        return self.limited(
            ValueTable(
                found.query_N,
                {**found.columns, **matched.columns},
                found.value_N * matched.value_N,
                {**found.decided, **matched.decided},
            )
        )

    def forget(self, table: ValueTable, keep: tuple[Variable, ...]) -> ValueTable:
        """The best rows for each value of the kept variables."""
        if self.engine.unites and not self.engine.derivations:
            return united_values(table, keep, (self.queries, self.entities))
        if not self.engine.derivations and len(keep) == 1:
            return best_values(table, keep[0], (self.queries, self.entities))
        return best_rows(table, keep, self.engine.derivations)

    # --- negated parts ----------------------------------------------------------------------------

    def refuse(self, step: Refuse) -> None:
        if step.table < 0:
            self.factor_B = self.factor_B * self.engine.negated(self.by_query(step))
            return
        table = self.tables[step.table]
        self.tables[step.table] = table.times(self.engine.negated(self.refused(step, table)))

    def refused(self, step: Refuse, table: ValueTable) -> Values:
        """The truth value of a negated part, before it is negated, for each row."""
        if step.table < 0:
            return self.by_query(step)[table.query_N]
        values = self.joined_values if is_anchored(step.part) else self.values_by_row
        return values(table, step)

    def by_query(self, step: Refuse) -> Values:
        found = self.inner(step.plan, self.batch, self.predicts_B)
        return self.engine.some(found.query_N, found.value_N, self.queries)

    def inner(self, plan: Plan, batch: SlotValues, predicts_B: Bools) -> ValueTable:
        return replace(self.engine, derivations=0).run(plan, batch, predicts_B)[0]

    def joined_values(self, table: ValueTable, step: Refuse) -> Values:
        """Constants reach the negated part: its values are computed once for each query."""
        found = self.inner(plan_for(step.part, step.outer), self.batch, self.predicts_B)
        left_key, right_key = join_keys(
            table, found, list(step.outer), (self.queries, self.entities)
        )
        order = np.argsort(right_key, kind="stable")
        right_key, value = right_key[order], found.value_N[order]
        if not len(right_key):
            return np.zeros(len(table), np.float32)
        at_N = np.minimum(np.searchsorted(right_key, left_key), len(right_key) - 1)
        return np.where(right_key[at_N] == left_key, value[at_N], np.float32(0))

    def values_by_row(self, table: ValueTable, step: Refuse) -> Values:
        """The negated part starts from the outer variables: its values are computed row by row,
        with predictions for the likeliest rows of a query only."""
        most = self.engine.effort.sources
        chosen_N = np.ones(len(table), np.bool_)
        if most:
            chosen_N = best_of_each(table.query_N, table.value_N, most)
            self.leave_out(table.query_N[~chosen_N], table.value_N[~chosen_N])
        known = self.batch.entities_BS[table.query_N, : step.first_slot]
        outer = [table.columns[variable][:, None] for variable in step.outer]
        batch = SlotValues(np.hstack([known, *outer]), self.batch.relations_BR[table.query_N])
        found = self.inner(step.plan, batch, self.predicts_B[table.query_N] & chosen_N)
        return self.engine.some(found.query_N, found.value_N, len(table))


def reads_forwards(edge: SlotEdge, order: list[Variable]) -> bool:
    """Whether an atom is read from head to tail: from a constant, or else from the variable that
    was bound first."""
    if isinstance(edge.head, Slot) or isinstance(edge.tail, Slot):
        return isinstance(edge.head, Slot)
    return order.index(edge.head) <= order.index(edge.tail)
