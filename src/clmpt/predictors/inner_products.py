"""Predictors that match by inner product, so that a batch is scored with one matrix product.

What they have in common depends on how a relation acts: in any way at all, as a matrix, or number
by number. Each way has the regulariser that suits it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from clmpt.errors import SettingError
from clmpt.predictors.predictor import EmbeddingPredictor, look_up

# Shapes: E entities, D width of an entity, W width of a relation, S rows of the relation table,
# A atoms, B questions, T facts (answers of all questions, concatenated), N distinct relations

# For scores that learn sooner from larger numbers; those of `Pretraining` suit ComplEx.
LARGER_START = {"initial_scale": 0.1}

_MOST_NUMBERS = 2**31  # of a tensor of weights: 8 GiB in single precision


class InnerProductPredictor(EmbeddingPredictor):
    """Matches a projected embedding with an entity's by their inner product."""

    has_penalty = True
    objective = "softmax"

    def match(self, projected_AD: Tensor, entity_AD: Tensor) -> Tensor:
        return (projected_AD * entity_AD).sum(-1)

    def match_all(self, projected_BD: Tensor, entities_ED: Tensor) -> Tensor:
        return projected_BD @ entities_ED.T

    def shortened(self, projected_AD: Tensor, penalty: float) -> Tensor:
        if penalty <= 0:
            raise SettingError(f"The penalty λ must be above 0, not {penalty}.")
        length_A1: Tensor = torch.linalg.vector_norm(projected_AD, dim=-1, keepdim=True)
        smallest = torch.finfo(projected_AD.dtype).tiny
        divisor_A1 = (3 * penalty * length_A1).clamp_min(smallest).sqrt()
        return projected_AD / divisor_A1  # eq:rho-penalty

    def regulariser(
        self,
        count_B: Tensor,
        head_BD: Tensor,  # noqa: ARG002
        relations: tuple[Tensor, Tensor],  # noqa: ARG002
        projected_BD: Tensor,
        answer_TD: Tensor,
    ) -> Tensor:
        """What is added to the loss of questions with their answers, times its weight.

        `relations` are relations_NW and which of them each question has. By default DURA (Zhang et
        al. 2020), which asks nothing of how a relation acts. It is the part of it that belongs to
        predicting tails: the other part comes with the question from a fact's other end.
        """
        projected = (count_B[:, None] * projected_BD.square()).sum()
        return projected + answer_TD.square().sum()  # eq:dura


class BilinearPredictor(InnerProductPredictor):
    """Its score is linear in the relation too."""

    predicts_relations: ClassVar[bool] = True

    @abstractmethod
    def score_relations(self, head_TD: Tensor, tail_TD: Tensor) -> Tensor:
        """scores_TS of every row of the relation table between two embeddings."""


class MatrixPredictor(BilinearPredictor):
    """A relation is a matrix of D × D numbers, or stands for one."""

    @abstractmethod
    def matrices(self, relations_NW: Tensor) -> Tensor:
        """matrices_NDD: a head's embedding, as a row, times this is what a tail is matched with."""

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        return (source_AD[:, None] @ self.matrices(relation_AW))[:, 0]

    def project_along(self, source_AD: Tensor, relations_NW: Tensor, relation_A: Tensor) -> Tensor:
        """One product for each relation, so that there is one matrix of each in memory."""
        found_U, place_A = torch.unique(relation_A, return_inverse=True)
        order_A = place_A.argsort(stable=True)
        counts = torch.bincount(place_A, minlength=len(found_U)).tolist()
        matrices = self.matrices(look_up(relations_NW, found_U)).unbind()
        parts = torch.split(look_up(source_AD, order_A), counts)
        products = [part @ matrix for part, matrix in zip(parts, matrices, strict=True)]
        sorted_AD = torch.cat([source_AD[:0], *products])
        return look_up(sorted_AD, order_A.argsort()).to(source_AD.dtype)

    def score_relations(self, head_TD: Tensor, tail_TD: Tensor) -> Tensor:
        products_TX = (head_TD[:, :, None] * tail_TD[:, None]).flatten(1)
        return products_TX @ self.matrices(self.relations_SW).flatten(1).T


class DiagonalPredictor(BilinearPredictor):
    """A relation acts on each number, real or complex, for itself."""

    def score_relations(self, head_TD: Tensor, tail_TD: Tensor) -> Tensor:
        return self.project(tail_TD, self.reverse(head_TD)) @ self.relations_SW.T

    def regulariser(
        self,
        count_B: Tensor,
        head_BD: Tensor,
        relations: tuple[Tensor, Tensor],
        projected_BD: Tensor,  # noqa: ARG002
        answer_TD: Tensor,
    ) -> Tensor:
        """N3 (Lacroix et al. 2018): an embedding weighs as often as the batch's facts use it."""
        relations_NW, place_B = relations
        count_N = count_B.new_zeros(len(relations_NW)).index_add_(0, place_B, count_B)
        return (
            (count_B[:, None] * self.cubed_moduli(head_BD)).sum()
            + (count_N[:, None] * self.cubed_moduli(relations_NW)).sum()
            + self.cubed_moduli(answer_TD).sum()
        )  # eq:n3

    @abstractmethod
    def cubed_moduli(self, embedding_AD: Tensor) -> Tensor:
        """|x|³ of each number x of an embedding: the terms of the N3 regulariser."""


def check_numbers(what: str, numbers: int) -> None:
    """Rejects weights that no ordinary machine has room for, before they are made."""
    if numbers > _MOST_NUMBERS:
        raise SettingError(
            f"{what} would have {numbers:,} numbers, and at most {_MOST_NUMBERS:,} are allowed. "
            "Choose a lower rank."
        )
