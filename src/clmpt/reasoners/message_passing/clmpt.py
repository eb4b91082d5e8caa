"""CLMPT, the paper in one file: Conditional Logical Message Passing Transformer (KDD 2024).

Messages go only to variables; a transformer over a variable's messages and its own embedding
updates it; after as many layers as the farthest constant is away, the free variable's embedding
ranks all entities by cosine. What is computed when is laid out by `neural/batching.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.errors import SettingError
from clmpt.predictors.predictor import EmbeddingPredictor, look_up
from clmpt.reasoners.message_passing.dropout import NO_DROPOUT, Dropout
from clmpt.reasoners.message_passing.layout import QueryBatch
from clmpt.reasoners.message_passing.state_cache import Memory
from clmpt.reasoners.message_passing.unrolling import Passing
from clmpt.settings import Reasoning

# Shapes: Q queries, G graphs (a query's alternatives), I items, M messages, T tokens, U updates,
# C constants, E entities, D width, H heads, K candidates, s size of a set

Sizes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Thoughts:
    """Every message and embedding that led to the answers, by the batch's numbering of items.

    `attention` has, for each wave and each size of set in it, weights_UHss: how much
    each member of a set (row) drew from each (column), in the last encoder block.
    """

    items_ID: Tensor
    attention: tuple[tuple[Tensor, ...], ...]


class MessagePassing(nn.Module, ABC):
    """What the paper shares with LMPNN: variables that hear from their neighbours, layer by layer.

    All layers share one update, so a query may have any depth.
    """

    def __init__(
        self, predictor: EmbeddingPredictor, settings: Reasoning, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.predictor, self.settings = predictor, settings
        width = predictor.entities_ED.shape[1]
        self.existential_D, self.free_D = (
            nn.Parameter(torch.rand(width, generator=generator) * settings.variable_scale)
            for _ in range(2)
        )

    def passing(self, share: bool = True) -> Passing:
        """How queries must be laid out for this model."""
        inverse_R = self.predictor.inverse_R.cpu().numpy()
        return Passing(inverse_R, self.settings.conditional, share=share)

    @abstractmethod
    def update(
        self, token_TD: Tensor, sizes: Sizes, dropout: Dropout, seen: list[Tensor] | None
    ) -> Tensor:
        """A new embedding for every set; a set's last member is the node that is updated."""

    def think(
        self,
        batch: QueryBatch,
        constants_CD: Tensor | None = None,
        dropout: Dropout = NO_DROPOUT,
        memory: Memory | None = None,
        watch: bool = False,
    ) -> Thoughts:
        """All layers. `constants_CD`: rows of the entity table, where the caller has them.

        `memory` is what the batch was made with, if with any.
        """
        if constants_CD is None:
            constants_CD = look_up(self.predictor.entities_ED, batch.entity_C)
        relations_BW = look_up(self.predictor.relations_SW, batch.relation_B)
        variables_2D = torch.stack([self.existential_D, self.free_D])
        items_ID = torch.cat([variables_2D, constants_CD])  # eq:initial
        attention = []
        for wave in batch.waves:
            message_MD = self.predictor.rho(
                look_up(items_ID, wave.source_M),
                look_up(relations_BW, wave.relation_M),
                wave.to_head_M,
                wave.negated_M,
                self.settings.penalty or None,
            )  # eq:message
            known = [] if memory is None else [memory.recall(wave.recalled_V)]
            items_ID = torch.cat([items_ID, message_MD, *known])
            seen: list[Tensor] | None = [] if watch else None
            if wave.sizes:
                token_TD = look_up(items_ID, wave.token_T)
                updated_UD = self.update(token_TD, wave.sizes, dropout, seen)
                items_ID = torch.cat([items_ID, updated_UD])
                if memory is not None:
                    memory.keep(wave.number_K, updated_UD[wave.kept_K])
            attention.append(tuple(seen or ()))
        return Thoughts(items_ID, tuple(attention))

    def forward(
        self,
        batch: QueryBatch,
        constants_CD: Tensor | None = None,
        dropout: Dropout = NO_DROPOUT,
        memory: Memory | None = None,
    ) -> Tensor:
        """answers_GD: the free variable's last embedding in each graph of the batch."""
        thoughts = self.think(batch, constants_CD, dropout, memory)
        return look_up(thoughts.items_ID, batch.answer_G)


def cosine(answers_GD: Tensor, entities_ED: Tensor) -> Tensor:
    """scores_GE: how alike each answer and each entity are, from -1 to 1."""
    return unit(answers_GD) @ unit(entities_ED).T  # eq:cosine


def unit(rows_ND: Tensor) -> Tensor:
    return functional.normalize(rows_ND, dim=-1)


def best_alternative(scores_GN: Tensor, query_G: Tensor, queries: int) -> Tensor:
    """scores_QN: a union is as good as the best of its alternatives."""
    if len(scores_GN) == queries:  # each has one alternative, and they are in order
        return scores_GN
    best_QN = scores_GN.new_full((queries, scores_GN.shape[1]), -math.inf)
    rows_GN = query_G[:, None].expand_as(scores_GN)
    return best_QN.scatter_reduce(0, rows_GN, scores_GN, "amax")  # eq:union


