"""Truth values of a trained predictor, by hand where numbers are few."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.parser import parse
from clmpt.predictors.calibration import Sharpening, calibrate, is_calibrated, log_likelihood
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.distmult import DistMult
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.model import Basis
from clmpt.reasoners.truth_values.rows import PredictedRows
from clmpt.reasoners.truth_values.truth_values import (
    TruthValueReasoner,
    TruthValues,
    TruthValueSettings,
)
from clmpt.reasoners.truth_values.value_engine import Effort
from clmpt.settings import Pretraining
from dense_rows import DenseRows, with_facts

CALIBRATED = Sharpening("calibrated")


def small_graph() -> KnowledgeGraph:
    builder = GraphBuilder(["a", "b", "c"], ["r"])
    builder.add("train", "a", "r", "b")
    return builder.build()


def even_predictor(graph: KnowledgeGraph) -> EmbeddingPredictor:
    """Every score is 1, so every softmax is a third."""
    return DistMult(torch.ones(len(graph.entities), 1), torch.ones(2, 1), torch.tensor([1]))


def row(rows: PredictedRows, entity: int, directed: int) -> dict[int, float]:
    found = rows.rows(np.array([entity]), np.array([directed]))
    return dict(zip(found.entity_X.tolist(), found.value_X.tolist(), strict=True))


def test_a_link_is_worth_its_softmax_times_known_answers() -> None:
    graph = small_graph()
    rows = PredictedRows(even_predictor(graph), graph.index, Sharpening("count"), 0.1, 0.1, 2**20)
    # a has one known answer, b; the others get 1/3 · 1. b has none: 1/3 · max(1, 0).
    assert row(rows, 0, 0) == pytest.approx({0: 1 / 3, 1: 1, 2: 1 / 3})
    assert row(rows, 1, 0) == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})


def test_a_calibrated_link_is_worth_its_probability_and_never_leads_to_itself() -> None:
    graph = small_graph()
    predictor = even_predictor(graph)
    predictor.calibration_SC.copy_(torch.tensor([2.0, 3.0, -1.0, 1.0]))
    rows = PredictedRows(predictor, graph.index, Sharpening("calibrated"), 0.01, 0.01, 2**20)
    # σ(2 log 1/3 + 3 log 1 + 1) = σ(-1.197) for a, which has one known answer; one less for b.
    assert row(rows, 0, 0) == pytest.approx({1: 1, 2: 1 / (1 + np.exp(1.19722))}, abs=1e-5)
    assert row(rows, 1, 0) == pytest.approx(dict.fromkeys([0, 2], 1 / (1 + np.exp(2.19722))), 1e-4)


def test_rows_are_remembered_within_their_memory() -> None:
    graph = small_graph()
    predictor = even_predictor(graph)
    rows = PredictedRows(predictor, graph.index, Sharpening("count"), 0.1, 0.1, 2**20)
    first = row(rows, 0, 0)
    assert row(rows, 0, 0) == first
    assert rows.computed == 1
    forgetful = PredictedRows(predictor, graph.index, Sharpening("count"), 0.1, 0.1, 1)
    assert row(forgetful, 0, 0) == row(forgetful, 0, 0) == first
    assert forgetful.computed == 2


def wheel(places: int, steps: int, held_out: int) -> tuple[KnowledgeGraph, ComplEx]:
    """A graph in which relation r leads r places on, and a predictor that knows it: the score of
    (h, r, t) is Σ cos(f · (h + r - t)) over some frequencies f, greatest where h + r = t."""
    place, step = np.divmod(np.arange(places * steps), steps)
    facts = np.stack([place, step, (place + step) % places], 1).astype(np.int32)
    builder = GraphBuilder([f"p{n}" for n in range(places)], [f"plus{n}" for n in range(steps)])
    order = np.random.default_rng(0).permutation(len(facts))
    builder.add_ids("valid", facts[order[:held_out]])
    builder.add_ids("train", facts[order[held_out:]])
    frequency = torch.arange(1, places // 2, 5)
    turn_PF = 2 * torch.pi / places * torch.arange(places)[:, None] * frequency
    turned_PD = torch.cat([turn_PF.cos(), turn_PF.sin()], 1)
    back_SD = torch.cat([turn_PF.cos(), -turn_PF.sin()], 1)[:steps]
    rows = torch.arange(steps, 2 * steps)
    return builder.build(), ComplEx(turned_PD, torch.cat([turned_PD[:steps], back_SD]), rows)


def test_two_held_out_facts_among_many_are_enough_to_calibrate() -> None:
    graph, predictor = wheel(places=400, steps=60, held_out=2)
    calibrate(predictor, graph)
    rows = PredictedRows(predictor, graph.view("train").index, CALIBRATED, 0.01, 0.01, 2**20)
    for head, relation, tail in graph.view("valid").triples().tolist():
        assert row(rows, head, relation)[tail] > 0.5  # of 48,000 questions 4 are held out


def test_labels_that_only_half_of_the_truth_has() -> None:
    odds = torch.tensor([3.0, -2.0, 0.5], dtype=torch.float64)
    labelled = torch.tensor([True, False, False])
    true = odds.sigmoid() * 0.5
    wanted = torch.where(labelled, true.log(), (1 - true).log())
    assert torch.allclose(log_likelihood(odds, labelled, 0.5), wanted)
    assert torch.allclose(log_likelihood(odds, labelled, 1.0).exp()[1], 1 - odds.sigmoid()[1])


def test_calibration_finds_the_share_of_hidden_links() -> None:
    """A predictor that knows nothing, on a graph where each question has one hidden answer among
    twenty entities, must learn that a link holds with probability 1/20 or so."""
    random = np.random.default_rng(0)
    names = [f"e{number}" for number in range(21)]
    builder = GraphBuilder(names, ["r"])
    for head in range(21):
        known, hidden = random.choice(21, 2, replace=False)
        builder.add("train", names[head], "r", names[known])
        builder.add("valid", names[head], "r", names[hidden])
    graph = builder.build()
    predictor = fresh_predictor(graph, Pretraining(rank=2, initial_scale=1e-6))
    calibrate(predictor, graph)
    assert is_calibrated(predictor)
    index = graph.view("train").index
    rows = PredictedRows(predictor, index, Sharpening("calibrated"), 1e-6, 1e-6, 2**20)
    forwards = [row(rows, entity, 0) for entity in range(21)]
    likely = [value for found in forwards for value in found.values() if value < 1]
    assert np.mean(likely) == pytest.approx(1 / 20, rel=0.25)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        # No constant: some pair for each, the best of its row or column.
        ("?x : r(?x, ?y)", [1.0, 0.3, 0.0]),
        ("?y : r(?x, ?y)", [0.3, 1.0, 0.5]),
        # r(x, x) holds for none.
        ("?x : r(?x, ?x)", [0.0, 0.0, 0.0]),
        # Nobody who leads anywhere: 1 - min(1, 2 · best of the row).
        ("?y : r(a, ?y) & !exists ?z (r(?y, ?z))", [0.0, 1 - 2 * 0.3, 0.5]),
        # Some z that a leads to and y does not: b, or c at a half.
        ("?y : r(?y, b) & r(a, ?z) & !r(?y, ?z)", [0.0, 0.0, 0.0]),
    ],
)
def test_questions_without_constants_and_both_negations(question: str, wanted: list[float]) -> None:
    graph = small_graph()
    likely = np.zeros((1, 3, 3), np.float32)
    likely[0, 0, 2], likely[0, 1, 0] = 0.5, 0.3  # a leads to c, b to a
    source = DenseRows(graph.index, with_facts(graph, likely))
    reasoner = TruthValueReasoner(source, graph, 2.0)
    (found,) = reasoner.score([QueryGroup.single(graph.bind(parse(question)))]).tolist()
    assert found == pytest.approx(wanted)


def test_a_question_without_constants_on_a_large_graph_has_a_note() -> None:
    graph = small_graph()
    source = DenseRows(graph.index, with_facts(graph, np.zeros((1, 3, 3), np.float32)))
    bound = graph.bind(parse("?x : r(?x, ?y)"))
    assert TruthValueReasoner(source, graph, 1.0, effort=Effort(0, 2, 0)).notes(bound)
    assert not TruthValueReasoner(source, graph, 1.0, effort=Effort(0, 3, 0)).notes(bound)


def test_reasoners_of_one_model_share_their_rows_until_the_predictor_changes() -> None:
    graph = small_graph()
    predictor = even_predictor(graph).requires_grad_(False)
    model = TruthValues(Basis(graph, predictor), TruthValueSettings(sharpening="count"))
    first, second = model.reasoner(), model.reasoner()
    query = QueryGroup.single(graph.bind(parse("?x : r(a, ?x)")))
    before = first.score([query])
    assert torch.equal(second.score([query]), before)
    assert model.rows().computed == 1
    predictor.entities_ED[2] *= 5
    after = model.reasoner().score([query])
    assert after[0, 2] > before[0, 2]
