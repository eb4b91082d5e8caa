"""Facts hidden from training, to choose a model by and to measure it with."""

from __future__ import annotations

import numpy as np

from clmpt.errors import DataError
from clmpt.graph.edges import AnyInts, Ints, build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph

MOST_HIDDEN = 20_000  # in 'valid' and in 'test' each: more would not make the figures steadier


def hold_out(graph: KnowledgeGraph, share: float, seed: int = 0) -> KnowledgeGraph:
    """The same facts in the splits train, valid and test, the last two with half of `share` each.

    All facts between the same two entities stay together, so that none of them gives away another
    ("a borders b" and "b borders a"). Every entity and every relation keeps a fact in train, so
    fewer are hidden where there are not enough.

    >>> ring = [(str(n), "next", str((n + 1) % 20)) for n in range(20)]
    >>> hidden = hold_out(KnowledgeGraph.from_triples(ring), 0.2)
    >>> [len(hidden.triples(split)) for split in hidden.splits]
    [16, 2, 2]
    """
    if not 0 < share < 1:
        raise DataError(f"The share of facts to hide must be above 0 and below 1, not {share}.")
    rows = graph.triples()
    pair_T = _pairs(rows)
    order = np.argsort(pair_T, kind="stable")
    starts = np.flatnonzero(np.diff(pair_T[order], prepend=-1))
    quota = min(round(len(rows) * share / 2), MOST_HIDDEN)
    entity_left = np.bincount(rows[:, [0, 2]].reshape(-1), minlength=len(graph.entities))
    relation_left = np.bincount(rows[:, 1], minlength=len(graph.relations))
    split_T = np.zeros(len(rows), np.int64)
    found = [0, 0]
    for group in np.random.default_rng(seed).permutation(len(starts)).tolist():
        if min(found) >= quota:
            break
        stop = starts[group + 1] if group + 1 < len(starts) else len(order)
        together = order[starts[group] : stop]
        ends, ends_lost = np.unique(rows[together][:, [0, 2]], return_counts=True)
        names, names_lost = np.unique(rows[together, 1], return_counts=True)
        kept = (entity_left[ends] > ends_lost).all() and (relation_left[names] > names_lost).all()
        into = int(found[1] < found[0])
        if not kept or found[into] + len(together) > quota:
            continue
        entity_left[ends] -= ends_lost
        relation_left[names] -= names_lost
        split_T[together] = into + 1
        found[into] += len(together)
    splits = ("train", "valid", "test")
    parts = [rows[split_T == number] for number in range(3)]
    index = build_index(len(graph.entities), len(graph.relations), parts)
    return KnowledgeGraph(graph.entities, graph.relations, index, splits, splits)


def _pairs(rows: AnyInts) -> Ints:
    """A number for the two entities of each fact, whichever comes first."""
    ends = np.sort(rows[:, [0, 2]].astype(np.int64), axis=1)
    size = int(ends.max(initial=0)) + 1
    return ends[:, 0] * size + ends[:, 1]
