"""SPARQL text to tokens, and terms made of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from clmpt.errors import Position, QuerySyntaxError, QueryTooLarge
from clmpt.logic.formula import Variable
from clmpt.logic.prefixes import PREFIXES
from clmpt.logic.rdf_terms import LANG_STRING, RDF, STRING, XSD, Iri, Literal, unescaped

LONGEST_TEXT, DEEPEST = 1_000_000, 48

_LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_MORE = _LETTER + "_0-9\u00b7\u0300-\u036f\u203f\u2040"
_PREFIX = rf"(?:[{_LETTER}](?:[{_MORE}.\-]*[{_MORE}\-])?)?"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:(?:[{_MORE}:]|{_PLX})(?:(?:[{_MORE}.:\-]|{_PLX})*(?:[{_MORE}:\-]|{_PLX}))?)?"
_EXPONENT = r"[eE][+-]?[0-9]+"
_KINDS = {
    "space": r"[ \t\r\n]+|\#[^\r\n]*",
    "iri": r"<[^<>\"{}|^`\\\x00-\x20]*>",
    "variable": rf"[?$][{_LETTER}_0-9][{_MORE}]*",
    "blank": rf"_:[{_LETTER}_0-9](?:[{_MORE}.\-]*[{_MORE}\-])?",
    "prefixed": rf"{_PREFIX}:{_LOCAL}",
    "word": r"[A-Za-z_][A-Za-z_0-9]*",
    "language": r"@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*",
    "double": rf"[0-9]+\.[0-9]*{_EXPONENT}|\.?[0-9]+{_EXPONENT}",
    "decimal": r"[0-9]*\.[0-9]+",
    "integer": r"[0-9]+",
    "string": (
        r"'''(?:'{0,2}(?:[^'\\]|\\[tbnrf\\\"']))*'''"
        r'|"""(?:"{0,2}(?:[^"\\]|\\[tbnrf\\"\']))*"""'
        r"|'(?:[^'\\\r\n]|\\[tbnrf\\\"'])*'"
        r'|"(?:[^"\\\r\n]|\\[tbnrf\\"\'])*"'
    ),
    "mark": r"\^\^|\|\||&&|!=|<=|>=|<<|[{}()\[\].;,|/^*+?!=<>\-]",
}
_WRONG_ESCAPE = re.compile(
    r"""("{3}|'{3}|["'])(?:(?!\1)[^\\\r\n]|\\[tbnrf\\"'])*(\\[^tbnrf\\"'])"""
)
_ESCAPING = r"Write \\ for a backslash, and \u with four hexadecimal digits"
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # one of the above, or "end"
    text: str
    start: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_mark(self, *marks: str) -> bool:
        return self.kind == "mark" and self.text in marks


