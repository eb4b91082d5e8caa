"""BIQE (Kotnis et al., AAAI 2021): a bidirectional transformer over the paths of a query.

A query's graph becomes the paths from its constants to the free variable. Nodes and relations are
tokens whose positions are counted along their path; variables are masked, as the answer is. All
tokens of a query see each other, and the state of the free variable's token scores the entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.graph.edges import Bools, Ints
from clmpt.logic.formula import Query, Variable
from clmpt.logic.query_graph import QueryGraph, query_graphs
from clmpt.logic.query_paths import query_paths
from clmpt.predictors.predictor import look_up
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.dropout import Dropout, SetDropout
from clmpt.reasoners.model import Cost
from clmpt.reasoners.token_sets import Sizes, linear, sets_of
from clmpt.reasoners.transformers.token_layout import QueryToken, fill_tokens, refuse_negation
from clmpt.reasoners.transformers.token_model import TokenModel, TokenSettings
from clmpt.settings import setting

# Shapes: T tokens of a batch, G graphs (alternatives), g graphs with s tokens, o of which are
# computed, n queries of a group, S tokens of a graph, C constants, B relations, D width, H heads,
# F hidden width

_MOST_HOPS = 255
_PLACES = 2 + 2 * _MOST_HOPS  # of a path's tokens; the first row is the free variable's
_EPSILON = 1e-12  # of the normalisation, as in BERT
_TOKENS = 5.4  # of an average training query


@dataclass(frozen=True)
class BIQESettings(TokenSettings):
    layers: int = setting(3, "layers of the transformer", least=1, most=1000)
    feed_forward: int = setting(512, "hidden width of the feed-forward network", least=1)
    paths: Literal["together", "apart"] = setting(
        "together", "tokens see all paths alike, as published, or know which are on their own path"
    )


@dataclass(frozen=True)
class PathTokens:
    """The tokens of a graph: first the free variable, which all paths share, then path by path."""

    tokens: tuple[QueryToken, ...]
    path: tuple[int, ...]  # the number of each token's path; -1 for the free variable

    @property
    def together_SS(self) -> Bools:
        """Which tokens are on one path."""
        path_S = np.array(self.path)
        found: Bools = (path_S[:, None] == path_S) | (path_S < 0) | (path_S < 0)[:, None]
        return found


@dataclass(frozen=True)
class PathBatch:
    """Queries as sets of tokens, ordered by their size; the first of a set is the free variable."""

    entity_C: Tensor
    relation_B: Tensor
    item_T: Tensor
    place_T: Tensor
    key_T: Tensor
    sizes: Sizes
    together: tuple[Tensor, ...]  # of each size, if paths are told apart: together_g1ss
    set_G: Tensor  # the set of each graph
    query_G: Tensor
    answers: AnswerSets

    @property
    def queries(self) -> int:
        return len(self.answers)

    def to(self, device: torch.device) -> PathBatch:
        tensors = {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, together=tuple(each.to(device) for each in self.together), **moved)


@lru_cache(maxsize=1024)
def path_tokens(query: Query) -> tuple[PathTokens, ...]:
    """The tokens of each alternative.

    >>> from clmpt.logic.shapes import shape
    >>> (graph,) = path_tokens(shape("pi"))
    >>> [token.symbol.name if token.symbol else "mask" for token in graph.tokens]
    ['mask', 's2', 'r3', 's1', 'r1', 'mask', 'r2']
    >>> [token.place for token in graph.tokens]
    [0, 1, 2, 1, 2, 3, 4]
    """
    return tuple(map(_tokens, query_graphs(query).alternatives))


def _tokens(graph: QueryGraph) -> PathTokens:
    tokens, owner = [QueryToken(None, 0)], [-1]
    for number, path in enumerate(query_paths(graph, _MOST_HOPS)):
        for count, hop in enumerate(path):
            term = None if hop.start is None else graph.terms[hop.start]
            symbol = None if isinstance(term, Variable) else term
            relation = graph.edges[hop.edge].relation
            tokens.append(QueryToken(symbol, 2 * count + 1))
            tokens.append(QueryToken(relation, 2 * count + 2, True, hop.backwards))
            owner += [number, number]
    return PathTokens(tuple(tokens), tuple(owner))


def lay_out_paths(groups: Sequence[QueryGroup], inverse_R: Ints, apart: bool = False) -> PathBatch:
    """A batch of the queries of all groups, in order; `apart` notes which tokens share a path.

    >>> from clmpt.logic.shapes import shape
    >>> none = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    >>> ids = np.array([[1, 2], [3, 4]])
    >>> groups = [QueryGroup(name, shape(name), ids[:, :hops], ids[:, :hops], none, none)
    ...           for name, hops in (("2i", 2), ("1p", 1))]
    >>> batch = lay_out_paths(groups, np.arange(5))
    >>> batch.sizes, batch.set_G.tolist()
    (((3, 2), (5, 2)), [2, 3, 0, 1])
    """
    filled = fill_tokens(groups, path_tokens, inverse_R)
    order = sorted(range(len(filled.parts)), key=lambda at: len(filled.parts[at].graph.tokens))
    parts = [filled.parts[at] for at in order]
    counts: dict[int, int] = {}
    together: dict[int, list[Bools]] = {}
    for part in parts:
        size, count = len(part.graph.tokens), len(part.query_n)
        counts[size] = counts.get(size, 0) + count
        if apart:
            mask_nSS = np.broadcast_to(part.graph.together_SS, (count, size, size))
            together.setdefault(size, []).append(mask_nSS)
    lengths = [len(part.query_n) for part in parts]
    starts = dict(zip(order, np.cumsum([0, *lengths]), strict=False))
    sets = [starts[at] + np.arange(len(part.query_n)) for at, part in enumerate(filled.parts)]
    return PathBatch(
        torch.from_numpy(filled.entity_C),
        torch.from_numpy(filled.relation_B),
        _joined([part.item_nS for part in parts]),
        _joined([part.place_nS for part in parts]),
        _joined([part.key_nS for part in parts]),
        tuple(counts.items()),
        tuple(torch.from_numpy(np.concatenate(each))[:, None] for each in together.values()),
        _joined(sets),
        _joined([part.query_n for part in filled.parts]),
        AnswerSets.joined([group.easy for group in groups]),
    )


def _joined(arrays: Sequence[Ints]) -> Tensor:
    return torch.from_numpy(
        np.concatenate([np.empty(0, np.int64), *(array.ravel() for array in arrays)])
    )


class BIQE(TokenModel):
    title = "BIQE"
    Settings = BIQESettings
    settings: BIQESettings

    @classmethod
    def places(cls, settings: Any) -> int:  # noqa: ARG003
        return _PLACES

    def add_layers(self, generator: torch.Generator) -> None:
        self.token_norm = nn.LayerNorm(self.settings.rank, _EPSILON)
        self.layers = nn.ModuleList(
            _Layer(self.settings, generator) for _ in range(self.settings.layers)
        )

    @classmethod
    def check_query(cls, settings: Any, query: Query) -> None:  # noqa: ARG003
        refuse_negation(query, cls.title)
        path_tokens(query)

    def lay_out(self, groups: Sequence[QueryGroup]) -> PathBatch:
        for group in groups:
            refuse_negation(group.template, self.title)
        return lay_out_paths(groups, self.inverse_rows, self.settings.paths == "apart")

    def encode(self, token_TD: Tensor, batch: PathBatch, dropout: Dropout) -> Tensor:
        own = self.dropout_of(batch.key_T, 0, dropout)
        token_TD = own.of_members(self.token_norm(token_TD))
        first_T = _first_of_sets(batch.sizes, token_TD.device)
        for number, layer in enumerate(self.layers, 1):
            is_last = number == len(self.layers)
            kept_T = first_T if is_last else None
            key_T = batch.key_T if kept_T is None else batch.key_T[kept_T]
            own = self.dropout_of(key_T, number, dropout)
            token_TD = layer(token_TD, batch, kept_T, own)
        return look_up(token_TD, batch.set_G)

    def notes(self, query: Query) -> tuple[str, ...]:
        """Where paths are not told apart, which relation is on whose path is not known."""
        if self.settings.paths == "apart" or all(
            max(graph.path) < 1 for graph in path_tokens(query)
        ):
            return super().notes(query)
        return (*super().notes(query), _TOGETHER)

    @classmethod
    def products_per_token(cls, settings: BIQESettings) -> float:
        return 2.0 * settings.rank * (4 * settings.rank + 2 * settings.feed_forward)

    def cost(self, batch: PathBatch) -> Cost:
        tokens, sets = len(batch.item_T), len(batch.set_G)
        return self.cost_of(self.settings, tokens * (self.settings.layers - 1) + sets, tokens)

    @classmethod
    def expected_cost(cls, settings: BIQESettings, width: int) -> Cost:  # noqa: ARG003
        return cls.cost_of(settings, _TOKENS * (settings.layers - 1) + 1, round(_TOKENS))


class _Layer(nn.Module):
    """As in BERT: attention among all tokens of a set, then a network, each normalised after it is
    added. `own_path_H` is what tokens of the same path gain in attention, if paths are apart."""

    def __init__(self, settings: BIQESettings, generator: torch.Generator) -> None:
        super().__init__()
        width = settings.rank
        self.heads = settings.heads
        self.query = linear(width, width, generator)
        self.key_value = linear(width, width, generator, maps=2)
        self.output = linear(width, width, generator)
        self.expand = linear(width, settings.feed_forward, generator)
        self.contract = linear(settings.feed_forward, width, generator)
        self.attention_norm, self.feed_forward_norm = (
            nn.LayerNorm(width, _EPSILON) for _ in range(2)
        )
        if settings.paths == "apart":
            self.own_path_H = nn.Parameter(torch.randn(settings.heads, generator=generator))

    def forward(
        self, token_TD: Tensor, batch: PathBatch, kept_T: Tensor | None, dropout: SetDropout
    ) -> Tensor:
        """The states of all tokens, or of some: the first of each set."""
        left_TD = token_TD if kept_T is None else token_TD.index_select(0, kept_T)
        wanted = batch.sizes if kept_T is None else tuple((1, count) for _, count in batch.sizes)
        queries = sets_of(self.query(left_TD), wanted)
        mixed_TD = self.attended(queries, sets_of(self.key_value(token_TD), batch.sizes), batch)
        left_TD = self.attention_norm(left_TD + dropout.of_members(self.output(mixed_TD)))
        hidden_TF = functional.gelu(self.expand(left_TD))
        added_TD = dropout.of_members(self.contract(hidden_TF))
        found_TD: Tensor = self.feed_forward_norm(left_TD + added_TD)
        return found_TD

    def attended(self, queries: list[Tensor], keys: list[Tensor], batch: PathBatch) -> Tensor:
        """What queries_goD see among keys_gsD and values, for the sets of each size."""
        found = []
        for number, (query_goD, both_gsD) in enumerate(zip(queries, keys, strict=True)):
            query_gHod = query_goD.view(*query_goD.shape[:2], self.heads, -1).transpose(1, 2)
            both = both_gsD.view(*both_gsD.shape[:2], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
            bias_gHos = None
            if batch.together:
                together_g1os = batch.together[number][:, :, : query_goD.shape[1]]
                bias_gHos = together_g1os * self.own_path_H[:, None, None]
            mixed_gHod = functional.scaled_dot_product_attention(
                query_gHod, both[0], both[1], bias_gHos
            )  # eq:path-attention
            found.append(mixed_gHod.transpose(1, 2).flatten(2).flatten(0, 1))
        return torch.cat(found)


_TOGETHER = (
    "All paths are read as one set of tokens, so a relation of one path can be taken for one of "
    "another."
)


def _first_of_sets(sizes: Sizes, device: torch.device) -> Tensor:
    """The first token of each set."""
    found, start = [], 0
    for size, count in sizes:
        found.append(torch.arange(start, start + size * count, size, device=device))
        start += size * count
    return torch.cat(found)
