"""SPARQL text to rdflib's algebra, and positions in the text."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clmpt.errors import Position, QuerySyntaxError, QueryTooLarge
from clmpt.logic.iris import BASE

LONGEST_TEXT, DEEPEST = 20_000, 16
PREFIXES = {
    "": BASE,
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


class SparqlSource:
    """A query text that can be parsed and searched."""

    def __init__(self, text: str) -> None:
        self.text = text
        # Strings, IRIs and comments are blanked out, so that only real keywords are found.
        self.code = re.sub(
            r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|<[^<>\s]*>|#[^\n]*",
            lambda match: " " * len(match[0]),
            text,
        )

    def algebra(self) -> Any:
        depth = deepest = 0
        for character in self.code:
            depth += (character in "{([") - (character in "})]")
            deepest = max(deepest, depth)
        if len(self.text) > LONGEST_TEXT:
            raise QueryTooLarge(
                f"The query is longer than {LONGEST_TEXT:,} characters", "Shorten it"
            )
        if deepest > DEEPEST:
            raise QueryTooLarge(
                f"The query is nested more than {DEEPEST} levels deep", "Flatten it"
            )
        logging.getLogger("rdflib").addHandler(logging.NullHandler())  # it warns about odd IRIs
        from pyparsing import ParseException
        from rdflib.plugins.sparql.algebra import translateQuery
        from rdflib.plugins.sparql.parser import parseQuery

        try:
            with _literals_as_written():
                return translateQuery(parseQuery(self.text), initNs=PREFIXES).algebra
        except ParseException as error:
            found = self.text[error.loc : error.loc + 12].split() or ["the end"]
            raise QuerySyntaxError(
                f"This is not SPARQL: unexpected '{found[0]}'",
                "Expected a SELECT with one variable, such as SELECT ?x { :a :r ?x }",
                Position(error.lineno, error.column),
            ) from None
        except RecursionError:
            raise QueryTooLarge(
                "The query is too long or nested too deeply", "Shorten it"
            ) from None
        except Exception as error:  # rdflib raises bare Exception and many others on bad input
            raise QuerySyntaxError(f"This is not SPARQL: {_first_line(error)}") from None

    @property
    def selects_all(self) -> bool:
        first = re.search(
            r"(?<![?$:\w])SELECT\b(?:\s+DISTINCT|\s+REDUCED)?\s*(\*)?", self.code, re.I
        )
        return bool(first and first[1])

    def find(self, pattern: str) -> Position | None:
        match = re.search(rf"\b(?:{pattern})\b", self.code, re.IGNORECASE)
        return self.at(match.start()) if match else None

    def mark(self, operator: str) -> Position | None:
        """The position of a path operator: after a name, a parenthesis or an IRI, or before one."""
        operator = re.escape(operator)
        match = re.search(rf"(?<=[\w)>]){operator}(?!\w)", self.text)
        match = match or re.search(rf"{operator}(?=[\w(<:^])", self.text)
        return self.at(match.start()) if match else None

    def name(self, iri: str) -> Position | None:
        """The position of an IRI, written in full or with a prefix."""
        local = re.split(r"[/#:]", iri)[-1]
        for wanted in (rf"<{re.escape(iri)}>", rf"(?<!\w)\w*:{re.escape(local)}(?!\w)"):
            if match := re.search(wanted, self.text):
                return self.at(match.start())
        return None

    def at(self, offset: int) -> Position:
        start = self.text.rfind("\n", 0, offset) + 1
        return Position(self.text.count("\n", 0, offset) + 1, offset - start + 1)


@contextmanager
def _literals_as_written() -> Iterator[None]:
    """Keeps rdflib from turning 042 into 42, which is not the literal in the graph."""
    import rdflib

    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS = before


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
