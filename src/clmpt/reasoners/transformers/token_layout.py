"""The tokens of queries as arrays: what each of them stands for, whatever shapes are in a batch.

A model says once per shape which tokens a query has; here they are filled in for all queries of
that shape. In which order they are computed, and which sees which, is up to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query, Symbol
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.dropout import KEYS_PER_QUERY

# Shapes: n queries of a group, S tokens of a graph, I items, C constants, B relations, R relations
# of the graph
#
# Items are what tokens can be: the mask, which is item 0, then the relations of the batch, then its
# constants.

MASK = 0


@dataclass(frozen=True)
class QueryToken:
    """A constant or a relation of a query; or without a symbol a variable, which is masked.

    `place` is a row of a table that a model adds to what the token is: its kind, or its position.
    """

    symbol: Symbol | None
    place: int
    is_relation: bool = False
    backwards: bool = False  # of a relation: read from its tail to its head


class Tokens(Protocol):
    """The tokens of one graph, which stands for an alternative of a query or for several."""

    @property
    def tokens(self) -> tuple[QueryToken, ...]: ...


_Tokens = TypeVar("_Tokens", bound=Tokens)


@dataclass(frozen=True)
class TokenPart(Generic[_Tokens]):
    """One graph of each query of a group. `key_nS` tells tokens apart, for dropout."""

    graph: _Tokens
    item_nS: Ints
    place_nS: Ints
    key_nS: Ints
    query_n: Ints


@dataclass(frozen=True)
class TokenParts(Generic[_Tokens]):
    """All graphs of a batch, and what their items are."""

    parts: tuple[TokenPart[_Tokens], ...]
    entity_C: Ints
    relation_B: Ints  # rows of the table that has each relation's inverse


def fill_tokens(
    groups: Sequence[QueryGroup],
    graphs: Callable[[Query], Sequence[_Tokens]],
    inverse_R: Ints,
) -> TokenParts[_Tokens]:
    """The tokens of all queries. `inverse_R` is the row of each relation's inverse.

    >>> from clmpt.logic.formula import Placeholder
    >>> from clmpt.logic.shapes import shape
    >>> from clmpt.queries.store import AnswerSets
    >>> @dataclass(frozen=True)
    ... class Graph:
    ...     tokens: tuple[QueryToken, ...]
    >>> start, relation = QueryToken(Placeholder("s1"), 0), QueryToken(Placeholder("r1"), 1, True)
    >>> one = Graph((start, relation, QueryToken(None, 2)))
    >>> none = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    >>> ids = np.array([[7], [5]]), np.array([[1], [3]])
    >>> group = QueryGroup("1p", shape("1p"), *ids, none, none)
    >>> found = fill_tokens([group], lambda query: [one], np.array([2, 3]))
    >>> found.entity_C.tolist(), found.relation_B.tolist()  # 3 is relation 1 read backwards
    ([7, 5], [1, 3])
    >>> found.parts[0].item_nS.tolist()
    [[3, 1, 0], [4, 2, 0]]
    """
    items, first = _Items(inverse_R), 0
    parts: list[TokenPart[_Tokens]] = []
    for group in groups:
        query_n = np.arange(first, first + len(group))
        first += len(group)
        tokens_before = 0
        for graph in graphs(group.template):
            number_S = tokens_before + np.arange(len(graph.tokens))
            tokens_before += len(graph.tokens)
            parts.append(
                TokenPart(
                    graph,
                    np.stack([items.of(token, group) for token in graph.tokens], 1),
                    np.tile([token.place for token in graph.tokens], (len(group), 1)),
                    query_n[:, None] * KEYS_PER_QUERY + number_S,
                    query_n,
                )
            )
    for part in parts:
        np.copyto(part.item_nS, items.relations - part.item_nS, where=part.item_nS < 0)
    return TokenParts(tuple(parts), _joined(items.entity_C), _joined(items.relation_B))


class _Items:
    """Numbers what tokens are, in the order they are asked for."""

    def __init__(self, inverse_R: Ints) -> None:
        self.inverse_R = inverse_R
        self.entity_C: list[Ints] = []
        self.relation_B: list[Ints] = []
        self.entities = self.relations = 0

    def of(self, token: QueryToken, group: QueryGroup) -> Ints:
        """A token's items in the queries of a group: those of relations as they are, those of
        constants as -1, -2, …, until it is known how many relations there are."""
        number_n = np.arange(1, len(group) + 1)
        if token.symbol is None:
            return np.full(len(group), MASK)
        if token.is_relation:
            self.relation_B.append(_rows(token, token.symbol, group, self.inverse_R))
            self.relations += len(group)
            return number_n + (self.relations - len(group))
        self.entity_C.append(filled(token.symbol, group, "entities").astype(np.int64))
        self.entities += len(group)
        return -(number_n + (self.entities - len(group)))


def _rows(token: QueryToken, symbol: Symbol, group: QueryGroup, inverse_R: Ints) -> Ints:
    """The row of the directed relation in each query of a group."""
    directed = filled(symbol, group, "relations").astype(np.int64)
    relations = len(inverse_R)
    is_backwards = (directed >= relations) != token.backwards
    row = directed % relations
    found: Ints = np.where(is_backwards, inverse_R[row], row)
    return found


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def refuse_negation(query: Query, title: str) -> None:
    """Refuses a query with a negation, in any of its alternatives."""
    if any(pattern.absent for pattern in query.patterns):
        raise UnsupportedQuery(
            f"{title} has no negation", "Ask a model that has it, such as CLMPT or BetaE"
        )
