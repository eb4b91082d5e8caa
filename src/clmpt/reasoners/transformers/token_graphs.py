"""A query's graph as tokens that see each other: nodes, and two relation tokens for each atom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from clmpt.graph.edges import Ints
from clmpt.logic.formula import And, Atom, Exists, Formula, Not, Query, Term, Variable
from clmpt.logic.query_graph import QueryEdge, QueryGraph, query_graphs
from clmpt.reasoners.transformers.token_layout import QueryToken

# Shapes: S tokens of a graph

CONSTANT, VARIABLE, RELATION = range(3)
KINDS = 3
_UNREACHED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class TokenGraph:
    """Tokens, for each of them those that it sees, and which are the free variables.

    There is one free variable for each alternative of the query that the graph stands for.
    """

    tokens: tuple[QueryToken, ...]
    seen: tuple[tuple[int, ...], ...]
    free: tuple[int, ...]

    @cached_property
    def distance_S(self) -> Ints:
        """In how many layers each token's state reaches a free variable."""
        found = np.full(len(self.tokens), _UNREACHED)
        found[list(self.free)] = 0
        nearest = list(self.free)
        for token in nearest:  # grows
            for other in self.seen[token]:
                if found[other] == _UNREACHED:
                    found[other] = found[token] + 1
                    nearest.append(other)
        return found


@lru_cache(maxsize=1024)
def token_graphs(query: Query, union: str) -> tuple[TokenGraph, ...]:
    """A graph for each alternative; or with "joint" a single one for several.

    >>> from clmpt.logic.shapes import shape
    >>> (graph,) = token_graphs(shape("2p"), "disjunctive")
    >>> len(graph.tokens), graph.distance_S.tolist()  # ?y, $s1, ?x1, and both atoms both ways
    (7, [0, 4, 2, 3, 5, 1, 3])
    >>> [len(graph.tokens) for graph in token_graphs(shape("2u"), "joint")]
    [13]
    """
    graphs = query_graphs(query).alternatives
    if union != "joint" or len(graphs) == 1:
        return tuple(_tokens([graph], 1) for graph in graphs)
    limits = query.limits
    together = query_graphs(Query(query.frees, _all_of(query.body), limits=limits)).alternatives
    return (_tokens([*graphs, *together], len(graphs)),)


def _all_of(formula: Formula) -> Formula:
    """The formula with every *or* as an *and*."""
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Exists):
        return Exists(formula.variables, _all_of(formula.body))
    if isinstance(formula, Not):
        return Not(_all_of(formula.body))
    return And(tuple(map(_all_of, formula.parts)))


def _tokens(graphs: Sequence[QueryGraph], alternatives: int) -> TokenGraph:
    """Graphs beside each other, which share the constants of equal atoms; the first
    `alternatives` of them are asked for."""
    number: dict[object, int] = {}
    nodes: list[QueryToken] = []
    relations: list[QueryToken] = []
    ends: list[tuple[int, int]] = []  # of each relation token: where it comes from and leads to

    def node(which: int, graph: QueryGraph, edge: QueryEdge, end: int) -> int:
        term = graph.terms[end]
        own: object = (which, end)
        if not isinstance(term, Variable):
            head, tail = graph.terms[edge.head], graph.terms[edge.tail]
            own = own if len(graphs) == 1 else (edge.relation, head, tail, end == edge.head)
        if own not in number:
            number[own] = len(nodes)
            nodes.append(_node(term))
        return number[own]

    for which, graph in enumerate(graphs):
        number[which, graph.free] = len(nodes)
        nodes.append(_node(graph.terms[graph.free]))
        for edge in graph.edges:
            head, tail = (node(which, graph, edge, end) for end in (edge.head, edge.tail))
            relations += [QueryToken(edge.relation, RELATION, True, back) for back in (False, True)]
            ends += [(head, tail), (tail, head)]
    seen = [[own] for own in range(len(nodes) + len(relations))]
    for own, (source, target) in enumerate(ends, len(nodes)):
        seen[own].append(source)
        seen[target].append(own)
    free = tuple(number[which, graphs[which].free] for which in range(alternatives))
    return TokenGraph((*nodes, *relations), tuple(map(tuple, seen)), free)


def _node(term: Term) -> QueryToken:
    return QueryToken(None, VARIABLE) if isinstance(term, Variable) else QueryToken(term, CONSTANT)
