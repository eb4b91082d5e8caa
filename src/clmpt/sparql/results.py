"""Results in W3C's formats: JSON, XML, CSV and TSV for rows and truth values, N-Triples, Turtle and
RDF/XML for triples."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from xml.sax.saxutils import escape, quoteattr

from clmpt.errors import SettingError
from clmpt.logic.algebra import Form
from clmpt.logic.prefixes import PREFIXES
from clmpt.logic.rdf_terms import STRING, XSD, Blank, Iri, Literal, RdfTerm, rdf_text
from clmpt.sparql.answering import Triple

_NAMESPACE = "http://www.w3.org/2005/sparql-results#"


class WrittenResult(Protocol):
    """What can be written: rows, a truth value or triples, as `SparqlResult` has them."""

    @property
    def form(self) -> Form: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def holds(self) -> bool | None: ...
    @property
    def triples(self) -> tuple[Triple, ...]: ...
    def __iter__(self) -> Iterator[tuple[RdfTerm | None, ...]]: ...


def write_result(result: WrittenResult, form: str) -> Iterator[str]:
    """The text of a result, piece by piece. Forms: json, xml, csv, tsv; turtle, ntriples,
    rdfxml.
    """
    if result.form in ("CONSTRUCT", "DESCRIBE"):
        writers = {"turtle": _turtle, "ntriples": _ntriples, "rdfxml": _rdf_xml}
    elif result.form == "ASK":
        writers = {"json": _json_truth, "xml": _xml_truth, "csv": _plain_truth, "tsv": _plain_truth}
    else:
        writers = {"json": _json, "xml": _xml, "csv": _csv, "tsv": _tsv}
    if form not in writers:
        raise SettingError(
            f"The result of {result.form} cannot be written as {form}. Choose one of: "
            f"{', '.join(writers)}."
        )
    chosen: Callable[[WrittenResult], Iterator[str]] = writers[form]
    return chosen(result)


# --- rows -----------------------------------------------------------------------------------------


def _json(result: WrittenResult) -> Iterator[str]:
    names = [json.dumps(name, ensure_ascii=False) for name in result.variables]
    yield f'{{"head": {{"vars": [{", ".join(names)}]}}, "results": {{"bindings": ['
    between = "\n"
    for row in result:
        found = (
            f"{name}: {json.dumps(_json_term(term), ensure_ascii=False)}"
            for name, term in zip(names, row, strict=True)
            if term is not None
        )
        yield f"{between}{{{', '.join(found)}}}"
        between = ",\n"
    yield "\n]}}\n"


def _json_term(term: RdfTerm) -> dict[str, Any]:
    if isinstance(term, Iri):
        return {"type": "uri", "value": term.text}
    if isinstance(term, Blank):
        return {"type": "bnode", "value": term.label}
    found = {"type": "literal", "value": term.text}
    if term.language:
        found["xml:lang"] = term.language
    elif term.datatype != STRING:
        found["datatype"] = term.datatype
    return found


def _xml(result: WrittenResult) -> Iterator[str]:
    yield f'<?xml version="1.0"?>\n<sparql xmlns="{_NAMESPACE}">\n<head>'
    yield "".join(f"<variable name={quoteattr(name)}/>" for name in result.variables)
    yield "</head>\n<results>\n"
    for row in result:
        found = (
            f"<binding name={quoteattr(name)}>{_xml_term(term)}</binding>"
            for name, term in zip(result.variables, row, strict=True)
            if term is not None
        )
        yield f"<result>{''.join(found)}</result>\n"
    yield "</results>\n</sparql>\n"


def _xml_term(term: RdfTerm) -> str:
    if isinstance(term, Iri):
        return f"<uri>{escape(term.text)}</uri>"
    if isinstance(term, Blank):
        return f"<bnode>{escape(term.label)}</bnode>"
    kind = ""
    if term.language:
        kind = f" xml:lang={quoteattr(term.language)}"
    elif term.datatype != STRING:
        kind = f" datatype={quoteattr(term.datatype)}"
    return f"<literal{kind}>{_xml_text(term.text)}</literal>"


def _xml_text(text: str) -> str:
    """Text for XML 1.0, which has no way to write most control characters."""
    shown = "".join(
        c if c in "\t\n" or ord(c) >= 32 else "&#13;" if c == "\r" else "\ufffd"
        for c in escape(text)
    )
    return shown.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def _csv(result: WrittenResult) -> Iterator[str]:
    yield _csv_line(list(result.variables))
    for row in result:
        yield _csv_line(["" if term is None else str(term) for term in row])


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()


def _tsv(result: WrittenResult) -> Iterator[str]:
    yield "\t".join(f"?{name}" for name in result.variables) + "\n"
    for row in result:
        yield "\t".join(map(_tsv_term, row)) + "\n"


_NUMBERS = {  # what TSV writes without quotes, as Turtle does
    XSD + "integer": r"[+-]?[0-9]+",
    XSD + "decimal": r"[+-]?[0-9]*\.[0-9]+",
    XSD + "double": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+",
}


def _tsv_term(term: RdfTerm | None) -> str:
    if isinstance(term, Literal) and re.fullmatch(_NUMBERS.get(term.datatype, "(?!)"), term.text):
        return term.text
    return "" if term is None else rdf_text(term)


# --- truth values ---------------------------------------------------------------------------------


def _json_truth(result: WrittenResult) -> Iterator[str]:
    yield f'{{"head": {{}}, "boolean": {json.dumps(result.holds)}}}\n'


def _xml_truth(result: WrittenResult) -> Iterator[str]:
    truth = json.dumps(result.holds)
    yield f'<?xml version="1.0"?>\n<sparql xmlns="{_NAMESPACE}"><head/><boolean>{truth}</boolean>'
    yield "</sparql>\n"


def _plain_truth(result: WrittenResult) -> Iterator[str]:
    yield f"{json.dumps(result.holds)}\n"


# --- triples --------------------------------------------------------------------------------------


def _ntriples(result: WrittenResult) -> Iterator[str]:
    for subject, predicate, object_ in result.triples:
        yield f"{rdf_text(subject)} {rdf_text(predicate)} {rdf_text(object_)} .\n"


def _turtle(result: WrittenResult) -> Iterator[str]:
    return _serialized(result, "TURTLE")


def _rdf_xml(result: WrittenResult) -> Iterator[str]:
    return _serialized(result, "RDF_XML")


def _serialized(result: WrittenResult, form: str) -> Iterator[str]:
    import pyoxigraph as ox

    text = "".join(_ntriples(result))
    prefixes = {
        name: iri for name, iri in PREFIXES.items() if name and len(iri) > 4 and f"<{iri}" in text
    }
    made = ox.serialize(
        (quad.triple for quad in ox.parse(text, format=ox.RdfFormat.N_TRIPLES, lenient=True)),
        format=getattr(ox.RdfFormat, form),
        prefixes=prefixes,
    )
    yield (made or b"").decode()
