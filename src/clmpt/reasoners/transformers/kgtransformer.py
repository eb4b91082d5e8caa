"""kgTransformer (Liu et al., KDD 2022): a transformer along the edges of a query's graph.

Nodes are tokens, and each atom is two tokens, one for either direction. A relation's token sees
where it comes from, a node sees the relations that lead to it, and the feed-forward network is a
mixture of experts. `edge_layout.py` leaves out what cannot reach the free variable any more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.errors import SettingError
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.predictors.predictor import look_up
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.dropout import Dropout, SetDropout
from clmpt.reasoners.model import Cost
from clmpt.reasoners.token_sets import linear
from clmpt.reasoners.transformers.edge_layout import EdgeBatch, EdgeLayer, lay_out_edges
from clmpt.reasoners.transformers.token_graphs import KINDS, token_graphs
from clmpt.reasoners.transformers.token_model import TokenBatch, TokenModel, TokenSettings
from clmpt.settings import setting

# Shapes: T tokens, U of them that a layer computes, k tokens that one sees, P pairs of a token and
# one of its experts, p pairs of one expert, X experts, G answers, Q queries, E entities, D width,
# F hidden width, H heads

# Tokens of an average training query that are within 0, 1, 2, … steps of the free variable.
_WITHIN = (1.0, 2.6, 4.2, 6.2, 6.6, 7.2, 7.4, 7.6)


@dataclass(frozen=True)
class KGTransformerSettings(TokenSettings):
    feed_forward: int = setting(256, "hidden width of an expert", least=1)
    experts: int = setting(4, "experts of a layer", least=1, most=10_000)
    used: int = setting(2, "experts that a token passes through", least=1)
    smoothing: float = setting(0.1, "share of the loss that all entities have", least=0, below=1)
    union: Literal["disjunctive", "joint"] = setting(
        "disjunctive",
        "alternatives are scored apart, or as in the released code in one graph, and by rank",
    )

    @property
    def smooths(self) -> float:
        return self.smoothing

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.used > self.experts:
            raise SettingError(f"'used' must be at most 'experts', which is {self.experts}.")


class KGTransformer(TokenModel):
    title = "kgTransformer"
    Settings = KGTransformerSettings
    settings: KGTransformerSettings

    @classmethod
    def places(cls, settings: Any) -> int:  # noqa: ARG003
        return KINDS

    def add_layers(self, generator: torch.Generator) -> None:
        self.layers = nn.ModuleList(
            _Layer(self.settings, generator) for _ in range(self.settings.layers)
        )
        self.final_norm = nn.LayerNorm(self.settings.rank)

    def lay_out(self, groups: Sequence[QueryGroup]) -> EdgeBatch:
        for group in groups:
            self.check_query(self.settings, group.template)
        graphs = partial(token_graphs, union=self.settings.union)
        return lay_out_edges(groups, graphs, self.inverse_rows, self.settings.layers)

    def encode(self, token_TD: Tensor, batch: EdgeBatch, dropout: Dropout) -> Tensor:
        key_T = batch.key_T
        for number, (layer, edges) in enumerate(zip(self.layers, batch.layers, strict=True)):
            key_T = edges.kept(key_T)
            token_TD = layer(token_TD, edges, self.dropout_of(key_T, number, dropout))
        final_TD: Tensor = self.final_norm(token_TD)
        return look_up(final_TD, batch.answer_G)

    def scores(self, batch: TokenBatch) -> Tensor:
        scores_GE = self.head(self(batch))
        if self.settings.union == "joint":
            several_G = torch.bincount(batch.query_G)[batch.query_G] > 1
            scores_GE[several_G] = _ranks(scores_GE[several_G])
        return best_alternative(scores_GE, batch.query_G, batch.queries)

    def notes(self, query: Query) -> tuple[str, ...]:
        return (*super().notes(query), *self.too_far(query))

    def too_far(self, query: Query) -> tuple[str, ...]:
        """What is left out because an atom's state needs more layers than there are."""
        atoms = [
            min(graph.distance[edge.head], graph.distance[edge.tail])
            for graph in query_graphs(query).alternatives
            for edge in graph.edges
        ]
        # An atom is two steps: from one end to its token, and from that to the other end.
        left_out = sum(2 * distance + 2 > self.settings.layers for distance in atoms)
        if not left_out:
            return ()
        return (
            f"{left_out} of {len(atoms)} atoms lead from something that is too far from "
            f"?{query.free.name} to be seen in {self.settings.layers} layers.",
        )

    @classmethod
    def products_per_token(cls, settings: KGTransformerSettings) -> float:
        width, experts = settings.rank, 2 * settings.used * settings.feed_forward
        return 2.0 * width * (4 * width + settings.experts + experts)

    def cost(self, batch: EdgeBatch) -> Cost:
        return self.cost_of(self.settings, batch.states, len(batch.item_T))

    @classmethod
    def expected_cost(cls, settings: KGTransformerSettings, width: int) -> Cost:  # noqa: ARG003
        states = sum(_WITHIN[min(reach, len(_WITHIN) - 1)] for reach in range(settings.layers))
        return cls.cost_of(settings, states, round(_WITHIN[-1]))


