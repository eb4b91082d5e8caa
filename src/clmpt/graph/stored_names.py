"""The names that a stored model's rows stand for, to compare with those of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clmpt.errors import WrongGraph
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable, open_names, save_names

_SHOWN = 3  # names that an error lists


@dataclass(frozen=True)
class NameMatch:
    """The id that the names of a graph have in a model; -1 for those that are new."""

    entity_E: Ints
    relation_R: Ints


@dataclass(frozen=True)
class StoredNames:
    """Names of entities and relations, in the order of a model's ids."""

    entities: NameTable
    relations: NameTable

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> StoredNames:
        return cls(graph.entities.names, graph.relations.names)

    @classmethod
    def open(cls, folder: Path, way_out: str) -> StoredNames:
        found = (open_names(folder, f"{kind}_names", way_out) for kind in ("entity", "relation"))
        return cls(*found)

    def save(self, folder: Path) -> None:
        save_names(folder, "entity_names", self.entities)
        save_names(folder, "relation_names", self.relations)

    def check_graph(self, graph: KnowledgeGraph) -> None:
        """Rejects a graph that does not have these names in this order."""
        for kind, own, other in self._pairs(graph):
            if not _same(own, other):
                raise _other_names(kind, own, other)

    def match_newer(self, graph: KnowledgeGraph, newer: bool) -> NameMatch | None:
        """None for a graph with exactly these names in this order. Any other one is rejected, or
        matched if it may be `newer`."""
        if newer and not all(_same(own, other) for _, own, other in self._pairs(graph)):
            return self.match(graph)
        self.check_graph(graph)
        return None

    def match(self, graph: KnowledgeGraph) -> NameMatch:
        """Where the names of a newer state of the graph are among these; rejects a graph that
        lacks most of them.

        >>> before = KnowledgeGraph.from_triples([("a", "likes", "b")])
        >>> grown = KnowledgeGraph.from_triples([("c", "likes", "b"), ("b", "likes", "a")])
        >>> StoredNames.of(before).match(grown).entity_E.tolist()  # c, b, a
        [-1, 1, 0]
        """
        found = []
        for kind, own, other in self._pairs(graph):
            match = own.ids_of(other)
            if 2 * np.count_nonzero(match >= 0) < len(own):
                raise _other_names(kind, own, other)
            found.append(match)
        return NameMatch(*found)

    def _pairs(self, graph: KnowledgeGraph) -> Iterator[tuple[str, NameTable, NameTable]]:
        yield "entity", self.entities, graph.entities.names
        yield "relation", self.relations, graph.relations.names


def _other_names(kind: str, own: NameTable, other: NameTable) -> WrongGraph:
    return WrongGraph(
        f"This model was made for a graph with different {kind} names: "
        f"{_difference(own, other)}. Use the graph it was made for."
    )


def _same(own: NameTable, other: NameTable) -> bool:
    return np.array_equal(own.offsets, other.offsets) and np.array_equal(own.bytes_, other.bytes_)


def _difference(own: NameTable, other: NameTable) -> str:
    """What differs between two vocabularies, in words."""
    mine, theirs = set(own), set(other)
    parts = [
        f"{len(lacking):,} of {whose} {len(whole):,} are not {where} ({_some(lacking)})"
        for lacking, whole, whose, where in (
            (mine - theirs, mine, "its", "in the graph"),
            (theirs - mine, theirs, "the graph's", "in the model"),
        )
        if lacking
    ]
    if parts:
        return "; ".join(parts)
    if len(own) != len(other):
        return f"it has {len(own):,} including duplicates, the graph {len(other):,}"
    first = next(
        number for number, pair in enumerate(zip(own, other, strict=True)) if len({*pair}) > 1
    )
    return (
        f"the names are the same, but number {first} is '{own[first]}' in the model and "
        f"'{other[first]}' in the graph"
    )


def _some(names: set[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:_SHOWN])
    return shown + ", …" * (len(names) > _SHOWN)
