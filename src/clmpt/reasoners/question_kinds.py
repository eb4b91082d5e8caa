"""Kinds of questions, for what is tuned or calibrated by kind: by hops and negation, never by
shape."""

from __future__ import annotations

from functools import lru_cache

from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs

MOST_HOPS = 3  # more hops count as this many
KINDS = tuple((hops, negated) for negated in (False, True) for hops in range(1, MOST_HOPS + 1))


@lru_cache(maxsize=4096)
def hops_of(query: Query) -> int:
    """How many hops the farthest constant is away; without constants, the farthest variable.

    >>> from clmpt.logic.shapes import shape
    >>> hops_of(shape("2i")), hops_of(shape("pi")), hops_of(shape("3p"))
    (1, 2, 3)
    """
    return max(graph.depth for graph in query_graphs(query).alternatives)


def has_negation(query: Query) -> bool:
    return any(pattern.absent for pattern in query.patterns)


def kind_of(query: Query) -> int:
    """The number of a query's kind in `KINDS`."""
    return KINDS.index((min(hops_of(query), MOST_HOPS), has_negation(query)))
