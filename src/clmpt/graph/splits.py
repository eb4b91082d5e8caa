"""The usual splits, and which facts count as observed when their queries are asked."""

from __future__ import annotations

from clmpt.graph.knowledge_graph import KnowledgeGraph

SPLITS = ("train", "valid", "test")

# What counts as known when the queries of a split are asked.
OBSERVED = {"train": ("train",), "valid": ("train",), "test": ("train", "valid")}
# What their answers are computed from.
FULL = {"train": ("train",), "valid": ("train", "valid"), "test": SPLITS}


def train_split(graph: KnowledgeGraph) -> str:
    """The split that models are trained on."""
    return "train" if "train" in graph.splits else graph.splits[0]


def has_facts(graph: KnowledgeGraph, split: str) -> bool:
    return split in graph.splits and graph.view(split).index.triples > 0
