"""The edges that a query could walk from its constants, some of which training hides from it.

Otherwise a graph network would read the answers of training queries off the graph: every one of
their edges is there, as no hidden one is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clmpt.graph.edges import Ints
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.fuzzy.fact_edges import FactEdges, rows_backwards
from clmpt.reasoners.fuzzy.incoming import Dropped, IncomingEdges

# Shapes: N sets, E entities, P pairs of an edge and a set, S rows of the table of relations

_ONLY = 1  # an entity with no more edges than this keeps them


class WalkedEdges(nn.Module):
    inverse_S: Tensor
    degree_E: Tensor

    def __init__(self, edges: FactEdges, inverse_R: Ints, relation_rows: int) -> None:
        super().__init__()
        inverse_S = torch.from_numpy(rows_backwards(inverse_R, relation_rows))
        degree_E = torch.bincount(edges.source_X, minlength=edges.entities)
        self.register_buffer("inverse_S", inverse_S, persistent=False)
        self.register_buffer("degree_E", degree_E, persistent=False)

    def walk(
        self,
        edges: FactEdges,
        incoming: IncomingEdges,
        member_NE: Tensor,
        row_N: Tensor,
        dropout: SetDropout,
    ) -> tuple[Tensor, Dropped]:
        """Where relations lead from exact sets; and of the edges walked, and the same edges
        backwards, those that are dropped."""
        set_M, source_M = member_NE.nonzero(as_tuple=True)
        owner_P, edge_P = edges.leaving(source_M, row_N[set_M])
        set_P, source_P, target_P = set_M[owner_P], edges.source_X[edge_P], edges.target_X[edge_P]
        reached_NE = torch.zeros_like(member_NE)
        reached_NE[set_P, target_P] = 1
        back_P = edges.numbers(target_P, self.inverse_S[row_N[set_P]], source_P)
        edge_P, set_P = torch.cat([edge_P, back_P]), set_P.repeat(2)
        ends_P = torch.minimum(self.degree_E[source_P], self.degree_E[target_P]).repeat(2)
        gone_P = dropout.of_pairs(set_P, edge_P) & (ends_P > _ONLY)
        place_P = incoming.place_X[edge_P[gone_P]]
        code_P = torch.unique(place_P * len(row_N) + set_P[gone_P])  # sorted by edge
        return reached_NE, Dropped(code_P // len(row_N), code_P % len(row_N))
