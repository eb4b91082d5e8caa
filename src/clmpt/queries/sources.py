"""Answered queries from any source: a query file, JSON lines, a benchmark folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Id, Placeholder, Symbol
from clmpt.queries.benchmark_files import read_queries
from clmpt.queries.json_lines import read_json_lines
from clmpt.queries.store import QueryGroup, QuerySet

NEEDS_GRAPH = "JSON lines use names. Say which graph they belong to: --graph FOLDER"


def open_queries(source: Path, graph: KnowledgeGraph | None, split: str) -> QuerySet:
    """Answered queries from a query file, JSON lines or one split of a benchmark folder.

    If a graph is given, queries that were made from another one are rejected.
    """
    if source.is_dir():
        found = QuerySet(tuple(read_queries(source, split)))
    elif source.suffix != ".jsonl":
        found = QuerySet.open(source)
    elif graph is None:
        raise DataError(NEEDS_GRAPH)
    else:
        found = read_json_lines(source, graph)
    if graph is not None:
        if found.about.get("graph") not in (None, graph.fingerprint):
            raise DataError(
                f"'{source}' was made from another graph, so its ids mean other names. Use that "
                "graph."
            )
        found = QuerySet(tuple(_bound(group, graph) for group in found.groups), found.about)
        for group in found.groups:
            group.check(len(graph.entities), 2 * len(graph.relations))
    return found


def _bound(group: QueryGroup, graph: KnowledgeGraph) -> QueryGroup:
    """A group whose template has ids instead of names; placeholders stay."""

    def resolved(vocabulary: Vocabulary, symbol: Symbol) -> Symbol:
        return symbol if isinstance(symbol, Placeholder) else Id(vocabulary.resolve(symbol))

    template = group.template.replace(
        lambda symbol: resolved(graph.entities, symbol),
        lambda symbol: resolved(graph.relations, symbol),
    )
    return group if template == group.template else replace(group, template=template)
