"""CLMPT, the paper in one file: Conditional Logical Message Passing Transformer (KDD 2024).

Only variables receive messages; a transformer over a variable's messages and its own embedding
updates it; the number of layers is the distance to the farthest constant; the free variable's final
embedding ranks all entities by cosine similarity. `layout.py` schedules the computation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.errors import SettingError
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.predictors.predictor import EmbeddingPredictor, look_up
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.dropout import NO_DROPOUT, Dropout, SetDropout
from clmpt.reasoners.message_passing.asking import MessagePassingReasoner
from clmpt.reasoners.message_passing.candidates import CandidateTable, pair_cosines
from clmpt.reasoners.message_passing.clmpt_settings import (
    CLMPTSettings,
    MessagePassingSettings,
    suggested_encoder,
    suggested_settings,
)
from clmpt.reasoners.message_passing.layout import QueryBatch, Wave, lay_out_queries
from clmpt.reasoners.message_passing.state_cache import StateCache
from clmpt.reasoners.message_passing.unrolling import PassingOptions
from clmpt.reasoners.model import Basis, Candidates, Cost, GradientModel
from clmpt.reasoners.token_sets import Sizes, linear, sets_of

# Shapes: Q queries, G graphs (a query's alternatives), I items, M messages, T tokens, U updates,
# C constants, E entities, D width, H heads, K candidates, s size of a set

_MESSAGES = 4  # per update on average over the training shapes, including the node itself


@dataclass(frozen=True)
class Trace:
    """All messages and embeddings behind the answers, by the batch's numbering of items.

    `attention` has, for each wave and each set size in it, weights_UHss: how much each member of a
    set (row) attends to each member (column) in the last encoder block.
    """

    items_ID: Tensor
    attention: tuple[tuple[Tensor, ...], ...]


class MessagePassing(GradientModel):
    """What CLMPT shares with LMPNN: nodes receive messages from their neighbours, layer by layer.
    All layers share the same update, so queries may have any depth."""

    settings: MessagePassingSettings
    predictor: EmbeddingPredictor
    labelled = ("conditional", "frozen")
    phases: ClassVar = {"messages": "messages", "encoder": "update"}

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        self.predictor.requires_grad_(not settings.frozen)
        width = self.predictor.entities_ED.shape[1]
        self.existential_D, self.free_D = (
            nn.Parameter(torch.rand(width, generator=generator) * settings.variable_scale)
            for _ in range(2)
        )
        self.table = CandidateTable(self.predictor)

    @abstractmethod
    def update(
        self, token_TD: Tensor, sizes: Sizes, dropout: SetDropout, weights: list[Tensor] | None
    ) -> Tensor:
        """A new embedding for every set, whose last member is the node to update.

        Attention weights are appended to `weights`, if given.
        """

    # --- queries in, embeddings out ---------------------------------------------------------------

    def passing(self, share: bool = True) -> PassingOptions:
        inverse_R = self.predictor.inverse_R.cpu().numpy()
        reversible = self.predictor.can_reverse()
        return PassingOptions(inverse_R, self.settings.conditional, True, share, reversible)

    def lay_out(self, groups: Sequence[QueryGroup]) -> QueryBatch:
        """For training, where equal updates are not shared, because dropout makes them differ."""
        return lay_out_queries(groups, self.passing(share=self.settings.dropout == 0))

    def messages(self, items_ID: Tensor, relations_BW: Tensor, wave: Wave) -> Tensor:
        """The predictor's inference along each edge, from the embedding at its other end."""
        return self.predictor.rho(
            look_up(items_ID, wave.source_M),
            relations_BW,
            wave.relation_M,
            wave.to_head_M,
            wave.negated_M,
            self.settings.penalty or None,
        )  # eq:message

    def propagate(
        self,
        batch: QueryBatch,
        constants_CD: Tensor | None = None,
        dropout: Dropout = NO_DROPOUT,
        cache: StateCache | None = None,
        traced: bool = False,
    ) -> Trace:
        """Runs all layers. `constants_CD` are rows of the entity table, if the caller has them.

        `cache` must be the one that the batch was laid out with, if any.
        """
        if constants_CD is None:
            constants_CD = look_up(self.predictor.entities_ED, batch.entity_C)
        relations_BW = look_up(self.predictor.relations_SW, batch.relation_B)
        variables_2D = torch.stack([self.existential_D, self.free_D])
        items_ID = torch.cat([variables_2D, constants_CD])  # eq:initial
        attention = []
        for wave in batch.waves:
            message_MD = self.messages(items_ID, relations_BW, wave)
            cached = [] if cache is None else [cache.look_up(wave.cached_V)]
            items_ID = torch.cat([items_ID, message_MD, *cached])
            weights: list[Tensor] | None = [] if traced else None
            if wave.sizes:
                token_TD = look_up(items_ID, wave.token_T)
                own = dropout.of_sets(wave.key_U, wave.sizes)
                updated_UD = self.update(token_TD, wave.sizes, own, weights)
                items_ID = torch.cat([items_ID, updated_UD])
                if cache is not None:
                    cache.store(wave.number_K, updated_UD[wave.stored_K])
            attention.append(tuple(weights or ()))
        return Trace(items_ID, tuple(attention))

    def forward(
        self,
        batch: QueryBatch,
        constants_CD: Tensor | None = None,
        dropout: Dropout = NO_DROPOUT,
        cache: StateCache | None = None,
    ) -> Tensor:
        """answers_GD: the free variable's final embedding in each graph of the batch."""
        trace = self.propagate(batch, constants_CD, dropout, cache)
        return look_up(trace.items_ID, batch.answer_G)

    # --- scores and the training loss -------------------------------------------------------------

    def scores(self, batch: QueryBatch) -> Tensor:
        return self.similarities(self(batch), self.unit_entities(), batch)

    def unit_entities(self) -> Tensor:
        return unit(self.predictor.entities_ED)

    def similarities(self, answers_GD: Tensor, unit_ED: Tensor, batch: QueryBatch) -> Tensor:
        """scores_QE from answer embeddings and normalised entity embeddings."""
        scores_GE = unit(answers_GD) @ unit_ED.T  # eq:cosine
        return self.best_alternative(scores_GE, batch)

    def best_alternative(self, scores_GE: Tensor, batch: QueryBatch) -> Tensor:
        return best_alternative(scores_GE, batch.query_G, batch.queries)

    def loss(self, batch: QueryBatch, candidates: Candidates, generator: torch.Generator) -> Tensor:
        """The NCE loss. Looks up the entity table once, so that it has only one gradient."""
        rows = self.table.rows(batch.entity_C, candidates)
        dropout = Dropout(self.settings.dropout, generator, candidates.first)
        answers_GD = self(batch, look_up(rows.rows_UD, rows.constant_C), dropout)
        if rows.negative_QK is None:
            scores_GE = cosine(answers_GD, rows.rows_UD)
            scores_QE = best_alternative(scores_GE, batch.query_G, batch.queries)
            logits_QE = scores_QE / self.settings.temperature
            return functional.cross_entropy(logits_QE, rows.positive_Q)
        query_GD = unit(answers_GD)
        if len(rows.negative_QK) == 1 < batch.queries:
            candidate_G1 = rows.positive_Q[batch.query_G, None]
            positive_G1 = pair_cosines(query_GD, rows.rows_UD, rows.length_U1, candidate_G1)
            negative_KD = unit(look_up(rows.rows_UD, rows.negative_QK[0]))
            scores_GK = torch.cat([positive_G1, query_GD @ negative_KD.T], 1)
        else:
            candidate_QK = torch.cat([rows.positive_Q[:, None], rows.negative_QK], 1)
            candidate_GK = candidate_QK[batch.query_G]
            scores_GK = pair_cosines(query_GD, rows.rows_UD, rows.length_U1, candidate_GK)
        scores_QK = best_alternative(scores_GK, batch.query_G, batch.queries)
        return nce_loss(scores_QK[:, :1], scores_QK[:, 1:], self.settings.temperature)

    # --- the rest of the interface ----------------------------------------------------------------

    def reasoner(self) -> MessagePassingReasoner:
        return MessagePassingReasoner(self)

    def notes(self, query: Query) -> tuple[str, ...]:
        graphs = query_graphs(query)
        return graphs.notes + graphs.out_of_reach

    @classmethod
    def label(cls, settings: MessagePassingSettings) -> str:
        """The variant's name as in the paper's tables: what differs from the published model."""
        usual, named = cls.Settings(), cls.title
        assert isinstance(usual, MessagePassingSettings)
        if settings.conditional != usual.conditional:
            named += " with C" if settings.conditional else " without C"
        if settings.frozen != usual.frozen:
            named += " (frozen)" if settings.frozen else " (trainable)"
        return named

    @classmethod
    def suggested(cls, entities: int) -> dict[str, Any]:
        return suggested_settings(entities)

    @classmethod
    def check(
        cls,
        settings: Any,
        predictor: type[EmbeddingPredictor],
        width: int,  # noqa: ARG003
    ) -> None:
        if settings.penalty and not predictor.has_penalty:
            raise SettingError(
                f"{predictor.__name__} has no one-hop inference with a penalty. Set it to 0."
            )

    @classmethod
    def trains_entities(cls, settings: MessagePassingSettings) -> bool:
        return not settings.frozen

    @classmethod
    @abstractmethod
    def products_per_token(cls, settings: Any, width: int) -> float:
        """Multiplications and additions per token of an update."""

    def cost(self, batch: QueryBatch) -> Cost:
        width = self.predictor.entities_ED.shape[1]
        per_token = self.products_per_token(self.settings, width)
        return Cost(per_token * batch.tokens, tokens=batch.tokens)

    @classmethod
    def expected_cost(cls, settings: Any, width: int) -> Cost:
        products = _MESSAGES * cls.products_per_token(settings, width)
        return Cost(products, 4 * _MESSAGES * (8 * width + 2 * settings.feed_forward), _MESSAGES)


