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
    """The table dealt out into two or more parts that each grow to about the limit. The first part
    is a sample of the whole: most answers are found there, if they have many derivations."""
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


def need_rows(rows: int, columns: int) -> None:
    """Checks the budget before so many rows are made: numbers of 8 bytes, for the columns, the
    query and the edge."""
    check_budget(8 * rows * (columns + 2))
