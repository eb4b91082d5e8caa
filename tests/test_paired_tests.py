"""Paired bootstrap tests: against all resamples, against permutations, and for their coverage."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.evaluation.paired_tests import Floats, holm, paired_tests

Pair = tuple[dict[str, Floats], dict[str, Floats]]


def pair(**differences: list[float]) -> Pair:
    """Two models of one seed each, whose figures differ by so much on the queries of each shape."""
    below = {shape: np.full((1, len(found)), 0.4) for shape, found in differences.items()}
    above = {shape: below[shape] + np.array([found]) for shape, found in differences.items()}
    return below, above


def t_of(difference_Q: Floats) -> tuple[float, float]:
    return float(difference_Q.mean()), float(difference_Q.std(ddof=1) / len(difference_Q) ** 0.5)


def test_p_and_interval_are_those_of_all_resamples() -> None:
    found_Q = np.array([0.3, 0.1, -0.05, 0.2])
    mean, error = t_of(found_Q)
    t_B = []
    for drawn in product(range(4), repeat=4):  # all 256
        shift, spread = t_of(found_Q[list(drawn)])
        t_B.append(
            abs(shift - mean) / spread if spread > 1e-12 else float(abs(shift - mean) > 1e-12) * 1e9
        )
    expected_p = np.mean(np.array(t_B) >= mean / error)
    (found,) = paired_tests([pair(a=list(found_Q))], {}, 40_000)
    assert found["a"].difference == pytest.approx(0.1375)
    assert found["a"].p == pytest.approx(expected_p, abs=0.01)
    # The 95 % quantile of all 256 |t|, times the standard error of 0.0744 on both sides.
    reach = np.sort(t_B)[int(0.95 * 256)] * error
    assert found["a"].low == pytest.approx(max(-1.0, 0.1375 - reach), abs=0.02)
    assert found["a"].high == pytest.approx(min(1.0, 0.1375 + reach), abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1])
def test_p_agrees_with_the_exact_permutation_test(shift: float) -> None:
    found_Q = np.random.default_rng(3).normal(shift, 0.12, 14)
    signs = np.array(list(product((-1, 1), repeat=14)))  # each query's models, exchanged or not
    exact = np.mean(np.abs(signs @ found_Q) >= abs(found_Q.sum()) - 1e-12)
    (found,) = paired_tests([pair(a=list(found_Q))], {})
    assert found["a"].p == pytest.approx(exact, abs=0.03)


def coverage(seeds: int, queries: int, deviation: float, merged: bool = False) -> float:
    """How often the interval of an average over two shapes has the true difference, 0.02."""
    random, hits, runs = np.random.default_rng(1), 0, 300
    for number in range(runs):
        below, above = {}, {}
        own = [random.normal(0, deviation, seeds) for _ in range(2)]
        for shape in "ab":
            skewed_Q = random.exponential(0.1, queries) - 0.1 + 0.02
            base_Q = random.uniform(0.3, 0.5, queries)
            below[shape] = base_Q + own[0][:, None]
            above[shape] = base_Q + skewed_Q + own[1][:, None]
            if merged:
                below[shape], above[shape] = (one[shape].mean(0)[None] for one in (below, above))
        (found,) = paired_tests([(below, above)], {"mean": "ab"}, 300, number)
        low, high = found["mean"].low, found["mean"].high
        assert low is not None
        assert high is not None
        hits += low <= 0.02 <= high
    return hits / runs


def test_intervals_have_the_true_difference_as_often_as_they_say() -> None:
    # Of 300 draws of a 95 % interval, 91 % to 98 % (three standard errors) have the truth.
    assert 0.91 <= coverage(1, 12, 0.0) <= 0.985
    assert 0.91 <= coverage(1, 60, 0.0) <= 0.985


def test_seeds_are_drawn_as_well_as_queries() -> None:
    assert 0.91 <= coverage(3, 100, 0.02) <= 0.99
    # Averaging over seeds first leaves out how they vary: the interval is far too narrow.
    assert coverage(3, 100, 0.02, merged=True) < 0.8


def test_an_average_gives_all_shapes_the_same_weight() -> None:
    random = np.random.default_rng(0)
    many, few = random.normal(0.1, 0.05, 400), random.normal(-0.1, 0.05, 20)
    (found,) = paired_tests([pair(a=list(many), b=list(few))], {"mean": "ab", "all": "abc"}, 2000)
    assert found["mean"].difference == pytest.approx((many.mean() + few.mean()) / 2)
    assert found.keys() == {"a", "b", "mean"}  # there is no c
    # Errors of both shapes, a quarter of each variance: 1.96 of them to either side.
    error = (many.var(ddof=1) / 400 + few.var(ddof=1) / 20) ** 0.5 / 2
    assert found["mean"].high == pytest.approx(found["mean"].difference + 1.96 * error, rel=0.1)


def test_nothing_is_said_where_nothing_can_be_estimated() -> None:
    (found,) = paired_tests(
        [pair(one=[0.2], alike=[0.1] * 5, equal=[0.0] * 5, both=[0.1, 0.2])],
        {"mean": ("one", "both")},
        200,
    )
    assert (found["one"].low, found["one"].p) == (None, None)
    assert (found["alike"].difference, found["alike"].p) == (pytest.approx(0.1), None)
    assert (found["equal"].low, found["equal"].high, found["equal"].p) == (0.0, 0.0, 1.0)
    assert found["mean"].p is None  # one of its shapes has a single query
    # Half of the resamples of two queries have no spread, so the interval is as wide as can be.
    assert (found["both"].low, found["both"].high) == (-1.0, 1.0)
    assert found["both"].p is not None
    assert found["both"].p > 0.4


def test_an_interval_excludes_zero_exactly_if_p_is_below_one_minus_its_level() -> None:
    random, seen = np.random.default_rng(5), set()
    for shift in np.linspace(0, 0.12, 40):
        (found,) = paired_tests([pair(a=list(random.normal(shift, 0.1, 15)))], {}, 399)
        low, high, p = found["a"].low, found["a"].high, found["a"].p
        assert low is not None
        assert high is not None
        assert p is not None
        assert (low > 0 or high < 0) == (p <= 0.05)
        seen.add(p <= 0.05)
    assert seen == {True, False}


def test_three_queries_that_differ_are_no_evidence() -> None:
    (found,) = paired_tests([pair(a=[0.5, 0.5, 0.4] + [0.0] * 97)], {})
    assert found["a"].p is not None
    assert found["a"].p > 0.05


def test_a_result_does_not_depend_on_what_else_is_tested() -> None:
    random = np.random.default_rng(0)
    mine = pair(a=list(random.normal(0.03, 0.1, 30)))
    other = pair(b=[0.1, 0.2], a=list(random.normal(0, 0.1, 30)))
    alone, together = paired_tests([mine], {}, 500)[0], paired_tests([other, mine], {}, 500)[1]
    assert alone["a"].p == together["a"].p
    assert alone["a"].low == pytest.approx(together["a"].low)
    assert paired_tests([mine], {}, 500, seed=1)[0]["a"].p != alone["a"].p


@given(st.lists(st.none() | st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float | None]) -> None:
    found = holm(p_values)
    given_and_found = [(p, q) for p, q in zip(p_values, found, strict=True) if p is not None]
    assert [p is None for p in p_values] == [q is None for q in found]
    assert all(q is not None and p <= q <= 1 for p, q in given_and_found)
    ordered = sorted(given_and_found)
    assert all(one[1] <= two[1] for one, two in pairwise(ordered))
    if ordered:  # the smallest is multiplied by how many there are
        assert ordered[0][1] == min(1.0, len(ordered) * ordered[0][0])
