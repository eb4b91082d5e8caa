"""Property paths: pairs of nodes that a path connects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmpt.budget import check_budget
from clmpt.graph.edges import EdgeIndex, Ints, expand
from clmpt.graph.rdf_dataset import RdfDataset
from clmpt.logic.algebra import (
    AlternativePath,
    InversePath,
    NegatedPath,
    Path,
    RepeatedPath,
    SequencePath,
)
from clmpt.logic.rdf_terms import Iri
from clmpt.sparql.naming import NameResolver

STARTS_AT_ONCE = 256


@dataclass(frozen=True)
class PathFollower:
    dataset: RdfDataset
    names: NameResolver
    index: EdgeIndex

    def pairs(
        self, path: Path, rows: int, start_N: Ints | None, stop_N: Ints | None
    ) -> tuple[Ints, Ints, Ints]:
        """Row, first and last node of every way; a given end is one node per row."""
        if start_N is None and stop_N is None:
            start_A = self.nodes()
            row, last = self.follow(path, start_A)
            row_N = np.repeat(np.arange(rows), len(row))
            return row_N, np.tile(start_A[row], rows), np.tile(last, rows)
        backwards = start_N is None
        near_N = stop_N if start_N is None else start_N
        assert near_N is not None
        near_A, place_N = np.unique(near_N, return_inverse=True)
        row_A, far_A = self.follow(InversePath(path) if backwards else path, near_A)
        row_N, far_N = _looked_up(row_A, far_A, place_N)
        if backwards:
            return row_N, far_N, near_N[row_N]
        return row_N, near_N[row_N], far_N

    def nodes(self) -> Ints:
        """All subjects and objects of the graph."""
        return np.unique(self.index.keys_K1[:-1] % max(self.index.entities, 1))

    def follow(self, path: Path, node_A: Ints, forward: bool = True) -> tuple[Ints, Ints]:
        """Where a path leads from each of these nodes: their rows, ascending, and the targets."""
        if isinstance(path, Iri):
            return self.along(self.names.predicate(path), node_A, forward)
        if isinstance(path, InversePath):
            return self.follow(path.path, node_A, not forward)
        if isinstance(path, SequencePath):
            row_N, at_N = np.arange(len(node_A)), node_A
            for part in path.parts if forward else path.parts[::-1]:
                between, place_N = np.unique(at_N, return_inverse=True)
                step_N, at_N = _looked_up(*self.follow(part, between, forward), place_N)
                row_N = row_N[step_N]
            return row_N, at_N
        if isinstance(path, AlternativePath):
            return _in_order([self.follow(part, node_A, forward) for part in path.parts])
        if isinstance(path, NegatedPath):
            return self.avoiding(path, node_A, forward)
        return self.repeated(path, node_A, forward)

    def along(self, predicate: int, node_A: Ints, forward: bool) -> tuple[Ints, Ints]:
        index = self.index
        if predicate < 0 or not len(node_A):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        inside = (node_A >= 0) & (node_A < index.entities)
        directed = predicate if forward else predicate + index.relations
        start, stop = index.ranges(
            np.where(inside, node_A, 0), np.full(len(node_A), directed, np.int64)
        )
        row_N, edge_N = expand(start, np.where(inside, stop, start))
        return row_N, np.asarray(index.neighbours_X[edge_N]).astype(np.int64)

    def avoiding(self, path: NegatedPath, node_A: Ints, forward: bool) -> tuple[Ints, Ints]:
        """All edges but those along some relations; with backward ones named, also against them."""
        found = []
        for avoided, direction, counts in (
            (path.forward, forward, bool(path.forward) or not path.backward),
            (path.backward, not forward, bool(path.backward)),
        ):
            if counts:
                numbers = [self.names.predicate(iri) for iri in avoided]
                row_N, relation_N, target_N = edges_at(self.index, node_A, direction)
                kept = ~np.isin(relation_N, numbers)
                found.append((row_N[kept], target_N[kept]))
        return _in_order(found)

    def repeated(self, path: RepeatedPath, node_A: Ints, forward: bool) -> tuple[Ints, Ints]:
        """The nodes reached, each once."""
        while isinstance(path.path, RepeatedPath):  # as (p+)? is p*, so that nesting costs nothing
            mark = path.mark if path.mark == path.path.mark else "*"
            path = RepeatedPath(path.path.path, mark)
        found = []
        for first in range(0, len(node_A), STARTS_AT_ONCE):
            row_N, target_N = self._reached(path, node_A[first : first + STARTS_AT_ONCE], forward)
            found.append((row_N + first, target_N))
        return _in_order(found)

    def _reached(self, path: RepeatedPath, start_A: Ints, forward: bool) -> tuple[Ints, Ints]:
        size = max(int(start_A.max(initial=0)), self.index.entities) + 1
        origin_N, at_N = np.arange(len(start_A)), start_A
        reached = np.empty(0, np.int64) if path.mark == "+" else np.sort(origin_N * size + at_N)
        while len(at_N):
            check_budget(16 * len(at_N))
            between, place_N = np.unique(at_N, return_inverse=True)
            step_N, target_N = _looked_up(*self.follow(path.path, between, forward), place_N)
            code_N = np.unique(origin_N[step_N] * size + target_N)
            new_N = code_N[~np.isin(code_N, reached, assume_unique=True)]
            reached = np.sort(np.concatenate([reached, new_N]))
            if path.mark == "?":
                break
            origin_N, at_N = new_N // size, new_N % size
        return reached // size, reached % size


def edges_at(index: EdgeIndex, node_N: Ints, forward: bool) -> tuple[Ints, Ints, Ints]:
    """All edges from some nodes, or to them: the node's row, the relation and the other end."""
    order_K, starts = index.by_entity
    inside = (node_N >= 0) & (node_N < index.entities)
    safe_N = np.where(inside, node_N, 0)
    first_N = starts[safe_N]
    last_N = np.where(inside, starts[np.minimum(safe_N + 1, len(starts) - 1)], first_N)
    row_N, place_N = expand(first_N, last_N)
    key_N = order_K[place_N]
    directed_N = index.keys_K1[key_N] // max(index.entities, 1)
    chosen = (directed_N < index.relations) == forward
    row_N, key_N, directed_N = row_N[chosen], key_N[chosen], directed_N[chosen]
    at_N, edge_X = expand(index.offsets_K2[key_N], index.offsets_K2[key_N + 1])
    relation_X = directed_N[at_N] % max(index.relations, 1)
    return row_N[at_N], relation_X, np.asarray(index.neighbours_X[edge_X]).astype(np.int64)


def _looked_up(row_A: Ints, target_A: Ints, place_N: Ints) -> tuple[Ints, Ints]:
    """What follows from each place, given what follows from each distinct node."""
    start_N, stop_N = row_A.searchsorted(place_N), row_A.searchsorted(place_N, "right")
    row_N, at_N = expand(start_N, stop_N)
    return row_N, target_A[at_N]


def _in_order(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    row_N = np.concatenate([row for row, _ in parts])
    target_N = np.concatenate([target for _, target in parts])
    order = np.argsort(row_N, kind="stable")
    return row_N[order], target_N[order]
