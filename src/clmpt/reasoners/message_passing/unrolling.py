"""One shape, unrolled: which node receives which messages in which layer.

Updates that cannot reach the free variable are skipped. Nothing here is a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clmpt.graph.edges import Bools, Ints
from clmpt.logic.formula import Variable
from clmpt.logic.query_graph import QueryGraph
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.dropout import KEYS_PER_QUERY

# Shapes: n queries of a group, R relations
#
# Items are the inputs of messages and updates; the first are the initial embeddings of variables
# and the constants. `layout.py` numbers the rest.

EXISTENTIAL, FREE, FIRST_CONSTANT = 0, 1, 2


@dataclass(frozen=True)
class PassingOptions:
    """How messages are passed. `inverse_R`: a relation's inverse row, or -1 (see predictors)."""

    inverse_R: Ints
    conditional: bool = True  # constants receive no messages and keep their embeddings
    prune: bool = True  # skip updates that cannot reach the free variable
    share: bool = True  # compute equal updates once; not with dropout, which makes them differ
    reversible: bool = True  # the predictor can reverse a relation; if not, inverses have rows


@dataclass(frozen=True)
class VariableItems:
    """The items of a variable's embeddings in every query of a group, layer by layer.

    Layers whose update cannot reach the free variable are absent.
    """

    group: int
    alternative: int
    variable: Variable
    items: dict[int, Ints]


@dataclass(frozen=True)
class Update:
    """A node and its messages: (neighbour, edge, whether the node is the edge's head)."""

    node: int
    messages: tuple[tuple[int, int, bool], ...]


@lru_cache(maxsize=4096)
def schedule(graph: QueryGraph, conditional: bool, prune: bool) -> tuple[tuple[Update, ...], ...]:
    """Which nodes are updated in each layer."""
    nodes = range(len(graph.terms))
    updated = [n for n in nodes if not (conditional and graph.is_constant(n))]  # eq:conditional
    incoming = {
        node: tuple(
            (source, number, to_head)
            for number, edge in enumerate(graph.edges)
            for source, target, to_head in (
                (edge.head, edge.tail, False),
                (edge.tail, edge.head, True),
            )
            if target == node
        )
        for node in updated
    }
    needed = {graph.free} if prune else set(updated)
    layers = []
    for _ in range(graph.depth):
        layers.append(tuple(Update(node, incoming[node]) for node in updated if node in needed))
        if prune:
            needed = needed | {source for node in needed for source, *_ in incoming.get(node, ())}
            needed &= set(updated)
    return tuple(reversed(layers))


class UnrolledQueries:
    """One alternative of a group's queries: its graph, and each query's constants and relations."""

    def __init__(
        self,
        place: tuple[int, int],
        graph: QueryGraph,
        group: QueryGroup,
        query_n: Ints,
        options: PassingOptions,
    ) -> None:
        self.place, self.graph, self.query_n = place, graph, query_n
        self.layers = schedule(graph, options.conditional, options.prune)
        self.constants: dict[int, Ints] = {}
        self.item: dict[tuple[int, int], Ints] = {}  # of a node after a layer
        for node, term in enumerate(graph.terms):
            if not isinstance(term, Variable):
                self.constants[node] = filled(term, group, "entities")
            else:
                first = FREE if node == graph.free else EXISTENTIAL
                self.item[node, 0] = np.full(len(query_n), first)
        self.rows: dict[tuple[int, bool], Ints] = {}  # of a message by its edge, to head or not
        self.backwards: dict[tuple[int, bool], Bools] = {}  # whether it is to the row's head
        for number, edge in enumerate(graph.edges):
            directed_n = filled(edge.relation, group, "relations")
            nearer = graph.distance[edge.head] - graph.distance[edge.tail]
            row_n, backwards_n = _oriented(directed_n, nearer, options.inverse_R)
            for to_head in (False, True):
                way = number, to_head
                self.rows[way], self.backwards[way] = row_n, backwards_n != to_head
                if not options.reversible:
                    self.rows[way] = _forward_rows(directed_n, to_head, options.inverse_R)
                    self.backwards[way] = np.zeros(len(directed_n), np.bool_)

    def item_before(self, node: int, layer: int) -> Ints:
        """A node's item at the start of a layer."""
        while (node, layer - 1) not in self.item:
            layer -= 1
        return self.item[node, layer - 1]

    def keys(self, node: int, layer: int) -> Ints:
        """A number for the update of a node in each query: no two updates of a batch share it."""
        code = (self.place[1] * len(self.graph.terms) + node) * (self.graph.depth + 1) + layer
        return self.query_n * KEYS_PER_QUERY + code

    def variable_items(self) -> Iterator[VariableItems]:
        for node, term in enumerate(self.graph.terms):
            if isinstance(term, Variable):
                items = {layer: at for (own, layer), at in self.item.items() if own == node}
                yield VariableItems(*self.place, term, items)


def _forward_rows(directed_n: Ints, to_head: bool, inverse_R: Ints) -> Ints:
    """The rows that project to an atom's tail, or to its head, if all inverses have one."""
    relations = len(inverse_R)
    relation_n = directed_n % relations
    return np.where((directed_n >= relations) != to_head, inverse_R[relation_n], relation_n)


def _oriented(directed_n: Ints, nearer: int, inverse_R: Ints) -> tuple[Ints, Bools]:
    """The row that projects an atom towards the free variable, and whether its ends are swapped.

    A predictor is trained to project from head to tail. So an atom that points away from the free
    variable is replaced by its inverse if that has a row of its own; `nearer` is above 0 if the
    tail is nearer to the free variable, and 0 if neither end is.
    """
    relations = len(inverse_R)
    relation_n, backwards_n = directed_n % relations, directed_n >= relations
    inverse_n = inverse_R[relation_n]
    if nearer:
        turn_n = (backwards_n == (nearer > 0)) & (inverse_n >= 0)
    else:
        turn_n = (inverse_n >= 0) & (inverse_n < relation_n)
    return np.where(turn_n, inverse_n, relation_n), backwards_n != turn_n
