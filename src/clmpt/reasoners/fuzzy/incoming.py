"""Edges sorted by target, and what fuzzy sets start from there: what messages pass along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.reasoners.fuzzy.fact_edges import FactEdges

# Shapes: E entities, T targets, T1 = T + 1, X edges to them, B fuzzy sets, P pairs of an edge and a
# set, C different numbers of messages

_PER_NODE = 4  # a node costs as much as so many edges
_NEAR = 0.5  # share of the nodes up to which it pays to treat them apart


@dataclass(frozen=True)
class Dropped:
    """Pairs of an edge, by its place among incoming ones, and a set for which it is not there.
    Sorted by edge."""

    edge_P: Tensor
    set_P: Tensor

    def within(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        bounds = torch.tensor([start, stop], device=self.edge_P.device)
        first, last = torch.searchsorted(self.edge_P, bounds).tolist()
        return self.edge_P[first:last] - start, self.set_P[first:last]

    def of_sets(self, row_B: Tensor, sets: int) -> Dropped:
        """The pairs of some of the sets, which get new numbers."""
        number_N = torch.full((sets,), -1, device=row_B.device)
        number_N[row_B] = torch.arange(len(row_B), device=row_B.device)
        own_P = number_N[self.set_P]
        return Dropped(self.edge_P[own_P >= 0], own_P[own_P >= 0])


class IncomingEdges(nn.Module):
    """All edges of a graph by target. A node receives as many messages as it has edges, and one
    from itself."""

    source_X: Tensor
    row_X: Tensor
    target_X: Tensor
    place_X: Tensor  # of the edges in `FactEdges`
    messages_E: Tensor
    messages_C: Tensor
    class_E: Tensor  # which of these a node has

    def __init__(self, edges: FactEdges) -> None:
        super().__init__()
        order_X = torch.argsort(edges.target_X, stable=True)
        messages_E = torch.bincount(edges.target_X, minlength=edges.entities) + 1
        messages_C, class_E = torch.unique(messages_E, return_inverse=True)
        arrays = {
            "source_X": edges.source_X[order_X],
            "row_X": edges.row_X[order_X],
            "target_X": edges.target_X[order_X],
            "place_X": torch.argsort(order_X),
            "messages_E": messages_E,
            "messages_C": messages_C,
            "class_E": class_E,
        }
        for name, array in arrays.items():
            self.register_buffer(name, array, persistent=False)

    def counts(self, dropped: Dropped | None, sets: int) -> Tensor:
        """messages_EB of each set, or messages_E1 of all of them."""
        if dropped is None:
            return self.messages_E[:, None]
        count_EB = self.messages_E[:, None].repeat(1, sets)
        place_P = self.target_X[dropped.edge_P], dropped.set_P
        return count_EB.index_put_(place_P, -torch.ones_like(dropped.set_P), accumulate=True)


@dataclass(frozen=True)
class NodeBlock:
    """Some targets, and the edges to them."""

    nodes: slice
    edges: slice


@dataclass(frozen=True)
class Passing:
    """Edges to all entities, or to those that `node_T` names, numbered in this order; for each of
    them and each set, how far it is a member, how many messages it receives, and the scale that
    follows from that."""

    edges: IncomingEdges
    source_X: Tensor
    row_X: Tensor
    target_X: Tensor
    member_TB: Tensor
    count_TB: Tensor
    scale_TB: Tensor
    mean_B: Tensor  # of the logarithms of counts, which scales are relative to
    dropped: Dropped | None = None
    node_T: Tensor | None = None

    @classmethod
    def of(cls, edges: IncomingEdges, member_EB: Tensor, dropped: Dropped | None) -> Passing:
        count_EB = edges.counts(dropped, member_EB.shape[1]).to(member_EB.dtype)
        log_EB = count_EB.log()
        mean_B = log_EB.mean(0).clamp_min(torch.finfo(member_EB.dtype).tiny)
        arrays = (edges.source_X, edges.row_X, edges.target_X)
        return cls(edges, *arrays, member_EB, count_EB, log_EB / mean_B, mean_B, dropped)

    def near(self) -> Passing:
        """The same for the nodes alone that are members of a set, or receive a message from one, or
        lack an edge. If the sets are of single entities, they are few."""
        member_E = (self.member_TB != 0).any(1)
        is_near_E = member_E.clone()
        is_near_E[self.target_X[member_E[self.source_X]]] = True
        if self.dropped is not None:
            is_near_E[self.target_X[self.dropped.edge_P]] = True
        node_T = is_near_E.nonzero()[:, 0]
        if len(node_T) > _NEAR * len(is_near_E):
            return self
        edge_X = is_near_E[self.target_X].nonzero()[:, 0]
        dropped = self.dropped
        if dropped is not None:
            dropped = replace(dropped, edge_P=torch.searchsorted(edge_X, dropped.edge_P))
        return replace(
            self,
            source_X=self.source_X[edge_X],
            row_X=self.row_X[edge_X],
            target_X=torch.searchsorted(node_T, self.target_X[edge_X]),
            member_TB=self.member_TB[node_T],
            count_TB=self.count_TB[node_T],
            scale_TB=self.scale_TB[node_T],
            dropped=dropped,
            node_T=node_T,
        )

    def blocks(self, width: int, most: int) -> Iterator[NodeBlock]:
        """Blocks of about `most` numbers, if a message has `width`."""
        counts_T = torch.bincount(self.target_X, minlength=len(self.member_TB))
        start_T1 = functional.pad(counts_T.cumsum(0), (1, 0)).cpu()
        costs_T = (start_T1[1:] + _PER_NODE * torch.arange(1, len(start_T1))) * width - 1
        cuts = (torch.diff(costs_T // most).nonzero()[:, 0] + 1).tolist()
        for first, last in pairwise([0, *cuts, len(costs_T)]):
            yield NodeBlock(slice(first, last), slice(int(start_T1[first]), int(start_T1[last])))
