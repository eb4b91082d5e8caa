"""The facts of a graph as edges in arrays, each read in both directions, for whole batches.

Relations are rows of a table that has all directions, see `inverse_rows`: a fact r(h, t) is the
edge h → t of row r, and the edge t → h of the row of r's inverse.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.links import links_of

# Shapes: X edges, E entities, S rows of the table of relations, S1 = S + 1, N lookups, M what they
# find


class FactEdges(nn.Module):
    """Edges sorted by relation, source and target: what a graph shows, not what a model stores.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b"), ("a", "likes", "c")])
    >>> edges = FactEdges(graph, np.array([1]), 2)
    >>> [found.tolist() for found in (edges.source_X, edges.row_X, edges.target_X)]
    [[0, 0, 1, 2], [0, 0, 1, 1], [1, 2, 0, 0]]
    """

    source_X: Tensor
    row_X: Tensor
    target_X: Tensor
    start_S1: Tensor  # where the edges of each relation begin

    def __init__(self, graph: KnowledgeGraph, inverse_R: Ints, relation_rows: int) -> None:
        super().__init__()
        self.entities = len(graph.entities)
        links = links_of(graph, *graph.observed)
        owner_X = links.answers.owners
        directed_X, relations = links.directed_P[owner_X], len(inverse_R)
        forwards_X = directed_X < relations
        row_X = np.where(forwards_X, directed_X, inverse_R[directed_X % max(relations, 1)])
        arrays = {
            "source_X": links.entity_P[owner_X],
            "row_X": row_X,
            "target_X": links.answers.entities,
            "start_S1": np.searchsorted(row_X, np.arange(relation_rows + 1)),
        }
        for name, array in arrays.items():
            tensor = torch.from_numpy(np.array(array, np.int64))
            self.register_buffer(name, tensor, persistent=False)

    def of_relations(self, row_N: Tensor) -> tuple[Tensor, Tensor]:
        """The edges of relations: for each, the number of the lookup and its own."""
        return expanded(self.start_S1[row_N], self.start_S1[row_N + 1])

    def leaving(self, source_N: Tensor, row_N: Tensor) -> tuple[Tensor, Tensor]:
        """The edges of relations that leave entities: numbers as in `of_relations`."""
        place_N = row_N * self.entities + source_N
        start_N = torch.searchsorted(self._place_X, place_N)
        return expanded(start_N, torch.searchsorted(self._place_X, place_N, right=True))

    def numbers(self, source_N: Tensor, row_N: Tensor, target_N: Tensor) -> Tensor:
        """The numbers of edges, which must be there."""
        place_X = self._place_X * self.entities + self.target_X
        found_N: Tensor = torch.searchsorted(
            place_X, (row_N * self.entities + source_N) * self.entities + target_N
        )
        return found_N

    @property
    def _place_X(self) -> Tensor:
        return self.row_X * self.entities + self.source_X


def rows_backwards(inverse_R: Ints, relation_rows: int) -> Ints:
    """inverse_S: the row of the inverse of each row's relation.

    >>> rows_backwards(np.array([1, 0, 3]), 4).tolist()
    [1, 0, 3, 2]
    """
    inverse_S = np.zeros(relation_rows, np.int64)
    inverse_S[: len(inverse_R)] = inverse_R
    inverse_S[inverse_R] = np.arange(len(inverse_R))
    return inverse_S


def expanded(start_N: Tensor, stop_N: Tensor) -> tuple[Tensor, Tensor]:
    """For each position in some ranges, the number of its range and the position itself.

    >>> found = expanded(torch.tensor([5, 9]), torch.tensor([7, 10]))
    >>> [each.tolist() for each in found]
    [[0, 0, 1], [5, 6, 9]]
    """
    count_N = stop_N - start_N
    owner_M = torch.repeat_interleave(count_N)
    shift_N = start_N - (count_N.cumsum(0) - count_N)
    return owner_M, shift_N[owner_M] + torch.arange(len(owner_M), device=owner_M.device)
