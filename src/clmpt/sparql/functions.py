"""SPARQL's built-in functions and casts, on terms. Each raises ExpressionError where the standard
has a type error."""

from __future__ import annotations

import hashlib
import math
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import regex

from clmpt.errors import OutOfBudget
from clmpt.logic.rdf_terms import LANG_STRING, STRING, Blank, Iri, Literal, RdfTerm
from clmpt.sparql.casts import CASTS
from clmpt.sparql.values import (
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    INTEGER,
    TIME,
    ExpressionError,
    Moment,
    Numeric,
    computed,
    equals,
    less,
    literal_of,
    moment_of,
    number_of,
    truth,
    zone_of,
)

Function = Callable[..., RdfTerm]
LONGEST_RESULT = 10_000_000  # characters


def number_in(term: RdfTerm) -> Numeric:
    found = number_of(term)
    if found is None:
        raise ExpressionError("not a number")
    return found


def string_in(term: RdfTerm) -> Literal:
    """A string, with or without a language."""
    if isinstance(term, Literal) and (term.datatype == STRING or term.language):
        return term
    raise ExpressionError("not a string")


def plain(term: RdfTerm) -> str:
    """A string without a language."""
    if isinstance(term, Literal) and term.datatype == STRING:
        return term.text
    raise ExpressionError("not a plain string")


def moment_in(term: RdfTerm) -> Moment:
    found = moment_of(term)
    if found is None:
        raise ExpressionError("not a date or time")
    return found


def like(model: Literal, value: str) -> Literal:
    """A string of the same kind as another."""
    return Literal(value, model.datatype, model.language)


def _arguments(left: RdfTerm, right: RdfTerm) -> tuple[Literal, Literal]:
    """Two strings that go together: the second has no language, or that of the first."""
    a, b = string_in(left), string_in(right)
    if b.language and a.language != b.language:
        raise ExpressionError("strings in different languages")
    return a, b


# --- terms ----------------------------------------------------------------------------------------


def str_(term: RdfTerm) -> Literal:
    if isinstance(term, Blank):
        raise ExpressionError("a blank node has no text")
    return Literal(term.text)


def lang(term: RdfTerm) -> Literal:
    if not isinstance(term, Literal):
        raise ExpressionError("not a literal")
    return Literal(term.language)


def datatype(term: RdfTerm) -> Iri:
    if not isinstance(term, Literal):
        raise ExpressionError("not a literal")
    return Iri(term.datatype)


def langmatches(tag: RdfTerm, wanted: RdfTerm) -> Literal:
    language, pattern = plain(tag).lower(), plain(wanted).lower()
    if pattern == "*":
        return truth(bool(language))
    return truth(language == pattern or language.startswith(pattern + "-"))


