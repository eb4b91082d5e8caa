"""Tables of bindings, and whole-array operations on them.

Each row of a table has its query, a value for each variable and, if asked for, the least number of
missing links that it takes to get there. Rows of a table are always distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from clmpt.budget import check_budget
from clmpt.graph.edges import AnyInts, Bools, Ints
from clmpt.logic.formula import Variable

# Shapes: N rows of a table, B queries of a batch


@dataclass(frozen=True)
class Bindings:
    query_N: Ints
    columns: dict[Variable, AnyInts]
    cost_N: Ints | None = None

    def __len__(self) -> int:
        return len(self.query_N)

    def take(self, rows: AnyInts | Bools | slice) -> Bindings:
        columns = {variable: column[rows] for variable, column in self.columns.items()}
        cost_N = None if self.cost_N is None else self.cost_N[rows]
        return Bindings(self.query_N[rows], columns, cost_N)

    def repeated(self, count_N: AnyInts, leave: Variable | None) -> Bindings:
        """Each row as often as `count_N` says, without the column `leave`."""
        columns = {v: np.repeat(c, count_N) for v, c in self.columns.items() if v != leave}
        cost_N = None if self.cost_N is None else np.repeat(self.cost_N, count_N)
        return Bindings(np.repeat(self.query_N, count_N), columns, cost_N)


def costlier(table: Bindings, cost_N: Ints | None) -> Bindings:
    if table.cost_N is None or cost_N is None:
        return table
    return replace(table, cost_N=table.cost_N + cost_N)


def halves(query_B: Ints) -> list[Ints]:
    middle = len(query_B) // 2
    return [query_B[:middle], query_B[middle:]]


def in_parts(table: Bindings, count_N: AnyInts, limit: int) -> list[Bindings]:
    """The table in two or more parts that each grow to about the limit: some of the queries each.
    If there is only one, it is dealt out: the first part is a sample of the whole, and most answers
    are found there, if they have many derivations."""
    rows_B = np.bincount(table.query_N, count_N)
    if np.count_nonzero(rows_B) > 1:
        part_B = (rows_B.cumsum() - rows_B) // limit
        part_N = np.unique(part_B[table.query_N], return_inverse=True)[1]
        if part_N.max():
            return [table.take(part_N == part) for part in range(part_N.max() + 1)]
        part_N = table.query_N == table.query_N.max()  # a broad query after narrow ones
        return [table.take(~part_N), table.take(part_N)]
    parts = min(len(table), max(2, -(-int(count_N.sum()) // limit)))
    return [table.take(slice(first, None, parts)) for first in range(parts)]


def concatenate(
    tables: list[Bindings], variables: tuple[Variable, ...], costs: bool = False
) -> Bindings:
    if not tables:
        none = np.empty(0, np.int64)
        return Bindings(none, dict.fromkeys(variables, none), none if costs else None)
    costs_N = [table.cost_N for table in tables if table.cost_N is not None]
    return Bindings(
        np.concatenate([table.query_N for table in tables]),
        {v: np.concatenate([table.columns[v] for table in tables]) for v in variables},
        np.concatenate(costs_N) if costs_N else None,
    )


def codes(columns: Sequence[AnyInts], sizes: list[int]) -> Ints | None:
    """Each row as one number, in the order of the columns; None if it would not fit."""
    if prod(sizes) >= 2**63:
        return None
    code_N: Ints = columns[0].astype(np.int64, copy=False)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        code_N = code_N * size + column
    return code_N


def firsts(sorted_N: AnyInts) -> Bools:
    first_N = np.ones(len(sorted_N), np.bool_)
    np.not_equal(sorted_N[1:], sorted_N[:-1], out=first_N[1:])
    return first_N


def sorted_distinct(code_N: AnyInts, room: int) -> AnyInts:
    """Sorted distinct codes below `room`; found by marking them in an array if they are dense."""
    if room < 16 * len(code_N) and room < 2**28:
        marked = np.zeros(room, np.bool_)
        marked[code_N] = True
        return np.flatnonzero(marked)
    code_N = np.sort(code_N)
    return code_N[firsts(code_N)]


def distinct_bindings(
    table: Bindings, keep: tuple[Variable, ...], queries: int, entities: int
) -> Bindings:
    """The distinct rows of the kept columns, sorted by query; equal rows get the least cost."""
    if not len(table):
        return Bindings(table.query_N, {v: table.columns[v] for v in keep}, table.cost_N)
    if queries == len(keep) == 1 and table.cost_N is None:
        value_N = sorted_distinct(table.columns[keep[0]], entities)
        return Bindings(np.zeros(len(value_N), np.int64), {keep[0]: value_N})
    columns = [table.query_N, *(table.columns[variable] for variable in keep)]
    sizes = [queries, *(entities for _ in keep)]
    code_N = codes(columns, sizes)
    if code_N is None:
        return _distinct_wide(table, columns, keep)
    cost_N = None
    if table.cost_N is None:
        code_N = sorted_distinct(code_N, prod(sizes)).astype(np.int64, copy=False)
    else:
        order = np.lexsort((table.cost_N, code_N))
        code_N = code_N[order]
        first_N = firsts(code_N)
        code_N, cost_N = code_N[first_N], table.cost_N[order][first_N]
    values = []
    for size in reversed(sizes[1:]):
        rest_N = code_N // size
        values.append(code_N - rest_N * size)
        code_N = rest_N
    return Bindings(code_N, dict(zip(keep, reversed(values), strict=True)), cost_N)


def _distinct_wide(table: Bindings, columns: list[AnyInts], keep: tuple[Variable, ...]) -> Bindings:
    """`distinct_bindings` for columns that do not fit in one number."""
    costs = [] if table.cost_N is None else [table.cost_N]
    order = np.lexsort((*costs, *reversed(columns)))
    ordered = [column[order] for column in columns]
    first_N = np.logical_or.reduce([firsts(column) for column in ordered])
    return Bindings(
        ordered[0][first_N].astype(np.int64, copy=False),
        {v: column[first_N] for v, column in zip(keep, ordered[1:], strict=True)},
        None if table.cost_N is None else table.cost_N[order][first_N],
    )


def need_rows(rows: int, columns: int) -> None:
    """Checks the budget before so many rows are made: numbers of 8 bytes, for the columns, the
    query and the edge."""
    check_budget(8 * rows * (columns + 2))
