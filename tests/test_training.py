"""Training a reasoner: what a step computes, what it learns, and that a stop changes nothing."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from clmpt.errors import DataError, SettingError, TrainingError, WrongGraph
from clmpt.evaluation.report import evaluate
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.beam_search import HopByHop
from clmpt.reasoners.message_passing.clmpt import best_alternative, cosine
from clmpt.reasoners.models import fresh_reasoner
from clmpt.reasoners.reasoner import NeuralReasoner
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Reasoning, Training, pretraining, reasoning, training
from clmpt.storage.run_folder import read_log
from clmpt.training.checkpoint import open_checkpoint, open_reasoner
from clmpt.training.runs import Progress, pretrain, train
from clmpt.training.trainer import Order, Trainer
from toy import random_graph

TRAIN = Protocol(("train",), ("train",))
SHAPES = ("1p", "2p", "2i", "2in", "pni", "2u")
SMALL = Reasoning(heads=2, feed_forward=16, encoder_layers=1)
RELATIONS, ENTITIES = 5, 40


def queries(graph: KnowledgeGraph, count: int = 30, shapes: tuple[str, ...] = SHAPES) -> QuerySet:
    groups = tuple(sample(shape(name), graph, TRAIN, count, seed=0) for name in shapes)
    return QuerySet(groups, {"graph": graph.fingerprint})


def predictor(seed: int = 0) -> ComplEx:
    random = torch.Generator().manual_seed(seed)
    return ComplEx(
        torch.randn(ENTITIES, 8, generator=random),
        torch.randn(RELATIONS, 8, generator=random),
        torch.full((RELATIONS,), -1),
    )


def settings(**changes: Any) -> Training:
    chosen = {"batch": 32, "epochs": 3, "negative_count": 7, "device": "cpu", **changes}
    return training(chosen)


def trainer(model_settings: Reasoning = SMALL, **changes: Any) -> Trainer:
    model = fresh_reasoner(predictor(), model_settings, seed=0)
    return Trainer(model, queries(random_graph(False)).groups, settings(**changes))


# --- a step ---------------------------------------------------------------------------------------


def slow_loss(made: Trainer, groups: list[QueryGroup], positive: Any, negative: Any) -> Tensor:
    """The paper's loss from all cosines, one query at a time, with exponentials as they stand."""
    from clmpt.reasoners.message_passing.layout import batch_queries

    batch = batch_queries(groups, replace(made.passing, share=False, prune=False))
    scores = cosine(made.model(batch).double(), made.model.predictor.entities_ED.double())
    scores_QE = best_alternative(scores, batch.query_G, batch.queries)
    share = (scores_QE / made.settings.temperature).exp()
    losses = []
    for row, wanted in enumerate(positive):
        others = share[row] if negative is None else share[row][negative[row % len(negative)]]
        own = share[row, wanted]
        whole = others.sum() if negative is None else own + others.sum()
        losses.append(-torch.log(own / whole))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("negatives", ["query", "batch", "all"])
