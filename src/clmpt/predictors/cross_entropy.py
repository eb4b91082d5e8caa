"""The cross-entropy of questions with all their answers, against a table of entities.

It is computed question by question, not fact by fact, and its gradient with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.predictors.link_batch import LinkBatch

# Shapes: B questions, T facts (answers of all questions, concatenated), E rows of the table,
# D width


@dataclass(frozen=True)
class Labels:
    """The answers of each question, as rows of the table; `owner_T` ascends."""

    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor

    @classmethod
    def of(cls, batch: LinkBatch) -> Labels:
        return cls(batch.count_B, batch.owner_T, batch.answer_T)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def grouped_cross_entropy(
    projected_BD: Tensor,
    entities_ED: Tensor,
    labels: Labels,
    less_E: Tensor | None = None,
    scores_at_once: int = 2 * SCORES_AT_ONCE,
) -> Tensor:
    """Σ over facts of logsumexp(scores of its question) - score of its answer.

    Scores are inner products, `less_E` subtracted from those of each entity. Only matrix products
    and in-place passes, so compiling it gains nothing.
    """
    loss: Tensor = _GroupedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        projected_BD, entities_ED, labels, less_E, scores_at_once
    )
    return loss


class _GroupedCrossEntropy(torch.autograd.Function):
    """The forward pass computes the gradient in place, while a slice of the scores is in memory;
    autograd would keep all scores and their softmax until the backward pass. Entities are the
    first dimension: matrix products are a fifth faster with the longer side first.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected_BD: Tensor,
        entities_ED: Tensor,
        labels: Labels,
        less_E: Tensor | None,
        scores_at_once: int,
    ) -> Tensor:
        total = projected_BD.new_zeros(
            (), dtype=torch.float64 if projected_BD.is_cpu else torch.float32
        )
        grad_projected_BD = torch.empty_like(projected_BD)
        grad_entities_ED = torch.empty(0) if len(projected_BD) else torch.zeros_like(entities_ED)
        ends_B = labels.count_B.cumsum(0)
        step = rows_at_once(len(entities_ED), scores_at_once)
        for start in range(0, len(projected_BD), step):
            rows = slice(start, min(start + step, len(projected_BD)))
            first = int(ends_B[start] - labels.count_B[start])
            facts = slice(first, int(ends_B[rows.stop - 1]))
            owner_T, answer_T = labels.owner_T[facts] - start, labels.answer_T[facts]
            count_B = labels.count_B[rows].to(entities_ED.dtype)
            scores_EB = (entities_ED @ projected_BD[rows].T).to(entities_ED.dtype)
            if less_E is not None:
                scores_EB.sub_(less_E[:, None])
            largest_B = scores_EB.amax(0)
            total -= scores_EB[answer_T, owner_T].sum(dtype=total.dtype)
            sum_B = scores_EB.sub_(largest_B).exp_().sum(0)
            total += (count_B * (sum_B.log() + largest_B)).sum(dtype=total.dtype)
            slope_EB = scores_EB.mul_(count_B / sum_B)
            slope_EB[answer_T, owner_T] -= 1  # no collisions: answers of a question are distinct
            grad_projected_BD[rows] = (slope_EB.T @ entities_ED).to(projected_BD.dtype)
            part_ED = (slope_EB @ projected_BD[rows]).to(entities_ED.dtype)
            grad_entities_ED = part_ED if start == 0 else grad_entities_ED.add_(part_ED)
        ctx.save_for_backward(grad_projected_BD, grad_entities_ED)
        return total.to(projected_BD.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_projected_BD, grad_entities_ED = ctx.saved_tensors
        return grad_projected_BD.mul_(outer[0]), grad_entities_ED.mul_(outer[0]), None, None, None
