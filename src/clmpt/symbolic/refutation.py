"""What known facts rule out: entities for which a negated part of the question holds."""

from __future__ import annotations

from clmpt.errors import UnsafeQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query, Variable
from clmpt.logic.normal_form import Pattern, all_variables, to_formula
from clmpt.symbolic.solver import solve


def refuted(query: Query, graph: KnowledgeGraph) -> frozenset[int]:
    """The entities that cannot be answers, whatever facts the graph lacks: in every alternative, a
    part holds that must not.

    Only parts about the free variable, or about no variable outside them, can refute: others leave
    a choice of the variables that they share.

    >>> graph = KnowledgeGraph.from_triples([("Ada", "plays", "piano"), ("Ada", "is", "singer"),
    ...                                      ("Bob", "plays", "piano")])
    >>> from clmpt.logic.parser import parse
    >>> question = parse("?x : plays(?x, piano) & !is(?x, singer)")
    >>> graph.labels(refuted(graph.bind(question), graph))
    ['Ada']
    """
    found: frozenset[int] | None = None
    for pattern in query.patterns:
        own = _refuted(pattern, query, graph)
        found = own if found is None else found & own
    return found or frozenset()


def _refuted(pattern: Pattern, query: Query, graph: KnowledgeGraph) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    for part in pattern.absent:
        outer = set(all_variables(part)) - _bound(part)
        if outer <= {query.free}:
            found |= _holding(part, outer, query, graph)
    return found


def _holding(
    part: Pattern, outer: set[Variable], query: Query, graph: KnowledgeGraph
) -> frozenset[int]:
    """The entities for which a part holds: all of them if it does not speak of the free one."""
    if outer:
        try:
            return solve(Query(query.free, to_formula(part), None, query.limits), graph)
        except UnsafeQuery:  # it speaks of the free variable under another negation only
            return frozenset()
    some = next(iter(all_variables(part)), None)
    if some is None:
        return frozenset()
    try:
        holds = solve(Query(some, to_formula(part), None, query.limits), graph)
    except UnsafeQuery:
        return frozenset()
    return frozenset(range(len(graph.entities))) if holds else frozenset()


def _bound(pattern: Pattern) -> set[Variable]:
    return set(pattern.variables).union(*map(_bound, pattern.absent))
