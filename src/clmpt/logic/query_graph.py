"""A query as graphs for message passing: terms are nodes, atoms edges, one graph per alternative.

Only what is connected to the free variable is kept: nothing else can send it a message. Where a
graph says less than its query, `Graphs` has a note for the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from clmpt.logic.formula import Atom, Query, Symbol, Term, Variable
from clmpt.logic.normal_form import Pattern

NEGATED_GROUP = (
    "A negated group ('!exists …') is scored as in the paper, by negating the edges that lead out "
    "of it: 'some … not' in place of 'none'. Its answers are an approximation."
)


@dataclass(frozen=True)
class QueryEdge:
    """An atom between two nodes of a graph."""

    relation: Symbol
    head: int
    tail: int
    negated: bool


@dataclass(frozen=True)
class QueryGraph:
    """The graph of one alternative. Each occurrence of a constant is a node of its own."""

    terms: tuple[Term, ...]
    edges: tuple[QueryEdge, ...]
    free: int
    distance: tuple[int, ...]  # from each node to the free variable, not through constants

    @property
    def depth(self) -> int:
        """How many layers it takes for every constant's message to reach the free variable."""
        constants = [d for node, d in enumerate(self.distance) if self.is_constant(node)]
        return max(constants or (1, *self.distance))  # eq:depth

    def is_constant(self, node: int) -> bool:
        return not isinstance(self.terms[node], Variable)


@dataclass(frozen=True)
class Graphs:
    """The graphs of a query's alternatives, and notes on what they leave out.

    `out_of_reach` notes what message passing leaves out in addition: it stops once the farthest
    constant's message has arrived.
    """

    alternatives: tuple[QueryGraph, ...]
    notes: tuple[str, ...]
    out_of_reach: tuple[str, ...]


@lru_cache(maxsize=1024)
def query_graphs(query: Query) -> Graphs:
    """
    >>> from clmpt.logic.shapes import shape
    >>> (graph,) = query_graphs(shape("pni")).alternatives
    >>> [(edge.relation.name, edge.negated) for edge in graph.edges], graph.depth
    ([('r3', False), ('r1', False), ('r2', True)], 2)
    """
    graphs: list[QueryGraph] = []
    notes: list[str] = []
    out_of_reach: list[str] = []
    for pattern in query.patterns:
        literals = list(_literals(pattern, notes))
        graph = _connected(literals, query.free)
        if len(graph.edges) < len(literals):
            notes.append(
                f"{len(literals) - len(graph.edges)} of {len(literals)} atoms are not connected to "
                f"?{query.free.name} and are ignored."
            )
        unreachable = [e for e in graph.edges if _nearest(graph, e) >= graph.depth]
        if unreachable:
            out_of_reach.append(
                f"{len(unreachable)} of {len(literals)} atoms are farther from "
                f"?{query.free.name} than any constant and are ignored."
            )
        graphs.append(graph)
    distinct = (tuple(dict.fromkeys(found)) for found in (notes, out_of_reach))
    return Graphs(tuple(dict.fromkeys(graphs)), *distinct)


def _nearest(graph: QueryGraph, edge: QueryEdge) -> int:
    return min(graph.distance[edge.head], graph.distance[edge.tail])


def _literals(pattern: Pattern, notes: list[str]) -> Iterator[tuple[Atom, bool]]:
    """Atoms and whether they are negated; in an absent group, those that lead out of it are."""
    yield from ((atom, False) for atom in pattern.atoms)
    for part in pattern.absent:
        if part.variables:
            notes.append(NEGATED_GROUP)
        for atom, negated in _literals(part, notes):
            ends = {term for term in (atom.head, atom.tail) if isinstance(term, Variable)}
            leads_out = not part.variables or bool(ends - _bound(part))
            yield atom, negated != leads_out


def _bound(pattern: Pattern) -> set[Variable]:
    return set(pattern.variables).union(*map(_bound, pattern.absent))


def _connected(literals: list[tuple[Atom, bool]], free: Variable) -> QueryGraph:
    """The component of the free variable, which is node 0; constants do not connect."""
    terms: list[Term] = [free]
    distance, edges = [0], dict[int, QueryEdge]()
    number = {free: 0}
    for node in _growing(terms):
        if not isinstance(terms[node], Variable):
            continue
        for position, (atom, negated) in enumerate(literals):
            if position in edges or terms[node] not in (atom.head, atom.tail):
                continue
            ends = []
            for term in (atom.head, atom.tail):
                if isinstance(term, Variable) and term in number:
                    ends.append(number[term])
                    continue
                if isinstance(term, Variable):
                    number[term] = len(terms)
                ends.append(len(terms))
                terms.append(term)
                distance.append(distance[node] + 1)
            head, tail = ends
            edges[position] = QueryEdge(atom.relation, head, tail, negated)
    ordered = tuple(edges[position] for position in sorted(edges))
    return QueryGraph(tuple(terms), ordered, 0, tuple(distance))


def _growing(terms: list[Term]) -> Iterator[int]:
    """The indices of a list, including those of items appended meanwhile."""
    node = 0
    while node < len(terms):
        yield node
        node += 1
