"""Tables of bindings with truth values, and whole-array operations on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from clmpt.graph.edges import AnyInts, Bools, Ints
from clmpt.logic.formula import Variable
from clmpt.predictors.calibration import MOST
from clmpt.reasoners.truth_values.rows import Values
from clmpt.symbolic.tables import codes, firsts

# Shapes: N rows of a table, Q queries, E entities


@dataclass(frozen=True)
class ValueTable:
    """Rows with a query, a value for each variable, and a truth value.

    `columns` has the variables still in use, `decided` the best values of forgotten ones, if they
    are kept.
    """

    query_N: Ints
    columns: dict[Variable, AnyInts]
    value_N: Values
    decided: dict[Variable, AnyInts]

    def __len__(self) -> int:
        return len(self.query_N)

    def take(self, rows: AnyInts | Bools) -> ValueTable:
        return ValueTable(
            self.query_N[rows],
            {variable: column[rows] for variable, column in self.columns.items()},
            self.value_N[rows],
            {variable: column[rows] for variable, column in self.decided.items()},
        )

    def times(self, factor_N: Values) -> ValueTable:
        """Multiplied row by row; rows of value 0 are dropped."""
        value_N = self.value_N * factor_N
        table = replace(self, value_N=value_N)
        return table if bool((value_N > 0).all()) else table.take(value_N > 0)


def join_keys(
    left: ValueTable, right: ValueTable, shared: list[Variable], size: tuple[int, int]
) -> tuple[Ints, Ints]:
    """A number for each row of two tables, equal where query and shared variables are; `size` is
    the number of queries and of entities."""
    sides = [[table.query_N, *(table.columns[v] for v in shared)] for table in (left, right)]
    sizes = [size[0], *(size[1] for _ in shared)]
    found = [codes(columns, sizes) for columns in sides]
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    both = np.stack([np.concatenate(pair) for pair in zip(*sides, strict=True)], axis=1)
    key = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    return key[: len(left)], key[len(left) :]


def best_of_each(query_N: Ints, value_N: Values, most: int) -> Bools:
    """Which rows are among the `most` best of their query; the first of equals."""
    order = np.lexsort((-value_N, query_N)) if (np.diff(query_N) < 0).any() else None
    if order is not None:
        query_N, value_N = query_N[order], value_N[order]
    chosen_N = np.ones(len(query_N), np.bool_)
    start_U = np.flatnonzero(firsts(query_N))
    for start, stop in pairwise([*start_U.tolist(), len(query_N)]):
        if stop - start > most:
            chosen_N[start:stop] = False
            best = np.argsort(-value_N[start:stop], kind="stable")[:most]
            chosen_N[start + best] = True
    if order is None:
        return chosen_N
    found_N = np.empty_like(chosen_N)
    found_N[order] = chosen_N
    return found_N


def best_rows(table: ValueTable, keep: tuple[Variable, ...], derivations: int) -> ValueTable:
    """The best rows for each value of the kept variables: one, or `derivations`, which keep the
    values of the other variables as decided."""
    columns = [table.query_N, *(table.columns[variable] for variable in keep)]
    order = np.lexsort((-table.value_N, *reversed(columns)))
    first_N = np.logical_or.reduce([firsts(column[order]) for column in columns])
    group_N = np.maximum.accumulate(np.where(first_N, np.arange(len(order)), 0))
    kept = table.take(order[np.arange(len(order)) - group_N < max(1, derivations)])
    gone = {v: c for v, c in kept.columns.items() if v not in keep}
    return ValueTable(
        kept.query_N,
        {variable: kept.columns[variable] for variable in keep},
        kept.value_N,
        {**kept.decided, **gone} if derivations else {},
    )


def best_values(table: ValueTable, keep: Variable, size: tuple[int, int]) -> ValueTable:
    """The same for one variable and values alone, by writing into one vector per query: several
    times faster."""
    queries, entities = size
    best_QE = torch.zeros(queries * entities)
    code_N = torch.from_numpy(table.query_N * np.int64(entities) + table.columns[keep])
    best_QE.scatter_reduce_(0, code_N, torch.from_numpy(table.value_N), "amax")
    flat = best_QE.numpy()
    found = np.flatnonzero(flat)
    query_N, entity_N = np.divmod(found, entities)
    return ValueTable(query_N, {keep: entity_N}, flat[found], {})


def united_values(
    table: ValueTable, keep: tuple[Variable, ...], size: tuple[int, int]
) -> ValueTable:
    """1 - Π (1 - x) over the rows for each value of the kept variables."""
    columns = [table.query_N, *(table.columns[variable] for variable in keep)]
    code_N = codes(columns, [size[0], *(size[1] for _ in keep)])
    if code_N is not None and len(keep) == 1:
        value_QE = noisy_or(code_N, table.value_N, size[0] * size[1])
        at = np.flatnonzero(value_QE)
        return ValueTable(at // size[1], {keep[0]: at % size[1]}, value_QE[at], {})
    if code_N is None:
        code_N = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    _, first_U, own_N = np.unique(code_N, return_index=True, return_inverse=True)
    found = table.take(first_U)
    value_U = noisy_or(own_N.reshape(-1), table.value_N, len(first_U))
    return ValueTable(found.query_N, {v: found.columns[v] for v in keep}, value_U, {})


def noisy_or(own_N: AnyInts, value_N: Values, count: int) -> Values:
    """1 - Π (1 - x) over the values of each owner; 1 counts as almost 1, so that more of them are
    more. Values without an owner are 0."""
    false_N = np.log1p(-np.minimum(value_N.astype(np.float64), MOST))
    found_U: Values = -np.expm1(np.bincount(own_N, false_N, count))
    return found_U.astype(np.float32)


def concatenated(parts: list[ValueTable], variables: tuple[Variable, ...]) -> ValueTable:
    none = np.empty(0, np.int64)
    return ValueTable(
        np.concatenate([none, *(part.query_N for part in parts)]),
        {v: np.concatenate([none, *(part.columns[v] for part in parts)]) for v in variables},
        np.concatenate([np.empty(0, np.float32), *(part.value_N for part in parts)]),
        {},
    )
