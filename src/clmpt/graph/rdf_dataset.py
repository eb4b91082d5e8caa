"""A graph as an RDF dataset: terms by id, a default graph and named ones.

Entities keep their ids. Plain names are IRIs below `urn:clmpt:`, as in every export.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import EdgeIndex, Ints, build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.rdf_statements import BLANK, IRI, LITERAL, NAME
from clmpt.logic.formula import Id, Name
from clmpt.logic.iris import iri_of, symbol_of
from clmpt.logic.rdf_terms import Blank, Iri, Literal, RdfTerm, rdf_text, read_term

NO_TERM = -1
_MANY = 200_000  # further terms; up to this many, all are searched for one with the same ending


class StoredTerms:
    """The terms of a graph by id, and ids by term."""

    def __init__(self, graph: KnowledgeGraph, as_written: bool = False) -> None:
        self.graph, self.entities = graph, len(graph.entities)
        self.same_T = graph.rdf.same_T if graph.rdf and not as_written else None
        self.further = graph.rdf.terms if graph.rdf else _relation_terms(graph)

    def __len__(self) -> int:
        return self.entities + len(self.further)

    def __getitem__(self, number: int) -> RdfTerm:
        if number >= self.entities:
            return read_term(self.further[number - self.entities])
        return entity_term(self.graph, number)

    def find(self, term: RdfTerm) -> int:
        """The id of a term, or of the one that stands for it; -1 if it has none."""
        found = self._written(term)
        return found if self.same_T is None or found < 0 else int(self.same_T[found])

    def _written(self, term: RdfTerm) -> int:
        symbol = symbol_of(term.text) if isinstance(term, Iri) else None
        if isinstance(symbol, Id):
            return symbol.number if symbol.number < self.entities else NO_TERM
        rdf = self.graph.rdf
        for name, kind in _names_of(term):
            for number in self.graph.entities.names.find(name):
                if (int(rdf.kinds_E[number]) if rdf else NAME) == kind:
                    return number
        found = self.further.find(rdf_text(term))
        return self.entities + found[0] if found else NO_TERM

    def ending_in(self, text: str) -> list[int]:
        """The terms that are no entities and whose IRI ends in this text, or those that stand for
        them."""
        if len(self.further) > _MANY:
            return []
        found = [
            self.entities + number
            for end in (f"/{text}>", f"#{text}>")
            for number in self.further.ending_in(end)
            if self.further[number].startswith("<")
        ]
        return found if self.same_T is None else np.unique(self.same_T[found]).tolist()


class TermIds:
    """Terms by id, and ids by term, for one query. New terms get ids after those stored."""

    def __init__(self, stored: StoredTerms) -> None:
        self.terms, self.stored = stored, len(stored)
        self.made: list[RdfTerm] = []
        self.by_id: dict[int, RdfTerm] = {}
        self.by_term: dict[RdfTerm, int] = {}

    def term(self, number: int) -> RdfTerm:
        if number >= self.stored:
            return self.made[number - self.stored]
        found = self.by_id.get(number)
        if found is None:
            found = self.by_id[number] = self.terms[number]
        return found

    def find(self, term: RdfTerm) -> int:
        """The id of a term, or -1 if it has none."""
        found = self.by_term.get(term)
        if found is None:
            found = self.by_term[term] = self.terms.find(term)
        return found

    def id_of(self, term: RdfTerm) -> int:
        """The id of a term; a new one gets the next id."""
        found = self.find(term)
        if found < 0:
            found = self.by_term[term] = self.stored + len(self.made)
            self.made.append(term)
        return found


def entity_term(graph: KnowledgeGraph, number: int) -> RdfTerm:
    """The term that an entity is in RDF."""
    name = graph.entities.names[number]
    kind = graph.rdf.kinds_E[number] if graph.rdf else NAME
    if kind == LITERAL:
        return read_term(name)
    if kind == BLANK:
        return Blank(name.removeprefix("_:"))
    return Iri(name if kind == IRI else iri_of(Name(name)))


def _names_of(term: RdfTerm) -> list[tuple[str, int]]:
    """The names that an entity may have which is this term, and of which kind they are."""
    if isinstance(term, Literal):
        return [(rdf_text(term), LITERAL)]
    if isinstance(term, Blank):
        return [(f"_:{term.label}", BLANK)]
    found = [(term.text, IRI)]
    symbol = symbol_of(term.text)
    if isinstance(symbol, Name) and iri_of(symbol) == term.text:
        found.append((symbol.text, NAME))
    return found


def _relation_terms(graph: KnowledgeGraph) -> NameTable:
    """The relations that are not entities too, as terms."""
    names = graph.entities.names
    return NameTable.of(
        f"<{iri_of(Name(name))}>" for name in graph.relations.names if not names.find(name)
    )


class RdfDataset:
    """The graphs that a query sees. `union` puts all named graphs into the default graph. Terms for
    the same thing are one, unless statements are wanted `as_written`."""

    def __init__(
        self, graph: KnowledgeGraph, union: bool = False, as_written: bool = False
    ) -> None:
        self.graph, self.terms, self.union = graph, StoredTerms(graph, as_written), union
        self.rdf = graph.rdf if graph.rdf is None or as_written else graph.rdf.merged
        self.bits = sum(1 << graph.splits.index(name) for name in graph.observed)
        self._named: dict[int, EdgeIndex] = {}

    @classmethod
    def of(cls, graph: KnowledgeGraph, union: bool = False) -> RdfDataset:
        """The dataset of a graph, made once."""
        kept: dict[bool, RdfDataset] = vars(graph).setdefault("_datasets", {})
        if union not in kept:
            kept[union] = cls(graph, union)
        return kept[union]

    @cached_property
    def predicate_names(self) -> list[str]:
        """The IRIs of all predicates, by predicate id."""
        if self.rdf:
            return list(self.rdf.predicates)
        return [iri_of(Name(name)) for name in self.graph.relations.names]

    @cached_property
    def predicate_terms_P(self) -> Ints:
        """The term id of each predicate."""
        return np.array([self.terms.find(Iri(text)) for text in self.predicate_names], np.int64)

    @cached_property
    def predicate_ids(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.predicate_names)}

    def predicate(self, iri: Iri) -> int:
        """The id of a predicate, or -1. Our own IRIs also stand for labels, as everywhere."""
        return self.predicate_ids.get(iri.text, NO_TERM)

    @cached_property
    def default(self) -> EdgeIndex:
        rdf = self.rdf
        if rdf is None:
            return self.graph.index
        index = rdf.index.restricted(self.bits)
        if self.union and len(rdf.named_M5):
            return self._merged([index.forward_triples(), self._rows(slice(None))])
        return index

    def _rows(self, which: slice) -> npt.NDArray[np.int32]:
        assert self.rdf is not None
        rows: npt.NDArray[np.int32] = self.rdf.named_M5[which]
        found: npt.NDArray[np.int32] = rows[(rows[:, 4] & self.bits) != 0][:, 1:4]
        return found

    def _merged(self, parts: list[npt.NDArray[np.int32]]) -> EdgeIndex:
        index = self.rdf.index if self.rdf else self.graph.index
        return build_index(index.entities, index.relations, [np.concatenate(parts)])

    @cached_property
    def graph_ids(self) -> list[int]:
        """The term ids of the named graphs that have statements."""
        if self.rdf is None:
            return []
        rows = self.rdf.named_M5
        found: list[int] = np.unique(rows[(rows[:, 4] & self.bits) != 0, 0]).tolist()
        return found

    def named(self, number: int) -> EdgeIndex:
        """The statements of a named graph; none if there is no such graph."""
        if number not in self._named:
            rows: slice = slice(0, 0)
            if self.rdf is not None:
                graphs = self.rdf.named_M5[:, 0]
                rows = slice(*graphs.searchsorted([number, number + 1]).tolist())
                self._named[number] = self._merged([self._rows(rows)])
            else:
                index = self.graph.index
                none = np.empty((0, 3), np.int32)
                self._named[number] = build_index(index.entities, index.relations, [none])
        return self._named[number]

    def merged(self, numbers: Iterable[int]) -> EdgeIndex:
        """Several named graphs as one."""
        found = [self.named(number).forward_triples() for number in numbers]
        return self._merged([np.empty((0, 3), np.int32), *found])
