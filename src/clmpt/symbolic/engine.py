"""Runs a plan over many queries of one shape at once, with whole-array operations.

A table holds bindings: which query a row belongs to, a value for each variable, and, where asked
for, the least number of missing links it took to get there. Rows of a table are always distinct.
Memory stays bounded: a step that would make too many rows is run on a part of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import AnyInts, Bools, EdgeIndex, Ints, expand
from clmpt.logic.formula import Variable
from clmpt.symbolic.plan import (
    Check,
    Edge,
    Filter,
    Forget,
    Grow,
    Join,
    Plan,
    Refuse,
    Scan,
    Seed,
    Slot,
)

# Shapes: B queries of a batch, N rows of a table, X directed edges of the graph

ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Table:
    query_N: Ints
    columns: dict[Variable, Ints]
    cost_N: Ints | None = None

    def __len__(self) -> int:
        return len(self.query_N)

    def take(self, rows: AnyInts | Bools | slice) -> Table:
        columns = {variable: column[rows] for variable, column in self.columns.items()}
        cost_N = None if self.cost_N is None else self.cost_N[rows]
        return Table(self.query_N[rows], columns, cost_N)


@dataclass(frozen=True)
class Batch:
    """The constants and directed relations of many queries of one shape, slot by slot."""

    entities_BS: Ints
    relations_BR: Ints

    def __len__(self) -> int:
        return len(self.relations_BR)


@dataclass(frozen=True)
class Engine:
    """`missing_X` marks the edges that count as missing links; without it costs are not kept."""

    index: EdgeIndex
    missing_X: npt.NDArray[np.bool_] | None = None
    rows_at_once: int = ROWS_AT_ONCE

    def run(self, plan: Plan, batch: Batch) -> Table:
        """The distinct bindings of the plan's outputs for every query of the batch."""
        return _Run(self, plan, batch).result()

    def edge_cost(self, edges: Ints) -> Ints | None:
        return None if self.missing_X is None else self.missing_X[edges].astype(np.int64)


