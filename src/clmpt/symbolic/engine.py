"""Runs a plan over many queries of one shape at once, with whole-array operations.

Memory stays bounded: a step that would make too many rows is run in parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from clmpt.budget import check_budget
from clmpt.graph.edges import AnyInts, Bools, EdgeIndex, Ints, expand, positions
from clmpt.logic.formula import Variable
from clmpt.symbolic.plan import Check, Filter, Forget, Grow, Join, Plan, Refuse, Scan, Seed
from clmpt.symbolic.skeleton import Slot, SlotEdge
from clmpt.symbolic.tables import (
    Bindings,
    codes,
    concatenate,
    costlier,
    distinct_bindings,
    halves,
    in_parts,
    need_rows,
)

# Shapes: B queries of a batch, N rows of a table, X directed edges of the graph

ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class SlotValues:
    """The constants and directed relations of many queries of one shape, slot by slot."""

    entities_BS: Ints
    relations_BR: Ints

    def __len__(self) -> int:
        return len(self.relations_BR)


@dataclass(frozen=True)
class Engine:
    """`missing_X` marks the edges that count as missing links; without it, costs are not kept.
    `most_rows` is what a step may make of a query before it is given up; 0: any number."""

    index: EdgeIndex
    missing_X: npt.NDArray[np.bool_] | None = None
    rows_at_once: int = ROWS_AT_ONCE
    most_rows: int = 0

    def run(self, plan: Plan, batch: SlotValues) -> Bindings:
        """The distinct bindings of the plan's outputs for every query of the batch."""
        return self.run_within(plan, batch)[0]

    def run_within(self, plan: Plan, batch: SlotValues) -> tuple[Bindings, Bools]:
        """The bindings, and which queries were given up: theirs are not all there."""
        run = _Run(self, plan, batch)
        return run.result(), run.given_up_B

    def edge_cost(self, edges: AnyInts) -> Ints | None:
        return None if self.missing_X is None else self.missing_X[edges].astype(np.int64)


