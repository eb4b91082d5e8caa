"""What follows from a graph by its own ontology: RDFS and OWL RL, by owlrl.

Of the reasoners tried, owlrl derives most (16 of W3C's entailment tests more than no reasoner;
reasonable, in Rust, 10), in about a millisecond per statement.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from clmpt.errors import DataError, SettingError
from clmpt.graph.rdf_reading import RdfCollector
from clmpt.graph.rdf_statements import BLANK, LITERAL
from clmpt.logic.prefixes import PREFIXES
from clmpt.logic.rdf_terms import LANG_STRING, STRING, Literal, literal_in, rdf_text

KINDS = {"rdfs": "RDFS_Semantics", "owl-rl": "OWLRL_Semantics"}
_BUILT_IN = tuple(PREFIXES[name] for name in ("rdf", "rdfs", "owl", "xsd"))
_TYPE = PREFIXES["rdf"] + "type"


def add_entailed(collector: RdfCollector, kind: str) -> int:
    """Adds what follows from the statements of the default graph, and returns how many those are.

    What only speaks of the ontology languages themselves, such as that everything is a resource,
    can be queried, but no model learns from it.
    """
    if kind not in KINDS:
        raise SettingError(f"There is no entailment '{kind}'. Choose one of: {', '.join(KINDS)}.")
    if len(collector.splits) > 1:
        raise DataError(
            "--entail needs all facts in one split: what follows from facts of several belongs to "
            "none of them."
        )
    try:
        import owlrl
    except ImportError:
        raise SettingError(
            "--entail needs the package owlrl: pip install 'clmpt[entail]'"
        ) from None
    graph = _as_rdflib(collector)
    before = len(graph)
    logging.getLogger("rdflib").addHandler(logging.NullHandler())
    closure = owlrl.DeductiveClosure(
        getattr(owlrl, KINDS[kind]), axiomatic_triples=False, datatype_axioms=False
    )
    known = set(graph)
    closure.expand(graph)
    for triple in sorted(set(graph) - known):
        subject, predicate, object_ = (_text(term) for term in triple)
        if not subject.startswith('"') and predicate[0] not in '"_':
            learned = _is_about_the_world(predicate, object_)
            collector.add_entailed(subject, predicate, object_, learned)
    return len(graph) - before


def _is_about_the_world(predicate: str, object_: str) -> bool:
    if predicate.startswith(_BUILT_IN) and predicate != _TYPE:
        return False
    return not object_.startswith(_BUILT_IN)


def _as_rdflib(collector: RdfCollector) -> Any:
    import rdflib

    graph = rdflib.Graph()
    texts, kinds = list(collector.ids), collector.kinds_T()
    terms: dict[int, Any] = {}

    def term(number: int) -> Any:
        if number not in terms:
            text = texts[number]
            if kinds[number] == LITERAL:
                literal = literal_in(text)
                assert literal is not None
                terms[number] = rdflib.Literal(
                    literal.text,
                    lang=literal.language or None,
                    datatype=None if literal.language else rdflib.URIRef(literal.datatype),
                    normalize=False,
                )
            elif kinds[number] == BLANK:
                terms[number] = rdflib.BNode(text.removeprefix("_:"))
            else:
                terms[number] = rdflib.URIRef(text)
        return terms[number]

    for triple in _default_triples(collector):
        graph.add(tuple(map(term, triple)))
    return graph


def _default_triples(collector: RdfCollector) -> Iterator[list[int]]:
    rows = collector.rows_S5
    yield from rows[rows[:, 0] < 0][:, 1:4].tolist()


def _text(term: Any) -> str:
    """A term as the collector keeps it."""
    import rdflib

    if isinstance(term, rdflib.BNode):
        return f"_:{term}"
    if isinstance(term, rdflib.Literal):
        if term.language:
            return rdf_text(Literal(str(term), LANG_STRING, term.language.lower()))
        return rdf_text(Literal(str(term), str(term.datatype or STRING)))
    return str(term)