class _Run:
    def __init__(self, engine: Engine, plan: Plan, batch: Batch) -> None:
        self.engine, self.plan, self.batch = engine, plan, batch
        self.index = engine.index
        self.alive_B: Bools = np.ones(len(batch), np.bool_)
        self.cost_B: Ints = np.zeros(len(batch), np.int64)

    def result(self) -> Table:
        found = [self.closed(table) for table in self.steps(0, {}, np.arange(len(self.batch)))]
        if len(found) == 1:
            return found[0]
        return self.forget(_concatenate(found, self.plan.outputs), self.plan.outputs)

    def closed(self, table: Table) -> Table:
        if not self.alive_B.all():
            table = table.take(self.alive_B[table.query_N])
        if table.cost_N is not None:
            table = replace(table, cost_N=table.cost_N + self.cost_B[table.query_N])
        return table

    def steps(self, at: int, tables: dict[int, Table], query_B: Ints) -> Iterator[Table]:
        """Runs from step `at` on; where a step is too large, once for each part of its rows."""
        for number in range(at, len(self.plan.steps)):
            step = self.plan.steps[number]
            if isinstance(step, Check):
                self.check(step)
            elif isinstance(step, Refuse):
                self.refuse(step, tables)
            elif isinstance(step, Filter):
                tables[step.table] = self.filter(tables[step.table], step.edge)
            elif isinstance(step, Forget):
                tables[step.table] = self.forget(tables[step.table], step.keep)
            elif isinstance(step, Seed | Scan):
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
                    for part in grown:
                        yield from self.steps(number, {**tables, step.table: part}, query_B)
                    return
                tables[step.table] = grown
                if isinstance(step, Join):
                    del tables[step.other]
        if self.plan.table is None:
            yield Table(query_B, {}, None if self.engine.missing_X is None else 0 * query_B)
        else:
            yield tables[self.plan.table]

    # --- steps that keep or drop ------------------------------------------------------------------

    def check(self, step: Check) -> None:
        assert isinstance(step.edge.head, Slot)
        assert isinstance(step.edge.tail, Slot)
        start, stop = self.index.ranges(
            self.batch.entities_BS[:, step.edge.head.number],
            self.batch.relations_BR[:, step.edge.relation],
        )
        edge, found = self.index.find(start, stop, self.batch.entities_BS[:, step.edge.tail.number])
        self.alive_B = self.alive_B & found
        cost = self.engine.edge_cost(edge)
        if cost is not None:
            self.cost_B += cost

    def filter(self, table: Table, edge: Edge) -> Table:
        assert isinstance(edge.head, Variable)
        assert isinstance(edge.tail, Variable)
        relation_N = self.batch.relations_BR[table.query_N, edge.relation]
        start, stop = self.index.ranges(table.columns[edge.head], relation_N)
        return self.keep_found(table, start, stop, table.columns[edge.tail])

    def keep_found(self, table: Table, start: Ints, stop: Ints, target_N: Ints) -> Table:
        edge_N, found_N = self.index.find(start, stop, target_N)
        return _costlier(table, self.engine.edge_cost(edge_N)).take(found_N)

    def refuse(self, step: Refuse, tables: dict[int, Table]) -> None:
        sub_engine = replace(self.engine, missing_X=None)
        if step.table < 0:
            matched = sub_engine.run(step.plan, self.batch).query_N
            self.alive_B = self.alive_B & ~np.isin(np.arange(len(self.batch)), matched)
            return
        table = tables[step.table]
        refused_N = np.zeros(len(table), np.bool_)
        for first in range(0, len(table), self.engine.rows_at_once // 8 + 1):
            rows = slice(first, first + self.engine.rows_at_once // 8 + 1)
            part = table.take(rows)
            outer = [part.columns[variable][:, None] for variable in step.outer]
            known = self.batch.entities_BS[part.query_N, : step.first_slot]
            sub_batch = Batch(np.hstack([known, *outer]), self.batch.relations_BR[part.query_N])
            refused_N[sub_engine.run(step.plan, sub_batch).query_N + first] = True
        tables[step.table] = table.take(~refused_N)

    def forget(self, table: Table, keep: tuple[Variable, ...]) -> Table:
        """The distinct rows of the kept columns, sorted by query; the least cost of equal rows."""
        if not len(table):
            return Table(table.query_N, {v: table.columns[v] for v in keep}, table.cost_N)
        columns = [table.query_N, *(table.columns[variable] for variable in keep)]
        sizes = [len(self.batch), *(self.index.entities for _ in keep)]
        code_N = _codes(columns, sizes)
        if code_N is None:
            return self.forget_wide(table, columns, keep)
        if table.cost_N is None:
            code_N = sorted_distinct(code_N, float(np.prod([float(size) for size in sizes])))
            cost_N = None
        else:
            order = np.lexsort((table.cost_N, code_N))
            code_N = code_N[order]
            first_N = _firsts(code_N)
            code_N, cost_N = code_N[first_N], table.cost_N[order][first_N]
        values = []
        for size in reversed(sizes[1:]):
            rest_N = code_N // size
            values.append(code_N - rest_N * size)
            code_N = rest_N
        return Table(code_N, dict(zip(keep, reversed(values), strict=True)), cost_N)

    def forget_wide(self, table: Table, columns: list[Ints], keep: tuple[Variable, ...]) -> Table:
        """The same where the columns do not fit in one number."""
        costs = [] if table.cost_N is None else [table.cost_N]
        order = np.lexsort((*costs, *reversed(columns)))
        ordered = [column[order] for column in columns]
        first_N = np.logical_or.reduce([_firsts(column) for column in ordered])
        return Table(
            ordered[0][first_N],
            {v: column[first_N] for v, column in zip(keep, ordered[1:], strict=True)},
            None if table.cost_N is None else table.cost_N[order][first_N],
        )

    # --- steps that make rows: a table, or a list of parts where it would be too large --------

    def seed(self, step: Seed, query_B: Ints) -> Table | list[Ints]:
        lists = [self.list_at(edge, step.variable, query_B) for edge in step.edges]
        start_LB = np.stack([start for start, _ in lists])
        stop_LB = np.stack([stop for _, stop in lists])
        shortest_B = np.argmin(stop_LB - start_LB, axis=0)
        at_B = np.arange(len(query_B))
        start_B, stop_B = start_LB[shortest_B, at_B], stop_LB[shortest_B, at_B]
        if self.too_many(stop_B - start_B):
            return _halves(query_B)
        row_N, edge_N = expand(start_B, stop_B)
        value_N = self.index.neighbours_X[edge_N].astype(np.int64)
        table = Table(row_N, {step.variable: value_N}, self.engine.edge_cost(edge_N))
        for further in range(1, len(lists)):
            other_B = (shortest_B + further) % len(lists)
            start_B, stop_B = start_LB[other_B, at_B], stop_LB[other_B, at_B]
            if len(query_B) > 1:
                start_B, stop_B = start_B[table.query_N], stop_B[table.query_N]
            table = self.keep_found(table, start_B, stop_B, table.columns[step.variable])
        return replace(table, query_N=query_B[table.query_N])

    def list_at(self, edge: Edge, variable: Variable, query_B: Ints) -> tuple[Ints, Ints]:
        """The ranges of neighbours that an atom with one constant allows."""
        relation_B = self.batch.relations_BR[query_B, edge.relation]
        forward = edge.tail == variable
        constant = edge.head if forward else edge.tail
        assert isinstance(constant, Slot)
        entity_B = self.batch.entities_BS[query_B, constant.number]
        return self.index.ranges(
            entity_B, relation_B if forward else self.index.inverse(relation_B)
        )

    def scan(self, step: Scan, query_B: Ints) -> Table | list[Ints]:
        relation_B = self.batch.relations_BR[query_B, step.edge.relation]
        assert isinstance(step.edge.head, Variable)
        assert isinstance(step.edge.tail, Variable)
        parts, total = [], 0
        for relation in np.unique(relation_B):
            head, count = self.index.with_relation(int(relation))
            asking = query_B[relation_B == relation]
            total += int(count.sum()) * len(asking)
            if total > self.engine.rows_at_once and len(query_B) > 1:
                return _halves(query_B)
            start, stop = self.index.ranges(head, np.full(len(head), relation))
            row, edge = expand(start, stop)
            pairs = (head[row], self.index.neighbours_X[edge].astype(np.int64))
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
            parts.append(Table(query_N, columns, None if cost is None else np.tile(cost, many)))
        return _concatenate(
            parts, (step.edge.head, step.edge.tail), self.engine.missing_X is not None
        )

    def grow(self, table: Table, step: Grow) -> Table | list[Table]:
        relation_N = self.batch.relations_BR[table.query_N, step.edge.relation]
        if step.edge.tail != step.stop:
            relation_N = self.index.inverse(relation_N)
        start_N, stop_N = self.index.ranges(table.columns[step.start], relation_N)
        if self.too_many(stop_N - start_N):
            return _parts(table, stop_N - start_N, self.engine.rows_at_once)
        row_N, edge_N = expand(start_N, stop_N)
        grown = _costlier(table.take(row_N), self.engine.edge_cost(edge_N))
        grown.columns[step.stop] = self.index.neighbours_X[edge_N].astype(np.int64)
        return grown

    def join(self, left: Table, right: Table) -> Table | list[Table]:
        shared = [variable for variable in left.columns if variable in right.columns]
        left_key, right_key = self.join_keys(left, right, shared)
        order = np.argsort(right_key, kind="stable")
        right_key = right_key[order]
        start_N = np.searchsorted(right_key, left_key, "left")
        stop_N = np.searchsorted(right_key, left_key, "right")
        if self.too_many(stop_N - start_N):
            return _parts(left, stop_N - start_N, self.engine.rows_at_once)
        row_N, at_N = expand(start_N, stop_N)
        matched = right.take(order[at_N])
        joined = _costlier(left.take(row_N), matched.cost_N)
        joined.columns.update(matched.columns)
        return joined

    def join_keys(self, left: Table, right: Table, shared: list[Variable]) -> tuple[Ints, Ints]:
        sizes = [len(self.batch), *(self.index.entities for _ in shared)]
        sides = [[table.query_N, *(table.columns[v] for v in shared)] for table in (left, right)]
        left_key, right_key = (_codes(columns, sizes) for columns in sides)
        if left_key is not None and right_key is not None:
            return left_key, right_key
        both = np.stack([np.concatenate(pair) for pair in zip(*sides, strict=True)], axis=1)
        key = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        return key[: len(left)], key[len(left) :]

    def too_many(self, count_N: Ints) -> bool:
        return len(count_N) > 1 and int(count_N.sum()) > self.engine.rows_at_once


def _costlier(table: Table, cost_N: Ints | None) -> Table:
    if table.cost_N is None or cost_N is None:
        return table
    return replace(table, cost_N=table.cost_N + cost_N)


def _halves(query_B: Ints) -> list[Ints]:
    middle = len(query_B) // 2
    return [query_B[:middle], query_B[middle:]]


def _parts(table: Table, count_N: Ints, limit: int) -> list[Table]:
    """The table cut where its growth fills the limit; a row that alone exceeds it stands alone."""
    part_N = (np.cumsum(count_N) - count_N) // limit
    cuts = [0, *(np.flatnonzero(part_N[1:] != part_N[:-1]) + 1).tolist(), len(table)]
    if len(cuts) == 2:
        cuts.insert(1, len(table) // 2)
    return [table.take(slice(start, stop)) for start, stop in pairwise(cuts)]


def _concatenate(
    tables: list[Table], variables: tuple[Variable, ...], costs: bool = False
) -> Table:
    if not tables:
        none = np.empty(0, np.int64)
        return Table(none, dict.fromkeys(variables, none), none if costs else None)
    costs_N = [table.cost_N for table in tables if table.cost_N is not None]
    return Table(
        np.concatenate([table.query_N for table in tables]),
        {v: np.concatenate([table.columns[v] for table in tables]) for v in variables},
        np.concatenate(costs_N) if costs_N else None,
    )


def _codes(columns: list[Ints], sizes: list[int]) -> Ints | None:
    """Each row as one number, in the order of the columns; None where it would not fit."""
    room = 1
    for size in sizes:
        room *= max(size, 1)
    if room >= 2**63:
        return None
    code_N = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        code_N = code_N * size + column
    return code_N


def _firsts(sorted_N: Ints) -> Bools:
    first_N = np.ones(len(sorted_N), np.bool_)
    np.not_equal(sorted_N[1:], sorted_N[:-1], out=first_N[1:])
    return first_N


def sorted_distinct(code_N: Ints, room: float) -> Ints:
    """Sorted distinct codes; by ticking them off where they fill a good part of their room."""
    if room < 16 * len(code_N) and room < 2**28:
        ticked = np.zeros(int(room), np.bool_)
        ticked[code_N] = True
        return np.flatnonzero(ticked)
    code_N = np.sort(code_N)
    return code_N[_firsts(code_N)]
