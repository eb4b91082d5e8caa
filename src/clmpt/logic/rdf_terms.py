"""RDF terms as plain values: IRIs, blank nodes and literals, exactly as they were written.

`str(term)` is the text of a term, for people; `repr(term)` is its N-Triples notation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from clmpt.errors import DataError, Position, cut

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
STRING, LANG_STRING = XSD + "string", RDF + "langString"


@dataclass(frozen=True, slots=True)
class Iri:
    text: str
    position: Position | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return rdf_text(self)


@dataclass(frozen=True, slots=True)
class Blank:
    label: str

    def __str__(self) -> str:
        return f"_:{self.label}"

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal's text is kept as written: 042 is not 42, though their values are equal."""

    text: str
    datatype: str = STRING
    language: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return rdf_text(self)


RdfTerm: TypeAlias = Iri | Blank | Literal

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {"\b": "\\b", "\f": "\\f"}
_ESCAPES |= {chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _ESCAPES}
_ESCAPES["\x7f"] = "\\u007F"
_SPECIAL = re.compile(r'[\\"\x00-\x1f\x7f]')
_UNESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_LITERAL = re.compile(
    r'"((?:[^"\\\n\r]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<([^<>]*)>)?', re.DOTALL
)


def rdf_text(term: RdfTerm) -> str:
    r"""A term in N-Triples notation.

    >>> print(rdf_text(Iri("http://a")), rdf_text(Literal("a\nb")))
    <http://a> "a\nb"
    """
    if isinstance(term, Iri):
        return f"<{term.text}>"
    if isinstance(term, Blank):
        return str(term)
    quoted = f'"{_SPECIAL.sub(lambda match: _ESCAPES[match[0]], term.text)}"'
    if term.language:
        return f"{quoted}@{term.language}"
    return quoted if term.datatype == STRING else f"{quoted}^^<{term.datatype}>"


def read_term(text: str) -> RdfTerm:
    """The inverse of `rdf_text`.

    >>> read_term('"1"^^<http://www.w3.org/2001/XMLSchema#integer>').text
    '1'
    """
    if text.startswith("<"):
        return Iri(text[1:-1])
    if text.startswith("_:"):
        return Blank(text[2:])
    found = literal_in(text)
    if found is None:
        raise DataError(
            f"'{cut(text)}' is no term of RDF. The stored graph is damaged: import it again."
        )
    return found


def literal_in(text: str) -> Literal | None:
    """The literal that a text in N-Triples notation stands for, if it is one."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    value = unescaped(match[1]) if "\\" in match[1] else match[1]
    if match[2]:
        return Literal(value, LANG_STRING, match[2].lower())
    return Literal(value, match[3] or STRING)


def unescaped(text: str) -> str:
    r"""A string with its escapes resolved; those that are unknown stay as they are."""

    def one(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else match[0]
        return _UNESCAPES.get(match[3], match[3])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", one, text, flags=re.DOTALL)
