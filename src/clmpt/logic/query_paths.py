"""A query's graph as the paths that lead from its constants to the free variable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clmpt.errors import UnsupportedQuery
from clmpt.logic.query_graph import QueryGraph

_MOST_STEPS = 5_000  # of the search; one takes about as long as a path is


@dataclass(frozen=True)
class Hop:
    """A step of a path along an edge of the graph, from a node; None for a node that no other path
    has. `backwards` follows the edge from its tail to its head."""

    start: int | None
    edge: int
    backwards: bool


Path = tuple[Hop, ...]  # the last hop ends in the free variable


def query_paths(graph: QueryGraph, most_hops: int) -> tuple[Path, ...]:
    """All paths from a constant to the free variable that visit no node twice.

    Where these leave edges out, such as a branch without a constant or a variable that is related
    to itself, there are also the longest paths along those. Refuses a graph whose paths have more
    than `most_hops` altogether, as those of a graph with many cycles may.

    >>> from clmpt.logic.parser import parse
    >>> from clmpt.logic.query_graph import query_graphs
    >>> (graph,) = query_graphs(parse("?y : r(a, ?x) & s(?x, ?y) & t(?y, b)")).alternatives
    >>> [[graph.edges[hop.edge].relation.text for hop in path] for path in query_paths(graph, 9)]
    [['t'], ['r', 's']]
    """
    found: dict[bool, list[Path]] = {True: [], False: []}
    covered: set[int] = set()
    for path in _maximal(graph):
        start = path[0].start
        starts_known = start is not None and graph.is_constant(start)
        found[starts_known].append(path)
        if starts_known:
            covered.update(hop.edge for hop in path)
    others = [path for path in found[False] if any(hop.edge not in covered for hop in path)]
    paths = (*found[True], *others)
    if sum(map(len, paths)) > most_hops:
        raise _too_many()
    return paths


def _maximal(graph: QueryGraph) -> Iterator[Path]:
    """Paths to the free variable that cannot begin any earlier."""
    steps = 0
    open_paths: list[tuple[Path, int, frozenset[int]]] = [((), graph.free, frozenset({graph.free}))]
    while open_paths:
        steps += 1
        if steps > _MOST_STEPS:
            raise _too_many()
        path, node, visited = open_paths.pop()
        longer = [] if graph.is_constant(node) else _hops_to(graph, node, visited)
        if not longer:
            yield path
        for hop in longer:
            if hop.start is None:
                yield (hop, *path)
            else:
                open_paths.append(((hop, *path), hop.start, visited | {hop.start}))


def _hops_to(graph: QueryGraph, node: int, visited: frozenset[int]) -> list[Hop]:
    """The hops that lead to a node from others; an edge from a node to itself is read both ways,
    as one from a node of its own."""
    found = []
    for number, edge in enumerate(graph.edges):
        if edge.head == edge.tail == node:
            found += [Hop(None, number, False), Hop(None, number, True)]
        elif edge.tail == node and edge.head not in visited:
            found.append(Hop(edge.head, number, False))
        elif edge.head == node and edge.tail not in visited:
            found.append(Hop(edge.tail, number, True))
    return found


def _too_many() -> UnsupportedQuery:
    return UnsupportedQuery(
        "The query's graph has too many paths to the free variable",
        "Ask a model that reads graphs instead of paths, such as CLMPT or kgTransformer",
    )
