"""What a newer graph has that its model was not trained on, and how to say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.stored_names import NameMatch
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Id, Query, atoms

_SHOWN = 5  # names that a note lists


@dataclass(frozen=True)
class NewNames:
    """Entities and relations of a graph that its model does not know, by id."""

    graph: KnowledgeGraph
    entities: Ints
    relations: Ints

    @classmethod
    def of(cls, graph: KnowledgeGraph, match: NameMatch) -> NewNames:
        return cls(graph, np.flatnonzero(match.entity_E < 0), np.flatnonzero(match.relation_R < 0))

    def __bool__(self) -> bool:
        return bool(len(self.entities) or len(self.relations))

    def in_query(self, query: Query) -> list[str]:
        """The labels of what a query over ids names, if it is new."""
        found: dict[str, None] = {}
        new = (frozenset(self.entities.tolist()), frozenset(self.relations.tolist()))
        for atom in atoms(query.body):
            for end in (atom.head, atom.tail):
                if isinstance(end, Id) and end.number in new[0]:
                    found[self.graph.entities.label(end.number)] = None
            if isinstance(atom.relation, Id) and atom.relation.number in new[1]:
                found[self.graph.relations.label(atom.relation.number)] = None
        return list(found)

    @property
    def note(self) -> str:
        parts = [
            f"{len(ids):,} {one if len(ids) == 1 else many} ({_some(ids.tolist(), vocabulary)})"
            for ids, one, many, vocabulary in (
                (self.entities, "entity", "entities", self.graph.entities),
                (self.relations, "relation", "relations", self.graph.relations),
            )
            if len(ids)
        ]
        return (
            f"New to the model: {' and '.join(parts)}. What is known of them counts, but nothing "
            "is predicted about them until 'clmpt fit' updates the model."
        )


def _some(ids: Iterable[int], vocabulary: Vocabulary) -> str:
    labels = [vocabulary.label(number) for number in ids]
    return ", ".join(labels[:_SHOWN]) + ", …" * (len(labels) > _SHOWN)
