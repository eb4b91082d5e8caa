"""Ranks by hand, and against a slow reference implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import DataError, Diverged
from clmpt.evaluation.link_ranks import evaluate_links, link_ranks
from clmpt.evaluation.ranks import Figures, figures, filtered_ranks
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import known_answers, links_of
from clmpt.queries.store import AnswerSets
from clmpt.registry import PREDICTORS
from toy import films, random_graph


def sets(*answers: list[int]) -> AnswerSets:
    counts = [len(found) for found in answers]
    return AnswerSets(
        np.cumsum([0, *counts]), np.array([e for found in answers for e in found], np.int64)
    )


def test_an_answer_is_ranked_among_non_answers_only() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.1]])
    # Entities 0 and 2 are hard, 1 is easy. The one rival, 3, beats neither.
    assert filtered_ranks(scores, sets([0, 2]), sets([0, 1, 2])).tolist() == [1.0, 1.0]


def test_ties_count_half() -> None:
    # Entity 0 ties with three rivals: ranks 1 to 4, mean 2.5.
    assert filtered_ranks(torch.zeros(1, 4), sets([0]), sets([0])).tolist() == [2.5]


def test_scores_that_are_not_numbers_are_rejected() -> None:
    with pytest.raises(Diverged, match="not numbers"):
        filtered_ranks(torch.full((1, 3), torch.nan), sets([0]), sets([0]))


@pytest.mark.parametrize("many", [0, 50])
@given(data=st.data())
def test_ranks_match_the_reference(many: int, data: st.DataObject) -> None:
    entities = data.draw(st.integers(1, 6))
    rows = data.draw(st.integers(0, 4))
    values = st.integers(-2, 2)
    scores = [[data.draw(values) for _ in range(entities)] for _ in range(rows)]
    known = [sorted(data.draw(st.sets(st.integers(0, entities - 1)))) for _ in range(rows)]
    wanted = [[e for e in answers if data.draw(st.booleans())] for answers in known]
    expected = []
    for row, answers, hard in zip(scores, known, wanted, strict=True):
        rivals = [row[e] for e in range(entities) if e not in answers]
        for e in hard:
            better, tied = sum(r > row[e] for r in rivals), sum(r == row[e] for r in rivals)
            expected.append(1 + better + tied / 2)
    table = torch.tensor(scores, dtype=torch.float32).reshape(rows, entities)
    ranks = filtered_ranks(table, sets(*wanted), sets(*known), sort_from=many)  # 0: always
    assert ranks.tolist() == expected


def test_figures_by_hand() -> None:
    found = figures(np.array([1.0, 2.0, 4.0, 20.0]))
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 20) / 4)
    assert (found.hits_at_1, found.hits_at_3, found.hits_at_10) == (0.25, 0.5, 0.75)
    assert found.count == 4


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_links_are_ranked_as_one_question_at_a_time(model: str) -> None:
    graph = random_graph(False)
    predictor = fresh_predictor(graph, read_pretraining({"model": model, "rank": 5}))
    links = links_of(graph, "test")
    whole = link_ranks(predictor, links, known_answers(graph, links))
    expected = []
    for entity, directed, answers in zip(
        links.entity_P.tolist(), links.directed_P.tolist(), links.answers, strict=True
    ):
        scores = predictor.score_answers(torch.tensor([entity]), torch.tensor([directed]))[0]
        inverse = directed >= len(graph.relations)
        known = graph.neighbours(entity, directed % len(graph.relations), inverse=inverse)
        rivals = scores.detach()[[e for e in range(len(graph.entities)) if e not in known]]
        expected += [1 + int((rivals > scores[answer]).sum()) for answer in answers.tolist()]
    assert whole.tolist() == expected
    known = known_answers(graph, links)
    at_once = 100  # scores: two questions
    assert link_ranks(predictor, links, known, scores_at_once=at_once).tolist() == expected


def test_stored_inverses_do_not_change_the_figures() -> None:
    counts = {evaluate(both).count for both in (False, True)}
    assert len(counts) == 1


def evaluate(both_directions: bool) -> Figures:
    graph = random_graph(both_directions)
    return evaluate_links(fresh_predictor(graph, read_pretraining({"rank": 3})), graph, "test")


def test_a_split_without_facts_is_rejected() -> None:
    graph = films()
    empty = graph.__class__(
        graph.entities, graph.relations, graph.index, (*graph.splits, "valid"), graph.observed
    )
    with pytest.raises(DataError, match="no facts"):
        evaluate_links(fresh_predictor(graph, read_pretraining({"rank": 2})), empty, "valid")


def test_a_real_test_split_is_ranked_in_both_directions(benchmarks: Path) -> None:
    from clmpt.graph.opening import open_graph

    graph = open_graph(benchmarks / "FB15k-237-betae")
    links = links_of(graph, "test")
    assert links.facts == len(graph.triples("test")) == 40876
    assert (links.directed_P < len(graph.relations)).all()
