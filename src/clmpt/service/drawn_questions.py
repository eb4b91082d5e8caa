"""A question as nodes and edges, for a page that draws it or takes it apart for its builder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Query, Symbol, Term, Variable
from clmpt.logic.normal_form import Pattern
from clmpt.logic.printing import symbol_text, term_text


def drawn_question(query: Query, graph: KnowledgeGraph) -> list[dict[str, Any]]:
    """The alternatives of a question, whose names are the graph's: each with the nodes and the
    edges of its query graph."""
    return [_Alternative(query, graph).drawn(pattern) for pattern in query.patterns]


class _Alternative:
    def __init__(self, query: Query, graph: KnowledgeGraph) -> None:
        self.query, self.graph = query, graph
        self.groups = 0

    def drawn(self, pattern: Pattern) -> dict[str, Any]:
        edges = list(self.edges(pattern, 0))
        terms = {end: None for _, ends in edges for end in ends}
        return {
            "nodes": [self.node(term) for term in terms],
            "edges": [edge for edge, _ in edges],
        }

    def edges(self, pattern: Pattern, group: int) -> Iterator[tuple[dict[str, Any], list[Term]]]:
        """Group 0 must hold; of any other group, there must be none such that all of it holds."""
        for atom in pattern.atoms:
            edge = {
                "head": term_text(atom.head),
                "tail": term_text(atom.tail),
                "relation": symbol_text(atom.relation),
                "label": _label(self.graph.relations, atom.relation),
                "negated": group > 0,
                "group": group,
            }
            yield edge, [atom.head, atom.tail]
        for absent in pattern.absent:
            self.groups += 1
            yield from self.edges(absent, self.groups)

    def node(self, term: Term) -> dict[str, Any]:
        if isinstance(term, Variable):
            kind = "answer" if term in self.query.frees else "variable"
            return {"id": term_text(term), "kind": kind, "label": term_text(term)}
        label = _label(self.graph.entities, term)
        return {"id": term_text(term), "kind": "entity", "label": label}


def _label(vocabulary: Vocabulary, symbol: Symbol) -> str:
    return vocabulary.label(vocabulary.resolve(symbol))
