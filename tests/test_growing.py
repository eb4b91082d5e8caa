"""A graph that grew: embeddings carry over by name, and nothing is said about what is new."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splitting import hold_out
from clmpt.graph.stored_names import StoredNames
from clmpt.logic.parser import parse
from clmpt.predictors.carrying_over import carry_over, on_newer_graph
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor, read_pretraining
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.model import Basis
from clmpt.reasoners.truth_values.truth_values import TruthValues, TruthValueSettings
from clmpt.registry import PREDICTORS

BEFORE = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "knows", "a"), ("d", "knows", "b")]
GROWN = [("new", "likes", "c"), ("c", "owns", "new"), ("e", "knows", "a"), *reversed(BEFORE)]
TRIPLES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=80
)


def trained(graph: KnowledgeGraph, model: str = "complex") -> EmbeddingPredictor:
    settings = read_pretraining({"model": model, "rank": 4, "initial_scale": 1.0, "seed": 3})
    return fresh_predictor(graph, settings)


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_scores_of_what_both_graphs_have_stay_the_same(model: str) -> None:
    before, grown = KnowledgeGraph.from_triples(BEFORE), KnowledgeGraph.from_triples(GROWN)
    old, match = trained(before, model), StoredNames.of(before).match(grown)
    started = trained(grown, model)
    carry_over(old, started, match)
    for new in (started, on_newer_graph(old, match)):
        for backwards in (0, 1):
            for name in ("likes", "knows"):
                relations = [graph.relations.names.find(name)[0] for graph in (before, grown)]
                directed = [
                    torch.full((4,), relation + backwards * len(graph.relations))
                    for relation, graph in zip(relations, (before, grown), strict=True)
                ]
                ids = [
                    torch.tensor([graph.entities.names.find(entity)[0] for entity in "abcd"])
                    for graph in (before, grown)
                ]
                with torch.no_grad():
                    expected = old.score_answers(ids[0], directed[0])[:, ids[0]]
                    found = new.score_answers(ids[1], directed[1])[:, ids[1]]
                torch.testing.assert_close(found, expected)


def test_new_names_start_as_in_training_from_scratch() -> None:
    before, grown = KnowledgeGraph.from_triples(BEFORE), KnowledgeGraph.from_triples(GROWN)
    fresh, started = trained(grown), trained(grown)
    carry_over(trained(before), started, StoredNames.of(before).match(grown))
    (new,) = grown.entities.names.find("new")
    (known,) = grown.entities.names.find("a")
    assert torch.equal(started.entities_ED[new], fresh.entities_ED[new])
    assert not torch.equal(started.entities_ED[known], fresh.entities_ED[known])


def test_nothing_is_predicted_about_what_is_new_but_its_facts_count() -> None:
    before, grown = KnowledgeGraph.from_triples(BEFORE), KnowledgeGraph.from_triples(GROWN)
    predictor = on_newer_graph(trained(before), StoredNames.of(before).match(grown))
    reasoner = TruthValues(Basis(grown, predictor), TruthValueSettings()).reasoner()

    def values(text: str) -> dict[str, float]:
        query = grown.bind(parse(text))
        (scores,) = reasoner.score([QueryGroup.single(query)])
        return {grown.entities.names[e]: float(scores[e]) for e in scores.nonzero().ravel()}

    assert values("?x : likes(new, ?x)") == {"c": 1.0}
    assert values("?x : owns(?x, new)") == {"c": 1.0}
    assert values("?x : owns(a, ?x)") == {}
    assert "new" not in values("?x : likes(a, ?x)")
    assert len(values("?x : likes(a, ?x)")) > 1
    through = values("?x : likes(new, ?y) & knows(?y, ?x)")  # a known fact, then any link of c
    assert through == values("?x : knows(c, ?x)")


def test_a_graph_with_other_names_is_not_taken_for_a_newer_one() -> None:
    names = StoredNames.of(KnowledgeGraph.from_triples(BEFORE))
    other = KnowledgeGraph.from_triples([("x", "likes", "y"), ("y", "knows", "a")])
    with pytest.raises(WrongGraph, match="3 of its 4 are not in the graph"):
        names.match(other)


@given(TRIPLES, TRIPLES, st.integers(0, 3))
def test_what_was_trained_on_is_never_held_out_later(
    rows: list[tuple[int, int, int]], more: list[tuple[int, int, int]], seed: int
) -> None:
    def named(some: list[tuple[int, int, int]]) -> list[tuple[str, str, str]]:
        return [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in some]

    before = hold_out(KnowledgeGraph.from_triples(named(rows)), 0.3, seed)
    grown = hold_out(
        KnowledgeGraph.from_triples(named([*more, *rows])), 0.3, seed + 1, before=before
    )

    def facts(graph: KnowledgeGraph, split: str) -> set[tuple[str, ...]]:
        return {
            (graph.entities.names[h], graph.relations.names[r], graph.entities.names[t])
            for h, r, t in graph.triples(split).tolist()
        }

    def pairs(some: set[tuple[str, ...]]) -> set[frozenset[str]]:
        return {frozenset((head, tail)) for head, _, tail in some}

    seen, again = facts(before, "train"), [facts(grown, name) for name in grown.splits]
    assert sum(map(len, again)) == grown.index.triples
    assert not pairs(seen) & pairs(again[1] | again[2])
    for number, name in ((1, "valid"), (2, "test")):  # what was held out stays where it was
        assert not facts(before, name) & again[3 - number]
    train = grown.triples("train")
    assert set(np.unique(train[:, [0, 2]])) == set(range(len(grown.entities)))
    if not set(more) - set(rows):
        assert again == [facts(before, name) for name in before.splits]
