"""Neighbours by (entity, relation), in both directions, from three sorted arrays.

A *directed relation* is a relation id r < R read forwards, or r + R read backwards. Keys are
`directed relation · E + entity`, kept sorted and distinct, so that memory grows with the number of
edges and never with entities × relations, and the keys that one query looks up are close together.
Everything works on whole arrays of lookups at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.storage.arrays import open_array, save_array

Ints: TypeAlias = npt.NDArray[np.int64]
AnyInts: TypeAlias = npt.NDArray[np.integer]
Bools: TypeAlias = npt.NDArray[np.bool_]

# Shapes: K keys (directed relation, entity) and one sentinel after them, so K1 = K + 1;
# X directed edges (twice the triples), N any number of lookups

NO_KEY = 2**63 - 1  # the sentinel: above every key, so that a search never runs off the end
FEW = 512  # lookups; up to this many, the number of calls costs more than the work they do
CHECKED_EDGES = 2**24  # up to this many, opening checks every number; beyond, only the sizes
CODED_EDGES = 2**24  # up to this many edges, one number per edge is kept in memory for fast lookup


@dataclass(frozen=True)
class EdgeIndex:
    """An index that stores each triple twice: once from its head, once from its tail.

    The edges of key number k are those from `offsets_K2[k]` to `offsets_K2[k + 1]`.
    """

    entities: int
    relations: int
    keys_K1: Ints
    offsets_K2: AnyInts
    neighbours_X: AnyInts
    splits_X: npt.NDArray[np.uint8]  # bit i: the triple is in split i

    def __post_init__(self) -> None:
        for array in (self.keys_K1, self.offsets_K2, self.neighbours_X, self.splits_X):
            array.setflags(write=False)

    @property
    def triples(self) -> int:
        return len(self.neighbours_X) // 2

    @property
    def is_sound(self) -> bool:
        """Whether the arrays are as `build_index` makes them; untrusted ones may not be."""
        keys, offsets, neighbours = self.keys_K1, self.offsets_K2, self.neighbours_X
        return (
            bool((np.diff(keys) > 0).all())
            and int(keys[0]) >= 0
            and (len(keys) == 1 or int(keys[-2]) < 2 * self.relations * self.entities)
            and int(offsets[0]) == 0
            and bool((np.diff(offsets) >= 0).all())
            and int(neighbours.min(initial=0)) >= 0
            and (not len(neighbours) or int(neighbours.max()) < self.entities)
            and bool((self.splits_X != 0).all())
        )

    def inverse(self, relation_N: Ints) -> Ints:
        """The same relations read the other way."""
        return (relation_N + self.relations) % (2 * self.relations)

    def ranges(self, entity_N: AnyInts, relation_N: AnyInts) -> tuple[AnyInts, AnyInts]:
        """Where the neighbours of each (entity, directed relation) start and stop."""
        key_N = relation_N * np.int64(self.entities) + entity_N
        at_N = self.keys_K1.searchsorted(key_N)
        if len(key_N) <= FEW:  # the second search costs less than the calls it saves
            after_N = self.keys_K1.searchsorted(key_N, "right")
            return self.offsets_K2.take(at_N), self.offsets_K2.take(after_N)
        start_N = self.offsets_K2.take(at_N)
        found_N = self.keys_K1.take(at_N) == key_N
        return start_N, np.where(found_N, self.offsets_K2.take(at_N + 1), start_N)

    def find(self, start_N: AnyInts, stop_N: AnyInts, target_N: AnyInts) -> tuple[AnyInts, Bools]:
        """The edge to each target within its range, and whether there is one.

        A single range serves all targets. Where there is no edge, the number returned is arbitrary.
        """
        if not len(self.neighbours_X):
            return np.zeros(len(target_N), np.int64), np.zeros(len(target_N), np.bool_)
        if len(start_N) == 1:
            inside = self.neighbours_X[start_N[0] : stop_N[0]]
            if not len(inside):
                return np.zeros(len(target_N), np.int64), np.zeros(len(target_N), np.bool_)
            at_N = np.minimum(inside.searchsorted(target_N), len(inside) - 1)
            return at_N + start_N[0], inside[at_N] == target_N
        if len(self.neighbours_X) <= CODED_EDGES:
            code_N = start_N * np.int64(self.entities) + target_N
            edge_N = np.minimum(self.codes.searchsorted(code_N), len(self.codes) - 1)
            return edge_N, (self.codes.take(edge_N) == code_N) & (start_N < stop_N)
        return self.find_by_halving(start_N, stop_N, target_N)

    def find_by_halving(
        self, start_N: AnyInts, stop_N: AnyInts, target_N: AnyInts
    ) -> tuple[AnyInts, Bools]:
        """A binary search in every range at once, for graphs too large to number their edges."""
        low_N, high_N = start_N.copy(), stop_N.copy()
        last = len(self.neighbours_X) - 1
        for _ in range(int((stop_N - start_N).max(initial=0)).bit_length()):
            middle_N = np.minimum((low_N + high_N) >> 1, last)
            right_N = (self.neighbours_X[middle_N] < target_N) & (low_N < high_N)
            low_N, high_N = (
                np.where(right_N, middle_N + 1, low_N),
                np.where(right_N, high_N, middle_N),
            )
            high_N = np.maximum(low_N, high_N)
        edge_N = np.minimum(low_N, last)
        return edge_N, (low_N < stop_N) & (self.neighbours_X[edge_N] == target_N)

    @cached_property
    def codes(self) -> Ints:
        """Each edge's target and the start of its range, as one number; ascending."""
        starts_X = np.repeat(self.offsets_K2[:-2].astype(np.int64), np.diff(self.offsets_K2[:-1]))
        return starts_X * self.entities + self.neighbours_X

    @cached_property
    def by_entity(self) -> tuple[Ints, Ints]:
        """Key numbers ordered by entity and directed relation, and where each entity's begin."""
        entity_K = self.keys_K1[:-1] % self.entities
        order_K = np.argsort(entity_K, kind="stable")
        return order_K, np.searchsorted(entity_K[order_K], np.arange(self.entities + 1))

    def around(self, entity: int) -> Iterator[tuple[int, AnyInts]]:
        """The directed relations that an entity has, each with its neighbours."""
        order_K, begin_E = self.by_entity
        for number in order_K[begin_E[entity] : begin_E[entity + 1]].tolist():
            start, stop = self.offsets_K2[number], self.offsets_K2[number + 1]
            yield int(self.keys_K1[number]) // self.entities, self.neighbours_X[start:stop]

    def with_relation(self, directed: int) -> Ints:
        """The entities that have neighbours along a directed relation."""
        bounds = np.array([directed, directed + 1]) * self.entities
        first, last = self.keys_K1.searchsorted(bounds)
        return np.asarray(self.keys_K1[first:last]) - directed * self.entities

    def restricted(self, bits: int) -> EdgeIndex:
        """The edges in any of the splits in `bits`. Their order is kept, so nothing is sorted."""
        kept_X = (self.splits_X & np.uint8(bits)) != 0
        if kept_X.all():
            return self
        before_X1 = np.concatenate([[0], np.cumsum(kept_X)])
        offsets_K2 = before_X1[self.offsets_K2]
        used_K = np.diff(offsets_K2[:-1]) > 0
        end = offsets_K2[-1:]
        return EdgeIndex(
            self.entities,
            self.relations,
            np.append(self.keys_K1[:-1][used_K], NO_KEY),
            np.concatenate([offsets_K2[:-2][used_K], end, end]).astype(self.offsets_K2.dtype),
            self.neighbours_X[kept_X],
            self.splits_X[kept_X],
        )

    def forward_triples(self) -> npt.NDArray[np.int32]:
        """All triples as rows (head, relation, tail), sorted by relation, head and tail.

        Forward keys come before all others, so these are the first half of the edges.
        """
        forward = int(self.keys_K1.searchsorted(self.relations * self.entities))
        count_K = np.diff(self.offsets_K2[: forward + 1])
        rows = np.empty((self.triples, 3), np.int32)
        rows[:, 0] = np.repeat(self.keys_K1[:forward] % self.entities, count_K)
        rows[:, 1] = np.repeat(self.keys_K1[:forward] // self.entities, count_K)
        rows[:, 2] = self.neighbours_X[: self.triples]
        return rows


def save_index(folder: Path, prefix: str, index: EdgeIndex) -> None:
    save_array(folder, f"{prefix}keys", index.keys_K1)
    save_array(folder, f"{prefix}offsets", index.offsets_K2)
    save_array(folder, f"{prefix}neighbours", index.neighbours_X)
    save_array(folder, f"{prefix}splits", index.splits_X)


def open_index(folder: Path, prefix: str, entities: int, relations: int) -> EdgeIndex:
    """A stored index, mapped and not yet checked: see `index_fits`."""
    return EdgeIndex(
        entities,
        relations,
        open_array(folder, f"{prefix}keys", "i"),
        open_array(folder, f"{prefix}offsets", "i"),
        open_array(folder, f"{prefix}neighbours", "i"),
        open_array(folder, f"{prefix}splits", "u"),
    )


def index_fits(index: EdgeIndex) -> bool:
    """Whether the arrays of a stored index fit together; those of a small one are checked whole."""
    return bool(
        len(index.offsets_K2) == len(index.keys_K1) + 1 > 1
        and index.keys_K1[-1] == NO_KEY
        and index.offsets_K2[-1] == len(index.neighbours_X) == len(index.splits_X)
        and (len(index.neighbours_X) > CHECKED_EDGES or index.is_sound)
    )


def positions(start_N: AnyInts, count_N: AnyInts) -> AnyInts:
    """The positions in ranges with these starts and lengths, concatenated."""
    if len(count_N) == 1:
        return np.arange(start_N[0], start_N[0] + count_N[0])
    found = np.repeat(start_N - (np.cumsum(count_N) - count_N), count_N)
    found += np.arange(len(found))
    return found


def expand(start_N: AnyInts, stop_N: AnyInts) -> tuple[Ints, AnyInts]:
    """For every position in the ranges, the number of its range and the position itself."""
    count_N = stop_N - start_N
    return np.repeat(np.arange(len(count_N)), count_N), positions(start_N, count_N)


def build_index(entities: int, relations: int, triples: list[npt.NDArray[np.int32]]) -> EdgeIndex:
    """An index of (head, relation, tail) rows, one array per split; duplicates count once."""
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
            codes.append((directed * entities + source) * entities + target)
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
        np.append(key_X[starts], NO_KEY),
        np.append(starts, [len(code_X)] * 2).astype(small),
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
