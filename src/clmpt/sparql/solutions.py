"""Solutions of a graph pattern, as columns of term ids; -1 where a variable has no value.

Solutions are a bag, as in the standard: equal rows count as often as they occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clmpt.budget import check_budget
from clmpt.graph.edges import AnyInts, Bools, Ints, expand
from clmpt.logic.formula import Variable

UNBOUND = -1
PAIRS_AT_ONCE = 1_000_000  # between two looks at the budget

# Shapes: N rows, C columns


@dataclass(frozen=True)
class Solutions:
    columns: dict[Variable, Ints]
    rows: int

    @classmethod
    def single(cls) -> Solutions:
        """The one solution of the empty pattern."""
        return cls({}, 1)

    @classmethod
    def none(cls, variables: Iterable[Variable] = ()) -> Solutions:
        return cls({variable: np.empty(0, np.int64) for variable in variables}, 0)

    def column(self, variable: Variable) -> Ints:
        found = self.columns.get(variable)
        return np.full(self.rows, UNBOUND, np.int64) if found is None else found

    def take(self, rows: AnyInts | Bools | slice) -> Solutions:
        columns = {variable: column[rows] for variable, column in self.columns.items()}
        count = len(np.arange(self.rows)[rows])
        return Solutions(columns, count)

    def keep(self, variables: Iterable[Variable]) -> Solutions:
        """Only these columns, in this order; those that are lacking have no values."""
        return Solutions({v: self.column(v) for v in variables}, self.rows)

    def extended(self, variable: Variable, column: Ints) -> Solutions:
        return Solutions({**self.columns, variable: column}, self.rows)

    def matrix(self, variables: Sequence[Variable]) -> Ints:
        """The columns of these variables side by side, rows_NC."""
        if not variables:
            return np.zeros((self.rows, 0), np.int64)
        return np.stack([self.column(variable) for variable in variables], axis=1)


def group_numbers(rows_NC: Ints) -> tuple[Ints, Ints]:
    """Equal rows get equal numbers, from 0 in order of appearance; and the first row of each."""
    count, width = rows_NC.shape
    if width == 0 or count == 0:
        return np.zeros(count, np.int64), np.zeros(min(count, 1), np.int64)
    code_N = rows_NC[:, 0]
    for column in range(1, width):  # two columns at a time, so that numbers never overflow
        _, code_N = np.unique(code_N, return_inverse=True)
        _, other_N = np.unique(rows_NC[:, column], return_inverse=True)
        code_N = code_N * (int(other_N.max()) + 1) + other_N
    _, first_G, group_N = np.unique(code_N, return_index=True, return_inverse=True)
    order_G = np.argsort(first_G)
    rank_G = np.empty(len(order_G), np.int64)
    rank_G[order_G] = np.arange(len(order_G))
    return rank_G[group_N], first_G[order_G]


def distinct_rows(solutions: Solutions) -> Solutions:
    _, first = group_numbers(solutions.matrix(list(solutions.columns)))
    return solutions.take(first)


def stacked(parts: Sequence[Solutions]) -> Solutions:
    variables = dict.fromkeys(variable for part in parts for variable in part.columns)
    return Solutions(
        {v: np.concatenate([part.column(v) for part in parts]) for v in variables},
        sum(part.rows for part in parts),
    )


def join(left: Solutions, right: Solutions, most: int | None = None) -> Solutions:
    """All compatible pairs of rows, merged; or `most` of them."""
    found = [Solutions.none({**left.columns, **right.columns})]
    rows = 0
    for pair in compatible(left, right):
        found.append(merged(left, right, *pair))
        rows += found[-1].rows
        check_budget(8 * rows * len(found[0].columns))  # all are copied once more in the end
        if most is not None and rows >= most:
            break
    return stacked(found).take(slice(most))


def merged(left: Solutions, right: Solutions, at_left: Ints, at_right: Ints) -> Solutions:
    """Pairs of rows as rows; a value of the left side goes before one of the right side."""
    columns = {variable: column[at_left] for variable, column in left.columns.items()}
    for variable, column in right.columns.items():
        value = column[at_right]
        if variable in columns:
            value = np.where(columns[variable] == UNBOUND, value, columns[variable])
        columns[variable] = value
    return Solutions(columns, len(at_left))


def compatible(left: Solutions, right: Solutions) -> Iterator[tuple[Ints, Ints]]:
    """The pairs of rows that agree wherever both have a value, in order of the left rows as far as
    all rows have values for the same variables."""
    shared = [variable for variable in left.columns if variable in right.columns]
    for left_rows, has_left in _by_bound(left, shared):
        for right_rows, has_right in _by_bound(right, shared):
            both = [v for v, a, b in zip(shared, has_left, has_right, strict=True) if a and b]
            for at_left, at_right in _equal_pairs(
                left.matrix(both)[left_rows], right.matrix(both)[right_rows]
            ):
                yield left_rows[at_left], right_rows[at_right]


def shares_value(left: Solutions, right: Solutions, at_left: Ints, at_right: Ints) -> Bools:
    """For each pair of rows, whether some variable has a value in both."""
    found = np.zeros(len(at_left), np.bool_)
    for variable in left.columns:
        if variable in right.columns:
            found |= (left.columns[variable][at_left] != UNBOUND) & (
                right.columns[variable][at_right] != UNBOUND
            )
    return found


def _by_bound(
    solutions: Solutions, variables: list[Variable]
) -> Iterator[tuple[Ints, tuple[bool, ...]]]:
    """The rows in groups that have values for the same of these variables."""
    bound_NC = solutions.matrix(variables) != UNBOUND
    if bound_NC.all():
        yield np.arange(solutions.rows), (True,) * len(variables)
        return
    group_N, first_G = group_numbers(bound_NC.astype(np.int64))
    for number, first in enumerate(first_G.tolist()):
        yield np.flatnonzero(group_N == number), tuple(bound_NC[first].tolist())


def _equal_pairs(left_NC: Ints, right_MC: Ints) -> Iterator[tuple[Ints, Ints]]:
    """All pairs of equal rows, some at a time; all pairs at all if there are no columns."""
    key_NM, _ = group_numbers(np.concatenate([left_NC, right_MC]))
    key_N, key_M = key_NM[: len(left_NC)], key_NM[len(left_NC) :]
    order_M = np.argsort(key_M, kind="stable")
    sorted_M = key_M[order_M]
    start_N = sorted_M.searchsorted(key_N)
    stop_N = sorted_M.searchsorted(key_N, "right")
    upto_N = np.cumsum(stop_N - start_N)
    first = 0
    while first < len(start_N):
        before = int(upto_N[first - 1]) if first else 0
        last = max(int(upto_N.searchsorted(before + PAIRS_AT_ONCE, "right")), first + 1)
        check_budget(32 * (int(upto_N[last - 1]) - before))
        at_left, at_sorted = expand(start_N[first:last], stop_N[first:last])
        yield at_left + first, order_M[at_sorted]
        first = last
