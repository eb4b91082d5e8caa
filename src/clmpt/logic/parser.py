"""Formula text to Query, with errors that say where and what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedEOF, UnexpectedToken
from lark.exceptions import LarkError, VisitError

from clmpt.errors import (
    ClmptError,
    Position,
    QueryError,
    QuerySyntaxError,
    QueryTooLarge,
    UnsupportedQuery,
)
from clmpt.logic.formula import (
    Atom,
    Exists,
    Formula,
    Id,
    Limits,
    Name,
    Placeholder,
    Query,
    Symbol,
    Term,
    Variable,
    conjunction,
    disjunction,
    negate,
)
from clmpt.logic.printing import BARE_NAME, IRI_BODY, NAME_MORE

LONGEST_TEXT = 100_000
QUERY_FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")

_EXAMPLE = "'?x : directed(Mizoguchi, ?x)'"
_MORE = NAME_MORE.replace("/", r"\/")  # lark ends a regular expression at a slash
_BARE = BARE_NAME.replace("/", r"\/")

_GRAMMAR = rf"""
start: asked _COLON formula
asked: VARIABLE (_COMMA VARIABLE)*

?formula: EXISTS variables _DOT formula -> exists
        | disjunction
?disjunction: conjunction (_OR conjunction)*
?conjunction: unary (_AND unary)*
?unary: _NOT unary -> negation
      | _NOT EXISTS variables _DOT _OPEN formula _CLOSE -> not_exists
      | EXISTS variables _OPEN formula _CLOSE -> exists
      | _OPEN formula _CLOSE
      | atom
variables: VARIABLE (_COMMA? VARIABLE)*

atom: symbol _OPEN term _COMMA term _CLOSE
    | INVERSE symbol _OPEN term _COMMA term _CLOSE -> inverse_atom
?term: VARIABLE -> variable
     | symbol
symbol: NAME | QUOTED | IRI | ID | PLACEHOLDER