def cosine(answers_GD: Tensor, entities_ED: Tensor) -> Tensor:
    """scores_GE: the cosine similarity of each answer with each entity."""
    return unit(answers_GD) @ unit(entities_ED).T  # eq:cosine


def unit(rows_ND: Tensor) -> Tensor:
    return functional.normalize(rows_ND, dim=-1)


def nce_loss(positive_Q1: Tensor, negative_QK: Tensor, temperature: float) -> Tensor:
    """The mean over queries of -log softmax of the positive, from cosines.

    Uses logsumexp, since exponentials overflow at low temperatures.
    """
    cosine_QK = torch.cat([positive_Q1, negative_QK], 1) / temperature  # eq:nce-similarity
    return (cosine_QK.logsumexp(1) - cosine_QK[:, 0]).mean()  # eq:nce


# --- the update: a transformer encoder over a set -------------------------------------------------


class CLMPT(MessagePassing):
    """Updates a node with a transformer over its messages and itself, without positions."""

    title = "CLMPT"
    Settings = CLMPTSettings
    settings: CLMPTSettings

    def __init__(self, basis: Basis, settings: CLMPTSettings, generator: torch.Generator) -> None:
        super().__init__(basis, settings, generator)
        width = self.predictor.entities_ED.shape[1]
        self.check(settings, type(self.predictor), width)
        self.blocks = nn.ModuleList(
            EncoderBlock(width, settings, generator) for _ in range(settings.encoder_layers)
        )
        self.final_norm = _norm(width, settings)

    @classmethod
    def check(
        cls, settings: CLMPTSettings, predictor: type[EmbeddingPredictor], width: int
    ) -> None:
        super().check(settings, predictor, width)
        if width % settings.heads:
            raise SettingError(
                f"{settings.heads} heads do not divide the predictor's width of {width}."
            )

    @classmethod
    def suggested(cls, entities: int) -> dict[str, Any]:
        return {**super().suggested(entities), **suggested_encoder(entities)}

    @classmethod
    def summary(cls, settings: CLMPTSettings) -> str:
        layers, heads = settings.encoder_layers, settings.heads
        return (
            f"{layers} encoder layer{'s' * (layers != 1)}, {heads} head{'s' * (heads != 1)}, "
            f"feed-forward {settings.feed_forward}"
        )

    @classmethod
    def products_per_token(cls, settings: CLMPTSettings, width: int) -> float:
        return settings.encoder_layers * 2.0 * (4 * width**2 + 2 * width * settings.feed_forward)

    def update(
        self,
        token_TD: Tensor,
        sizes: Sizes,
        dropout: SetDropout,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        if self.settings.norm == "pre":
            token_TD = dropout.of_members(token_TD * math.sqrt(token_TD.shape[1]))
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            token_TD = block(token_TD, sizes, dropout, weights if last else None)
        pooled = []
        for set_UsD in sets_of(self.final_norm(token_TD), sizes):
            if self.settings.pooling == "mean":
                pooled.append(set_UsD.mean(1))  # eq:update
            elif self.settings.pooling == "sum":
                pooled.append(set_UsD.sum(1))
            else:
                pooled.append(set_UsD.amax(1))
        return torch.cat(pooled)


class EncoderBlock(nn.Module):
    """Self-attention within each set, then a feed-forward network on each member."""

    def __init__(self, width: int, settings: CLMPTSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, self.pre_norm = settings.heads, settings.norm == "pre"
        # The authors' attention has biases with one norm order and none with the other.
        biased = not self.pre_norm
        self.query_key_value = linear(width, width, generator, biased, maps=3)
        self.output = linear(width, width, generator, biased)
        self.expand = linear(width, settings.feed_forward, generator)
        self.contract = linear(settings.feed_forward, width, generator)
        self.attention_norm, self.feed_forward_norm = _norm(width, settings), _norm(width, settings)
        for last in (self.output, self.contract):
            last.weight.data *= settings.branch_scale

    def forward(
        self, token_TD: Tensor, sizes: Sizes, dropout: SetDropout, weights: list[Tensor] | None
    ) -> Tensor:
        if self.pre_norm:
            attended_TD = self.attention(self.attention_norm(token_TD), sizes, dropout, weights)
            token_TD = token_TD + dropout.of_members(attended_TD)
            hidden_TD = self.feed_forward(self.feed_forward_norm(token_TD), dropout)
            return token_TD + dropout.of_members(hidden_TD)
        attended_TD = self.attention(token_TD, sizes, dropout, weights)
        token_TD = self.attention_norm(token_TD + dropout.of_members(attended_TD))
        hidden_TD = self.feed_forward(token_TD, dropout)
        normed: Tensor = self.feed_forward_norm(token_TD + dropout.of_members(hidden_TD))
        return normed

    def attention(
        self, token_TD: Tensor, sizes: Sizes, dropout: SetDropout, weights: list[Tensor] | None
    ) -> Tensor:
        attended = []
        sets = sets_of(self.query_key_value(token_TD), sizes)
        for set_UsD, dropped in zip(sets, dropout.by_size(), strict=True):
            parts_Us3Hd = set_UsD.reshape(*set_UsD.shape[:2], 3, self.heads, -1)
            query_UHsd, key_UHsd, value_UHsd = parts_Us3Hd.permute(2, 0, 3, 1, 4).unbind()
            logit_UHss = query_UHsd @ key_UHsd.mT / math.sqrt(query_UHsd.shape[-1])
            weight_UHss = logit_UHss.softmax(-1)
            if weights is not None:
                weights.append(weight_UHss.detach())
            mixed_UHsd = dropped(weight_UHss) @ value_UHsd  # eq:attention
            attended.append(mixed_UHsd.transpose(1, 2).flatten(2).flatten(0, 1))
        output: Tensor = self.output(torch.cat(attended))
        return output

    def feed_forward(self, token_TD: Tensor, dropout: SetDropout) -> Tensor:
        contracted: Tensor = self.contract(dropout.relu_of_members(self.expand(token_TD)))
        return contracted


def _norm(width: int, settings: CLMPTSettings) -> nn.LayerNorm:
    """LayerNorm with the ε of the authors' models, which depends on the norm order."""
    return nn.LayerNorm(width, 1e-6 if settings.norm == "pre" else 1e-5)