class SparqlTokens:
    """A query's tokens, one after the other; prefixes and the base as declared so far."""

    def __init__(self, text: str, base: str = "") -> None:
        if len(text) > LONGEST_TEXT:
            raise QueryTooLarge(
                f"The query is longer than {LONGEST_TEXT:,} characters", "Shorten it"
            )
        self.text = _code_points(text)
        self.tokens = list(_tokens(self.text))
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]  # of lines
        self.at, self.depth = 0, 0
        self.base, self.prefixes = base, dict[str, str]()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def word(self, *words: str) -> Token | None:
        """The next token if it is one of these keywords."""
        return self.take() if self.next.is_word(*words) else None

    def mark(self, *marks: str) -> Token | None:
        return self.take() if self.next.is_mark(*marks) else None

    def need_word(self, word: str) -> Token:
        return self.word(word) or self.fail(word)

    def need_mark(self, mark: str) -> Token:
        return self.mark(mark) or self.fail(f"'{mark}'")

    def is_next(self, offset: int, *marks: str) -> bool:
        """Whether a later token is one of these marks."""
        return self.tokens[min(self.at + offset, len(self.tokens) - 1)].is_mark(*marks)

    def fail(self, expected: str) -> NoReturn:
        token = self.next
        found = "the end" if token.kind == "end" else f"'{_cut(token.text)}'"
        raise QuerySyntaxError(
            f"This is not SPARQL: unexpected {found}", f"Expected {expected}", self.place(token)
        )

    def wrong(self, problem: str, way_out: str, token: Token | None = None) -> NoReturn:
        raise QuerySyntaxError(problem, way_out, self.place(token or self.next))

    def place(self, token: Token) -> Position:
        line = bisect_right(self.starts, token.start)
        return Position(line, token.start - self.starts[line - 1] + 1)

    def deeper(self) -> None:
        """Counts a level of nesting; `depth` is reduced again by whoever called."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise QueryTooLarge(
                f"The query is nested more than {DEEPEST} levels deep",
                "Flatten it",
                self.place(self.next),
            )

    # --- terms ------------------------------------------------------------------------------------

    def variable(self) -> Variable | None:
        if self.next.kind != "variable":
            return None
        token = self.take()
        place = self.place(token)
        return Variable(token.text[1:], Position(place.line, place.column + 1))

    def need_variable(self) -> Variable:
        return self.variable() or self.fail("a ?variable")

    def iri(self) -> Iri | None:
        token = self.next
        if token.kind == "iri":
            self.take()
            return Iri(self.resolved(token.text[1:-1]), self.place(token))
        if token.kind == "prefixed":
            self.take()
            prefix, _, local = token.text.partition(":")
            return Iri(self.expanded(prefix, token) + _unescaped_local(local), self.place(token))
        return None

    def need_iri(self) -> Iri:
        return self.iri() or self.fail("an IRI")

    def expanded(self, prefix: str, token: Token) -> str:
        found = self.prefixes.get(prefix, PREFIXES.get(prefix))
        if found is None:
            self.wrong(
                f"Unknown prefix '{_cut(prefix)}:'",
                f"Declare it: PREFIX {_cut(prefix)}: <…>",
                token,
            )
        return found

    def resolved(self, reference: str) -> str:
        """An IRI in full; a relative one stays as it is if there is no base."""
        if not self.base or re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", reference):
            return reference
        return resolved_iri(self.base, reference)

    def literal(self) -> Literal | None:
        """A string, a number or a truth value."""
        token = self.next
        if token.kind == "string":
            self.take()
            return self.tagged(_string(token.text))
        if token.kind in ("integer", "decimal", "double"):
            self.take()
            return Literal(token.text, XSD + token.kind)
        if token.is_word("TRUE", "FALSE"):
            self.take()
            return Literal(token.text.lower(), XSD + "boolean")
        if token.is_mark("+", "-"):
            number = self.tokens[self.at + 1]
            if number.kind in ("integer", "decimal", "double") and number.start == token.start + 1:
                self.take(), self.take()
                return Literal(token.text + number.text, XSD + number.kind)
        return None

    def tagged(self, text: str) -> Literal:
        """A string with the language or the datatype that follows it."""
        if self.next.kind == "language":
            return Literal(text, LANG_STRING, self.take().text[1:].lower())
        if self.mark("^^"):
            return Literal(text, self.need_iri().text)
        return Literal(text, STRING)

    def constant(self) -> Iri | Literal | None:
        return self.iri() or self.literal()

    def path_start(self) -> Iri | None:
        """An IRI, or `a` for rdf:type."""
        if self.next.kind == "word" and self.next.text == "a":
            return Iri(RDF + "type", self.place(self.take()))
        return self.iri()


def resolved_iri(base: str, reference: str) -> str:
    """
    >>> resolved_iri("http://e/x/y#z", "#me"), resolved_iri("urn:x:y", "#me")
    ('http://e/x/y#me', 'urn:x:y#me')
    """
    if reference.startswith("#") or not reference:
        return base.partition("#")[0] + reference
    joined = urljoin(base, reference)
    if joined == reference and not urlsplit(reference).scheme:  # a scheme that urllib doesn't know
        scheme, colon, rest = base.partition(":")
        return scheme + colon + urljoin("http:" + rest, reference)[len("http:") :]
    return joined


def _code_points(text: str) -> str:
    r"""The text with \uXXXX replaced, wherever it is; halves of surrogate pairs are rejected."""

    def one(match: re.Match[str]) -> str:
        code = int(match[1] or match[2], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise QuerySyntaxError(f"{match[0]} is not a character", "Write another escape")
        return chr(code)

    if "\\u" in text or "\\U" in text:
        text = re.sub(r"(?<!\\)\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))", one, text)
    if half := re.search("[\ud800-\udfff]", text):
        raise QuerySyntaxError(
            f"The query has half a surrogate pair (\\u{ord(half[0]):04x})", "Remove it"
        )
    return text


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            column = at - text.rfind("\n", 0, at)
            what, way_out = f"unexpected '{text[at]}'", ""
            if escape := _WRONG_ESCAPE.match(text, at):
                what, way_out = f"unknown escape sequence {escape[2]}", _ESCAPING
            elif text[at] in "\"'":
                what = "a string without an end"
            raise QuerySyntaxError(f"This is not SPARQL: {what}", way_out, Position(line, column))
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), match[0], at)
        at = match.end()
    yield Token("end", "", len(text))


def _string(token: str) -> str:
    quotes = 3 if token.startswith(("'''", '"""')) and len(token) >= 6 else 1
    inner = token[quotes:-quotes]
    return unescaped(inner) if "\\" in inner else inner


def _unescaped_local(local: str) -> str:
    return re.sub(r"\\(.)", r"\1", local) if "\\" in local else local


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
