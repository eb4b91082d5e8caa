"""Predictors that have weights besides their two tables, or wide relations: RESCAL, CP, TuckER and
ConvE in training, in files, and under reasoners."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clmpt.errors import DataError, SettingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.experiments.costs import pretraining_work
from clmpt.graph.builder import GraphBuilder
from clmpt.predictors.predictor import TABLES, fresh_predictor, read_pretraining
from clmpt.predictors.predictor_folder import open_predictor, save_predictor
from clmpt.predictors.tucker import TuckER
from clmpt.queries.store import QuerySet
from clmpt.reasoners.beam_search import BeamSearch
from clmpt.reasoners.model import Basis
from clmpt.reasoners.reasoner_folder import open_reasoner, open_weights
from clmpt.reasoners.truth_values.truth_values import TruthValues, TruthValueSettings
from clmpt.training.runs import pretrain, train
from models import random_predictor, reasoning
from small_training import (
    ENTITIES,
    RELATIONS,
    SMALL,
    assert_same_run,
    districts,
    queries,
    settings,
    valid_graph,
)
from tampering import without_checksums
from toy import films

NEW = ["rescal", "cp", "tucker", "conve"]
WITH_WEIGHTS = ["tucker", "conve"]


@pytest.mark.parametrize(("candidates", "epochs"), [(0, 20), (8, 30)])
def test_a_network_learns(candidates: int, epochs: int, tmp_path: Path) -> None:
    # On a graph with more facts than the circle of the other models, which it learns by heart.
    graph, given = districts(), {"regularisation": 0.01, "validate_every": 99, "device": "cpu"}
    given |= {"rank": 8, "batch": 16, "epochs": epochs, "candidates": candidates}
    losses = [
        step.loss
        for step in pretrain(graph, read_pretraining({"model": "conve", **given}), tmp_path / "run")
    ]
    assert losses[-1] < 0.8 * losses[0]
    # Guessing among some fifty people puts a fifth of the answers into the first ten.
    predictor = open_predictor(tmp_path / "run").predictor
    assert evaluate_links(predictor, graph, "test").hits_at_10 > 0.8


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_a_forged_width_asks_for_no_memory(name: str, tmp_path: Path) -> None:
    graph, wide = films(), 100_000  # a core of 10¹⁵ numbers, a layer of 10¹¹
    save_predictor(tmp_path / "model", random_predictor(name, 10, 3), graph, {})
    path = without_checksums(tmp_path / "model") / "weights.safetensors"
    tensors = load_file(path)
    for table in TABLES:
        tensors[table] = torch.zeros(len(tensors[table]), wide)
    save_file(tensors, path)
    with pytest.raises(DataError, match="does not have the size"):
        open_predictor(tmp_path / "model")


@pytest.mark.parametrize("change", ["missing", "other", "half"])
def test_a_damaged_core_is_rejected(change: str, tmp_path: Path) -> None:
    save_predictor(tmp_path / "model", random_predictor("tucker", 10, 3), films(), {})
    path = without_checksums(tmp_path / "model") / "weights.safetensors"
    tensors = load_file(path)
    core = tensors.pop("core_WDD")
    if change == "other":
        tensors["core_WDD"] = core[:, :-1].clone()
    elif change == "half":
        tensors["core_WDD"] = core.half()
    save_file(tensors, path)
    with pytest.raises(DataError, match="Make the checkpoint again"):
        open_predictor(tmp_path / "model")


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank"), [("rescal", 100_000), ("tucker", 5_000), ("conve", 50_000)]
)
def test_a_rank_that_no_machine_has_room_for_is_refused_at_once(name: str, rank: int) -> None:
    with pytest.raises(SettingError, match="Choose a lower rank"):
        fresh_predictor(films(), read_pretraining({"model": name, "rank": rank}))


def test_a_network_needs_a_number_besides_the_bias() -> None:
    with pytest.raises(SettingError, match="rank of at least 2"):
        fresh_predictor(films(), read_pretraining({"model": "conve", "rank": 1}))


@pytest.mark.parametrize("name", ["rescal", "tucker", "conve"])
def test_plans_count_what_projecting_takes(name: str) -> None:
    graph = films()
    plain, own = (
        pretraining_work(graph, read_pretraining({"model": model, "rank": 100, "epochs": 1}))
        for model in ("distmult", name)
    )
    assert own.products > plain.products
    # Five copies of 6 relations and inverses with 10,000 numbers instead of 100, of a core of 10⁶
    # numbers, and of 99 maps of 32 · 18 · 8 features: 10 × 10 twice, less what the filters need.
    more = {"rescal": 6 * 9_900, "tucker": 10**6, "conve": 99 * 32 * 18 * 8}
    assert own.memory - plain.memory == 5 * 4 * more[name]


# --- under reasoners ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NEW)
def test_a_reasoner_trains_it_further_and_keeps_all_of_it(name: str, tmp_path: Path) -> None:
    graph, before = valid_graph(), random_predictor(name, ENTITIES, RELATIONS)
    asked, chosen = queries(graph), settings(epochs=1, learning_rate=1e-3, validation_queries=5)
    own = random_predictor(name, ENTITIES, RELATIONS)
    losses = [step.loss for step in train(graph, own, asked, SMALL, chosen, tmp_path / "run")]
    assert len(losses) == 6
    stored = open_reasoner(tmp_path / "run", graph).model.predictor
    assert stored is not None
    for weight, weight_before in zip(stored.parameters(), before.parameters(), strict=True):
        assert not torch.equal(weight, weight_before)
    # The same run with an interruption, from another copy of the predictor.
    for _ in range(2):
        own = random_predictor(name, ENTITIES, RELATIONS)
        part = train(graph, own, asked, SMALL, chosen, tmp_path / "parts")
        for step in part:
            if step.step == 3:
                break
        part.close()  # type: ignore[attr-defined]
    assert_same_run(tmp_path / "run", tmp_path / "parts")
    groups = QuerySet.open(tmp_path / "run" / "valid.queries").groups
    scores_QE = open_reasoner(tmp_path / "run", graph).model.reasoner().score(groups)
    assert bool((scores_QE.std(1) > 0).all())


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_training_that_starts_from_a_model_has_its_other_weights(name: str, tmp_path: Path) -> None:
    graph, asked = valid_graph(), queries(valid_graph(), shapes=("1p",))
    first, other = (random_predictor(name, ENTITIES, RELATIONS, seed=seed) for seed in (0, 1))
    list(train(graph, first, asked, SMALL, settings(steps=2), tmp_path / "first"))
    start = open_weights(tmp_path / "first")
    none = settings(epochs=0)
    list(train(graph, other, asked, SMALL, none, tmp_path / "second", start=start))
    found = open_reasoner(tmp_path / "second", graph).model.predictor
    assert found is not None
    assert start.predictor is not None
    for weight, expected in zip(found.parameters(), start.predictor.parameters(), strict=True):
        assert torch.equal(weight, expected)


@pytest.mark.parametrize("name", NEW)
def test_beam_search_and_truth_values_use_it(name: str) -> None:
    graph, predictor = (
        valid_graph(),
        random_predictor(name, ENTITIES, RELATIONS).requires_grad_(False),
    )
    group = queries(graph, 5, ("1p",)).groups[0]
    entity, directed = (
        torch.from_numpy(ids[:, 0].astype("int64")) for ids in (group.entities, group.relations)
    )
    log_BE = predictor.score_answers(entity, directed).log_softmax(1)
    torch.testing.assert_close(BeamSearch(predictor, RELATIONS).score([group]), log_BE)
    truth = TruthValues(Basis(graph.view("train"), predictor), TruthValueSettings(threshold=1e-9))
    values_BE = truth.reasoner().score([group])
    # Not calibrated: of what is no fact, softmax × known answers.
    known_B = torch.from_numpy(group.easy.counts).clamp_min(1)
    unknown = values_BE < 1
    expected_BE = (log_BE.exp() * known_B[:, None]).clamp_max(0.9999).float()
    torch.testing.assert_close(values_BE[unknown], expected_BE[unknown], rtol=1e-4, atol=1e-8)


def test_truth_values_follow_a_core_that_changes() -> None:
    graph, predictor = valid_graph(), random_predictor("tucker", ENTITIES, RELATIONS)
    assert isinstance(predictor, TuckER)
    predictor.requires_grad_(False)
    model = TruthValues(Basis(graph.view("train"), predictor), TruthValueSettings())
    asked = queries(graph, 5, ("1p",)).groups
    before = model.reasoner().score(asked)
    predictor.core_WDD.neg_()
    assert not torch.equal(model.reasoner().score(asked), before)


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_a_model_answers_on_a_newer_graph_with_all_its_weights(name: str, tmp_path: Path) -> None:
    """A hybrid has two of them: one as it was pre-trained, and one that it trained further."""
    graph, asked = valid_graph(), queries(valid_graph(), shapes=("1p", "2i"))
    hybrid = reasoning(reasoner="hybrid", heads=2, feed_forward=8)
    own = random_predictor(name, ENTITIES, RELATIONS)
    chosen = settings(steps=3, learning_rate=1e-3, validation_queries=5)
    list(train(graph, own, asked, hybrid, chosen, tmp_path / "run"))
    builder = GraphBuilder([*graph.entities.names, "new"], list(graph.relations.names))
    builder.add_ids("train", graph.triples("train"))
    newer = builder.build()
    group = asked.groups[1]
    before, after = (
        open_reasoner(tmp_path / "run", one, newer=one is newer).model.reasoner().score([group])
        for one in (graph, newer)
    )
    # What is new takes no part in the softmax of truth values; in that of CLMPT it does, a little.
    torch.testing.assert_close(after[:, :-1], before, rtol=0, atol=0.05)
