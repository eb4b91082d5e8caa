"""The cross-entropy of questions with all their answers, against a table of entities.

It is computed question by question, not fact by fact, and its gradient with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.compute.row_shards import RowShard, largest_of
from clmpt.predictors.link_batch import LinkBatch

# Shapes: B questions, T facts (answers of all questions, concatenated), E rows of the table,
# D width


def grouped_cross_entropy(
    projected_BD: Tensor,
    entities_ED: Tensor,
    batch: LinkBatch,
    shard: RowShard,
    less_E: Tensor | None = None,
    scores_at_once: int = 2 * SCORES_AT_ONCE,
) -> Tensor:
    """Σ over facts of logsumexp(scores of its question) - score of its answer.

    The answers of the batch are rows of the table of which `entities_ED` is this process's shard.
    Scores are inner products, `less_E` subtracted from those of each entity. Only matrix products
    and in-place passes, so compiling it gains nothing.
    """
    compute: Any = _GroupedCrossEntropy.apply
    if torch.compiler.is_compiling():
        compute = torch.compiler.disable(compute)  # type: ignore[no-untyped-call]
    loss: Tensor = compute(projected_BD, entities_ED, batch, shard, less_E, scores_at_once)
    return loss


class _GroupedCrossEntropy(torch.autograd.Function):
    """The forward pass computes the gradient in place, while a slice of the scores is in memory;
    autograd would keep all scores and their softmax until the backward pass. Entities are the
    first dimension: matrix products are a fifth faster with the longer side first. Each process
    scores the entities of its shard: loss and gradients are its part of those of all.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected_BD: Tensor,
        entities_ED: Tensor,
        batch: LinkBatch,
        shard: RowShard,
        less_E: Tensor | None,
        scores_at_once: int,
    ) -> Tensor:
        total = projected_BD.new_zeros(
            (), dtype=torch.float64 if projected_BD.is_cpu else torch.float32
        )
        grad_projected_BD = torch.empty_like(projected_BD)
        grad_entities_ED = torch.empty(0) if len(projected_BD) else torch.zeros_like(entities_ED)
        counted_B = _counted(batch, shard)
        step = rows_at_once(shard.most, scores_at_once)
        for start in range(0, len(projected_BD), step):
            rows = slice(start, min(start + step, len(projected_BD)))
            facts = batch.facts_of(rows)
            owner_T, answer_T = batch.owner_T[facts] - start, batch.answer_T[facts]
            if shard.parts > 1:
                here_T = shard.has(answer_T)
                owner_T, answer_T = owner_T[here_T], answer_T[here_T] - shard.start
            count_B = batch.count_B[rows].to(entities_ED.dtype)
            scores_EB = (entities_ED @ projected_BD[rows].T).to(entities_ED.dtype)
            if less_E is not None:
                scores_EB.sub_(less_E[:, None])
            largest_B = _over_shards(distributed.largest, largest_of(scores_EB, 0), shard)
            total -= scores_EB[answer_T, owner_T].sum(dtype=total.dtype)
            sum_B = scores_EB.sub_(largest_B).exp_().sum(0)
            sum_B = _over_shards(distributed.total, sum_B, shard)
            terms_B = count_B * (sum_B.log() + largest_B)
            total += terms_B[counted_B[rows]].sum(dtype=total.dtype)
            slope_EB = scores_EB.mul_(count_B / sum_B)
            slope_EB[answer_T, owner_T] -= 1  # no collisions: answers of a question are distinct
            grad_projected_BD[rows] = (slope_EB.T @ entities_ED).to(projected_BD.dtype)
            part_ED = (slope_EB @ projected_BD[rows]).to(entities_ED.dtype)
            grad_entities_ED = part_ED if start == 0 else grad_entities_ED.add_(part_ED)
        ctx.save_for_backward(grad_projected_BD, grad_entities_ED)
        return total.to(projected_BD.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        slopes = (grad.mul_(outer[0]) for grad in ctx.saved_tensors)
        return next(slopes), next(slopes), None, None, None, None


def _counted(batch: LinkBatch, shard: RowShard) -> Tensor:
    """The questions whose normaliser this process counts."""
    if shard.parts == 1:
        return torch.ones_like(batch.count_B, dtype=torch.bool)
    counted_B = torch.zeros_like(batch.count_B, dtype=torch.bool)
    counted_B[batch.own_B] = True
    return counted_B


def _over_shards(combine: Callable[[Tensor], Tensor], own_B: Tensor, shard: RowShard) -> Tensor:
    return own_B if shard.parts == 1 else combine(own_B)
