"""Training runs: what they keep, reject and learn; interruptions do not change the result."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from clmpt.errors import DataError, SettingError, TrainingError, WrongGraph
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.predictor import read_pretraining
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.store import QuerySet
from clmpt.reasoners.beam_search import BeamSearch
from clmpt.reasoners.reasoner_folder import open_reasoner
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Reasoning
from clmpt.storage.run_folder import read_log
from clmpt.training.loop import TrainingStep
from clmpt.training.runs import pretrain, train
from killing import killed_three_times, saving_often
from models import changed, reasoning
from small_training import (
    SMALL,
    assert_same_run,
    predictor,
    queries,
    settings,
    valid_graph,
)
from tampering import without_checksums
from toy import random_graph


def run(out: Path, model_settings: Reasoning = SMALL, **changes: Any) -> list[TrainingStep]:
    graph = valid_graph()
    chosen = settings(validation_queries=10, patience=99, **changes)
    return list(train(graph, predictor(), queries(graph), model_settings, chosen, out))


@pytest.mark.parametrize("change", [{}, {"mixing": "shape", "decay": "cosine", "warm_up": 3}])
@pytest.mark.parametrize("stops", [[1], [6], [7, 2]])  # six steps are an epoch
def test_an_interrupted_run_ends_with_the_same_weights(
    change: dict[str, Any], stops: list[int], tmp_path: Path
) -> None:
    run(tmp_path / "whole", **change)
    graph = valid_graph()
    chosen = settings(validation_queries=10, patience=99, **change)
    for steps in stops:
        part = train(graph, predictor(), queries(graph), SMALL, chosen, tmp_path / "parts")
        assert len(list(islice(part, steps))) == steps
        part.close()  # type: ignore[attr-defined]
    rest = run(tmp_path / "parts", **change)
    assert rest[0].step == sum(stops) + 1
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_frozen_predictor_does_not_change_and_its_state_is_not_saved(tmp_path: Path) -> None:
    frozen = changed(SMALL, frozen=True)
    graph, chosen = valid_graph(), settings()
    part = train(graph, predictor(), queries(graph), frozen, chosen, tmp_path / "run")
    next(part)
    part.close()  # type: ignore[attr-defined]
    assert not any("predictor" in name for name in load_file(tmp_path / "run/state.safetensors"))
    run(tmp_path / "whole", frozen)
    model = open_reasoner(tmp_path / "whole", valid_graph()).model
    assert model.predictor is not None
    assert torch.equal(model.predictor.entities_ED, predictor().entities_ED)


LONG = {"batch": 32, "epochs": 16, "negative_count": 7, "validate_every": 16, "patience": 99}
LONG |= {"validation_queries": 5, "device": "cpu"}


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    graph = valid_graph()
    graph.save(tmp_path / "graph")
    queries(graph).save(tmp_path / "train.queries")
    quick = read_pretraining({"rank": 4, "epochs": 1, "device": "cpu"})
    list(pretrain(graph, quick, tmp_path / "predictor"))
    call = (
        "train(KnowledgeGraph.open(sys.argv[1]), open_predictor(sys.argv[2]).predictor, "
        "QuerySet.open(sys.argv[3]), read_reasoning({'heads': 2, 'feed_forward': 16}), "
        "read_table(Training, json.loads(sys.argv[4])), sys.argv[5], save_seconds=SAVE_SECONDS)"
    )
    places = [str(tmp_path / name) for name in ("graph", "predictor", "train.queries")]
    command = [*saving_often(call), *places, json.dumps(LONG)]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    killed_three_times(command, tmp_path / "killed")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_the_best_weights_are_kept_and_patience_ends_the_run(tmp_path: Path) -> None:
    graph = valid_graph()
    chosen = settings(epochs=50, learning_rate=0.05, patience=2, validation_queries=10)
    list(train(graph, predictor(), queries(graph), SMALL, chosen, tmp_path / "run"))
    log = read_log(tmp_path / "run")
    values = [line["valid"]["mrr"] for line in log]
    best = int(np.argmax(values))
    assert len(values) == best + 3 < 50
    stored = open_reasoner(tmp_path / "run", graph)
    assert stored.about["epoch"] == best + 1
    asked = QuerySet.open(tmp_path / "run" / "valid.queries").groups
    assert evaluate(stored.model.reasoner(), asked, "again").mean == pytest.approx(max(values))


def test_validation_uses_a_fixed_subset_of_the_given_queries(tmp_path: Path) -> None:
    graph = valid_graph()
    protocol = Protocol(("train",), ("train", "valid"), 100)
    valid = QuerySet((sample(shape("2p"), graph, protocol, 30, 1),))
    chosen = settings(epochs=1, validation_queries=12)
    for name in ("first", "second"):
        list(train(graph, predictor(), queries(graph), SMALL, chosen, tmp_path / name, valid=valid))
    one, two = (QuerySet.open(tmp_path / n / "valid.queries") for n in ("first", "second"))
    assert len(one) == 12
    assert one.checksum == two.checksum


def test_a_nan_loss_stops_the_run_and_keeps_the_last_good_weights(tmp_path: Path) -> None:
    graph, out = valid_graph(), tmp_path / "run"
    good = run(out / "good", epochs=1)
    assert math.isfinite(good[-1].loss)
    chosen = settings(learning_rate=1e30, epochs=50, validation_queries=10)
    bad = train(graph, predictor(), queries(graph), SMALL, chosen, out / "bad")
    with pytest.raises(TrainingError, match="Earlier results are kept"):
        list(bad)
    if (out / "bad" / "reasoner.json").exists():
        weights = load_file(out / "bad" / "weights.safetensors")
        assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"learning_rate": 0.5}, "settings.learning_rate: 0.0001 there, 0.5 here"),
        ({"model": {"pooling": "sum"}}, "reasoning.pooling: mean there, sum here"),
        ({"predictor": 1}, "predictor.weights"),
        ({"count": 20}, "queries: "),
    ],
)
def test_a_run_resumes_only_with_the_same_inputs(
    change: dict[str, Any], what: str, tmp_path: Path
) -> None:
    graph = valid_graph()
    first = train(graph, predictor(), queries(graph), SMALL, settings(), tmp_path / "run")
    next(first)
    first.close()  # type: ignore[attr-defined]
    count, seed = change.pop("count", 30), change.pop("predictor", 0)
    model_settings = changed(SMALL, **change.pop("model", {}))
    other = train(
        graph,
        predictor(seed),
        queries(graph, count),
        model_settings,
        settings(**change),
        tmp_path / "run",
    )
    with pytest.raises(DataError, match=what):
        next(other)


def test_queries_of_another_graph_are_rejected(tmp_path: Path) -> None:
    small = GraphBuilder(["a", "b"], ["r"])
    small.add("train", "a", "r", "b")
    graph = small.build()
    random = torch.randn(2, 8)
    tiny = ComplEx(random, random[:1].clone(), torch.tensor([-1]))
    with pytest.raises(DataError, match="Is it the right graph"):
        next(train(graph, tiny, queries(valid_graph()), SMALL, settings(), tmp_path / "run"))


def test_a_stored_reasoner_rejects_another_graph_and_damage(tmp_path: Path) -> None:
    run(tmp_path / "run", epochs=1)
    open_reasoner(tmp_path / "run", valid_graph())
    with pytest.raises(WrongGraph, match="different entity names"):
        open_reasoner(tmp_path / "run", random_graph(False))
    about = (without_checksums(tmp_path / "run") / "reasoner.json").read_text()
    for old, new in (
        ('"feed_forward": 16', '"feed_forward": 1000000000'),
        ('"encoder_layers": 1', '"encoder_layers": 3'),
        ('"heads": 2', '"heads": 0'),
        ('"predictor": "complex"', '"predictor": "os.system"'),
        ('"predictor": "complex"', '"predictor": "distmult"'),
        ('"norm": "pre"', '"norm": "post"'),
    ):
        assert old in about
        (tmp_path / "run" / "reasoner.json").write_text(about.replace(old, new))
        with pytest.raises(DataError, match="does not have the expected content"):
            open_reasoner(tmp_path / "run", valid_graph())
    (tmp_path / "run" / "reasoner.json").write_text(about)
    weights = (tmp_path / "run" / "weights.safetensors").read_bytes()
    (tmp_path / "run" / "weights.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(DataError, match="missing or damaged"):
        open_reasoner(tmp_path / "run", valid_graph())


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="Did you mean 'heads'"):
        reasoning(haeds=2)
    with pytest.raises(SettingError, match="'dropout' must be below 1"):
        reasoning(dropout=1.0)
    with pytest.raises(SettingError, match="'temperature' must be above 0"):
        reasoning(temperature=0.0)
    with pytest.raises(SettingError, match="'negatives' must be one of query, batch, all"):
        settings(negatives="some")


def towns() -> KnowledgeGraph:
    """200 people from ten towns of different sizes. Relations depend on the town: mostly with
    people from one other town, sometimes from a second."""
    random = np.random.default_rng(0)
    people, towns, relations = 200, 10, 6
    sizes = np.arange(1, towns + 1)
    town = random.choice(towns, people, p=sizes / sizes.sum())
    builder = GraphBuilder([f"p{number}" for number in range(people)])
    for relation in range(relations):
        for home in range(towns):
            likely = np.zeros(people)
            for share, other in zip((0.7, 0.3), random.permutation(towns), strict=False):
                likely += share * (town == other) / max((town == other).sum(), 1)
            likely /= likely.sum()
            for head in np.flatnonzero(town == home).tolist():
                for tail in np.unique(random.choice(people, 6, p=likely)).tolist():
                    split = random.choice(["train", "valid", "test"], p=[0.7, 0.15, 0.15])
                    builder.add(split, f"p{head}", f"r{relation}", f"p{tail}")
    return builder.build()


def test_clmpt_learns_to_beat_its_predictor(tmp_path: Path) -> None:
    graph = towns()
    quick = read_pretraining({"rank": 32, "epochs": 15, "batch": 200, "regularisation": 0.02})
    list(pretrain(graph, replace(quick, device="cpu"), tmp_path / "predictor"))
    stored = open_predictor(tmp_path / "predictor")
    held_out = Protocol(("train", "valid"), ("train", "valid", "test"), 100)
    asked = [sample(shape(name), graph, held_out, 300, 1) for name in ("2p", "2i", "pi", "2in")]
    hops = evaluate(BeamSearch(stored.predictor, len(graph.relations)), asked)
    list(
        train(
            graph,
            stored.predictor,
            queries(graph, 4000, ("1p", "2p", "2i", "pi", "2in")),
            reasoning(encoder_layers=1, feed_forward=128, heads=4, temperature=0.1),
            settings(batch=256, epochs=14, learning_rate=3e-3, negatives="all"),
            tmp_path / "clmpt",
        )
    )
    model = open_reasoner(tmp_path / "clmpt", graph).model
    learnt = evaluate(model.reasoner(), asked)
    chance = float(np.mean(1 / np.arange(1, len(graph.entities))))
    for own, other in zip(learnt.shapes, hops.shapes, strict=True):
        assert own.figures.mrr > other.figures.mrr, own.name
        assert own.figures.mrr > 2.5 * chance, own.name
    assert learnt.mean > 1.1 * hops.mean
