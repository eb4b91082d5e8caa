"""Values of literals, and how the standard compares and computes with them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any, TypeAlias

from clmpt.logic.rdf_terms import STRING, XSD, Blank, Iri, Literal, RdfTerm

INTEGER, DECIMAL, FLOAT, DOUBLE = (XSD + name for name in ("integer", "decimal", "float", "double"))
BOOLEAN, DATE_TIME, DATE, TIME = (XSD + name for name in ("boolean", "dateTime", "date", "time"))
DURATION = XSD + "dayTimeDuration"
_INTEGERS = {
    XSD + name
    for name in [
        "integer",
        "nonPositiveInteger",
        "negativeInteger",
        "long",
        "int",
        "short",
        "byte",
        "nonNegativeInteger",
        "unsignedLong",
        "unsignedInt",
        "unsignedShort",
        "unsignedByte",
        "positiveInteger",
    ]
}
_RANKS = {INTEGER: 0, DECIMAL: 1, FLOAT: 2, DOUBLE: 3}
LONGEST_NUMBER = 4000  # digits; longer ones are texts to us


class ExpressionError(Exception):
    """A type error, as the standard calls it: the expression has no value."""


Number: TypeAlias = "int | Decimal | float"


@dataclass(frozen=True)
class Numeric:
    """A number and its type: integer, decimal, float or double.

    `plain` says that it was written without an exponent, as what is computed from it will be.
    """

    value: Number
    datatype: str
    plain: bool = True


_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


@dataclass(frozen=True)
class Moment:
    """A dateTime, date or time. `shift` is its time zone in minutes; None if it has none.

    The calendar repeats every 400 years: `value` is in the years 2000 to 2399, `cycles` away.
    """

    value: datetime
    datatype: str
    shift: int | None
    second: Decimal = Decimal(0)
    cycles: int = 0

    @property
    def year(self) -> int:
        return self.value.year + self.cycles * _CYCLE_YEARS

    @property
    def day_text(self) -> str:
        sign = "-" if self.year < 0 else ""
        return f"{sign}{abs(self.year):04d}-{self.value:%m-%d}"

    @property
    def instant(self) -> tuple[int, Decimal]:
        """Minutes in UTC, and its second, since datetime has no exact fractions."""
        days = self.value.toordinal() + self.cycles * _CYCLE_DAYS
        minutes = (days * 24 + self.value.hour) * 60 + self.value.minute
        return minutes - (self.shift or 0), self.second


TRUE, FALSE = Literal("true", BOOLEAN), Literal("false", BOOLEAN)


def truth(value: bool) -> Literal:
    return TRUE if value else FALSE


@lru_cache(maxsize=100_000)
def number_of(term: RdfTerm) -> Numeric | None:
    """The number that a literal stands for, if it does."""
    if not isinstance(term, Literal) or len(term.text) > LONGEST_NUMBER:
        return None
    text, datatype = term.text.strip(" \t\r\n"), term.datatype
    if datatype in _INTEGERS:
        return Numeric(int(text), INTEGER) if re.fullmatch(r"[+-]?[0-9]+", text) else None
    if datatype == DECIMAL:
        plain = re.fullmatch(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", text)
        return Numeric(Decimal(text), DECIMAL) if plain else None
    if datatype in (FLOAT, DOUBLE):
        special = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
        if text in special:
            return Numeric(special[text], datatype)
        form = re.fullmatch(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text)
        return Numeric(float(text), datatype, "e" not in text.lower()) if form else None
    return None


def literal_of(number: Numeric) -> Literal:
    """A number as text.

    >>> [literal_of(Numeric(20.0, DOUBLE, plain)).text for plain in (True, False)]
    ['20', '2.0E1']
    """
    value = number.value
    if isinstance(value, int):
        if value.bit_length() > 3 * LONGEST_NUMBER:
            raise ExpressionError("too large a number")
        return Literal(str(value), number.datatype)
    if isinstance(value, Decimal):
        return Literal(format(value, "f") if value else "0", number.datatype)
    return Literal(_float_text(value, number.plain), number.datatype)


def _float_text(value: float, plain: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    if plain and (value == 0 or 1e-6 <= abs(value) < 1e6):
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0")
    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent or 0)}"


def promoted(left: Numeric, right: Numeric) -> tuple[Any, Any, str]:
    """Two numbers in the wider of their types."""
    datatype = max(left.datatype, right.datatype, key=_RANKS.__getitem__)
    a, b = left.value, right.value
    if datatype in (FLOAT, DOUBLE):
        return _as_float(a), _as_float(b), datatype
    if datatype == DECIMAL:
        return Decimal(a), Decimal(b), datatype
    return a, b, datatype


def _as_float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def computed(operator: str, left: Numeric, right: Numeric) -> Numeric:
    """+, -, * and / on numbers; a quotient of integers is a decimal."""
    a, b, datatype = promoted(left, right)
    plain = left.plain and right.plain
    if operator == "/" and datatype == INTEGER:
        a, b, datatype = Decimal(a), Decimal(b), DECIMAL
    try:
        with localcontext() as context:
            context.prec = 40 if operator == "/" else 4 * LONGEST_NUMBER
            if operator == "+":
                return Numeric(a + b, datatype, plain)
            if operator == "-":
                return Numeric(a - b, datatype, plain)
            if operator == "*":
                return Numeric(a * b, datatype, plain)
            if datatype in (FLOAT, DOUBLE) and b == 0:
                if a == 0 or math.isnan(a):
                    return Numeric(math.nan, datatype)
                return Numeric(math.copysign(math.inf, a) * math.copysign(1, b), datatype)
            return Numeric(a / b, datatype, plain)
    except (ArithmeticError, ValueError):
        raise ExpressionError("no such number") from None


# --- dates and times ------------------------------------------------------------------------------

_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
_DAY = r"(-?[0-9]{4,9})-([0-9]{2})-([0-9]{2})"
_CLOCK = r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)"
_FORMS = {
    DATE_TIME: re.compile(f"{_DAY}T{_CLOCK}{_ZONE}"),
    DATE: re.compile(f"{_DAY}{_ZONE}"),
    TIME: re.compile(f"{_CLOCK}{_ZONE}"),
}


@lru_cache(maxsize=100_000)
def moment_of(term: RdfTerm) -> Moment | None:
    """The moment that a literal stands for; the year before 1 is 0, as in XSD 1.1."""
    if not isinstance(term, Literal) or term.datatype not in _FORMS:
        return None
    match = _FORMS[term.datatype].fullmatch(term.text.strip(" \t\r\n"))
    if match is None:
        return None
    *parts, zone = match.groups()
    day = parts[:3] if term.datatype != TIME else ["1972", "12", "31"]
    clock = parts[-3:] if term.datatype != DATE else ["0", "0", "0"]
    try:
        hour, after = (0, 1) if clock[0] == "24" else (int(clock[0]), 0)
        year, month, number = map(int, day)
        cycles, year = divmod(year - 2000, _CYCLE_YEARS)
        value = datetime(2000 + year, month, number, hour, int(clock[1])) + timedelta(days=after)
        second = Decimal(clock[2])
    except (ValueError, OverflowError, InvalidOperation):
        return None
    if second >= 60 or (after and (int(clock[1]) or second)):
        return None
    shift = None
    if zone:
        shift = 0 if zone == "Z" else int(zone[:3]) * 60 + int(zone[0] + zone[4:])
    return Moment(value, term.datatype, shift, second, cycles)


def zone_of(term: RdfTerm) -> str:
    """The time zone at the end of a literal, as written."""
    match = re.search(
        r"(Z|[+-][0-9]{2}:[0-9]{2})\s*$", term.text if isinstance(term, Literal) else ""
    )
    return match[1] if match else ""


def now() -> Literal:
    return Literal(datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), DATE_TIME)


def _compare_moments(left: Moment, right: Moment) -> int:
    if (left.shift is None) == (right.shift is None):
        a, b = left.instant, right.instant
        return (a > b) - (a < b)
    # With one time zone unknown, they compare only if more than 14 hours apart.
    for shift in (-840, 840):
        a = (left if left.shift is not None else replace(left, shift=shift)).instant
        b = (right if right.shift is not None else replace(right, shift=shift)).instant
        signs = (a > b) - (a < b)
        if shift < 0:
            first = signs
    if first != signs or not signs:
        raise ExpressionError("a time zone is unknown")
    return signs


# --- comparison -----------------------------------------------------------------------------------


def is_text(term: RdfTerm) -> bool:
    return isinstance(term, Literal) and term.datatype == STRING


def boolean_of(term: RdfTerm) -> bool | None:
    if not isinstance(term, Literal) or term.datatype != BOOLEAN:
        return None
    return {"true": True, "1": True, "false": False, "0": False}.get(term.text.strip())


def effective_truth(term: RdfTerm) -> bool:
    """The effective boolean value."""
    if isinstance(term, Literal):
        if term.datatype == BOOLEAN:
            return bool(boolean_of(term))
        if term.datatype == STRING:
            return bool(term.text)
        if term.datatype in _RANKS or term.datatype in _INTEGERS:
            number = number_of(term)
            return number is not None and number.value != 0 and number.value == number.value
    raise ExpressionError("neither true nor false")


def equals(left: RdfTerm, right: RdfTerm) -> bool:
    """`=`: by value where both values are known; an error if they are not and the terms differ."""
    if not isinstance(left, Literal) or not isinstance(right, Literal):
        return left == right
    a, b = number_of(left), number_of(right)
    if a and b:
        x, y, _ = promoted(a, b)
        return bool(x == y)
    if left == right:
        return not (a and a.value != a.value)
    if left.language or right.language:
        return False
    if left.datatype == right.datatype == STRING:
        return False
    truths = boolean_of(left), boolean_of(right)
    if truths[0] is not None and truths[1] is not None:
        return truths[0] == truths[1]
    moments = moment_of(left), moment_of(right)
    if moments[0] and moments[1] and left.datatype == right.datatype:
        return _compare_moments(moments[0], moments[1]) == 0
    durations = seconds_of(left), seconds_of(right)
    if durations[0] is not None and durations[1] is not None:
        return durations[0] == durations[1]
    return _known_different(left, right)


def _known_different(left: Literal, right: Literal) -> bool:
    """False if both values are known, and so differ; else nobody can tell."""
    if _has_known_value(left) and _has_known_value(right):
        return False
    raise ExpressionError("values of unknown types")


def _has_known_value(term: Literal) -> bool:
    return (
        bool(term.language)
        or term.datatype == STRING
        or number_of(term) is not None
        or boolean_of(term) is not None
        or moment_of(term) is not None
    )


def less(left: RdfTerm, right: RdfTerm) -> bool:
    """`<`, for numbers, texts, truth values, dates and times."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        a, b = number_of(left), number_of(right)
        if a and b:
            x, y, _ = promoted(a, b)
            return bool(x < y)
        if left.datatype == right.datatype == STRING:
            return left.text < right.text
        truths = boolean_of(left), boolean_of(right)
        if truths[0] is not None and truths[1] is not None:
            return truths[0] < truths[1]
        moments = moment_of(left), moment_of(right)
        if moments[0] and moments[1] and left.datatype == right.datatype:
            return _compare_moments(moments[0], moments[1]) < 0
        durations = seconds_of(left), seconds_of(right)
        if durations[0] is not None and durations[1] is not None:
            return durations[0] < durations[1]
    raise ExpressionError("these do not compare")


