"""Which token sees which, layer by layer, for queries of any shapes at once.

Tokens are ordered by how many they see, so that those of one number are one block and nothing is
padded. A layer leaves out what is too far from every free variable to reach it any more: with as
many layers as the farthest constant needs, that is half of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.transformers.token_graphs import TokenGraph
from clmpt.reasoners.transformers.token_layout import fill_tokens

# Shapes: T tokens of a batch, U of them in a layer, k tokens that one sees, G answers, C constants,
# B relations, n queries of a group, t tokens of a graph that see equally many, S all of its tokens


@dataclass(frozen=True)
class EdgeLayer:
    """Which of the tokens before it a layer computes, None if all; and for those that see k tokens,
    which these are, by rising k."""

    kept_U: Tensor | None
    seen: tuple[Tensor, ...]  # seen_Uk

    def kept(self, value_TX: Tensor) -> Tensor:
        """Rows of the tokens that are left."""
        return value_TX if self.kept_U is None else value_TX[self.kept_U]

    def to(self, device: torch.device) -> EdgeLayer:
        kept_U = None if self.kept_U is None else self.kept_U.to(device)
        return EdgeLayer(kept_U, tuple(seen_Uk.to(device) for seen_Uk in self.seen))


@dataclass(frozen=True)
class EdgeBatch:
    """Queries as tokens, and what each layer computes of them."""

    entity_C: Tensor
    relation_B: Tensor
    item_T: Tensor
    place_T: Tensor
    key_T: Tensor
    layers: tuple[EdgeLayer, ...]
    answer_G: Tensor  # among the tokens of the last layer
    query_G: Tensor
    answers: AnswerSets

    @property
    def queries(self) -> int:
        return len(self.answers)

    @property
    def states(self) -> int:
        """How many states all layers compute."""
        return sum(sum(map(len, layer.seen)) for layer in self.layers)

    def to(self, device: torch.device) -> EdgeBatch:
        tensors = {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, layers=tuple(each.to(device) for each in self.layers), **moved)


def lay_out_edges(
    groups: Sequence[QueryGroup],
    graphs: Callable[[Query], Sequence[TokenGraph]],
    inverse_R: Ints,
    layers: int,
) -> EdgeBatch:
    """A batch of the queries of all groups, in order.

    >>> from clmpt.logic.shapes import shape
    >>> from clmpt.reasoners.transformers.token_graphs import token_graphs
    >>> none = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    >>> ids = np.array([[1], [3]])
    >>> group = QueryGroup("1p", shape("1p"), ids, ids, none, none)
    >>> batch = lay_out_edges([group], lambda query: token_graphs(query, ""), np.arange(5), 3)
    >>> len(batch.item_T), batch.states  # in layers of ?y, r and s; of ?y and r; of ?y alone
    (8, 12)
    """
    filled = fill_tokens(groups, graphs, inverse_R)
    first, blocks, answers = 0, dict[int, list[_Seeing]](), []
    for part in filled.parts:
        start_n = first + np.arange(len(part.query_n)) * len(part.graph.tokens)
        for size, found in _by_size(part.graph, start_n).items():
            blocks.setdefault(size, []).append(found)
        answers += [start_n + free for free in part.graph.free]
        first += part.item_nS.size
    laid_out = _Layers([_Seeing.joined(blocks[size]) for size in sorted(blocks)], first, layers)
    token_T = laid_out.token_U
    steps = tuple(laid_out.next_layer(layers - done) for done in range(1, layers + 1))
    owners = [part.query_n for part in filled.parts for _ in part.graph.free]
    return EdgeBatch(
        torch.from_numpy(filled.entity_C),
        torch.from_numpy(filled.relation_B),
        torch.from_numpy(_joined([part.item_nS for part in filled.parts])[token_T]),
        torch.from_numpy(_joined([part.place_nS for part in filled.parts])[token_T]),
        torch.from_numpy(_joined([part.key_nS for part in filled.parts])[token_T]),
        steps,
        torch.from_numpy(laid_out.row_T[_joined(answers)]),
        torch.from_numpy(_joined(owners)),
        AnswerSets.joined([group.easy for group in groups]),
    )


@dataclass(frozen=True)
class _Seeing:
    """Tokens that see equally many, with how far they are from a free variable."""

    token_U: Ints
    seen_Uk: Ints
    distance_U: Ints

    @classmethod
    def joined(cls, parts: Sequence[_Seeing]) -> _Seeing:
        return cls(
            np.concatenate([part.token_U for part in parts]),
            np.concatenate([part.seen_Uk for part in parts]),
            np.concatenate([part.distance_U for part in parts]),
        )


def _by_size(graph: TokenGraph, start_n: Ints) -> dict[int, _Seeing]:
    """The tokens of a graph in each query of a group, by how many they see."""
    own: dict[int, list[int]] = {}
    for token, seen in enumerate(graph.seen):
        own.setdefault(len(seen), []).append(token)
    found = {}
    for size, token_t in own.items():
        seen_tk = np.array([graph.seen[token] for token in token_t])
        found[size] = _Seeing(
            (start_n[:, None] + token_t).ravel(),
            (start_n[:, None, None] + seen_tk).reshape(-1, size),
            np.tile(graph.distance_S[token_t], len(start_n)),
        )
    return found


class _Layers:
    """Which tokens are left, and their rows, layer by layer."""

    def __init__(self, blocks: Sequence[_Seeing], tokens: int, layers: int) -> None:
        self.blocks = blocks
        self.row_T = np.empty(tokens, np.int64)
        self.token_U = self.within(layers)
        self.row_T[self.token_U] = np.arange(len(self.token_U))

    def within(self, reach: int) -> Ints:
        """The tokens that reach a free variable in so many layers, in their order."""
        return _joined([block.token_U[block.distance_U <= reach] for block in self.blocks])

    def next_layer(self, reach: int) -> EdgeLayer:
        """A layer after which there are `reach` more."""
        seen = [self.row_T[block.seen_Uk[block.distance_U <= reach]] for block in self.blocks]
        token_U = self.within(reach)
        is_same = len(token_U) == len(self.token_U)
        kept_U = None if is_same else torch.from_numpy(self.row_T[token_U])
        self.token_U = token_U
        self.row_T[token_U] = np.arange(len(token_U))
        return EdgeLayer(kept_U, tuple(torch.from_numpy(each) for each in seen if len(each)))


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *(array.ravel() for array in arrays)])
