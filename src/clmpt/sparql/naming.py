"""What the names in a query stand for in a dataset. Unknown ones match nothing, and are noted."""

from __future__ import annotations

from clmpt.errors import QueryError, UnknownName
from clmpt.graph.rdf_dataset import NO_TERM, RdfDataset, TermIds
from clmpt.graph.readers import local_name
from clmpt.logic.formula import Id, Name
from clmpt.logic.iris import BASE, symbol_of
from clmpt.logic.rdf_terms import Iri, RdfTerm

_NOTES = 5  # unknown names that are noted, with what is similar; that takes time


class NameResolver:
    """Terms and predicates of one query to ids. IRIs below `urn:clmpt:` also stand for labels."""

    def __init__(self, dataset: RdfDataset) -> None:
        self.dataset, self.terms = dataset, TermIds(dataset.terms)
        self.notes: dict[str, None] = {}  # in order, each once

    def term(self, term: RdfTerm) -> int:
        """The id of a stored term, or -1."""
        found = self.terms.find(term)
        if found >= 0 or not isinstance(term, Iri):
            return found
        vocabulary = self.dataset.graph.entities
        symbol = symbol_of(term.text)
        if not isinstance(symbol, Name) or len(self.notes) >= _NOTES:
            return found
        try:
            if term.text.startswith(BASE):
                return vocabulary.resolve(Name(symbol.text, term.position))
        except UnknownName as error:
            ends = self.dataset.terms.ending_in(symbol.text)
            if len(ends) == 1:
                return ends[0]
            self.note(error)
        else:
            near = vocabulary.suggestions(symbol.text)
            self.note(UnknownName("entity", term.text, near, term.position))
        return NO_TERM

    def predicate(self, iri: Iri) -> int:
        found = self.dataset.predicate(iri)
        if found >= 0:
            return found
        vocabulary = self.dataset.graph.relations
        symbol = symbol_of(iri.text)
        if isinstance(symbol, Id):
            return symbol.number if symbol.number < len(vocabulary) else NO_TERM
        assert isinstance(symbol, Name)
        if len(self.notes) >= _NOTES:
            return NO_TERM
        if iri.text.startswith(BASE):
            try:
                return vocabulary.resolve(Name(symbol.text, iri.position))
            except UnknownName as error:
                ends = [
                    number
                    for number, name in enumerate(self.dataset.predicate_names)
                    if local_name(name) == symbol.text
                ]
                if len(ends) == 1:
                    return ends[0]
                self.note(error)
                return NO_TERM
        near = vocabulary.suggestions(symbol.text)
        self.note(UnknownName("relation", iri.text, near, iri.position))
        return NO_TERM

    def note(self, error: QueryError) -> None:
        self.notes[str(error)] = None