def test_the_loss_and_its_gradients_are_the_paper_s(negatives: str, frozen: bool) -> None:
    made = trainer(replace(SMALL, dropout=0.0, frozen=frozen), negatives=negatives, temperature=0.2)
    groups = made.order.batch(0)
    drawn = made.positives(groups), made.negatives(groups)
    found = []
    for loss in (made.loss(groups, *drawn), slow_loss(made, groups, *drawn)):
        made.model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        grads = [p.grad.clone() for p in made.model.parameters() if p.grad is not None]
        found.append((loss.item(), grads))
    (fast, fast_grads), (slow, slow_grads) = found
    assert fast == pytest.approx(slow, rel=1e-5)
    assert len(fast_grads) == len(slow_grads) == len(list(made.model.parameters())) - 2 * frozen
    for one, other in zip(fast_grads, slow_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_positives_are_answers_and_differ_from_epoch_to_epoch() -> None:
    made = trainer()
    groups = made.order.batch(0)
    drawn = []
    for step in (0, made.steps_per_epoch):
        made.steps_done = step
        positive = made.positives(groups)
        answers = [found.tolist() for group in groups for found in group.easy]
        assert all(one in known for one, known in zip(positive.tolist(), answers, strict=True))
        drawn.append(positive.tolist())
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("mixing", ["all", "shape"])
def test_an_epoch_is_every_query_once(mixing: str) -> None:
    groups = queries(random_graph(False), 25).groups
    order = Order(groups, settings(mixing=mixing, batch=10))
    seen: dict[str, list[list[int]]] = {}
    shapes_at_once = []
    for step in range(order.steps_per_epoch):
        batch = order.batch(step)
        shapes_at_once.append(len(batch))
        for group in batch:
            rows = np.hstack([group.entities, group.relations]).tolist()
            seen.setdefault(group.name, []).extend(rows)
    for group in groups:
        assert sorted(seen[group.name]) == sorted(
            np.hstack([group.entities, group.relations]).tolist()
        )
    assert (max(shapes_at_once) > 1) == (mixing == "all")
    second = [group.name for group in order.batch(order.steps_per_epoch)]
    assert second  # the next epoch follows without a seam


def test_queries_are_read_from_the_file_they_are_in(tmp_path: Path) -> None:
    queries(random_graph(False)).save(tmp_path / "q.queries")
    stored = QuerySet.open(tmp_path / "q.queries")
    made = Trainer(fresh_reasoner(predictor(), SMALL, seed=0), stored.groups, settings())
    for group in made.order.groups:
        assert isinstance(group.entities.base, np.memmap) or isinstance(group.entities, np.memmap)
    made.step()


def test_learning_rates() -> None:
    def rates(**changes: Any) -> list[float]:
        made = trainer(learning_rate=1.0, steps=8, **changes)
        found = []
        for step in range(8):
            made.steps_done = step
            found.append(round(made.learning_rate, 4))
        return found

    assert rates() == [1.0] * 8
    assert rates(warm_up=3) == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]
    per_epoch = trainer().steps_per_epoch  # 180 queries, 32 a step: six
    assert rates(decay="step", decay_epoch=1) == [1.0] * per_epoch + [0.1] * (8 - per_epoch)
    # From 1 down to 0 in eight steps, along half a cosine: at the middle, a half.
    cosines = [round((1 + math.cos(math.pi * step / 8)) / 2, 4) for step in range(8)]
    assert rates(decay="cosine") == cosines
    assert cosines[4] == 0.5


def test_a_clipped_gradient_is_no_longer_than_allowed() -> None:
    """Adam's first step does not feel a gradient's length, its first moment does."""
    lengths = {}
    for clip in (0.0, 1e-3):
        made = trainer(clip=clip)
        made.step()
        moments = [v for name, v in made.state().items() if name.endswith("exp_avg")]
        lengths[clip] = torch.stack([moment.norm() for moment in moments]).norm().item() / 0.1
    assert lengths[1e-3] == pytest.approx(1e-3, rel=1e-3)
    assert lengths[0.0] > 1e-2


@pytest.mark.parametrize("change", [{}, {"negatives": "batch"}, {"negatives": "all"}])
def test_large_steps_on_several_threads_sum_in_one_order(change: dict[str, Any]) -> None:
    threads, found = torch.get_num_threads(), []
    torch.set_num_threads(4)
    try:
        for _ in range(3):
            random = torch.Generator().manual_seed(0)
            tables = [torch.randn(n, 256, generator=random) for n in (ENTITIES, RELATIONS)]
            wide = ComplEx(*tables, torch.full((RELATIONS,), -1))
            made = Trainer(
                fresh_reasoner(wide, replace(SMALL, feed_forward=256), seed=0),
                queries(random_graph(False), 200).groups,
                settings(batch=1200, negative_count=64, **change),
            )
            for _ in range(2):
                made.step()
            found.append(made.state())
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(found[0][name], other[name]) for name in other)


def test_queries_without_answers_are_refused() -> None:
    group = queries(random_graph(False)).groups[0].take(np.empty(0, np.int64))
    with pytest.raises(TrainingError, match="no queries"):
        Trainer(fresh_reasoner(predictor(), SMALL, seed=0), [group], settings())


def test_bfloat16_is_close() -> None:
    plain, half = trainer(), trainer(precision="bfloat16")
    assert float(half.step()) == pytest.approx(float(plain.step()), rel=0.05)


# --- a run ----------------------------------------------------------------------------------------


def valid_graph() -> KnowledgeGraph:
    random = np.random.default_rng(0)
    builder = GraphBuilder([f"e{n}" for n in range(ENTITIES)], [f"r{n}" for n in range(RELATIONS)])
    for split, count in (("train", 400), ("valid", 60), ("test", 60)):
        rows = random.integers((ENTITIES, RELATIONS, ENTITIES), size=(count, 3))
        builder.add_ids(split, rows.astype(np.int32))
    return builder.build()


