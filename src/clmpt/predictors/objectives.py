"""The losses of link predictors.

The full softmax computes one row of scores per distinct question, not per fact: facts with the same
question have identical rows. The loss is the same, for a third of the work or less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute import distributed
from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.compute.row_shards import RowShard
from clmpt.predictors.link_batch import LinkBatch
from clmpt.predictors.predictor import BilinearPredictor, EmbeddingPredictor, look_up
from clmpt.predictors.sampled_softmax import SampledSoftmax
from clmpt.settings import Pretraining

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities, D width,
# K negatives


class Objective(Protocol):
    """A loss, with its negative samples and its optimizer."""

    def negatives(self, settings: Pretraining) -> int:
        """How many negatives to sample per step; 0 for none."""

    def scored(self, settings: Pretraining, entities: int) -> int:
        """How many entities a question is scored against."""

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer: ...

    def loss(
        self,
        predictor: Any,
        batch: LinkBatch,
        negative_K: Tensor | None,
        settings: Pretraining,
        facts: float,
    ) -> Tensor:
        """The loss, divided by `facts`: use the average per batch, so that every fact has the
        same weight."""


@dataclass(frozen=True)
class FullSoftmax:
    """Cross-entropy against all entities with N3 and Adagrad (Lacroix et al. 2018)."""

    scores_at_once: int = 2 * SCORES_AT_ONCE

    def negatives(self, settings: Pretraining) -> int:  # noqa: ARG002
        return 0

    def scored(self, settings: Pretraining, entities: int) -> int:  # noqa: ARG002
        return entities

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(list(parameters), settings.learning_rate)

    def loss(
        self,
        predictor: BilinearPredictor,
        batch: LinkBatch,
        negative_K: Tensor | None,  # noqa: ARG002
        settings: Pretraining,
        facts: float,
    ) -> Tensor:
        weights = settings.regularisation, settings.relation_weight
        return softmax_loss(predictor, batch, *weights, facts, self.scores_at_once)


@dataclass(frozen=True)
class SelfAdversarial:
    """Sampled negatives, weighted by how hard they are, with Adam (Sun et al. 2019)."""

    def negatives(self, settings: Pretraining) -> int:
        return settings.negatives

    def scored(self, settings: Pretraining, entities: int) -> int:  # noqa: ARG002
        return settings.negatives

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer:
        return torch.optim.Adam(list(parameters), settings.learning_rate)

    def loss(
        self,
        predictor: EmbeddingPredictor,
        batch: LinkBatch,
        negative_K: Tensor | None,
        settings: Pretraining,
        facts: float,
    ) -> Tensor:
        assert negative_K is not None
        return sampled_loss(
            predictor, batch, negative_K, settings.margin, settings.temperature, facts
        )


# By name; a predictor's class names its objective.
OBJECTIVES: dict[str, Objective] = {
    "softmax": FullSoftmax(),
    "self-adversarial": SelfAdversarial(),
}
# The objective instead, if only some entities are to be scored.
SAMPLED: dict[str, Objective] = {"softmax": SampledSoftmax()}


def objective_of(kind: str, settings: Pretraining) -> Objective:
    """The loss that a predictor's class names, or the one that samples entities."""
    return SAMPLED[kind] if settings.candidates and kind in SAMPLED else OBJECTIVES[kind]