def strlang(value: RdfTerm, tag: RdfTerm) -> Literal:
    if not regex.fullmatch(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*", plain(tag)):
        raise ExpressionError("not a language")
    return Literal(plain(value), LANG_STRING, plain(tag).lower())


def strdt(value: RdfTerm, kind: RdfTerm) -> Literal:
    if not isinstance(kind, Iri):
        raise ExpressionError("not an IRI")
    return Literal(plain(value), kind.text)


# --- strings --------------------------------------------------------------------------------------


def substr(value: RdfTerm, start: RdfTerm, length: RdfTerm | None = None) -> Literal:
    source = string_in(value)
    first = _rounded(number_in(start))
    last = math.inf if length is None else first + _rounded(number_in(length))
    if first != first or last != last:
        return like(source, "")
    begin = max(first, 1) - 1
    if begin >= len(source.text) or last <= begin:
        return like(source, "")
    return like(source, source.text[int(begin) : int(min(last - 1, len(source.text)))])


def _rounded(value: Numeric) -> float:
    found = value.value
    return math.floor(found + type(found)(0.5)) if math.isfinite(found) else float(found)  # type: ignore[operator]


def strbefore(value: RdfTerm, part: RdfTerm) -> Literal:
    a, b = _arguments(value, part)
    before, found, _ = a.text.partition(b.text) if b.text else ("", "x", "")
    return like(a, before) if found else Literal("")


def strafter(value: RdfTerm, part: RdfTerm) -> Literal:
    a, b = _arguments(value, part)
    _, found, after = a.text.partition(b.text) if b.text else ("", "x", a.text)
    return like(a, after) if found else Literal("")


def concat(*parts: RdfTerm) -> Literal:
    strings = [string_in(part) for part in parts]
    joined = "".join(part.text for part in strings)
    if len(joined) > LONGEST_RESULT:
        raise ExpressionError("too long")
    kinds = {(part.datatype, part.language) for part in strings}
    return like(strings[0], joined) if len(kinds) == 1 else Literal(joined)


_FLAGS = {"i": regex.IGNORECASE, "s": regex.DOTALL, "m": regex.MULTILINE, "x": 0, "q": 0}
LONGEST_MATCH = 2.0  # seconds; there are patterns that would take years


@lru_cache(maxsize=256)
def pattern_of(pattern: str, flags: str) -> Any:
    r"""An XPath regular expression, compiled; `regex` knows \p{L} and limits of time, `re` does
    not."""
    if not set(flags) <= set(_FLAGS) or len(pattern) > 1000:
        raise ExpressionError("unknown flags")
    found = regex.VERSION0
    for flag in flags:
        found |= _FLAGS[flag]
    if "q" in flags:
        return regex.compile(regex.escape(pattern), found)
    if "x" in flags:
        pattern = _without_spaces(pattern)
    pattern = regex.sub(r"\\([ic])", lambda m: r"[\w:]" if m[1] == "i" else r"[\w:.\-]", pattern)
    if "m" not in flags:
        pattern = regex.sub(r"(?<!\\)\$$", r"\\Z", pattern)
    try:
        return regex.compile(pattern, found)
    except (regex.error, RecursionError, OverflowError, ValueError):
        raise ExpressionError("not a regular expression") from None


@contextmanager
def _in_time() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        limit = f"the time limit of {LONGEST_MATCH:g} s for a regular expression"
        raise OutOfBudget(limit) from None


def _without_spaces(pattern: str) -> str:
    """A pattern without its white space, except in character classes."""
    found, inside, escaped = [], False, False
    for character in pattern:
        if character in " \t\r\n" and not inside and not escaped:
            continue
        if not escaped:
            inside = character == "[" or (inside and character != "]")
        escaped = character == "\\" and not escaped
        found.append(character)
    return "".join(found)


def matches(value: RdfTerm, pattern: RdfTerm, flags: RdfTerm | None = None) -> Literal:
    chosen = plain(flags) if flags is not None else ""
    compiled = pattern_of(plain(pattern), chosen)
    with _in_time():
        return truth(bool(compiled.search(string_in(value).text, timeout=LONGEST_MATCH)))


def replaced(
    value: RdfTerm, pattern: RdfTerm, by: RdfTerm, flags: RdfTerm | None = None
) -> Literal:
    chosen = plain(flags) if flags is not None else ""
    source, compiled = string_in(value), pattern_of(plain(pattern), chosen)
    if compiled.search(""):
        raise ExpressionError("the pattern matches the empty string")
    template = plain(by)

    def filled(match: Any) -> str:
        def one(mark: Any) -> str:
            if mark[1]:
                group = int(mark[1])
                return (match[group] or "") if group <= compiled.groups else ""
            return str(mark[2])

        return template if "q" in chosen else regex.sub(r"\$([0-9])|\\([\\$])", one, template)

    with _in_time():
        return like(source, compiled.sub(filled, source.text, timeout=LONGEST_MATCH))


def _hash(name: str) -> Function:
    def digest(value: RdfTerm) -> Literal:
        made = hashlib.new(
            name, plain(value).encode("utf-8", "surrogatepass"), usedforsecurity=False
        )
        return Literal(made.hexdigest())

    return digest


# --- numbers --------------------------------------------------------------------------------------


def _rounding(name: str) -> Function:
    def round_(term: RdfTerm) -> Literal:
        found = number_in(term)
        value: Any = found.value
        if isinstance(value, int) or (isinstance(value, float) and not math.isfinite(value)):
            return literal_of(found)
        exact = Decimal(value) + (Decimal("0.5") if name == "ROUND" else 0)
        whole = exact.to_integral_value(ROUND_CEILING if name == "CEIL" else ROUND_FLOOR)
        return literal_of(replace(found, value=type(value)(whole)))

    return round_


def absolute(term: RdfTerm) -> Literal:
    found = number_in(term)
    return literal_of(replace(found, value=-found.value) if found.value < 0 else found)


# --- dates and times ------------------------------------------------------------------------------


def _part(name: str) -> Function:
    def part(term: RdfTerm) -> Literal:
        found = moment_in(term)
        has_day, has_clock = found.datatype != TIME, found.datatype != DATE
        if name in ("year", "month", "day") and not has_day:
            raise ExpressionError("a time has no day")
        if name in ("hour", "minute", "second") and not has_clock:
            raise ExpressionError("a date has no time")
        if name == "second":
            return literal_of(Numeric(found.second, DECIMAL))
        source = found if name == "year" else found.value
        return literal_of(Numeric(getattr(source, name), INTEGER))

    return part


def timezone(term: RdfTerm) -> Literal:
    shift = moment_in(term).shift
    if shift is None:
        raise ExpressionError("no time zone")
    hours, minutes = divmod(abs(shift), 60)
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    return Literal(f"{'-' if shift < 0 else ''}PT{clock or '0S'}", DURATION)


def tz(term: RdfTerm) -> Literal:
    assert moment_in(term)
    return Literal(zone_of(term))


# --- operators ------------------------------------------------------------------------------------


def _arithmetic(sign: str) -> Function:
    return lambda left, right: literal_of(computed(sign, number_in(left), number_in(right)))


def _at_most(left: RdfTerm, right: RdfTerm) -> bool:
    a, b = number_of(left), number_of(right)
    if (a and a.value != a.value) or (b and b.value != b.value):
        return False
    return less(left, right) or equals(left, right)


FUNCTIONS: dict[str, Function] = {
    **CASTS,
    **{sign: _arithmetic(sign) for sign in "+-*/"},
    "=": lambda a, b: truth(equals(a, b)),
    "!=": lambda a, b: truth(not equals(a, b)),
    "<": lambda a, b: truth(less(a, b)),
    ">": lambda a, b: truth(less(b, a)),
    "<=": lambda a, b: truth(_at_most(a, b)),
    ">=": lambda a, b: truth(_at_most(b, a)),
    "+1": lambda a: literal_of(number_in(a)),
    "-1": lambda a: literal_of(computed("-", Numeric(0, INTEGER), number_in(a))),
    "SAMETERM": lambda a, b: truth(a == b),
    "ISIRI": lambda a: truth(isinstance(a, Iri)),
    "ISURI": lambda a: truth(isinstance(a, Iri)),
    "ISBLANK": lambda a: truth(isinstance(a, Blank)),
    "ISLITERAL": lambda a: truth(isinstance(a, Literal)),
    "ISNUMERIC": lambda a: truth(number_of(a) is not None),
    "STR": str_,
    "LANG": lang,
    "DATATYPE": datatype,
    "LANGMATCHES": langmatches,
    "STRLANG": strlang,
    "STRDT": strdt,
    "STRLEN": lambda a: literal_of(Numeric(len(string_in(a).text), INTEGER)),
    "UCASE": lambda a: like(string_in(a), string_in(a).text.upper()),
    "LCASE": lambda a: like(string_in(a), string_in(a).text.lower()),
    "ENCODE_FOR_URI": lambda a: Literal(quote(string_in(a).text, safe="-_.~")),
    "CONTAINS": lambda a, b: truth(_arguments(a, b)[1].text in string_in(a).text),
    "STRSTARTS": lambda a, b: truth(string_in(a).text.startswith(_arguments(a, b)[1].text)),
    "STRENDS": lambda a, b: truth(string_in(a).text.endswith(_arguments(a, b)[1].text)),
    "STRBEFORE": strbefore,
    "STRAFTER": strafter,
    "SUBSTR": substr,
    "CONCAT": concat,
    "REGEX": matches,
    "REPLACE": replaced,
    **{name: _hash(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")},
    "ABS": absolute,
    **{name: _rounding(name) for name in ("CEIL", "FLOOR", "ROUND")},
    "YEAR": _part("year"),
    "MONTH": _part("month"),
    "DAY": _part("day"),
    "HOURS": _part("hour"),
    "MINUTES": _part("minute"),
    "SECONDS": _part("second"),
    "TIMEZONE": timezone,
    "TZ": tz,
    "RAND": lambda: literal_of(Numeric(random.random(), DOUBLE)),
    "UUID": lambda: Iri(f"urn:uuid:{uuid.uuid4()}"),
    "STRUUID": lambda: Literal(str(uuid.uuid4())),
}
CHANGING = frozenset({"RAND", "UUID", "STRUUID", "BNODE"})  # another value for every row
