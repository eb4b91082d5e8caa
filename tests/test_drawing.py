"""Drawings of queries."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings

from clmpt.logic.drawing import draw_svg, draw_text
from clmpt.logic.formula import Query, atoms
from clmpt.logic.parser import parse_formula
from clmpt.logic.shapes import SHAPES, shape
from strategies import queries

SVG = "{http://www.w3.org/2000/svg}"


def test_the_example_from_the_paper_as_text() -> None:
    query = parse_formula(
        '?who : directed(Mizoguchi, ?film) & !won(?film, "Golden Lion") & starred(?who, ?film)'
    )
    assert draw_text(query).splitlines() == [
        "?who",
        "└─ starred ▶─ ?film",
        "   ├─◀ directed ─ Mizoguchi",
        '   └✗─ won ▶─ "Golden Lion"',
    ]


def test_not_some_is_drawn_differently_from_some_not() -> None:
    none = draw_text(parse_formula("?y : r(a, ?y) & !exists ?x (s(?x, ?y) & t(b, ?x))"))
    assert "✗─ there is no ?x with" in none
    some = draw_text(parse_formula("?y : r(a, ?y) & t(b, ?x) & !s(?x, ?y)"))
    assert "✗◀ s ─ ?x" in some
    assert "there is no" not in some


@pytest.mark.parametrize(
    "text",
    [
        "?y : r(a, ?y) & !exists ?z (s(b, ?z))",
        "?y : r(a, ?y) & !exists ?z (s(b, ?z) & !t(?z, ?y))",
        "?y : r(a, ?y) & !exists ?z (s(?y, ?z) & t(c, d))",
        "?y : r(a, ?y) & s(b, ?x) & !exists ?z (t(?x, ?z) & !exists ?w (u(?w, ?z)))",
    ],
)
def test_no_part_is_left_out_of_the_text(text: str) -> None:
    query = parse_formula(text)
    drawn = draw_text(query)
    for atom in atoms(query.body):
        assert f" {atom.relation.text} " in drawn


def test_alternatives_and_cycles_are_drawn() -> None:
    assert draw_text(shape("2u")).count("or") == 1
    assert "?y (the same)" in draw_text(parse_formula("?y : r(?y, ?x) & s(?x, ?y)"))


@pytest.mark.parametrize("name", SHAPES)
def test_every_term_and_relation_is_in_the_picture(name: str) -> None:
    root = ElementTree.fromstring(draw_svg(shape(name)))
    written = [text.text for text in root.iter(f"{SVG}text")]
    assert "?y" in written
    assert any("$r1" in str(text) for text in written)
    assert sum(text == "or" for text in written) == len(shape(name).patterns) - 1
    negated = [group for group in root.iter(f"{SVG}g") if group.get("class") == "no"]
    assert bool(negated) == any(pattern.absent for pattern in shape(name).patterns)


@settings(max_examples=150)
@given(queries())
def test_any_query_is_drawn_inside_its_frame(query: Query) -> None:
    assert f"?{query.free.name}" in draw_text(query)
    root = ElementTree.fromstring(draw_svg(query))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert 0 < width < 5000
    for box in root.iter(f"{SVG}rect"):
        if box.get("class"):
            assert 0 <= float(box.get("x", -1)) <= width
            assert 0 <= float(box.get("y", -1)) <= height


def test_several_answers_are_all_marked() -> None:
    query = parse_formula("?who, ?film : directed(?who, ?film) & won(?film, ?prize)")
    assert draw_text(query).splitlines() == [
        "?who (asked for)",
        "└─ directed ▶─ ?film (asked for)",
        "   └─ won ▶─ ?prize",
    ]
    boxes = list(ElementTree.fromstring(draw_svg(query)).iter(f"{SVG}rect"))
    assert [box.get("class") for box in boxes].count("free") == 2
    assert "img" in query._repr_html_()


def test_names_are_escaped() -> None:
    picture = draw_svg(parse_formula('?y : "<script>"("a&b", ?y)'))
    assert "<script>" not in picture
    ElementTree.fromstring(picture)
