"""A graph in a notebook: its size, its splits and its biggest relations."""

from __future__ import annotations

import numpy as np

from clmpt.display.html import as_html, html_bar, html_block, html_notes, html_table
from clmpt.display.text import counted
from clmpt.graph.knowledge_graph import KnowledgeGraph

_RELATIONS = 10


def graph_html(graph: KnowledgeGraph) -> str:
    counts = _relation_counts(graph)
    biggest = np.argsort(-counts, kind="stable")[:_RELATIONS].tolist()
    most = max(int(counts.max(initial=0)), 1)
    rows = [
        [as_html(graph.relations.label(one)), html_bar(counts[one] / most, f"{counts[one]:,}")]
        for one in biggest
    ]
    rest = len(graph.relations) - len(biggest)
    notes = [
        f"splits: {_splits(graph)}",
        *([f"and {counted(rest, 'more relation')}"] if rest else []),
    ]
    return html_block(graph.size, html_table(["relation", "facts"], rows), html_notes(notes))


def _relation_counts(graph: KnowledgeGraph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Facts by relation, from the index's forward keys."""
    index = graph.index
    relation_K = index.keys_K1[:-1] // max(index.entities, 1)
    size_K = np.diff(index.offsets_K2[:-1])
    forward = slice(0, int(relation_K.searchsorted(index.relations)))
    counts = np.bincount(relation_K[forward], size_K[forward], minlength=index.relations)
    return counts.astype(np.int64)


def _splits(graph: KnowledgeGraph) -> str:
    """Facts by split; each triple's bits say which splits it is in."""
    index = graph.index
    by_bits = np.bincount(index.splits_X[: index.triples], minlength=256)
    bits = np.arange(256)
    counts = [
        int(by_bits[(bits >> number) & 1 == 1].sum()) if name in graph.observed else None
        for number, name in enumerate(graph.splits)
    ]
    return ", ".join(
        f"{name} {count:,}"
        for name, count in zip(graph.splits, counts, strict=True)
        if count is not None
    )