class _Layer(nn.Module):
    """Attention along edges, then the experts, each added to what is normalised for it."""

    def __init__(self, settings: KGTransformerSettings, generator: torch.Generator) -> None:
        super().__init__()
        width = settings.rank
        self.heads = settings.heads
        self.attention_norm, self.experts_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (
            linear(width, width, generator) for _ in range(4)
        )
        self.experts = _Experts(settings, generator)

    def forward(self, token_TD: Tensor, edges: EdgeLayer, dropout: SetDropout) -> Tensor:
        attended_UD = self.output(self.attended(self.attention_norm(token_TD), edges))
        token_UD = edges.kept(token_TD) + dropout.of_members(attended_UD)
        hidden_UD = self.experts(self.experts_norm(token_UD))
        return token_UD + dropout.of_members(hidden_UD)

    def attended(self, token_TD: Tensor, edges: EdgeLayer) -> Tensor:
        query_UD: Tensor = self.query(edges.kept(token_TD))
        key_TD, value_TD = self.key(token_TD), self.value(token_TD)
        heads, found = (self.heads, token_TD.shape[1] // self.heads), []
        parts = torch.split(query_UD, [len(seen_Uk) for seen_Uk in edges.seen])
        for query_D, seen_Uk in zip(parts, edges.seen, strict=True):
            query_U1Hd = query_D.view(-1, 1, *heads)
            key_UkHd = look_up(key_TD, seen_Uk).view(*seen_Uk.shape, *heads)
            value_UkHd = look_up(value_TD, seen_Uk).view(*seen_Uk.shape, *heads)
            weight_UkH = ((query_U1Hd * key_UkHd).sum(-1) / math.sqrt(heads[1])).softmax(1)
            found.append((weight_UkH[..., None] * value_UkHd).sum(1))  # eq:edge-attention
        return torch.cat(found).flatten(1)


class _Experts(nn.Module):
    """Feed-forward networks of which each token passes through the few that its gate prefers."""

    def __init__(self, settings: KGTransformerSettings, generator: torch.Generator) -> None:
        super().__init__()
        width, hidden, self.used = settings.rank, settings.feed_forward, settings.used
        self.gate = linear(width, settings.experts, generator)
        self.expand_XFD, self.expand_bias_XF = _maps(settings.experts, width, hidden, generator)
        self.contract_XDF, self.contract_bias_XD = _maps(settings.experts, hidden, width, generator)

    def forward(self, token_UD: Tensor) -> Tensor:
        logit_Uu, expert_Uu = self.gate(token_UD).topk(self.used)
        order_P = expert_Uu.flatten().argsort(stable=True)
        sizes = torch.bincount(expert_Uu.flatten(), minlength=len(self.expand_XFD)).tolist()
        maps = (self.expand_XFD, self.expand_bias_XF, self.contract_XDF, self.contract_bias_XD)
        found = []
        for pair_pD, expand, expand_bias, contract, contract_bias in zip(
            torch.split(look_up(token_UD, order_P // self.used), sizes),
            *(each.unbind() for each in maps),
            strict=True,
        ):
            hidden_pF = functional.relu(functional.linear(pair_pD, expand, expand_bias))
            found.append(functional.linear(hidden_pF, contract, contract_bias))
        own_UuD = look_up(torch.cat(found), order_P.argsort()).view(*expert_Uu.shape, -1)
        mixed_UD: Tensor = (logit_Uu.softmax(1)[..., None] * own_UuD).sum(1)
        return mixed_UD  # eq:experts


def _maps(
    count: int, inside: int, outside: int, generator: torch.Generator
) -> tuple[nn.Parameter, nn.Parameter]:
    """The weights and biases of several linear maps, which start as `linear` does."""
    made = [linear(inside, outside, generator) for _ in range(count)]
    return (
        nn.Parameter(torch.stack([each.weight.data for each in made])),
        nn.Parameter(torch.stack([each.bias.data for each in made])),
    )


def _ranks(scores_GE: Tensor) -> Tensor:
    """How many entities are below each, as numbers that can be compared across graphs."""
    return scores_GE.argsort(dim=1, stable=True).argsort(dim=1).to(scores_GE.dtype)
