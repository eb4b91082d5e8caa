"""Held-out facts: none is lost, and none is given away by another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splitting import hold_out

TRIPLES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=80
)


def graph_of(rows: list[tuple[int, int, int]]) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples((f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows)


@given(TRIPLES, st.floats(0.01, 0.9), st.integers(0, 3))
def test_every_fact_is_in_one_split_and_every_name_in_train(
    rows: list[tuple[int, int, int]], share: float, seed: int
) -> None:
    graph = graph_of(rows)
    hidden = hold_out(graph, share, seed)
    parts = [{tuple(row) for row in hidden.triples(split).tolist()} for split in hidden.splits]
    assert hidden.splits == ("train", "valid", "test")
    assert sum(map(len, parts)) == len(set().union(*parts)) == graph.index.triples
    assert set().union(*parts) == {tuple(row) for row in graph.triples().tolist()}
    train = hidden.triples("train")
    assert set(train[:, [0, 2]].ravel().tolist()) == set(range(len(graph.entities)))
    assert set(train[:, 1].tolist()) == set(range(len(graph.relations)))
    quota = round(graph.index.triples * share / 2)
    assert all(len(part) <= quota for part in parts[1:])


@given(TRIPLES, st.integers(0, 3))
def test_facts_between_the_same_two_entities_stay_together(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    hidden = hold_out(graph_of(rows), 0.5, seed)
    pairs = [
        {frozenset((head, tail)) for head, _, tail in hidden.triples(split).tolist()}
        for split in hidden.splits
    ]
    assert not pairs[0] & pairs[1]
    assert not pairs[0] & pairs[2]
    assert not pairs[1] & pairs[2]


def test_the_share_is_met_if_there_are_enough_facts() -> None:
    random = np.random.default_rng(0)
    rows = {tuple(row) for row in random.integers(0, [40, 3, 40], size=(500, 3)).tolist()}
    hidden = hold_out(graph_of(sorted(rows)), 0.1)
    counts = [len(hidden.triples(split)) for split in hidden.splits[1:]]
    assert counts == [round(len(rows) / 20)] * 2


def test_the_split_depends_on_the_seed() -> None:
    graph = graph_of([(n, 0, (n + 1) % 10) for n in range(10)] + [(n, 1, n) for n in range(10)])
    first, same, other = (hold_out(graph, 0.3, seed).checksum for seed in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_the_share_must_be_above_0_and_below_1(share: float) -> None:
    with pytest.raises(DataError, match="above 0 and below 1"):
        hold_out(graph_of([(0, 0, 1)]), share)
