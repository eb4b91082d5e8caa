"""BetaE's tuples: every benchmark shape, in both directions."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from clmpt.errors import ClmptError, QuerySyntaxError, UnsupportedQuery
from clmpt.logic.betae import from_betae, structure_of, template_of, to_betae
from clmpt.logic.parser import parse_formula
from clmpt.logic.shapes import EPFO, NEGATION, SHAPES, name_of, shape

STRUCTURES: dict[str, Any] = {
    "1p": ("e", ("r",)),
    "2p": ("e", ("r", "r")),
    "3p": ("e", ("r", "r", "r")),
    "2i": (("e", ("r",)), ("e", ("r",))),
    "3i": (("e", ("r",)), ("e", ("r",)), ("e", ("r",))),
    "ip": ((("e", ("r",)), ("e", ("r",))), ("r",)),
    "pi": (("e", ("r", "r")), ("e", ("r",))),
    "2in": (("e", ("r",)), ("e", ("r", "n"))),
    "3in": (("e", ("r",)), ("e", ("r",)), ("e", ("r", "n"))),
    "inp": ((("e", ("r",)), ("e", ("r", "n"))), ("r",)),
    "pin": (("e", ("r", "r")), ("e", ("r", "n"))),
    "pni": (("e", ("r", "r", "n")), ("e", ("r",))),
    "2u": (("e", ("r",)), ("e", ("r",)), ("u",)),
    "up": ((("e", ("r",)), ("e", ("r",)), ("u",)), ("r",)),
    "2u-DM": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n",)),
    "up-DM": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n", "r")),
}


def numbered(structure: Any, numbers: Any) -> Any:
    if isinstance(structure, tuple):
        return tuple(numbered(part, numbers) for part in structure)
    return {"n": -2, "u": -1}.get(structure) or next(numbers)


@pytest.mark.parametrize("name", STRUCTURES)
def test_each_shape_matches_its_structure(name: str) -> None:
    assert template_of(STRUCTURES[name]) == shape(name)
    assert name_of(template_of(STRUCTURES[name])) == name


@pytest.mark.parametrize("name", STRUCTURES)
def test_tuples_survive_a_round_trip(name: str) -> None:
    nested = numbered(STRUCTURES[name], count(1))
    assert structure_of(nested) == STRUCTURES[name]
    assert to_betae(from_betae(nested)) == nested


def test_all_fourteen_shapes_have_names() -> None:
    assert {*EPFO, *NEGATION} == {*STRUCTURES} - {"2u-DM", "up-DM"}
    assert {*EPFO, *NEGATION} < {*SHAPES}


def test_a_structure_without_a_name_can_be_read_too() -> None:
    deep = (((1, (2, 3)), (4, (5,)), (-1,)), (6, -2)), (7, (8,))
    assert str(from_betae(deep)) == (
        "?y : !exists ?x2 ?x1 ((#2(#1, ?x2) & #3(?x2, ?x1) | #5(#4, ?x1)) & #6(?x1, ?y)) "
        "& #8(#7, ?y)"
    )
    assert to_betae(from_betae(deep)) == deep


def test_reversed_atoms_need_the_inverse_relation() -> None:
    query = parse_formula("?y : #2(?y, #1)")
    assert to_betae(query, inverse=lambda relation: relation ^ 1) == (1, (3,))
    with pytest.raises(UnsupportedQuery, match="backwards"):
        to_betae(query)


@pytest.mark.parametrize(
    "text",
    [
        "?y : #1(#2, ?x) & !#3(?x, ?y) & #4(#5, ?y)",  # BetaE cannot express ∃¬
        "?y : #1(?x, ?y) & #2(?y, ?x)",
        "?y : #1(?y, ?y)",
        "?y : #1(?x, ?y)",
        "?y : r(a, ?y)",
        "?y : #1(#2, ?x) & #3(?x, ?y) & #4(?x, ?z)",
    ],
)
def test_queries_without_a_tuple_are_rejected(text: str) -> None:
    with pytest.raises(UnsupportedQuery, match="no BetaE tuple"):
        to_betae(parse_formula(text))


@pytest.mark.parametrize(
    "junk", [1, (), (1,), (1, 2), ((1, (2,)), 3), (1, (-1,)), (1, (-2, 3)), "e", None]
)
def test_junk_is_rejected(junk: Any) -> None:
    with pytest.raises(ClmptError):
        from_betae(junk)


def test_deeply_nested_tuples_are_rejected() -> None:
    nested: Any = (1, (2,))
    for _ in range(10_000):
        nested = (nested, (3,))
    with pytest.raises(QuerySyntaxError):
        from_betae(nested)
