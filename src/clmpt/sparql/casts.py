"""Casts between the types of literals, as functions by IRI: xsd:integer(?x) and the like."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from clmpt.logic.rdf_terms import STRING, Blank, Literal, RdfTerm
from clmpt.sparql.values import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    TIME,
    ExpressionError,
    Numeric,
    boolean_of,
    literal_of,
    moment_of,
    number_of,
    truth,
    zone_of,
)

Cast = Callable[[RdfTerm], Literal]


def _to_number(kind: str) -> Cast:
    def cast(term: RdfTerm) -> Literal:
        known = boolean_of(term)
        found = number_of(term)
        if known is not None:
            found = Numeric(int(known), INTEGER)
        elif found is None and isinstance(term, Literal) and term.datatype == STRING:
            found = number_of(Literal(term.text, kind))
        if found is None:
            raise ExpressionError("not a number")
        if found.datatype == kind and isinstance(term, Literal) and term.datatype == kind:
            return term
        try:
            if kind == INTEGER:
                return literal_of(Numeric(int(found.value), INTEGER))
            if kind == DECIMAL:
                if isinstance(found.value, float) and not math.isfinite(found.value):
                    raise ExpressionError("no such decimal")
                value = found.value
                exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
                return literal_of(Numeric(exact, DECIMAL))
            return literal_of(Numeric(float(found.value), kind, plain=False))
        except (ValueError, OverflowError):
            raise ExpressionError("no such number") from None

    return cast


def to_boolean(term: RdfTerm) -> Literal:
    found = boolean_of(term)
    if found is None and isinstance(term, Literal) and term.datatype == STRING:
        found = boolean_of(Literal(term.text, BOOLEAN))
    if found is None:
        number = number_of(term)
        if number is None:
            raise ExpressionError("neither true nor false")
        found = number.value != 0 and number.value == number.value
    return truth(found)


def to_string(term: RdfTerm) -> Literal:
    if isinstance(term, Blank):
        raise ExpressionError("a blank node has no text")
    return Literal(term.text)


def _to_moment(kind: str) -> Cast:
    def cast(term: RdfTerm) -> Literal:
        if isinstance(term, Literal):
            if term.datatype in (STRING, kind) and moment_of(Literal(term.text, kind)):
                return Literal(term.text.strip(), kind)
            found = moment_of(term)
            zone = zone_of(term) if found else ""
            if found and kind == DATE and found.datatype == DATE_TIME:
                return Literal(f"{found.day_text}{zone}", kind)
            if found and kind == DATE_TIME and found.datatype == DATE:
                return Literal(f"{found.day_text}T00:00:00{zone}", kind)
            if found and kind == TIME and found.datatype == DATE_TIME:
                return Literal(term.text.strip().partition("T")[2], kind)
        raise ExpressionError("not a date or time")

    return cast


CASTS: dict[str, Cast] = {
    f"<{STRING}>": to_string,
    f"<{BOOLEAN}>": to_boolean,
    **{f"<{kind}>": _to_number(kind) for kind in (INTEGER, DECIMAL, FLOAT, DOUBLE)},
    **{f"<{kind}>": _to_moment(kind) for kind in (DATE_TIME, DATE, TIME)},
}
