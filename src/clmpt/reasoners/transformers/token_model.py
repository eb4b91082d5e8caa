"""What models of tokens share: tables, the head that scores all entities, and the loss.

A model's own file says which tokens a query has, and how a transformer turns them into the state of
the free variable.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.errors import SettingError
from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.predictors.predictor import look_up
from clmpt.queries.links import inverse_rows
from clmpt.queries.store import AnswerSets
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.dropout import NO_DROPOUT, Dropout, SetDropout
from clmpt.reasoners.model import Basis, Candidates, Cost, GradientModel
from clmpt.reasoners.operators.candidate_losses import is_wrong
from clmpt.reasoners.pair_scores import pair_scores
from clmpt.reasoners.transformers.answer_losses import answers_loss, one_answer_loss
from clmpt.reasoners.transformers.token_layout import refuse_negation
from clmpt.settings import Settings, setting

# Shapes: T tokens, I items, C constants, B relations of a batch, P places, G answers (one for each
# alternative), Q queries, K candidates, E entities, R rows of the relation table, D width

_KEYS_PER_LAYER = 2**20


@dataclass(frozen=True)
class TokenSettings(Settings):
    """What all of them have."""

    rank: int = setting(128, "width of tokens", least=1)
    layers: int = setting(6, "layers of the transformer", least=1, most=1000)
    heads: int = setting(4, "attention heads", least=1)
    dropout: float = setting(0.1, "dropout probability", least=0, below=1)

    @property
    def smooths(self) -> float:
        """The share of the loss that all entities have."""
        return 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank % self.heads:
            raise SettingError(f"{self.heads} heads do not divide a width of {self.rank}.")


class TokenBatch(Protocol):
    """Queries as tokens. A token is an item plus what is in its row of the table of places."""

    @property
    def entity_C(self) -> Tensor: ...
    @property
    def relation_B(self) -> Tensor: ...
    @property
    def item_T(self) -> Tensor: ...
    @property
    def place_T(self) -> Tensor: ...
    @property
    def query_G(self) -> Tensor: ...
    @property
    def answers(self) -> AnswerSets: ...
    @property
    def queries(self) -> int: ...


class TokenModel(GradientModel):
    """A transformer over the tokens of a query, and a linear head for the entities."""

    needs_predictor = False
    phases: ClassVar = {"encoder": "encode"}
    settings: TokenSettings
    inverse_R: Tensor

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        inverse_R = inverse_rows(basis.graph)
        rows = max(len(inverse_R), int(inverse_R.max(initial=-1)) + 1)
        self.register_buffer("inverse_R", torch.from_numpy(inverse_R), persistent=False)
        width = settings.rank
        self.entities_ED = _normal(self.entities, width, generator)
        self.relations_RD = _normal(rows, width, generator)
        self.mask_1D = _normal(1, width, generator)
        self.places_PD = _normal(self.places(settings), width, generator)
        self.add_layers(generator)
        self.head = EntityHead(self.entities, width, generator)

    @classmethod
    @abstractmethod
    def places(cls, settings: Any) -> int:
        """How many rows the table of places has."""

    @abstractmethod
    def add_layers(self, generator: torch.Generator) -> None:
        """Sets all parameters between the tokens and the head."""

    @abstractmethod
    def encode(self, token_TD: Tensor, batch: Any, dropout: Dropout) -> Tensor:
        """answers_GD: the final states of the free variables."""

    # --- queries in, scores out -------------------------------------------------------------------

    @property
    def inverse_rows(self) -> Ints:
        found: Ints = self.inverse_R.cpu().numpy()
        return found

    @classmethod
    def check_query(cls, settings: Any, query: Query) -> None:  # noqa: ARG003
        refuse_negation(query, cls.title)

    def notes(self, query: Query) -> tuple[str, ...]:
        return query_graphs(query).notes

    def embedded(self, batch: TokenBatch) -> Tensor:
        """token_TD before the first layer."""
        items_ID = torch.cat(
            [
                self.mask_1D,
                look_up(self.relations_RD, batch.relation_B),
                look_up(self.entities_ED, batch.entity_C),
            ]
        )
        return look_up(items_ID, batch.item_T) + look_up(self.places_PD, batch.place_T)

    @staticmethod
    def dropout_of(key_T: Tensor, layer: int, dropout: Dropout) -> SetDropout:
        """Dropout of tokens, which differs from layer to layer."""
        return dropout.of_sets(key_T + layer * _KEYS_PER_LAYER, ((1, len(key_T)),))

    def forward(self, batch: TokenBatch, dropout: Dropout = NO_DROPOUT) -> Tensor:
        """answers_GD: the final state of the free variable in each alternative."""
        return self.encode(self.embedded(batch), batch, dropout)

    def scores(self, batch: TokenBatch) -> Tensor:
        scores_GE = self.head(self(batch))
        return best_alternative(scores_GE, batch.query_G, batch.queries)

    def loss(self, batch: TokenBatch, candidates: Candidates, generator: torch.Generator) -> Tensor:
        """With all entities as candidates, all known answers count; else the positive does."""
        smoothing = self.settings.smooths
        answers_GD = self(batch, Dropout(self.settings.dropout, generator, candidates.first))
        if candidates.negative_QK is None:
            scores_GE = self.head(answers_GD)
            scores_QE = best_alternative(scores_GE, batch.query_G, batch.queries)
            return answers_loss(scores_QE, batch.answers, smoothing)
        positive_Q, negative_QK = candidates.positive_Q, candidates.negative_QK
        scores_GK = self.head.sampled(answers_GD, positive_Q[batch.query_G], negative_QK, batch)
        scores_QK = best_alternative(scores_GK, batch.query_G, batch.queries)
        wrong_QK = is_wrong(batch.answers, negative_QK, self.entities, scores_QK.device)
        return one_answer_loss(scores_QK, wrong_QK, smoothing)

    # --- the rest of the interface ----------------------------------------------------------------

    @classmethod
    def summary(cls, settings: Any) -> str:
        return f"rank {settings.rank}, {settings.layers} layers, {settings.heads} heads"

    @classmethod
    @abstractmethod
    def products_per_token(cls, settings: Any) -> float:
        """Operations of matrix products for a token in a layer."""

    @classmethod
    def cost_of(cls, settings: Any, states: float, tokens: int) -> Cost:
        """Of computing so many states of so many tokens."""
        moved = 4 * 8 * states * settings.rank
        return Cost(states * cls.products_per_token(settings), moved, tokens)


class EntityHead(nn.Module):
    """A linear map from the free variable's state to a score for each entity."""

    def __init__(self, entities: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_ED = _normal(entities, width, generator)
        self.bias_E = nn.Parameter(torch.zeros(entities))

    def forward(self, answers_GD: Tensor) -> Tensor:
        scores_GE: Tensor = functional.linear(answers_GD, self.weight_ED, self.bias_E)
        return scores_GE  # eq:token-scores

    def sampled(
        self, answers_GD: Tensor, positive_G: Tensor, negative_QK: Tensor, batch: TokenBatch
    ) -> Tensor:
        """scores_GK of the positive, then of the negatives, which may be the same for all."""
        bias_E1 = self.bias_E[:, None]
        if len(negative_QK) == 1 < batch.queries:
            own_G1 = self.pairs(answers_GD, positive_G[:, None])
            weight_KD = look_up(self.weight_ED, negative_QK[0])
            bias_K = look_up(bias_E1, negative_QK[0])[:, 0]
            scores_GK = functional.linear(answers_GD, weight_KD, bias_K)
            return torch.cat([own_G1, scores_GK], 1)
        negative_GK = negative_QK.expand(batch.queries, -1)[batch.query_G]
        return self.pairs(answers_GD, torch.cat([positive_G[:, None], negative_GK], 1))

    def pairs(self, answers_GD: Tensor, candidate_GK: Tensor) -> Tensor:
        """scores_GK of each query's own candidates."""
        bias_GK = look_up(self.bias_E[:, None], candidate_GK)[..., 0]
        return pair_scores(answers_GD, self.weight_ED, candidate_GK) + bias_GK


def _normal(rows: int, width: int, generator: torch.Generator) -> nn.Parameter:
    """A table of normal numbers whose rows have a length of about 1."""
    return nn.Parameter(torch.randn(rows, width, generator=generator) * width**-0.5)
