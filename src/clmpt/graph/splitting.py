"""Facts held out from training, to select a model and to measure it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.edges import AnyInts, Bools, Ints, build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph

MOST_HIDDEN = 20_000  # in 'valid' and 'test' each; more would not make the figures more reliable


_NEW, _TRAIN = -1, 0  # of two entities: whether they had facts before, and where


def hold_out(
    graph: KnowledgeGraph, share: float, seed: int = 0, before: KnowledgeGraph | None = None
) -> KnowledgeGraph:
    """The same facts in the splits train, valid and test, the last two with half of `share` each.

    All facts between the same two entities stay together, so that none of them gives away another
    ("a borders b" and "b borders a"). Every entity and every relation keeps a fact in train, so
    fewer are held out if there are not enough. What was in train `before`, in an older state of the
    graph, is not held out now: a model has seen it.

    >>> ring = [(str(n), "next", str((n + 1) % 20)) for n in range(20)]
    >>> hidden = hold_out(KnowledgeGraph.from_triples(ring), 0.2)
    >>> [len(hidden.triples(split)) for split in hidden.splits]
    [16, 2, 2]
    """
    if not 0 < share < 1:
        raise DataError(f"The share of facts to hide must be above 0 and below 1, not {share}.")
    rows = graph.triples()
    before_T = _split_before(graph, rows, before)
    entity_left = np.bincount(rows[:, [0, 2]].reshape(-1), minlength=len(graph.entities))
    relation_left = np.bincount(rows[:, 1], minlength=len(graph.relations))
    split_T = np.zeros(len(rows), np.int64)
    quota, found = min(round(len(rows) * share / 2), MOST_HIDDEN), [0, 0]

    def hide(together: Ints, into: int) -> None:
        lost = Counter(rows[together][:, [0, 2]].ravel().tolist())
        names = Counter(rows[together, 1].tolist())
        kept = all(entity_left[end] > count for end, count in lost.items()) and all(
            relation_left[name] > count for name, count in names.items()
        )
        if not kept:
            return
        for end, count in lost.items():
            entity_left[end] -= count
        for name, count in names.items():
            relation_left[name] -= count
        split_T[together] = into + 1
        found[into] += len(together)

    random = np.random.default_rng(seed)
    for together in _shuffled_pairs(rows, before_T > _TRAIN, entity_left, random):
        hide(together, int(before_T[together[0]]) - 1)
    for together in _shuffled_pairs(rows, before_T == _NEW, entity_left, random):
        if min(found) >= quota:
            break
        into = int(found[1] < found[0])
        if found[into] + len(together) <= quota:
            hide(together, into)
    parts = [rows[split_T == number] for number in range(3)]
    return _divided(graph, ("train", "valid", "test"), parts)


def in_one_split(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same facts in a single split."""
    return _divided(graph, ("facts",), [graph.triples()])


def _divided(
    graph: KnowledgeGraph, splits: tuple[str, ...], parts: list[npt.NDArray[np.int32]]
) -> KnowledgeGraph:
    index = build_index(len(graph.entities), len(graph.relations), parts)
    rdf = graph.rdf.divided(index, len(splits)) if graph.rdf else None
    return KnowledgeGraph(graph.entities, graph.relations, index, splits, splits, rdf)


def _split_before(graph: KnowledgeGraph, rows: AnyInts, before: KnowledgeGraph | None) -> Ints:
    """Where the facts between the two entities of each row were: 0 in train, 1 in valid, 2 in
    test; -1 if there were none."""
    found_T = np.full(len(rows), _NEW)
    if before is None:
        return found_T
    here = graph.entities.names.ids_of(before.entities.names)
    size = len(graph.entities)
    pair_T = _pairs(rows[:, [0, 2]], size)
    for number, split in ((1, "valid"), (2, "test"), (_TRAIN, "train")):  # train has the last word
        if split in before.splits:
            ends = here[before.triples(split)[:, [0, 2]]]
            there = _pairs(ends[(ends >= 0).all(1)], size)
            found_T[np.isin(pair_T, there)] = number
    return found_T


def _shuffled_pairs(
    rows: AnyInts, wanted_T: Bools, degree: Ints, random: np.random.Generator
) -> Iterator[Ints]:
    """The rows of the facts between two entities, pair by pair in random order, where they are
    wanted; pairs with an entity that has no other facts are left out, since it must keep one in
    train."""
    pair_T = _pairs(rows[:, [0, 2]], len(degree))
    order = np.argsort(pair_T, kind="stable")
    order = order[wanted_T[order]]
    starts = np.flatnonzero(np.diff(pair_T[order], prepend=-1))
    stops = np.append(starts[1:], len(order))
    first = rows[order[starts]]
    free = np.all(degree[first[:, [0, 2]]] > (stops - starts)[:, None], axis=1)
    shuffled = random.permutation(len(starts))
    for pair in shuffled[free[shuffled]].tolist():
        yield order[starts[pair] : stops[pair]]


def _pairs(ends: AnyInts, size: int) -> Ints:
    """One number for the two entities of each row, in either order."""
    ends = np.sort(ends.astype(np.int64), axis=1)
    return ends[:, 0] * size + ends[:, 1]