def run(out: Path, model_settings: Reasoning = SMALL, **changes: Any) -> list[Progress]:
    graph = valid_graph()
    chosen = settings(validation_queries=10, patience=99, **changes)
    return list(train(graph, predictor(), queries(graph), model_settings, chosen, out))


def assert_same_run(first: Path, second: Path) -> None:
    one, two = (load_file(folder / "weights.safetensors") for folder in (first, second))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    logs = [[{**line, "seconds": None} for line in read_log(folder)] for folder in (first, second)]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("change", [{}, {"mixing": "shape", "decay": "cosine", "warm_up": 3}])
@pytest.mark.parametrize("stops", [[1], [6], [7, 2]])  # six steps are an epoch
def test_a_stopped_run_ends_as_if_it_had_not_been(
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


def test_a_frozen_predictor_stays_as_it_is_and_its_state_is_not_saved(tmp_path: Path) -> None:
    frozen = replace(SMALL, frozen=True)
    graph, chosen = valid_graph(), settings()
    part = train(graph, predictor(), queries(graph), frozen, chosen, tmp_path / "run")
    next(part)
    part.close()  # type: ignore[attr-defined]
    assert not any("predictor" in name for name in load_file(tmp_path / "run/state.safetensors"))
    run(tmp_path / "whole", frozen)
    model = open_reasoner(tmp_path / "whole").model
    assert torch.equal(model.predictor.entities_ED, predictor().entities_ED)


def _stored(tmp_path: Path) -> list[str]:
    graph = valid_graph()
    graph.save(tmp_path / "graph")
    queries(graph).save(tmp_path / "train.queries")
    quick = pretraining({"rank": 4, "epochs": 1, "device": "cpu"})
    list(pretrain(graph, quick, tmp_path / "predictor"))
    options = (
        "--batch 32 --epochs 40 --negative-count 7 --validate-every 40 --patience 99 --heads 2 "
        "--feed-forward 16 --validation-queries 5 --device cpu"
    )
    predictor_and_queries = ["--predictor", str(tmp_path / "predictor")]
    predictor_and_queries += ["--queries", str(tmp_path / "train.queries")]
    return ["train", str(tmp_path / "graph"), *predictor_and_queries, *options.split(), "--out"]


_SAVES_OFTEN = (
    "import sys, clmpt.training.runs as e\n"
    "e.train.__defaults__ = (*e.train.__defaults__[:-1], 0.05)\n"
    "from clmpt.cli.main import main\n"
    "sys.exit(main(sys.argv[1:]))"
)


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SAVES_OFTEN, *_stored(tmp_path)]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    state = tmp_path / "killed" / "state.safetensors"
    seen: list[int] = []
    for kill in range(3):
        process = subprocess.Popen([*command, str(tmp_path / "killed")], stderr=subprocess.PIPE)
        deadline = time.monotonic() + 100
        while not state.exists() or state.stat().st_mtime_ns in seen:
            assert process.poll() is None, "the run ended before it could be stopped"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(0.03 * kill)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen.append(state.stat().st_mtime_ns)
    resumed = [*command, str(tmp_path / "killed"), "--resume"]
    subprocess.run(resumed, check=True, capture_output=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_the_best_weights_are_kept_and_patience_ends_the_run(tmp_path: Path) -> None:
    graph = valid_graph()
    chosen = settings(epochs=50, learning_rate=0.05, patience=2, validation_queries=10)
    list(train(graph, predictor(), queries(graph), SMALL, chosen, tmp_path / "run"))
    log = read_log(tmp_path / "run")
    values = [line["valid"]["mrr"] for line in log]
    best = int(np.argmax(values))
    assert len(values) == best + 3 < 50
    stored = open_reasoner(tmp_path / "run")
    assert stored.about["epoch"] == best + 1
    asked = QuerySet.open(tmp_path / "run" / "valid.queries").groups
    assert evaluate(NeuralReasoner(stored.model), asked, "again").mean == pytest.approx(max(values))


def test_validation_queries_are_a_fixed_part_of_those_given(tmp_path: Path) -> None:
    graph = valid_graph()
    protocol = Protocol(("train",), ("train", "valid"), 100)
    valid = QuerySet((sample(shape("2p"), graph, protocol, 30, 1),))
    chosen = settings(epochs=1, validation_queries=12)
    for name in ("first", "second"):
        list(train(graph, predictor(), queries(graph), SMALL, chosen, tmp_path / name, valid=valid))
    one, two = (QuerySet.open(tmp_path / n / "valid.queries") for n in ("first", "second"))
    assert len(one) == 12
    assert one.checksum == two.checksum


def test_loss_that_is_no_number_stops_and_keeps_the_last_good_weights(tmp_path: Path) -> None:
    graph, out = valid_graph(), tmp_path / "run"
    good = run(out / "good", epochs=1)
    assert math.isfinite(good[-1].loss)
    chosen = settings(learning_rate=1e30, epochs=50, validation_queries=10)
    bad = train(graph, predictor(), queries(graph), SMALL, chosen, out / "bad")
    with pytest.raises(TrainingError, match="What was saved before that is kept"):
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
def test_a_run_goes_on_only_with_what_it_was_begun_with(
    change: dict[str, Any], what: str, tmp_path: Path
) -> None:
    graph = valid_graph()
    first = train(graph, predictor(), queries(graph), SMALL, settings(), tmp_path / "run")
    next(first)
    first.close()  # type: ignore[attr-defined]
    count, seed = change.pop("count", 30), change.pop("predictor", 0)
    model_settings = replace(SMALL, **change.pop("model", {}))
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


def test_queries_of_another_graph_are_refused(tmp_path: Path) -> None:
    small = GraphBuilder(["a", "b"], ["r"])
    small.add("train", "a", "r", "b")
    graph = small.build()
    random = torch.randn(2, 8)
    tiny = ComplEx(random, random[:1].clone(), torch.tensor([-1]))
    with pytest.raises(DataError, match="Is it the right graph"):
        next(train(graph, tiny, queries(valid_graph()), SMALL, settings(), tmp_path / "run"))


def test_a_stored_reasoner_refuses_another_graph_and_damage(tmp_path: Path) -> None:
    run(tmp_path / "run", epochs=1)
    stored = open_reasoner(tmp_path / "run")
    stored.check_graph(valid_graph())
    with pytest.raises(WrongGraph, match="other entity names"):
        stored.check_graph(random_graph(False))
    about = (tmp_path / "run" / "reasoner.json").read_text()
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
        with pytest.raises(DataError, match="does not hold what it should"):
            open_reasoner(tmp_path / "run")
    (tmp_path / "run" / "reasoner.json").write_text(about)
    weights = (tmp_path / "run" / "weights.safetensors").read_bytes()
    (tmp_path / "run" / "weights.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(DataError, match="missing or damaged"):
        open_reasoner(tmp_path / "run")


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="Did you mean 'heads'"):
        reasoning({"haeds": 2})
    with pytest.raises(SettingError, match="'dropout' must be below 1"):
        reasoning({"dropout": 1.0})
    with pytest.raises(SettingError, match="'temperature' must be above 0"):
        training({"temperature": 0.0})
    with pytest.raises(SettingError, match="'negatives' must be one of query, batch, all"):
        training({"negatives": "some"})


# --- learning -------------------------------------------------------------------------------------


def towns() -> KnowledgeGraph:
    """200 people of ten towns of different sizes. Whom someone is related to depends on the town:
    mostly people of one other town, sometimes of a second."""
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


def test_clmpt_learns_to_answer_beyond_its_predictor(tmp_path: Path) -> None:
    graph = towns()
    quick = pretraining({"rank": 32, "epochs": 15, "batch": 200, "regularisation": 0.02})
    list(pretrain(graph, replace(quick, device="cpu"), tmp_path / "predictor"))
    stored = open_checkpoint(tmp_path / "predictor")
    held_out = Protocol(("train", "valid"), ("train", "valid", "test"), 100)
    asked = [sample(shape(name), graph, held_out, 300, 1) for name in ("2p", "2i", "pi", "2in")]
    hops = evaluate(HopByHop(stored.predictor, len(graph.relations)), asked, "hop by hop")
    list(
        train(
            graph,
            stored.predictor,
            queries(graph, 4000, ("1p", "2p", "2i", "pi", "2in")),
            Reasoning(encoder_layers=1, feed_forward=128, heads=4),
            settings(batch=256, epochs=14, learning_rate=3e-3, temperature=0.1, negatives="all"),
            tmp_path / "clmpt",
        )
    )
    model = open_reasoner(tmp_path / "clmpt").model
    learnt = evaluate(NeuralReasoner(model), asked, "CLMPT")
    chance = float(np.mean(1 / np.arange(1, len(graph.entities))))
    for own, other in zip(learnt.shapes, hops.shapes, strict=True):
        assert own.figures.mrr > other.figures.mrr, own.name
        assert own.figures.mrr > 2.5 * chance, own.name
    assert learnt.mean > 1.1 * hops.mean
