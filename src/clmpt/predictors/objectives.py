"""What training a link predictor minimises.

The full softmax needs one row of scores per distinct question, not per fact: a question with n
answers is n identical rows otherwise. The numbers are the same, the work a third or less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.predictors.predictor import BilinearPredictor, EmbeddingPredictor, look_up

# Shapes: B questions, T facts (answers of all questions, end to end), E entities, D width,
# K negatives

_LOGITS_AT_ONCE = 2**26  # so many scores are held in memory, 256 MiB


@dataclass(frozen=True)
class Batch:
    """Some questions and all their answers; `owner_T` is ascending, answers are distinct."""

    entity_B: Tensor
    directed_B: Tensor
    count_B: Tensor
    owner_T: Tensor
    answer_T: Tensor


def softmax_loss(
    predictor: BilinearPredictor, batch: Batch, regularisation: float, facts: float
) -> Tensor:
    """Cross-entropy of every answer against all entities, plus N3, over the number of `facts`.

    This is the objective of Lacroix et al. (2018), whose regulariser weighs an embedding by how
    often the batch uses it. `facts` is best the same for all batches, what they have on average:
    divided by its batch's own number, a fact would count for less beside a question with many
    answers, and for more in the last, shorter batch.
    """
    questions = len(batch.entity_B)
    looked_up = look_up(  # once, so that there is one gradient of the size of the table
        predictor.entities_ED, torch.cat([batch.entity_B, batch.answer_T])
    )
    head_BD, answer_TD = looked_up[:questions], looked_up[questions:]
    relation_BD = predictor.directed(batch.directed_B)
    found_BD = predictor.carry(head_BD, relation_BD)
    loss: Tensor = _grouped_cross_entropy(found_BD, predictor.entities_ED, batch)
    if regularisation:
        count_B1 = batch.count_B[:, None]
        cubes = (
            (count_B1 * predictor.cubed_moduli(head_BD)).sum()
            + (count_B1 * predictor.cubed_moduli(relation_BD)).sum()
            + predictor.cubed_moduli(answer_TD).sum()
        )
        loss = loss + regularisation * cubes
    return loss / facts


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _grouped_cross_entropy(found_BD: Tensor, entities_ED: Tensor, batch: Batch) -> Tensor:
    """Matrix products and passes in place: a compiler has nothing to gain here."""
    loss: Tensor = _GroupedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        found_BD, entities_ED, batch
    )
    return loss


class _GroupedCrossEntropy(torch.autograd.Function):
    """Σ over facts of logsumexp(scores of its question) - score of its answer.

    The gradient is made on the way forward, while a slice of the scores is in memory, and in its
    place; autograd would keep all scores and their softmax until the way back. Entities come
    first: with the longer side in front the matrix products take a fifth less time.
    """

    @staticmethod
    def forward(ctx: Any, found_BD: Tensor, entities_ED: Tensor, batch: Batch) -> Tensor:
        total = found_BD.new_zeros((), dtype=torch.float64 if found_BD.is_cpu else torch.float32)
        grad_found_BD = torch.empty_like(found_BD)
        grad_entities_ED = torch.empty(0)
        ends_B = batch.count_B.cumsum(0)
        step = max(1, _LOGITS_AT_ONCE // len(entities_ED))
        for start in range(0, len(found_BD), step):
            rows = slice(start, min(start + step, len(found_BD)))
            first = int(ends_B[start] - batch.count_B[start])
            facts = slice(first, int(ends_B[rows.stop - 1]))
            owner_T, answer_T = batch.owner_T[facts] - start, batch.answer_T[facts]
            count_B = batch.count_B[rows].to(entities_ED.dtype)
            scores_EB = (entities_ED @ found_BD[rows].T).to(entities_ED.dtype)
            largest_B = scores_EB.amax(0)
            total -= scores_EB[answer_T, owner_T].sum(dtype=total.dtype)
            sum_B = scores_EB.sub_(largest_B).exp_().sum(0)
            total += (count_B * (sum_B.log() + largest_B)).sum(dtype=total.dtype)
            slope_EB = scores_EB.mul_(count_B / sum_B)
            slope_EB[answer_T, owner_T] -= 1  # answers of a question are distinct: no collisions
            grad_found_BD[rows] = (slope_EB.T @ entities_ED).to(found_BD.dtype)
            part_ED = (slope_EB @ found_BD[rows]).to(entities_ED.dtype)
            grad_entities_ED = part_ED if start == 0 else grad_entities_ED.add_(part_ED)
        ctx.save_for_backward(grad_found_BD, grad_entities_ED)
        return total.to(found_BD.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None]:
        grad_found_BD, grad_entities_ED = ctx.saved_tensors
        return grad_found_BD.mul_(outer[0]), grad_entities_ED.mul_(outer[0]), None


def sampled_loss(
    predictor: EmbeddingPredictor,
    batch: Batch,
    negative_K: Tensor,
    margin: float,
    temperature: float,
    facts: float,
) -> Tensor:
    """The self-adversarial loss of Sun et al. (2019), for scores that are distances.

    Each fact against entities drawn for the whole batch; those that score high weigh more. Drawn
    entities that are answers are left in, as the authors do: they are rare.
    """
    questions, answers = len(batch.entity_B), len(batch.answer_T)
    looked_up = look_up(
        predictor.entities_ED, torch.cat([batch.entity_B, batch.answer_T, negative_K])
    )
    head_BD, others = looked_up[:questions], looked_up[questions:]
    answer_TD, negative_KD = others[:answers], others[answers:]
    found_BD = predictor.carry(head_BD, predictor.directed(batch.directed_B))
    positive_T = predictor.match(look_up(found_BD, batch.owner_T), answer_TD)
    negative_BK = predictor.match_all(found_BD, negative_KD)
    weight_BK = (temperature * negative_BK.detach()).softmax(1)
    against_B = -(weight_BK * functional.logsigmoid(-margin - negative_BK)).sum(1)
    for_T = -functional.logsigmoid(margin + positive_T)
    return (for_T.sum() + (batch.count_B * against_B).sum()) / (2 * facts)