class _Run:
    """One plan over one batch. `alive_B` and `cost_B` are None until a step sets them. `found_F`
    has the results so far, as numbers, once a step is run in parts of a query."""

    def __init__(self, engine: Engine, plan: Plan, batch: SlotValues) -> None:
        self.engine, self.plan, self.batch = engine, plan, batch
        self.index, self.queries = engine.index, len(batch)
        self.alive_B: Bools | None = None
        self.cost_B: Ints | None = None
        self.found_F: Ints = np.empty(0, np.int64)
        self.is_split = False
        self.given_up_B = np.zeros(self.queries, np.bool_)

    def result(self) -> Bindings:
        found = [self.closed(table) for table in self.steps(0, {}, np.arange(self.queries))]
        if len(found) == 1:
            return found[0]
        costs = self.engine.missing_X is not None
        return self.forget(concatenate(found, self.plan.outputs, costs), self.plan.outputs)

    def closed(self, table: Bindings) -> Bindings:
        if self.alive_B is not None:
            table = table.take(self.alive_B[table.query_N])
        if table.cost_N is not None and self.cost_B is not None:
            table = replace(table, cost_N=table.cost_N + self.cost_B[table.query_N])
        return table

    def column(self, slots_BS: Ints, slot: int, query_B: Ints) -> Ints:
        """One slot's values for some of the queries; not copied if it is all of them."""
        column_B = slots_BS[:, slot]
        return column_B if len(query_B) == self.queries else column_B[query_B]

    def per_row(self, value_B: AnyInts, table: Bindings) -> AnyInts:
        """Each query's value for its rows; a single value is left for numpy to broadcast."""
        return value_B if self.queries == 1 else value_B[table.query_N]

    def keep_queries(self, found_B: Bools) -> None:
        self.alive_B = found_B if self.alive_B is None else self.alive_B & found_B

    def steps(self, at: int, tables: dict[int, Bindings], query_B: Ints) -> Iterator[Bindings]:
        """Runs from step `at` on; if a step is too large, once for each part of its rows."""
        for number in range(at, len(self.plan.steps)):
            step = self.plan.steps[number]
            check_budget()
            if isinstance(step, Check):
                self.check(step)
            elif isinstance(step, Refuse):
                self.refuse(step, tables)
            elif isinstance(step, Filter):
                tables[step.table] = self.filter(tables[step.table], step)
            elif isinstance(step, Forget):
                tables[step.table] = self.forget(tables[step.table], step.keep)
            elif isinstance(step, Seed | Scan):
                if self.alive_B is not None:
                    query_B = query_B[self.alive_B[query_B]]
                made = (
                    self.seed(step, query_B) if isinstance(step, Seed) else self.scan(step, query_B)
                )
                if isinstance(made, list):
                    for some_B in made:
                        kept = {k: t.take(np.isin(t.query_N, some_B)) for k, t in tables.items()}
                        yield from self.steps(number, kept, some_B)
                    return
                tables[step.table] = made
            else:
                grown = (
                    self.grow(tables[step.table], step)
                    if isinstance(step, Grow)
                    else self.join(tables[step.table], tables[step.other])
                )
                if isinstance(grown, list):
                    yield from self.each_part(grown, number, step.table, tables, query_B)
                    return
                tables[step.table] = grown
                if isinstance(step, Join):
                    del tables[step.other]
        if self.plan.table is None:
            yield Bindings(query_B, {}, None if self.engine.missing_X is None else 0 * query_B)
        else:
            self.note_found(tables[self.plan.table])
            yield tables[self.plan.table]

    def each_part(
        self,
        parts: list[Bindings],
        at: int,
        number: int,
        tables: dict[int, Bindings],
        query_B: Ints,
    ) -> Iterator[Bindings]:
        of_one_query = parts[0].query_N[0] == parts[-1].query_N[0]
        for part in parts:
            first, last = int(part.query_N.min()), int(part.query_N.max())
            self.is_split = of_one_query
            if not of_one_query:  # other queries' results are of no use for it
                self.found_F = np.empty(0, np.int64)
            tables = self.still_open({**tables, number: part})
            if all(map(len, tables.values())):
                asked_B = query_B[(query_B >= first) & (query_B <= last)]
                yield from self.steps(at, dict(tables), asked_B)

    # --- results of earlier parts -----------------------------------------------------------------

    def result_codes(self, table: Bindings) -> Ints | None:
        """The result that each row leads to, as a number; None if that is not decided yet."""
        outputs = self.plan.outputs
        if not self.is_split or table.cost_N is not None or {*outputs} - {*table.columns}:
            return None
        columns = [table.query_N, *(table.columns[variable] for variable in outputs)]
        return codes(columns, [self.queries, *(self.index.entities for _ in outputs)])

    def note_found(self, table: Bindings) -> None:
        code_N = self.result_codes(table)
        if code_N is not None:
            self.found_F = np.union1d(self.found_F, code_N)

    def not_given_up(self, query_N: AnyInts, count_N: AnyInts) -> Bools | None:
        """Which rows to go on with, if each were to become so many; None: with all."""
        if not self.engine.most_rows:
            return None
        rows_B = np.bincount(query_N, count_N, self.queries)
        self.given_up_B |= rows_B > self.engine.most_rows
        return ~self.given_up_B[query_N]

    def still_open(self, tables: dict[int, Bindings]) -> dict[int, Bindings]:
        """The rows that can add to the results: one way to an answer is enough."""
        rest = {}
        for number, table in tables.items():
            code_N = self.result_codes(table) if len(self.found_F) else None
            rest[number] = table if code_N is None else table.take(~np.isin(code_N, self.found_F))
        return rest

    # --- steps that keep or drop ------------------------------------------------------------------

    def check(self, step: Check) -> None:
        assert isinstance(step.edge.head, Slot)
        assert isinstance(step.edge.tail, Slot)
        start, stop = self.index.ranges(
            self.batch.entities_BS[:, step.edge.head.number],
            self.batch.relations_BR[:, step.edge.relation],
        )
        edge, found = self.index.find(start, stop, self.batch.entities_BS[:, step.edge.tail.number])
        self.keep_queries(found)
        cost = self.engine.edge_cost(edge)
        if cost is not None:
            self.cost_B = cost if self.cost_B is None else self.cost_B + cost

    def filter(self, table: Bindings, step: Filter) -> Bindings:
        ranges = self.ranges_for(table, step.edge)
        if step.holds:
            return self.keep_found(table, *ranges)
        return table.take(~self.index.find(*ranges)[1])

    def ranges_for(self, table: Bindings, edge: SlotEdge) -> tuple[AnyInts, AnyInts, AnyInts]:
        """For each row, the neighbours at one end of an atom, and the value at the other end."""
        forward = isinstance(edge.tail, Variable)
        near, far = (edge.head, edge.tail) if forward else (edge.tail, edge.head)
        assert isinstance(far, Variable)
        target_N, relation_B = table.columns[far], self.batch.relations_BR[:, edge.relation]
        if not forward:
            relation_B = self.index.inverse(relation_B)
        if isinstance(near, Variable):
            start, stop = self.index.ranges(table.columns[near], self.per_row(relation_B, table))
            return start, stop, target_N
        start_B, stop_B = self.index.ranges(self.batch.entities_BS[:, near.number], relation_B)
        return self.per_row(start_B, table), self.per_row(stop_B, table), target_N

    def keep_found(
        self, table: Bindings, start: AnyInts, stop: AnyInts, target_N: AnyInts
    ) -> Bindings:
        edge_N, found_N = self.index.find(start, stop, target_N)
        return costlier(table, self.engine.edge_cost(edge_N)).take(found_N)

    def refuse(self, step: Refuse, tables: dict[int, Bindings]) -> None:
        sub_engine = replace(self.engine, missing_X=None, most_rows=0)
        if step.table < 0:
            matched = sub_engine.run(step.plan, self.batch).query_N
            self.keep_queries(~np.isin(np.arange(self.queries), matched))
            return
        table = tables[step.table]
        refused_N = np.zeros(len(table), np.bool_)
        for first in range(0, len(table), self.engine.rows_at_once // 8 + 1):
            rows = slice(first, first + self.engine.rows_at_once // 8 + 1)
            part = table.take(rows)
            outer = [part.columns[variable][:, None] for variable in step.outer]
            known = self.batch.entities_BS[part.query_N, : step.first_slot]
            sub_batch = SlotValues(
                np.hstack([known, *outer]), self.batch.relations_BR[part.query_N]
            )
            refused_N[sub_engine.run(step.plan, sub_batch).query_N + first] = True
        tables[step.table] = table.take(~refused_N)

    def forget(self, table: Bindings, keep: tuple[Variable, ...]) -> Bindings:
        return distinct_bindings(table, keep, self.queries, self.index.entities)

    # --- steps that make rows: a table, or a list of parts if it would be too large ---------------

    def seed(self, step: Seed, query_B: Ints) -> Bindings | list[Ints]:
        lists = [self.list_at(edge, step.variable, query_B) for edge in step.edges]
        start_B, stop_B = lists[0]
        if len(lists) > 1:
            start_LB = np.array([start for start, _ in lists])
            stop_LB = np.array([stop for _, stop in lists])
            shortest_B = (stop_LB - start_LB).argmin(axis=0)
            at_B = np.arange(len(query_B))
            start_B, stop_B = start_LB[shortest_B, at_B], stop_LB[shortest_B, at_B]
        keep_B = self.not_given_up(query_B, stop_B - start_B)
        if keep_B is not None:
            start_B = np.where(keep_B, start_B, stop_B)
        if self.too_many(stop_B - start_B):
            return halves(query_B)
        need_rows(int((stop_B - start_B).sum()), 1)
        row_N, edge_N = expand(start_B, stop_B)
        value_N = self.index.neighbours_X[edge_N]
        table = Bindings(row_N, {step.variable: value_N}, self.engine.edge_cost(edge_N))
        for further in range(1, len(lists)):
            other_B = (shortest_B + further) % len(lists)
            start_B, stop_B = start_LB[other_B, at_B], stop_LB[other_B, at_B]
            if len(query_B) > 1:
                start_B, stop_B = start_B[table.query_N], stop_B[table.query_N]
            table = self.keep_found(table, start_B, stop_B, table.columns[step.variable])
        if len(query_B) == self.queries:
            return table
        return replace(table, query_N=query_B[table.query_N])

    def list_at(self, edge: SlotEdge, variable: Variable, query_B: Ints) -> tuple[AnyInts, AnyInts]:
        """The ranges of neighbours that an atom with one constant allows."""
        relation_B = self.column(self.batch.relations_BR, edge.relation, query_B)
        forward = edge.tail == variable
        constant = edge.head if forward else edge.tail
        assert isinstance(constant, Slot)
        entity_B = self.column(self.batch.entities_BS, constant.number, query_B)
        return self.index.ranges(
            entity_B, relation_B if forward else self.index.inverse(relation_B)
        )

    def scan(self, step: Scan, query_B: Ints) -> Bindings | list[Ints]:
        relation_B = self.batch.relations_BR[query_B, step.edge.relation]
        assert isinstance(step.edge.head, Variable)
        assert isinstance(step.edge.tail, Variable)
        parts, total = [], 0
        for relation in np.unique(relation_B):
            head = self.index.with_relation(int(relation))
            start, stop = self.index.ranges(head, np.full(len(head), relation))
            asking = query_B[relation_B == relation]
            total += int((stop - start).sum()) * len(asking)
            if total > self.engine.rows_at_once and len(query_B) > 1:
                return halves(query_B)
            need_rows(total, 2)
            row, edge = expand(start, stop)
            pairs = (head[row], self.index.neighbours_X[edge])
            cost = self.engine.edge_cost(edge)
            if step.edge.head == step.edge.tail:
                same = pairs[0] == pairs[1]
                pairs = (pairs[0][same], pairs[1][same])
                cost = None if cost is None else cost[same]
            many = len(asking)
            columns = {
                step.edge.head: np.tile(pairs[0], many),
                step.edge.tail: np.tile(pairs[1], many),
            }
            query_N = np.repeat(asking, len(pairs[0]))
            parts.append(Bindings(query_N, columns, None if cost is None else np.tile(cost, many)))
        return concatenate(
            parts, (step.edge.head, step.edge.tail), self.engine.missing_X is not None
        )

    def grow(self, table: Bindings, step: Grow) -> Bindings | list[Bindings]:
        relation_B = self.batch.relations_BR[:, step.edge.relation]
        if step.edge.tail != step.stop:
            relation_B = self.index.inverse(relation_B)
        start_N, stop_N = self.index.ranges(
            table.columns[step.start], self.per_row(relation_B, table)
        )
        count_N = stop_N - start_N
        keep_N = self.not_given_up(table.query_N, count_N)
        if keep_N is not None:
            table, start_N, count_N = table.take(keep_N), start_N[keep_N], count_N[keep_N]
        if self.too_many(count_N):
            return in_parts(table, count_N, self.engine.rows_at_once)
        need_rows(int(count_N.sum()), len(table.columns) + 1)
        edge_N = positions(start_N, count_N)
        grown = table.repeated(count_N, step.start if step.leave else None)
        grown = costlier(grown, self.engine.edge_cost(edge_N))
        grown.columns[step.stop] = self.index.neighbours_X[edge_N]
        return grown

    def join(self, left: Bindings, right: Bindings) -> Bindings | list[Bindings]:
        shared = [variable for variable in left.columns if variable in right.columns]
        left_key, right_key = self.join_keys(left, right, shared)
        order = np.argsort(right_key, kind="stable")
        right_key = right_key[order]
        start_N = np.searchsorted(right_key, left_key, "left")
        stop_N = np.searchsorted(right_key, left_key, "right")
        keep_N = self.not_given_up(left.query_N, stop_N - start_N)
        if keep_N is not None:
            left, start_N, stop_N = left.take(keep_N), start_N[keep_N], stop_N[keep_N]
        if self.too_many(stop_N - start_N):
            return in_parts(left, stop_N - start_N, self.engine.rows_at_once)
        need_rows(int((stop_N - start_N).sum()), len(left.columns) + len(right.columns))
        row_N, at_N = expand(start_N, stop_N)
        matched = right.take(order[at_N])
        joined = costlier(left.take(row_N), matched.cost_N)
        joined.columns.update(matched.columns)
        return joined

    def join_keys(
        self, left: Bindings, right: Bindings, shared: list[Variable]
    ) -> tuple[Ints, Ints]:
        sizes = [self.queries, *(self.index.entities for _ in shared)]
        sides = [[table.query_N, *(table.columns[v] for v in shared)] for table in (left, right)]
        left_key, right_key = (codes(columns, sizes) for columns in sides)
        if left_key is not None and right_key is not None:
            return left_key, right_key
        both = np.stack([np.concatenate(pair) for pair in zip(*sides, strict=True)], axis=1)
        key = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        return key[: len(left)], key[len(left) :]

    def too_many(self, count_N: AnyInts) -> bool:
        return len(count_N) > 1 and int(count_N.sum()) > self.engine.rows_at_once
