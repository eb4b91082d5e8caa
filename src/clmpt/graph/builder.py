"""A KnowledgeGraph from triples, added one by one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.edges import build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import Aliases, NameTable
from clmpt.graph.vocabulary import Vocabulary


def no_label(_name: str) -> str:
    """For names that are their own label."""
    return ""


class GraphBuilder:
    """Collects triples by split; ids follow first appearance unless names are given up front."""

    def __init__(self, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        self.entity_ids = _numbered(entities)
        self.relation_ids = _numbered(relations)
        self.labels: dict[str, str] = {}
        self.rows: dict[str, array[int]] = {}
        self.blocks: dict[str, list[npt.NDArray[np.int32]]] = {}
        self.aliases: list[tuple[str, str]] = []  # names and labels of theirs that are not shown
        self.label_of: Callable[[str], str] = no_label

    def add(self, split: str, head: str, relation: str, tail: str) -> None:
        entities, relations = self.entity_ids, self.relation_ids
        rows = self.rows.get(split)
        if rows is None:
            rows = self.rows.setdefault(split, array("i"))
        rows.append(entities.setdefault(head, len(entities)))
        rows.append(relations.setdefault(relation, len(relations)))
        rows.append(entities.setdefault(tail, len(entities)))

    def add_ids(self, split: str, rows: npt.NDArray[np.int32]) -> None:
        """Adds triples as ids of the names that were passed to the constructor."""
        limits = np.array([len(self.entity_ids), len(self.relation_ids), len(self.entity_ids)])
        if len(rows) and (rows.min() < 0 or (rows >= limits).any()):
            bad = rows[((rows < 0) | (rows >= limits)).any(axis=1)][0]
            raise DataError(
                f"The {split} triple {tuple(bad.tolist())} has an id that is not in the name files."
            )
        self.blocks.setdefault(split, []).append(rows)

    def label(self, name: str, label: str) -> None:
        """Adds a label for the entity or relation with this name; the first one wins."""
        self.labels.setdefault(name, label)

    def knows(self, name: str) -> bool:
        """Whether an entity or a relation has this name."""
        return name in self.entity_ids or name in self.relation_ids

    def build(self) -> KnowledgeGraph:
        splits = tuple(dict.fromkeys([*self.rows, *self.blocks]))
        if not splits:
            raise DataError("There are no triples to build a graph from.")
        triples = [self._split_rows(name) for name in splits]
        index = build_index(len(self.entity_ids), len(self.relation_ids), triples)
        return KnowledgeGraph(
            self._vocabulary("entity", self.entity_ids),
            self._vocabulary("relation", self.relation_ids),
            index,
            splits,
            splits,
        )

    def added(self, split: str) -> npt.NDArray[np.int32]:
        """The triples that were added to a split by name."""
        return np.frombuffer(self.rows.get(split, array("i")), np.int32).reshape(-1, 3)

    def _split_rows(self, name: str) -> npt.NDArray[np.int32]:
        return np.concatenate([self.added(name), *self.blocks.get(name, [])])

    def _vocabulary(self, kind: str, ids: dict[str, int]) -> Vocabulary:
        labels = [self.labels.get(name) or self.label_of(name) for name in ids]
        pairs = list(
            dict.fromkeys((text, ids[name]) for name, text in self.aliases if text and name in ids)
        )
        try:
            table = NameTable.of(labels) if any(labels) else None
            aliases = None
            if pairs:
                owners = np.array([owner for _, owner in pairs], np.int32)
                aliases = Aliases(NameTable.of(text for text, _ in pairs), owners)
            return Vocabulary(kind, NameTable.of(ids), table, aliases)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{error.object!r} is not text: it has half a surrogate pair."
            ) from None


def _numbered(names: Iterable[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for name in names:
        if name in ids:
            raise DataError(f"The name '{name}' is used for two ids. Every id needs its own name.")
        ids[name] = len(ids)
    return ids
