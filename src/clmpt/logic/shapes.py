"""The benchmark shapes by name, each one line of the query language.

Nothing else in the toolkit knows these names: to add a shape, add a line, here or in a call.
`pni` has BetaE's meaning (no ?x at all); `pni-exists` is the reading that LMPNN and CLMPT score.
"""

from __future__ import annotations

from functools import lru_cache

from clmpt.errors import QuerySyntaxError
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse_formula

SHAPES = {
    "1p": "?y : $r1($s1, ?y)",
    "2p": "?y : $r1($s1, ?x1) & $r2(?x1, ?y)",
    "3p": "?y : $r1($s1, ?x1) & $r2(?x1, ?x2) & $r3(?x2, ?y)",
    "2i": "?y : $r1($s1, ?y) & $r2($s2, ?y)",
    "3i": "?y : $r1($s1, ?y) & $r2($s2, ?y) & $r3($s3, ?y)",
    "ip": "?y : $r1($s1, ?x1) & $r2($s2, ?x1) & $r3(?x1, ?y)",
    "pi": "?y : $r1($s1, ?x1) & $r2(?x1, ?y) & $r3($s2, ?y)",
    "2in": "?y : $r1($s1, ?y) & !$r2($s2, ?y)",
    "3in": "?y : $r1($s1, ?y) & $r2($s2, ?y) & !$r3($s3, ?y)",
    "inp": "?y : $r1($s1, ?x1) & !$r2($s2, ?x1) & $r3(?x1, ?y)",
    "pin": "?y : $r1($s1, ?x1) & $r2(?x1, ?y) & !$r3($s2, ?y)",
    "pni": "?y : !exists ?x1 ($r1($s1, ?x1) & $r2(?x1, ?y)) & $r3($s2, ?y)",
    "pni-exists": "?y : $r1($s1, ?x1) & !$r2(?x1, ?y) & $r3($s2, ?y)",
    "2u": "?y : $r1($s1, ?y) | $r2($s2, ?y)",
    "up": "?y : ($r1($s1, ?x1) | $r2($s2, ?x1)) & $r3(?x1, ?y)",
    "2u-DM": "?y : !(!$r1($s1, ?y) & !$r2($s2, ?y))",
    "up-DM": "?y : !(!$r1($s1, ?x1) & !$r2($s2, ?x1)) & $r3(?x1, ?y)",
}

EPFO = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up")
NEGATION = ("2in", "3in", "inp", "pin", "pni")


def shape(text: str) -> Query:
    """A shape by its name, or any formula with placeholders.

    >>> print(shape("2in"))
    ?y : $r1($s1, ?y) & !$r2($s2, ?y)
    """
    if ":" in text:
        return parse_formula(text)
    formula = SHAPES.get(text)
    if formula is None:
        raise QuerySyntaxError(
            f"There is no shape '{text}'",
            f"Use one of {', '.join(SHAPES)}, or a formula such as '{SHAPES['2p']}'",
        )
    return parse_formula(formula)


def name_of(template: Query) -> str:
    """The name of a shape if it has one, else its formula."""
    return _names().get(template, str(template))


@lru_cache(maxsize=1)
def _names() -> dict[Query, str]:
    return {parse_formula(text): name for name, text in SHAPES.items()}
