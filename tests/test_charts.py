"""Charts: round ticks, correct positions, escaped names."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.pages.charts import Chart, Line, draw_charts, ticks

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(numbers, numbers)
def test_ticks_enclose_the_range(first: float, second: float) -> None:
    low, high = sorted((first, second))
    found = ticks(low, high)
    assert 2 <= len(found) <= 9
    assert found == sorted(set(found))
    slack = 1e-5 * (found[-1] - found[0])
    assert found[0] <= low + slack
    assert found[-1] >= high - slack


def test_points_are_in_the_right_place() -> None:
    # x runs from 0 to 10 over 58..404, y from 0 to 1 over 256..34: (5, 0.5) is in the middle.
    chart = Chart("t", "x", [Line("a", [(0, 0), (5, 0.5), (10, 1)])])
    root = ElementTree.fromstring(draw_charts([chart]))
    places = [(c.get("cx"), c.get("cy")) for c in root.iter(f"{SVG}circle")]
    assert places == [("58.0", "256.0"), ("231.0", "145.0"), ("404.0", "34.0")]


def test_there_is_a_legend_only_for_several_lines() -> None:
    one, two = Line("one", [(0, 1)]), Line("two", [(0, 2), (1, 3)])
    assert ">one<" not in draw_charts([Chart("t", "x", [one])])
    both = draw_charts([Chart("t", "x", [one, two])])
    assert ">one<" in both
    assert ">two<" in both


@pytest.mark.parametrize("name", ["<script>", 'a"b', "a & b"])
def test_names_are_escaped(name: str) -> None:
    root = ElementTree.fromstring(draw_charts([Chart(name, name, [Line(name, [(1, 1)])])]))
    assert name in [text.text for text in root.iter(f"{SVG}text")]


def test_an_empty_chart_says_so() -> None:
    assert "nothing to show yet" in draw_charts([Chart("t", "x", [])])
