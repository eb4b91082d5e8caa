"""A film graph small enough to check by eye."""

from __future__ import annotations

import numpy as np

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph

TRAIN = """
Mizoguchi directed Ugetsu
Mizoguchi directed Sansho
Mizoguchi directed Oharu
Kurosawa directed Rashomon
Ugetsu won Lion
Rashomon won Lion
Kyo starred Ugetsu
Kyo starred Rashomon
Tanaka starred Ugetsu
Tanaka starred Oharu
Mifune starred Rashomon
"""
TEST = """
Sansho won Lion
Tanaka starred Sansho
Mifune starred Oharu
"""


def films() -> KnowledgeGraph:
    """Known facts (train) and held-out ones (test)."""
    builder = GraphBuilder()
    for split, text in (("train", TRAIN), ("test", TEST)):
        for line in text.split("\n"):
            if line:
                builder.add(split, *line.split())
    return builder.build()


def random_graph(both_directions: bool, seed: int = 0) -> KnowledgeGraph:
    """Forty entities and five relations, dense enough for every shape."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder()
    for split, count in (("train", 400), ("test", 60)):
        for head, relation, tail in rng.integers((40, 5, 40), size=(count, 3)).tolist():
            builder.add(split, f"e{head}", f"r{relation}", f"e{tail}")
            if both_directions:
                builder.add(split, f"e{tail}", f"r{relation}'", f"e{head}")
    return builder.build()


def ask(graph: KnowledgeGraph, text: str) -> set[str]:
    from clmpt.logic.parser import parse
    from clmpt.symbolic.solver import solve

    return {graph.entities.names[entity] for entity in solve(parse(text), graph)}
