"""A layer of message passing over all facts, for many sets at once, as in NBFNet and GNN-QE.

Every edge sends its source's state times its relation's to its target, and each node takes mean,
maximum, minimum and deviation of what it receives. A block of nodes is computed with its edges at a
time, so messages of the whole graph never exist. The gradient computes them again, so that a layer
keeps nothing but the states that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.reasoners.fuzzy.incoming import NodeBlock, Passing
from clmpt.reasoners.token_sets import linear

# Shapes: E entities, B fuzzy sets, D width, S rows of the table of relations, T targets, C edges of
# a block, or different numbers of messages, W = B × D, A = 4 × D aggregates

_AT_ONCE = 2**20  # numbers of a block: few enough for a processor's cache
_LEAST_VARIANCE, _LEAST_SCALE = 1e-6, 0.01
_AGGREGATES, _SCALES = 4, 3


class GraphLayer(nn.Module):
    """States of all entities from those of their neighbours, for each set."""

    def __init__(self, width: int, relation_rows: int, generator: torch.Generator) -> None:
        super().__init__()
        self.relation = linear(width, width, generator, maps=relation_rows)
        self.linear = linear(width * (1 + _AGGREGATES * _SCALES), width, generator)
        self.norm = nn.LayerNorm(width)

    def forward(self, state_EBD: Tensor, query_BD: Tensor, passing: Passing) -> Tensor:
        sets, width = query_BD.shape
        relation_SBD = self.relation(query_BD).view(sets, -1, width).transpose(0, 1).contiguous()
        found_TBD: Tensor = _Passed.apply(  # type: ignore[no-untyped-call]
            passing, state_EBD, relation_SBD, query_BD, *self.weights
        )
        if passing.node_T is None:
            return found_TBD
        return self.elsewhere(passing, query_BD).index_copy(0, passing.node_T, found_TBD)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return (*self.linear.parameters(), *self.norm.parameters())

    def elsewhere(self, passing: Passing, query_BD: Tensor) -> Tensor:
        """States_EBD of nodes that were at 0 and receive nothing else: they only depend on how many
        messages that is."""
        count_C1 = passing.edges.messages_C[:, None].to(query_BD.dtype)
        scale_CB = count_C1.log() / passing.mean_B
        nothing_CBD = query_BD.new_zeros(len(count_C1), *query_BD.shape)
        sums = (nothing_CBD,) * _AGGREGATES
        found_CBD = updated(nothing_CBD, sums, count_C1, scale_CB, self.weights)
        return found_CBD.index_select(0, passing.edges.class_E)


def updated(
    state_TBD: Tensor,
    sums: Sequence[Tensor],
    count_TB: Tensor,
    scale_TB: Tensor,
    weights: Sequence[Tensor],
) -> Tensor:
    """New states from sums of messages and of their squares, maxima and minima, and what each node
    had. The weights' columns are in the released code's order: dimension, aggregate, scale."""
    total, square, highest, lowest = sums
    map_DF, bias_D, gain_D, shift_D = weights
    width = state_TBD.shape[-1]
    mean = total / count_TB[..., None]
    variance = torch.addcmul(square / count_TB[..., None], mean, mean, value=-1)
    deviation = variance.clamp_min(_LEAST_VARIANCE).sqrt()
    parts_TBA = torch.cat([mean, highest, lowest, deviation], -1)  # eq:gnn-qe-aggregate
    own_DD, others = map_DF[:, :width], map_DF[:, width:].view(-1, width, _AGGREGATES, _SCALES)
    mixed = parts_TBA @ others.permute(2, 1, 3, 0).reshape(_AGGREGATES * width, -1)
    plain_TBD, raised_TBD, lowered_TBD = mixed.chunk(_SCALES, -1)
    hidden_TBD = functional.linear(state_TBD, own_DD, bias_D) + plain_TBD
    scale_TB1 = scale_TB[..., None]
    hidden_TBD = torch.addcmul(hidden_TBD, raised_TBD, scale_TB1)
    hidden_TBD = torch.addcdiv(hidden_TBD, lowered_TBD, scale_TB1.clamp_min(_LEAST_SCALE))
    normed_TBD = functional.layer_norm(hidden_TBD, (width,), gain_D, shift_D)
    return functional.relu(normed_TBD) + state_TBD  # eq:gnn-qe-update


class _Passed(torch.autograd.Function):
    """A layer whose gradient computes the messages again, block by block."""

    @staticmethod
    def forward(
        ctx: Any,
        passing: Passing,
        state_EBD: Tensor,
        relation_SBD: Tensor,
        query_BD: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        ctx.passing = passing
        ctx.save_for_backward(state_EBD, relation_SBD, query_BD, *weights)
        own_TBD = _of_nodes(state_EBD, passing.node_T)
        found_TBD = torch.empty_like(own_TBD)
        for block in passing.blocks(query_BD.numel(), _AT_ONCE):
            part = _Received(block, passing, state_EBD, relation_SBD, query_BD)
            found_TBD[block.nodes] = updated(own_TBD[block.nodes], part.sums, *part.sizes, weights)
        return found_TBD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, passing = ctx.saved_tensors, ctx.passing
        slopes = tuple(map(torch.zeros_like, given))
        own_TBD = _of_nodes(given[0], passing.node_T)
        own_slope_TBD = torch.empty_like(own_TBD)
        for block in passing.blocks(given[2].numel(), _AT_ONCE):
            part = _Received(block, passing, *given[:3])
            leaves = [each.detach().requires_grad_() for each in (*part.sums, *given[3:])]
            state_TBD = own_TBD[block.nodes].requires_grad_()
            sums, weights = tuple(leaves[:_AGGREGATES]), tuple(leaves[_AGGREGATES:])
            with torch.enable_grad():
                found_TBD = updated(state_TBD, sums, *part.sizes, weights)
            found = torch.autograd.grad(found_TBD, [state_TBD, *leaves], grads[0][block.nodes])
            own_slope_TBD[block.nodes] = found[0]
            part.add_slopes(found[1 : 1 + _AGGREGATES], *slopes[:3])
            for slope, more in zip(slopes[3:], found[1 + _AGGREGATES :], strict=True):
                slope += more
        if passing.node_T is None:
            slopes[0].add_(own_slope_TBD)
        else:
            slopes[0].index_add_(0, passing.node_T, own_slope_TBD)
        return None, *slopes


def _of_nodes(state_EBD: Tensor, node_T: Tensor | None) -> Tensor:
    return state_EBD if node_T is None else state_EBD.index_select(0, node_T)


def recomputed(compute: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """compute(*given), which the gradient computes again instead of keeping what is in between."""
    found: Tensor = _Recomputed.apply(compute, *given)  # type: ignore[no-untyped-call]
    return found


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[..., Tensor], *given: Tensor) -> Tensor:
        ctx.compute = compute
        ctx.save_for_backward(*given)
        return compute(*given)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad():
            found = ctx.compute(*given)
        return None, *torch.autograd.grad(found, given, grads)


class _Received:
    """What the nodes of a block receive: `sums` are of messages and of their squares, then maxima
    and minima."""

    def __init__(
        self,
        block: NodeBlock,
        passing: Passing,
        state_EBD: Tensor,
        relation_SBD: Tensor,
        query_BD: Tensor,
    ) -> None:
        self.shape_BD = query_BD.shape
        self.source_C, self.row_C = passing.source_X[block.edges], passing.row_X[block.edges]
        self.target_C = passing.target_X[block.edges] - block.nodes.start
        self.source_CW = state_EBD.flatten(1).index_select(0, self.source_C)
        self.relation_CW = relation_SBD.flatten(1).index_select(0, self.row_C)
        self.message_CW = self.source_CW * self.relation_CW  # eq:gnn-qe-message
        self.member_TB1 = passing.member_TB[block.nodes, :, None]
        self.start_TW = (self.member_TB1 * query_BD).flatten(1)  # eq:gnn-qe-start
        self.dropped = None
        if passing.dropped is not None:
            self.dropped = passing.dropped.within(block.edges.start, block.edges.stop)
        self.sizes = passing.count_TB[block.nodes], passing.scale_TB[block.nodes]
        self.sums = tuple(each_TW.view(-1, *self.shape_BD) for each_TW in self._sums())

    def _sums(self) -> Iterator[Tensor]:
        place_CW = self.target_C[:, None].expand_as(self.message_CW)
        self._leave_out(self.message_CW, 0)
        yield self.start_TW.scatter_add(0, place_CW, self.message_CW)
        yield self.start_TW.square().scatter_add_(0, place_CW, self.message_CW.square())
        for reduce, least in (("amax", -torch.inf), ("amin", torch.inf)):
            self._leave_out(self.message_CW, least)
            yield self.start_TW.scatter_reduce(0, place_CW, self.message_CW, reduce)

    def _leave_out(self, value_CW: Tensor, value: float) -> None:
        if self.dropped is not None:
            value_CW.view(-1, *self.shape_BD)[self.dropped] = value

    def add_slopes(
        self, sums: Sequence[Tensor], state_EBD: Tensor, relation_SBD: Tensor, query_BD: Tensor
    ) -> None:
        """Adds the gradients of states, relations and queries, from those of the sums. Of a maximum
        each of the messages that are equal to it has the same share; what is left out is infinite
        by now, and so none of them."""
        total_TW, square_TW, *ends_TW = (each.flatten(1) for each in sums)
        start_slope_TW = torch.addcmul(total_TW, self.start_TW, square_TW, value=2)
        slope_CW = total_TW.index_select(0, self.target_C)
        slope_CW.addcmul_(self.message_CW, square_TW.index_select(0, self.target_C), value=2)
        place_CW = self.target_C[:, None].expand_as(slope_CW)
        for end_TBD, end_slope_TW in zip(self.sums[2:], ends_TW, strict=True):
            end_TW = end_TBD.flatten(1)
            at_start_TW = (self.start_TW == end_TW).to(end_TW.dtype)
            at_CW = (self.message_CW == end_TW.index_select(0, self.target_C)).to(end_TW.dtype)
            share_TW = end_slope_TW / at_start_TW.scatter_add(0, place_CW, at_CW)
            start_slope_TW.addcmul_(at_start_TW, share_TW)
            slope_CW.addcmul_(at_CW, share_TW.index_select(0, self.target_C))
        self._leave_out(slope_CW, 0)
        query_BD += (start_slope_TW.view(-1, *self.shape_BD) * self.member_TB1).sum(0)
        relation_SBD.flatten(1).index_add_(0, self.row_C, slope_CW * self.source_CW)
        state_EBD.flatten(1).index_add_(0, self.source_C, slope_CW * self.relation_CW)
