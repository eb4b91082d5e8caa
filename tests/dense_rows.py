"""Truth values from dense matrices, for tests of what is computed from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import EdgeIndex, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.reasoners.truth_values.rows import SparseRows

Matrices = npt.NDArray[np.float32]  # truth values by directed relation, source and target


class DenseRows:
    """Rows of matrices in which known facts have value 1."""

    def __init__(self, index: EdgeIndex, matrices: Matrices) -> None:
        self.index, self.matrices = index, matrices

    def rows(self, entity_U: Ints, directed_U: Ints, fine: bool = False) -> SparseRows:  # noqa: ARG002
        return SparseRows.of(self.matrices[directed_U, entity_U])


def with_facts(graph: KnowledgeGraph, likely: Matrices) -> Matrices:
    """Matrices of both directions of every relation, with known facts at 1."""
    forwards = likely.copy()
    for head, relation, tail in graph.triples().tolist():
        forwards[relation, head, tail] = 1
    return np.concatenate([forwards, forwards.transpose(0, 2, 1)])
