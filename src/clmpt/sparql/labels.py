"""`SERVICE wikibase:label`: labels for the variables that a query shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from clmpt.graph.rdf_dataset import RdfDataset, TermIds
from clmpt.graph.rdf_reading import LABEL_PROPERTIES
from clmpt.logic.algebra import (
    AnyOf,
    Basic,
    Bind,
    JoinAll,
    Optionally,
    Pattern,
    Select,
    Service,
    Where,
    Without,
    expression_variables,
    in_scope,
)
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import STRING, Blank, Iri, Literal, RdfTerm
from clmpt.sparql.solutions import UNBOUND, Solutions

LABEL_SERVICE = Iri("http://wikiba.se/ontology#label")
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ENDINGS = {
    "Label": _RDFS_LABEL,
    "AltLabel": "http://www.w3.org/2004/02/skos/core#altLabel",
    "Description": "http://schema.org/description",
}


def with_labels(
    dataset: RdfDataset, terms: TermIds, select: Select, solutions: Solutions
) -> Solutions:
    """The solutions with the label columns that the query mentions, if it asks that service."""
    services = list(_services(select.where))
    if not services:
        return solutions
    bound = in_scope(select.where)
    wanted: dict[Variable, tuple[Variable, str]] = {}
    for variable in _mentioned(select):
        match = re.fullmatch(r"(.+?)(AltLabel|Label|Description)", variable.name)
        if match and variable not in bound and Variable(match[1]) in bound:
            wanted[variable] = (Variable(match[1]), _ENDINGS[match[2]])
    languages = ["en"]
    for service in services:
        assert isinstance(service.inner, Basic)
        for triple in service.inner.triples:
            thing, predicate, name = triple.subject, triple.predicate, triple.object
            if isinstance(name, Literal):
                languages = [one.strip() for one in name.text.lower().split(",")]
            elif (
                isinstance(thing, Variable)
                and isinstance(predicate, Iri)
                and isinstance(name, Variable)
            ):
                wanted[name] = (thing, predicate.text)
    for variable, (owner, iri) in wanted.items():
        ids, place_N = np.unique(solutions.column(owner), return_inverse=True)
        labels = [_label(dataset, terms, number, iri, languages) for number in ids.tolist()]
        solutions = solutions.extended(variable, np.array(labels, np.int64)[place_N])
    return solutions


def _services(pattern: Pattern) -> Iterator[Service]:
    if isinstance(pattern, Service):
        if pattern.endpoint == LABEL_SERVICE and isinstance(pattern.inner, Basic):
            yield pattern
    elif isinstance(pattern, JoinAll | AnyOf):
        for part in pattern.parts:
            yield from _services(part)
    elif isinstance(pattern, Optionally):
        yield from _services(pattern.left)
        yield from _services(pattern.right)
    elif isinstance(pattern, Without):
        yield from _services(pattern.left)
    elif isinstance(pattern, Where | Bind):
        yield from _services(pattern.inner)


def asks_labels(pattern: Pattern) -> bool:
    return any(True for _ in _services(pattern))


def _mentioned(select: Select) -> Iterator[Variable]:
    for column in select.columns or ():
        if column.expression is None:
            yield column.variable
        else:
            yield from expression_variables(column.expression)
    for key in select.keys:
        yield from expression_variables(key.expression or key.variable)
    for order in select.order:
        yield from expression_variables(order.expression)


def _label(
    dataset: RdfDataset, terms: TermIds, number: int, predicate: str, languages: list[str]
) -> int:
    if number == UNBOUND:
        return UNBOUND
    properties = LABEL_PROPERTIES if predicate == _RDFS_LABEL else (predicate,)
    found = [one for iri in properties for one in _literals(dataset, terms, number, iri)]
    by_language = {literal.language: literal for literal in reversed(found)}
    for language in (*languages, "", "mul"):
        if language in by_language:
            return terms.id_of(by_language[language])
    term = terms.term(number)
    if predicate != _RDFS_LABEL or isinstance(term, Blank):
        return UNBOUND
    return terms.id_of(_fallback(dataset, number, term))


def _literals(dataset: RdfDataset, terms: TermIds, number: int, predicate: str) -> list[Literal]:
    index, relation = dataset.default, dataset.predicate(Iri(predicate))
    if relation < 0 or number >= index.entities:
        return []
    start, stop = index.ranges(np.array([number]), np.array([relation]))
    found = (terms.term(int(one)) for one in index.neighbours_X[start[0] : stop[0]])
    return [term for term in found if isinstance(term, Literal)]


def _fallback(dataset: RdfDataset, number: int, term: RdfTerm) -> Literal:
    """As the service does: the end of the IRI; or our own label."""
    if isinstance(term, Literal):
        return Literal(term.text)
    if number < len(dataset.graph.entities):
        return Literal(dataset.graph.entities.label(number), STRING)
    assert isinstance(term, Iri)
    return Literal(re.split(r"[/#]", term.text)[-1])