_AND.2: /&&?|∧|and(?!{_MORE})/i
_OR.2: /\|\|?|∨|or(?!{_MORE})/i
_NOT.2: /!|¬|not(?!{_MORE})/i
EXISTS.2: /∃|exists(?!{_MORE})/i
_COLON: ":"
_DOT: "."
_COMMA: ","
_OPEN: "("
_CLOSE: ")"
INVERSE: "^"
VARIABLE: /\?\w+/
PLACEHOLDER: /\$\w+/
ID: /#[0-9]+/
NAME: /{_BARE}/
IRI: /<{IRI_BODY}>/
QUOTED: /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/
%ignore /\s+/
"""

_WORDS = {
    "_AND": "'&'",
    "_OR": "'|'",
    "_NOT": "'!'",
    "EXISTS": "'exists'",
    "_COLON": "':'",
    "_DOT": "'.'",
    "_COMMA": "','",
    "_OPEN": "'('",
    "_CLOSE": "')'",
    "INVERSE": "'^'",
    "VARIABLE": "a ?variable",
    "NAME": "a name",
    "$END": "the end of the query",
}


def parse_formula(text: str, limits: Limits | None = None) -> Query:
    """The query that a formula text expresses.

    Names are not looked up here; the graph does that.

    >>> print(parse_formula("?y : r(a, ?x) and not s(?x, ?y) and t(b, ?y)"))
    ?y : r(a, ?x) & !s(?x, ?y) & t(b, ?y)
    """
    if not text.strip():
        raise QuerySyntaxError(
            "The query is empty", "Write, for example, '?x : directed(Mizoguchi, ?x)'"
        )
    if len(text) > LONGEST_TEXT:
        raise QueryTooLarge(f"The query is longer than {LONGEST_TEXT:,} characters", "Shorten it")
    try:
        built: Any = _grammar().parse(text)
        free, body = built
    except UnexpectedEOF as error:
        raise _problem("The query ends too early", text, len(text), error.expected) from None
    except UnexpectedToken as error:
        at = error.pos_in_stream if error.token.type != "$END" else None
        what = "The query ends too early" if at is None else f"Unexpected '{error.token}'"
        place = len(text) if at is None else at
        raise _problem(what, text, place, error.accepts or error.expected) from None
    except UnexpectedCharacters as error:
        place = error.pos_in_stream or 0
        what = f"Unexpected character {text[place]!r}"
        raise _problem(what, text, place, error.allowed or ()) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ClmptError):
            raise error.orig_exc from None
        raise
    except LarkError as error:  # pragma: no cover - lark documents no other
        raise QuerySyntaxError(f"The query cannot be read: {error}") from None
    return Query(free, body, None, limits or Limits())


class _Builder(Transformer[Token, Any]):
    """Runs while lark parses, so that no deep tree is ever walked."""

    def start(self, found: list[Any]) -> tuple[tuple[Variable, ...], Formula]:
        return found[0], found[1]

    def asked(self, found: list[Token]) -> tuple[Variable, ...]:
        for number, token in enumerate(found):
            if token in found[:number]:
                raise QuerySyntaxError(
                    f"The query asks for {token} twice", "Name each variable once", _place(token)
                )
        return self.variables(found)

    def variables(self, found: list[Token]) -> tuple[Variable, ...]:
        return tuple(dict.fromkeys(map(_variable, found)))

    def exists(self, found: list[Any]) -> Formula:
        return Exists(found[1], found[2])

    def not_exists(self, found: list[Any]) -> Formula:
        return negate(Exists(found[1], found[2]))

    def negation(self, found: list[Formula]) -> Formula:
        return negate(found[0])

    def conjunction(self, found: list[Formula]) -> Formula:
        return conjunction(found)

    def disjunction(self, found: list[Formula]) -> Formula:
        return disjunction(found)

    def atom(self, found: list[Any]) -> Formula:
        relation, head, tail = found
        return Atom(relation, head, tail)

    def inverse_atom(self, found: list[Any]) -> Formula:
        _, relation, head, tail = found
        return Atom(relation, tail, head)

    def variable(self, found: list[Token]) -> Term:
        return _variable(found[0])

    def symbol(self, found: list[Token]) -> Symbol:
        token = found[0]
        if token.type == "ID":
            return Id(_number(token))
        if token.type == "PLACEHOLDER":
            return Placeholder(token[1:])
        if token.type == "QUOTED":
            return Name(_unquote(token), _place(token))
        return Name(token[1:-1] if token.type == "IRI" else str(token), _place(token))


def _variable(token: Token) -> Variable:
    return Variable(token[1:], _place(token))


def _number(token: Token) -> int:
    if len(token) > 18:
        raise QuerySyntaxError(f"The id {token[:12]}… is too large", "", _place(token))
    return int(token[1:])


def _unquote(token: Token) -> str:
    body = token[1:-1]
    if token[0] == "'":
        body = re.sub(r"\\.|\"", lambda m: {r"\'": "'", '"': r"\""}.get(m[0], m[0]), body)
    body = re.sub(r"[\x00-\x1f]", lambda m: f"\\u{ord(m[0]):04x}", body)
    try:
        text: str = json.loads(f'"{body}"')
    except ValueError:
        raise QuerySyntaxError(
            f"Unknown escape sequence in {token}",
            r"Write \\ for a backslash and \" for a quotation mark",
            _place(token),
        ) from None
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QuerySyntaxError(f"{token} contains half a surrogate pair", "", _place(token))
    return text


def _place(token: Token) -> Position:
    return Position(token.line or 1, token.column or 1)


def _problem(what: str, text: str, offset: int, expected: Iterable[str]) -> QuerySyntaxError:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    words = sorted({word for name in expected if (word := _WORDS.get(name))})
    hint = (
        f"Expected {', '.join(words[:-1])}{' or ' if words[1:] else ''}{words[-1]}" if words else ""
    )
    if re.fullmatch(r"\s*\?\w+[\s,]*", text[:offset]) and text[offset : offset + 1] in {",", "?"}:
        hint = "Put a comma between variables that are asked for, and a colon after them"
    if offset == 0 and not text.lstrip().startswith("?"):
        hint = f"A query starts with its free variable and a colon, as in {_EXAMPLE}"
    if text[offset : offset + 1] in {'"', "'"} and what.startswith("Unexpected character"):
        what, hint = "A quotation mark is not closed", "Close it after the name"
    elif (
        re.search(r"[(,]\s*[^\s?\"(),]+\s+$", text[:offset]) and text[offset : offset + 1].isalnum()
    ):
        hint = "Put a name with spaces in quotation marks"
    return QuerySyntaxError(what, hint, Position(line, column))


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", transformer=_Builder())


def is_sparql(text: str) -> bool:
    """Whether a text begins as SPARQL does, its updates included."""
    first = "|".join(("PREFIX", "BASE", *QUERY_FORMS, *UPDATES))
    return bool(re.match(rf"\s*(?:#[^\n]*\n\s*)*(?:{first})\b", text, re.IGNORECASE))


def parse(text: str, limits: Limits | None = None) -> Query:
    """A query from formula text, SPARQL or a BetaE tuple, whichever it is.

    >>> parse("SELECT ?x { :Orwell :wrote ?x }") == parse("?x : wrote(Orwell, ?x)")
    True
    """
    if is_sparql(text):
        from clmpt.logic.sparql import parse_sparql

        return parse_sparql(text, limits)
    if re.match(r"\s*\(", text):
        from clmpt.logic.betae import from_betae_text

        return from_betae_text(text, limits)
    return parse_formula(text, limits)


def no_question(thing: object) -> QueryError:
    """The error for what can be no question."""
    return QueryError(
        f"A question is a text or a Query, not {type(thing).__name__}",
        f"Write the tuple as a text: '{thing}'" if isinstance(thing, tuple) else "",
    )


def as_query(question: object, otherwise: str) -> Query:
    """A question, read if it is a text; nothing else is one.

    `otherwise` is the way out for SPARQL that is more than a `Query`.
    """
    if isinstance(question, Query):
        return question
    if not isinstance(question, str):
        raise no_question(question)
    try:
        return parse(question)
    except UnsupportedQuery as error:
        if not is_sparql(question):
            raise
        raise UnsupportedQuery(error.problem, otherwise, error.position) from None
