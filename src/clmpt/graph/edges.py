"""Neighbours by (entity, relation), in both directions, from three sorted arrays.

A *directed relation* is a relation id r < R read forwards, or r + R read backwards. Keys are
`entity · 2R + directed relation`, kept sorted and distinct, so that memory grows with the number of
edges and never with entities × relations. Everything works on whole arrays of questions at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError

Ints: TypeAlias = npt.NDArray[np.int64]
AnyInts: TypeAlias = npt.NDArray[np.integer]
Bools: TypeAlias = npt.NDArray[np.bool_]

# Shapes: K keys (entity, directed relation), X directed edges (twice the triples), T triples, N any


@dataclass(frozen=True)
class EdgeIndex:
    """Each triple stands here twice: once seen from its head, once from its tail."""

    entities: int
    relations: int
    keys_K: AnyInts
    offsets_K1: AnyInts
    neighbours_X: AnyInts
    splits_X: npt.NDArray[np.uint8]  # bit i: the triple is in split i

    @property
    def triples(self) -> int:
        return len(self.neighbours_X) // 2

    def inverse(self, relation_N: Ints) -> Ints:
        """The same relations read the other way."""
        return (relation_N + self.relations) % (2 * self.relations)

    def ranges(self, entity_N: AnyInts, relation_N: AnyInts) -> tuple[Ints, Ints]:
        """Where the neighbours of each (entity, directed relation) start and stop."""
        key_N = np.asarray(entity_N, np.int64) * (2 * self.relations) + relation_N
        if not len(self.keys_K):
            return np.zeros_like(key_N), np.zeros_like(key_N)
        at_N = np.searchsorted(self.keys_K, key_N)
        at_N[at_N == len(self.keys_K)] = 0
        start_N = self.offsets_K1[at_N].astype(np.int64, copy=False)
        stop_N = self.offsets_K1[at_N + 1].astype(np.int64, copy=False)
        return start_N, np.where(self.keys_K[at_N] == key_N, stop_N, start_N)

    def find(self, start_N: Ints, stop_N: Ints, target_N: AnyInts) -> tuple[Ints, Bools]:
        """The edge to each target within its range, and whether there is one."""
        if len(start_N) == 1:  # one list asked many times: a plain binary search in it
            inside = self.neighbours_X[start_N[0] : stop_N[0]]
            if not len(inside):
                return np.zeros(len(target_N), np.int64), np.zeros(len(target_N), np.bool_)
            at_N = np.minimum(inside.searchsorted(target_N), len(inside) - 1)
            return at_N + start_N[0], inside[at_N] == target_N
        low_N, high_N = start_N.copy(), stop_N.copy()
        for _ in range(int((stop_N - start_N).max(initial=0)).bit_length()):
            middle_N = (low_N + high_N) >> 1
            open_N = low_N < high_N
            middle_N[~open_N] = 0
            right_N = open_N & (self.neighbours_X[middle_N] < target_N)
            low_N = np.where(right_N, middle_N + 1, low_N)
            high_N = np.where(open_N & ~right_N, middle_N, high_N)
        inside_N = low_N < stop_N
        edge_N = np.where(inside_N, low_N, 0)
        if not len(self.neighbours_X):
            return edge_N, inside_N
        return edge_N, inside_N & (self.neighbours_X[edge_N] == target_N)

    def with_relation(self, directed: int) -> tuple[Ints, Ints]:
        """The entities that have neighbours by `directed`, each with its number of neighbours."""
        at = np.flatnonzero(self.keys_K % (2 * self.relations) == directed)
        entity = self.keys_K[at].astype(np.int64) // (2 * self.relations)
        return entity, (self.offsets_K1[at + 1] - self.offsets_K1[at]).astype(np.int64)

    def restricted(self, bits: int) -> EdgeIndex:
        """The edges in any of the splits that `bits` names. No sorting: the order is kept."""
        kept_X = (self.splits_X & np.uint8(bits)) != 0
        if kept_X.all():
            return self
        before_X1 = np.concatenate([[0], np.cumsum(kept_X)])
        offsets_K1 = before_X1[self.offsets_K1]
        used_K = np.diff(offsets_K1) > 0
        return EdgeIndex(
            self.entities,
            self.relations,
            self.keys_K[used_K],
            np.concatenate([offsets_K1[:-1][used_K], offsets_K1[-1:]]),
            self.neighbours_X[kept_X],
            self.splits_X[kept_X],
        )

    def forward_triples(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """All triples as rows (head, relation, tail) in sorted order, and their split bits."""
        directed_K = self.keys_K % (2 * self.relations)
        forward_K = directed_K < self.relations
        count_K = np.diff(self.offsets_K1)
        edges_X = np.repeat(forward_K, count_K)
        rows = np.empty((int(edges_X.sum()), 3), np.int32)
        rows[:, 0] = np.repeat(self.keys_K[forward_K] // (2 * self.relations), count_K[forward_K])
        rows[:, 1] = np.repeat(directed_K[forward_K], count_K[forward_K])
        rows[:, 2] = self.neighbours_X[edges_X]
        return rows, self.splits_X[edges_X]


def expand(start_N: Ints, stop_N: Ints) -> tuple[Ints, Ints]:
    """Every position of every range, beside the number of the range it is in."""
    count_N = stop_N - start_N
    if len(count_N) == 1:
        positions = np.arange(start_N[0], stop_N[0])
        return np.zeros(len(positions), np.int64), positions
    row = np.repeat(np.arange(len(count_N)), count_N)
    shift_N = start_N - (np.cumsum(count_N) - count_N)
    return row, np.arange(len(row)) + shift_N[row]


def build_index(entities: int, relations: int, triples: list[npt.NDArray[np.int32]]) -> EdgeIndex:
    """An index of (head, relation, tail) rows, one array a split; repeated triples count once."""
    if len(triples) > 8:
        raise DataError(f"A graph can have at most 8 splits; this one has {len(triples)}.")
    if entities * 2 * relations * max(entities, 1) >= 2**63:
        raise DataError(
            f"{entities:,} entities with {relations:,} relations are more than one index can hold."
        )
    codes: list[Ints] = []
    bits: list[npt.NDArray[np.uint8]] = []
    for split, rows in enumerate(triples):
        head, relation, tail = (rows[:, column].astype(np.int64) for column in range(3))
        for source, directed, target in (
            (head, relation, tail),
            (tail, relation + relations, head),
        ):
            codes.append((source * (2 * relations) + directed) * entities + target)
            bits.append(np.full(len(rows), 1 << split, np.uint8))
    code_X = np.concatenate(codes) if codes else np.empty(0, np.int64)
    bit_X = np.concatenate(bits) if bits else np.empty(0, np.uint8)
    code_X, bit_X = _sorted_distinct(code_X, bit_X, several=len(triples) > 1)
    key_X = code_X // max(entities, 1)
    first_X = np.ones(len(key_X), np.bool_)
    first_X[1:] = key_X[1:] != key_X[:-1]
    starts = np.flatnonzero(first_X)
    small = np.int32 if len(code_X) < 2**31 else np.int64
    return EdgeIndex(
        entities,
        relations,
        key_X[starts],
        np.append(starts, len(code_X)).astype(small),
        (code_X - key_X * entities).astype(np.int32),
        bit_X,
    )


def _sorted_distinct(
    code_X: Ints, bit_X: npt.NDArray[np.uint8], several: bool
) -> tuple[Ints, npt.NDArray[np.uint8]]:
    if several:
        order = np.argsort(code_X, kind="stable")
        code_X, bit_X = code_X[order], bit_X[order]
    else:
        code_X = np.sort(code_X)
    first_X = np.ones(len(code_X), np.bool_)
    first_X[1:] = code_X[1:] != code_X[:-1]
    if first_X.all():
        return code_X, bit_X
    starts = np.flatnonzero(first_X)
    return code_X[starts], np.bitwise_or.reduceat(bit_X, starts)
