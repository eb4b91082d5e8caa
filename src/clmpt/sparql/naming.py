"""What the names in a query stand for in a dataset. Unknown ones match nothing, and are noted."""

from __future__ import annotations

from collections.abc import Callable

from clmpt.budget import check_budget
from clmpt.errors import UnknownName
from clmpt.graph.rdf_dataset import NO_TERM, RdfDataset, TermIds
from clmpt.graph.readers import local_name
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Id, Name
from clmpt.logic.iris import BASE, symbol_of
from clmpt.logic.rdf_terms import Iri, RdfTerm

_NOTES = 5  # unknown names that are noted, with what is similar; that takes time
_MORE = "There are more names that the graph does not have."


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
        found = self._term_named(term)
        if found < 0 and isinstance(symbol_of(term.text), Name):
            self._note(self.dataset.graph.entities, term)
        return found

    def predicate(self, iri: Iri) -> int:
        found = self.dataset.predicate(iri)
        if found < 0:
            found = self._predicate_named(iri)
            if found < 0 and isinstance(symbol_of(iri.text), Name):
                self._note(self.dataset.graph.relations, iri)
        return found

    def in_template(self, iri: Iri, as_predicate: bool) -> RdfTerm:
        """What an IRI of a template makes: the term that a plain name stands for in patterns, else
        the IRI itself. A name that the graph lacks is no fault there: templates make new ones."""
        if not iri.text.startswith(BASE):
            return iri
        if as_predicate:
            number = self.dataset.predicate(iri)
            number = number if number >= 0 else self._predicate_named(iri)
            found = int(self.dataset.predicate_terms_P[number]) if number >= 0 else NO_TERM
        else:
            found = self.terms.find(iri)
            found = found if found >= 0 else self._term_named(iri)
        return self.terms.term(found) if found >= 0 else iri

    def _term_named(self, iri: Iri) -> int:
        symbol = symbol_of(iri.text)
        if not isinstance(symbol, Name):
            return NO_TERM
        return self._named(self.dataset.graph.entities, symbol, iri, self.dataset.terms.ending_in)

    def _predicate_named(self, iri: Iri) -> int:
        vocabulary = self.dataset.graph.relations
        symbol = symbol_of(iri.text)
        if isinstance(symbol, Id):
            return symbol.number if symbol.number < len(vocabulary) else NO_TERM
        assert isinstance(symbol, Name)
        return self._named(vocabulary, symbol, iri, self._predicates_ending_in)

    def _named(
        self, vocabulary: Vocabulary, symbol: Name, iri: Iri, ending_in: Callable[[str], list[int]]
    ) -> int:
        """What an IRI that is not in the dataset stands for as a label or as the end of another."""
        check_budget()
        if not iri.text.startswith(BASE):
            return NO_TERM
        found = vocabulary.find(Name(symbol.text, iri.position))
        ends = ending_in(symbol.text) if found is None else [found]
        return ends[0] if len(ends) == 1 else NO_TERM

    def _note(self, vocabulary: Vocabulary, iri: Iri) -> None:
        if len(self.notes) >= _NOTES:
            self.notes[_MORE] = None
            return
        symbol = symbol_of(iri.text)
        assert isinstance(symbol, Name)
        near = vocabulary.suggestions(symbol.text)
        self.notes[str(UnknownName(vocabulary.kind, symbol.text, near, iri.position))] = None

    def _predicates_ending_in(self, text: str) -> list[int]:
        names = enumerate(self.dataset.predicate_names)
        return [number for number, name in names if local_name(name) == text]