def seconds_of(term: RdfTerm) -> Decimal | None:
    """The length of a dayTimeDuration."""
    if not isinstance(term, Literal) or term.datatype != DURATION:
        return None
    match = re.fullmatch(
        r"(-)?P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?",
        term.text.strip(),
    )
    if match is None:
        return None
    day, hour, minute, second = (Decimal(part or 0) for part in match.groups()[1:])
    total = ((day * 24 + hour) * 60 + minute) * 60 + second
    return -total if match[1] else total


def sort_key(term: RdfTerm | None) -> tuple[Any, ...]:
    """A total order in the standard's spirit: no value, blank nodes, IRIs, literals; literals by
    value where they compare, and otherwise by type and text."""
    if term is None:
        return (0,)
    if isinstance(term, Blank):
        return (1, term.label)
    if isinstance(term, Iri):
        return (2, term.text)
    number = number_of(term)
    if number:
        value = number.value
        if value != value:
            return (3, 0, -1, 0, term.text)
        return (3, 0, 0, value, term.datatype, term.text)
    if is_text(term):
        return (3, 1, term.text)
    if term.language:
        return (3, 2, term.text, term.language)
    known = boolean_of(term)
    if known is not None:
        return (3, 3, known, term.text)
    moment = moment_of(term)
    if moment:
        return (3, 4, term.datatype, moment.instant, term.text)
    duration = seconds_of(term)
    if duration is not None:
        return (3, 5, duration, term.text)
    return (3, 6, term.datatype, term.text)
