"""An order that is computed part by part is a permutation, and a random one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clmpt.training.shuffling import Shuffled


@given(st.integers(0, 3000), st.integers(0, 2**32), st.integers(1, 700))
def test_parts_of_an_order_have_every_number_once(count: int, seed: int, size: int) -> None:
    order = Shuffled(count, np.random.default_rng(seed))
    parts = [order[at : at + size] for at in range(0, count, size)]
    assert sorted(np.concatenate([np.empty(0), *parts]).tolist()) == list(range(count))


def test_every_number_is_at_every_place_equally_often() -> None:
    seeds, count = 4000, 5
    places = np.stack([Shuffled(count, np.random.default_rng(n))[:count] for n in range(seeds)])
    often = np.stack([np.bincount(column, minlength=count) for column in places.T])
    # 800 of 4,000 each; five standard deviations of a binomial distribution are 126.
    assert np.abs(often - seeds / count).max() < 126


def test_neighbours_do_not_stay_together() -> None:
    order = Shuffled(100_000, np.random.default_rng(0))[:100_000]
    # The mean distance of two random numbers below n is n/3, here with a deviation of 75.
    assert abs(np.abs(np.diff(order)).mean() - 100_000 / 3) < 5 * 75
    assert abs(np.corrcoef(order, np.arange(100_000))[0, 1]) < 5 / 100_000**0.5