def nce_loss(positive_Q1: Tensor, negative_QK: Tensor, temperature: float) -> Tensor:
    """The mean over queries of -log of the positive's share; cosines in.

    By logsumexp: the exponentials themselves overflow at small temperatures.
    """
    cosine_QK = torch.cat([positive_Q1, negative_QK], 1) / temperature  # eq:nce-similarity
    return (cosine_QK.logsumexp(1) - cosine_QK[:, 0]).mean()  # eq:nce


# --- the update: a transformer encoder over a set -------------------------------------------------


class CLMPT(MessagePassing):
    """Updates a node by a transformer over its messages and itself, without positions."""

    def __init__(
        self, predictor: EmbeddingPredictor, settings: Reasoning, generator: torch.Generator
    ) -> None:
        super().__init__(predictor, settings, generator)
        width = predictor.entities_ED.shape[1]
        if width % settings.heads:
            raise SettingError(
                f"{settings.heads} heads do not divide an embedding of width {width} evenly."
            )
        self.blocks = nn.ModuleList(
            EncoderBlock(width, settings, generator) for _ in range(settings.encoder_layers)
        )
        self.final_norm = _norm(width, settings)

    def update(
        self, token_TD: Tensor, sizes: Sizes, dropout: Dropout, seen: list[Tensor] | None = None
    ) -> Tensor:
        if self.settings.norm == "pre":
            token_TD = dropout(token_TD * math.sqrt(token_TD.shape[1]))
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            token_TD = block(token_TD, sizes, dropout, seen if last else None)
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
    """Self-attention within each set, then a feed-forward network for each of its members."""

    def __init__(self, width: int, settings: Reasoning, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, self.pre_norm = settings.heads, settings.norm == "pre"
        # The authors' attention has biases in one order of norms and none in the other.
        biased = not self.pre_norm
        self.query_key_value = linear(width, width, generator, biased, maps=3)
        self.output = linear(width, width, generator, biased)
        self.expand = linear(width, settings.feed_forward, generator)
        self.contract = linear(settings.feed_forward, width, generator)
        self.attention_norm, self.feed_forward_norm = _norm(width, settings), _norm(width, settings)
        for last in (self.output, self.contract):
            last.weight.data *= settings.branch_scale

    def forward(
        self, token_TD: Tensor, sizes: Sizes, dropout: Dropout, seen: list[Tensor] | None
    ) -> Tensor:
        if self.pre_norm:
            heard_TD = self.attention(self.attention_norm(token_TD), sizes, dropout, seen)
            token_TD = token_TD + dropout(heard_TD)
            thought_TD = self.feed_forward(self.feed_forward_norm(token_TD), dropout)
            return token_TD + dropout(thought_TD)
        heard_TD = self.attention(token_TD, sizes, dropout, seen)
        token_TD = self.attention_norm(token_TD + dropout(heard_TD))
        thought_TD = self.feed_forward(token_TD, dropout)
        normed: Tensor = self.feed_forward_norm(token_TD + dropout(thought_TD))
        return normed

    def attention(
        self, token_TD: Tensor, sizes: Sizes, dropout: Dropout, seen: list[Tensor] | None
    ) -> Tensor:
        heard = []
        for set_UsD in sets_of(self.query_key_value(token_TD), sizes):
            parts_Us3Hd = set_UsD.reshape(*set_UsD.shape[:2], 3, self.heads, -1)
            query_UHsd, key_UHsd, value_UHsd = parts_Us3Hd.permute(2, 0, 3, 1, 4).unbind()
            alike_UHss = query_UHsd @ key_UHsd.mT / math.sqrt(query_UHsd.shape[-1])
            weight_UHss = alike_UHss.softmax(-1)
            if seen is not None:
                seen.append(weight_UHss.detach())
            found_UHsd = dropout(weight_UHss) @ value_UHsd  # eq:attention
            heard.append(found_UHsd.transpose(1, 2).flatten(2).flatten(0, 1))
        output: Tensor = self.output(torch.cat(heard))
        return output

    def feed_forward(self, token_TD: Tensor, dropout: Dropout) -> Tensor:
        contracted: Tensor = self.contract(dropout.relu(self.expand(token_TD)))
        return contracted


def sets_of(token_TD: Tensor, sizes: Sizes) -> list[Tensor]:
    """The sets of each size as one tensor_UsD; nothing is copied."""
    parts = torch.split(token_TD, [size * count for size, count in sizes])
    return [
        part.view(-1, size, part.shape[1]) for part, (size, _) in zip(parts, sizes, strict=True)
    ]


def _norm(width: int, settings: Reasoning) -> nn.LayerNorm:
    """With the ε of the authors' models, which differs between the two orders."""
    return nn.LayerNorm(width, 1e-6 if settings.norm == "pre" else 1e-5)


def linear(
    inside: int, outside: int, generator: torch.Generator, bias: bool = True, maps: int = 1
) -> nn.Linear:
    """A linear map, or several side by side, each with Xavier's uniform weights of its own."""
    made = nn.Linear(inside, outside * maps, bias)
    for part in made.weight.data.chunk(maps):
        nn.init.xavier_uniform_(part, generator=generator)
    if bias:
        nn.init.zeros_(made.bias)
    return made
