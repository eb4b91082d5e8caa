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

from clmpt.compute.chunks import SCORES_AT_ONCE
from clmpt.predictors.cross_entropy import grouped_cross_entropy
from clmpt.predictors.inner_products import BilinearPredictor, InnerProductPredictor
from clmpt.predictors.link_batch import LinkBatch
from clmpt.predictors.predictor import EmbeddingPredictor, look_up
from clmpt.predictors.sampled_softmax import SampledSoftmax
from clmpt.settings import Pretraining

# Shapes: B questions, T facts (answers of all questions, concatenated), E entities, D width,
# N distinct relations, W their width, K negatives


class Objective(Protocol):
    """A loss, with its negative samples and its optimizer."""

    def negatives(self, settings: Pretraining) -> int:
        """How many negatives to sample per step; 0 for none."""

    def scored(self, settings: Pretraining, entities: int) -> int:
        """How many entities a question is scored against."""

    def seen(self, settings: Pretraining, own: slice, questions: int) -> slice:
        """Which of a step's questions a process must know to do its own."""

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
    """Cross-entropy against all entities with a regulariser and Adagrad (Lacroix et al. 2018)."""

    scores_at_once: int = 2 * SCORES_AT_ONCE

    def negatives(self, settings: Pretraining) -> int:  # noqa: ARG002
        return 0

    def scored(self, settings: Pretraining, entities: int) -> int:  # noqa: ARG002
        return entities

    def seen(self, settings: Pretraining, own: slice, questions: int) -> slice:  # noqa: ARG002
        return slice(0, questions)  # it scores its own entities for all of them

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(list(parameters), settings.learning_rate)

    def loss(
        self,
        predictor: InnerProductPredictor,
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

    def seen(self, settings: Pretraining, own: slice, questions: int) -> slice:  # noqa: ARG002
        return own

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
    return SAMPLED[kind] if is_sampled(kind, settings) else OBJECTIVES[kind]


def is_sampled(kind: str, settings: Pretraining) -> bool:
    """Whether steps touch only the rows of a sample of the entities."""
    return settings.candidates > 0 and kind in SAMPLED


def softmax_loss(
    predictor: InnerProductPredictor,
    batch: LinkBatch,
    regularisation: float,
    relation_weight: float,
    facts: float,
    scores_at_once: int = 2 * SCORES_AT_ONCE,
) -> Tensor:
    """Cross-entropy of every answer against all entities, plus a regulariser, divided by `facts`.

    This is the objective of Lacroix et al. (2018), with the predictor's own regulariser, which
    weights an embedding by how often the batch uses it. Chen et al. (2021) add the cross-entropy of
    every fact's relation against all relations, here with `relation_weight`. Pass the same `facts`
    for all batches, their average: with each batch's own number, a fact would weigh less next to a
    question with many answers, and more in the last, smaller batch.
    """
    questions = len(batch.entity_B)
    own_B, own_T = batch.own_B, batch.own_T  # all but the scores is shared out by questions
    looked_up = predictor.embeddings(  # once, so that there is one gradient of the table's size
        torch.cat([batch.entity_B, batch.answer_T[own_T]])
    )
    head_BD, answer_TD = looked_up[:questions], looked_up[questions:]
    relations_NW, place_B = predictor.distinct(batch.directed_B)
    projected_BD = predictor.project_along(head_BD, relations_NW, place_B)
    shard, most = predictor.shard, scores_at_once
    loss: Tensor = grouped_cross_entropy(
        projected_BD, predictor.entities_ED, batch, shard, scores_at_once=most
    )
    if regularisation:
        relations = relations_NW, place_B[own_B]
        rows = head_BD[own_B], relations, projected_BD[own_B], answer_TD
        loss = loss + regularisation * predictor.regulariser(batch.count_B[own_B], *rows)
    if relation_weight:
        assert isinstance(predictor, BilinearPredictor)
        owner_T = batch.owner_T[own_T]
        scores_TS = predictor.score_relations(look_up(head_BD, owner_T), answer_TD)
        row_T = predictor.rows(batch.directed_B)[owner_T]
        predicted = functional.cross_entropy(scores_TS.float(), row_T, reduction="sum")
        loss = loss + relation_weight * predicted
    return loss / facts


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
    batch = batch.part(batch.own_B)
    wanted = batch.entity_B, batch.answer_T, negative_K
    looked_up = predictor.embeddings(torch.cat(wanted))
    head_BD, answer_TD, negative_KD = torch.split(looked_up, [len(part) for part in wanted])
    projected_BD = predictor.follow(head_BD, batch.directed_B)
    positive_T = predictor.match(look_up(projected_BD, batch.owner_T), answer_TD)
    negative_BK = predictor.match_all(projected_BD, negative_KD)
    weight_BK = (temperature * negative_BK.detach()).softmax(1)
    against_B = -(weight_BK * functional.logsigmoid(-margin - negative_BK)).sum(1)
    for_T = -functional.logsigmoid(margin + positive_T)
    return (for_T.sum() + (batch.count_B * against_B).sum()) / (2 * facts)
