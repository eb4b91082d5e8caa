"""What a link predictor is, and what all that keep an embedding per entity and relation share.

Such a predictor carries an entity's embedding across a relation and compares the result with the
entity at the other end. Carrying, reversing a relation and comparing make up the scoring function;
everything else, the paper's one-hop inference ρ included, follows from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.errors import DataError, SettingError

# Shapes: E entities, D width of an entity, W width of a relation, R relations of the graph,
# S rows of the relation table (R and the inverses that the graph lacks), A atoms, B questions


class LinkPredictor(Protocol):
    """What reasoners and evaluation ask of a predictor. Relations are row numbers of its table."""

    @property
    def entities_ED(self) -> Tensor: ...
    @property
    def relations_SW(self) -> Tensor: ...
    def score(self, head_A: Tensor, relation_A: Tensor, tail_A: Tensor) -> Tensor:
        """How plausible each triple is; comparable within a question, not between them."""

    def score_tails(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        """scores_BE of every entity as the tail."""

    def score_heads(self, relation_B: Tensor, tail_B: Tensor) -> Tensor:
        """scores_BE of every entity as the head, by the same relation's embedding."""

    def score_answers(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        """scores_BE of every entity as the answer to a one-hop question, in either direction."""

    def infer(
        self,
        source_AD: Tensor,
        relation_A: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        """The paper's ρ: the embedding that an atom suggests for the node at its other end."""


class EmbeddingPredictor(nn.Module, ABC):
    """A predictor with a table of entities and one of relations.

    `inverse_R` tells which row is a relation's inverse; -1: none, its own embedding is reversed.
    """

    name: ClassVar[str]
    entities_ED: nn.Parameter
    relations_SW: nn.Parameter
    inverse_R: Tensor

    def __init__(self, entities_ED: Tensor, relations_SW: Tensor, inverse_R: Tensor) -> None:
        super().__init__()
        self.entities_ED = nn.Parameter(entities_ED)
        self.relations_SW = nn.Parameter(relations_SW)
        self.register_buffer("inverse_R", inverse_R)
        self.has_all_inverses = bool((inverse_R >= 0).all())
        self.check_widths(entities_ED.shape[1], relations_SW.shape[1])

    # --- the scoring function ---------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Fresh tables of entities and relations; `scale` says how large their numbers are."""

    @abstractmethod
    def check_widths(self, entity_width: int, relation_width: int) -> None:
        """Refuses tables that do not belong together."""

    @abstractmethod
    def carry(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        """Where a head's embedding arrives across a relation."""

    @abstractmethod
    def reverse(self, relation_AW: Tensor) -> Tensor:
        """The relation such that carrying a tail across it leads to the head."""

    @abstractmethod
    def match(self, found_AD: Tensor, entity_AD: Tensor) -> Tensor:
        """How well what was carried fits an entity."""

    @abstractmethod
    def match_all(self, found_BD: Tensor, entities_ED: Tensor) -> Tensor:
        """`match` of every row with every entity."""

    # --- what follows from it ---------------------------------------------------------------------

    def score(self, head_A: Tensor, relation_A: Tensor, tail_A: Tensor) -> Tensor:
        relation_AW = look_up(self.relations_SW, relation_A)
        arrived_AD = self.carry(look_up(self.entities_ED, head_A), relation_AW)
        return self.match(arrived_AD, look_up(self.entities_ED, tail_A))  # eq:score

    def score_tails(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        relation_BW = look_up(self.relations_SW, relation_B)
        arrived_BD = self.carry(look_up(self.entities_ED, head_B), relation_BW)
        return self.match_all(arrived_BD, self.entities_ED)

    def score_heads(self, relation_B: Tensor, tail_B: Tensor) -> Tensor:
        back_BW = self.reverse(look_up(self.relations_SW, relation_B))
        arrived_BD = self.carry(look_up(self.entities_ED, tail_B), back_BW)
        return self.match_all(arrived_BD, self.entities_ED)

    def score_answers(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        arrived_BD = self.carry(look_up(self.entities_ED, entity_B), self.directed(directed_B))
        return self.match_all(arrived_BD, self.entities_ED)

    def directed(self, directed_B: Tensor) -> Tensor:
        """Embeddings of relations that may be read backwards: R or more is the inverse of R less.

        A backward question is answered by the inverse's own row where there is one.
        """
        relation_BW = look_up(self.relations_SW, self.rows(directed_B))
        if self.has_all_inverses:
            return relation_BW
        relations = len(self.inverse_R)
        reversed_B = (directed_B >= relations) & (self.inverse_R[directed_B % relations] < 0)
        return torch.where(reversed_B[:, None], self.reverse(relation_BW), relation_BW)

    def rows(self, directed_B: Tensor) -> Tensor:
        """The rows of such relations: a backward one's is its inverse's, or else its own."""
        relation_B = directed_B % len(self.inverse_R)
        inverse_B = self.inverse_R[relation_B]
        takes_inverse_B = (directed_B >= len(self.inverse_R)) & (inverse_B >= 0)
        return torch.where(takes_inverse_B, inverse_B, relation_B)

    def infer(
        self,
        source_AD: Tensor,
        relation_A: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        relation_AW = look_up(self.relations_SW, relation_A)
        return self.rho(source_AD, relation_AW, to_head_A, negated_A, penalty)

    def rho(
        self,
        source_AD: Tensor,
        relation_AW: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        """ρ for each atom, from the embedding of one end; the masks say which of its four cases.

        `penalty` is λ of the closed form; without it the denominator is 1, as in the paper's runs.
        """
        relation_AW = torch.where(to_head_A[:, None], self.reverse(relation_AW), relation_AW)
        found_AD = self.carry(source_AD, relation_AW)  # eq:rho
        if penalty is not None:
            found_AD = self.shortened(found_AD, penalty)
        return torch.where(negated_A[:, None], -found_AD, found_AD)  # eq:rho-negated

    def infer_tail(
        self,
        head_AD: Tensor,
        relation_A: Tensor,
        *,
        negated: bool = False,
        penalty: float | None = None,
    ) -> Tensor:
        """ρ from head to tail, for atoms that are all negated or all not."""
        no_A = torch.zeros_like(relation_A, dtype=torch.bool)
        return self.infer(head_AD, relation_A, no_A, no_A | negated, penalty)

    def infer_head(
        self,
        relation_A: Tensor,
        tail_AD: Tensor,
        *,
        negated: bool = False,
        penalty: float | None = None,
    ) -> Tensor:
        """ρ from tail to head, for atoms that are all negated or all not."""
        yes_A = torch.ones_like(relation_A, dtype=torch.bool)
        return self.infer(tail_AD, relation_A, yes_A, yes_A & negated, penalty)

    def shortened(self, found_AD: Tensor, penalty: float) -> Tensor:  # noqa: ARG002
        """What maximises the score less λ‖·‖³; only inner products have such a maximum."""
        raise SettingError(
            f"{self.name} has no closed form with a penalty: its best match is the carried "
            "embedding itself. Leave the penalty out."
        )


class BilinearPredictor(EmbeddingPredictor):
    """Compares by inner product, so that the scores of a batch are one matrix product."""

    def match(self, found_AD: Tensor, entity_AD: Tensor) -> Tensor:
        return (found_AD * entity_AD).sum(-1)

    def match_all(self, found_BD: Tensor, entities_ED: Tensor) -> Tensor:
        return found_BD @ entities_ED.T

    def shortened(self, found_AD: Tensor, penalty: float) -> Tensor:
        if penalty <= 0:
            raise SettingError(f"The penalty λ must be above 0, not {penalty}.")
        length_A1: Tensor = torch.linalg.vector_norm(found_AD, dim=-1, keepdim=True)
        smallest = torch.finfo(found_AD.dtype).tiny
        divisor_A1 = (3 * penalty * length_A1).clamp_min(smallest).sqrt()
        return found_AD / divisor_A1  # eq:rho-penalty

    @abstractmethod
    def cubed_moduli(self, embedding_AD: Tensor) -> Tensor:
        """|x|³ for each number x that an embedding consists of: the terms of the N3 regulariser."""


def look_up(table_ND: Tensor, row_A: Tensor) -> Tensor:
    """Rows of a table. Unlike indexing, its gradient is summed in the same order every time."""
    return functional.embedding(row_A, table_ND)


def check_same_width(model: str, entity_width: int, relation_width: int) -> None:
    if entity_width != relation_width:
        raise DataError(
            f"{model} needs entities and relations of the same width, not {entity_width} and "
            f"{relation_width}."
        )