def softmax_loss(
    predictor: BilinearPredictor,
    batch: LinkBatch,
    regularisation: float,
    relation_weight: float,
    facts: float,
    scores_at_once: int = 2 * SCORES_AT_ONCE,
) -> Tensor:
    """Cross-entropy of every answer against all entities, plus N3, divided by `facts`.

    This is the objective of Lacroix et al. (2018), whose regulariser weights an embedding by how
    often the batch uses it. Chen et al. (2021) add the cross-entropy of every fact's relation
    against all relations, here with `relation_weight`. Pass the same `facts` for all batches, their
    average: with each batch's own number, a fact would weigh less next to a question with many
    answers, and more in the last, smaller batch.
    """
    questions = len(batch.entity_B)
    looked_up = predictor.embeddings(  # once, so that there is one gradient of the table's size
        torch.cat([batch.entity_B, batch.answer_T])
    )
    head_BD, answer_TD = looked_up[:questions], looked_up[questions:]
    relation_BD = predictor.directed(batch.directed_B)
    projected_BD = predictor.project(head_BD, relation_BD)
    loss: Tensor = _grouped_cross_entropy(
        projected_BD, predictor.entities_ED, batch, predictor.shard, scores_at_once
    )
    own_B, own_T = batch.own()  # the rest of the loss is shared out by questions, not by entities
    if regularisation:
        embeddings = head_BD[own_B], relation_BD[own_B], answer_TD[own_T]
        loss = loss + regularisation * predictor.n3(batch.count_B[own_B], *embeddings)
    if relation_weight:
        owner_T = batch.owner_T[own_T]
        scores_TS = predictor.score_relations(look_up(head_BD, owner_T), answer_TD[own_T])
        row_T = predictor.rows(batch.directed_B)[owner_T]
        predicted = functional.cross_entropy(scores_TS.float(), row_T, reduction="sum")
        loss = loss + relation_weight * predicted
    return loss / facts


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _grouped_cross_entropy(
    projected_BD: Tensor,
    entities_ED: Tensor,
    batch: LinkBatch,
    shard: RowShard,
    scores_at_once: int,
) -> Tensor:
    """Only matrix products and in-place passes, so compiling it gains nothing."""
    loss: Tensor = _GroupedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        projected_BD, entities_ED, batch, shard, scores_at_once
    )
    return loss


class _GroupedCrossEntropy(torch.autograd.Function):
    """Σ over facts of logsumexp(scores of its question) - score of its answer.

    The forward pass computes the gradient in place, while a slice of the scores is in memory;
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
        scores_at_once: int,
    ) -> Tensor:
        total = projected_BD.new_zeros(
            (), dtype=torch.float64 if projected_BD.is_cpu else torch.float32
        )
        grad_projected_BD = torch.empty_like(projected_BD)
        grad_entities_ED = torch.empty(0) if len(projected_BD) else torch.zeros_like(entities_ED)
        own_B = torch.zeros_like(batch.count_B, dtype=torch.bool)
        own_B[batch.own()[0]] = True  # the questions whose normaliser this process counts
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
            largest_B = distributed.largest(_largest(scores_EB))
            total -= scores_EB[answer_T, owner_T].sum(dtype=total.dtype)
            sum_B = distributed.total(scores_EB.sub_(largest_B).exp_().sum(0))  # of all shards
            terms_B = count_B * (sum_B.log() + largest_B)
            total += terms_B[own_B[rows]].sum(dtype=total.dtype)
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


def _largest(scores_EB: Tensor) -> Tensor:
    """The largest score of each question; -∞ in a process without entities."""
    if len(scores_EB):
        return scores_EB.amax(0)
    return scores_EB.new_full(scores_EB.shape[1:], -torch.inf)


def sampled_loss(
    predictor: EmbeddingPredictor,
    batch: LinkBatch,
    negative_K: Tensor,
    margin: float,
    temperature: float,
    facts: float,
) -> Tensor:
    """The self-adversarial loss of Sun et al. (2019), for distance-based scores.

    All facts of the batch share the negatives; those that score high weigh more. Negatives that
    happen to be answers are kept, as in the authors' code: they are rare.
    """
    questions, answers = len(batch.entity_B), len(batch.answer_T)
    looked_up = predictor.embeddings(torch.cat([batch.entity_B, batch.answer_T, negative_K]))
    own_B, own_T = batch.own()
    head_BD, others = looked_up[:questions][own_B], looked_up[questions:]
    answer_TD, negative_KD = others[:answers][own_T], others[answers:]
    batch = batch.part(own_B)
    projected_BD = predictor.project(head_BD, predictor.directed(batch.directed_B))
    positive_T = predictor.match(look_up(projected_BD, batch.owner_T), answer_TD)
    negative_BK = predictor.match_all(projected_BD, negative_KD)
    weight_BK = (temperature * negative_BK.detach()).softmax(1)
    against_B = -(weight_BK * functional.logsigmoid(-margin - negative_BK)).sum(1)
    for_T = -functional.logsigmoid(margin + positive_T)
    return (for_T.sum() + (batch.count_B * against_B).sum()) / (2 * facts)
