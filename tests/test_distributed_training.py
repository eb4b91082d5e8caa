"""Training, measuring, sampling and fitting in several processes: the results are those of one."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from clmpt.compute import distributed
from clmpt.errors import SettingError
from clmpt.evaluation.measuring import evaluate
from clmpt.experiments.fit_settings import fit_settings
from clmpt.experiments.fitting import fit_in_stages
from clmpt.logic.shapes import shape
from clmpt.queries.store import QuerySet
from clmpt.reasoners.exact import ExactReasoner
from clmpt.sampling.making import make_queries, partial_folder
from clmpt.sampling.sampler import MOST_HARD, Protocol
from clmpt.settings import Reasoning
from clmpt.storage.run_folder import read_log
from clmpt.training.runs import train
from clmpt.training.trainer import Trainer
from models import changed, fresh_reasoner, reasoning
from several_processes import in_processes
from small_training import SHAPES, SMALL, predictor, queries, settings, valid_graph
from toy import random_graph

LMPNN = reasoning(reasoner="lmpnn", feed_forward=16, dropout=0.2)
STEPS: dict[str, tuple[Reasoning, dict[str, Any]]] = {
    "dropout": (changed(SMALL, dropout=0.3), {}),
    "batch negatives": (changed(SMALL, dropout=0.1, norm="post"), {"negatives": "batch"}),
    "all negatives": (SMALL, {"negatives": "all", "clip": 0.1}),
    "frozen": (changed(SMALL, frozen=True, dropout=0.2), {"mixing": "shape"}),
    "rows": (changed(SMALL, dropout=0.2), {"entity_rows": "step", "clip": 0.1}),
    "lmpnn": (LMPNN, {}),
    "few": (SMALL, {"batch": 2}),  # fewer queries in a step than processes
    "divided": (changed(SMALL, dropout=0.2), {"divided": "weights", "clip": 0.1}),
    "divided, frozen": (changed(SMALL, frozen=True), {"divided": "weights"}),
    "divided, rows": (SMALL, {"divided": "weights", "entity_rows": "step", "clip": 0.1}),
    "divided, few": (SMALL, {"divided": "weights", "batch": 2}),
    "divided lmpnn": (LMPNN, {"divided": "weights", "negatives": "batch"}),
}


Weights = tuple[list[float], dict[str, np.ndarray[Any, Any]]]


@cache
def asked() -> Any:
    return queries(random_graph(False)).groups


def weights(kind: str, steps: int = 3) -> Weights:
    model, chosen = STEPS[kind]
    made = fresh_reasoner(predictor().double(), model, seed=0).double()
    trainer = Trainer(made, asked(), settings(**chosen))
    losses = [float(trainer.step()) for _ in range(steps)]
    with trainer.whole():
        return losses, {name: tensor.numpy().copy() for name, tensor in made.state_dict().items()}


@cache
def weights_of_one() -> dict[str, Weights]:
    return {kind: weights(kind) for kind in STEPS}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_any_number_of_processes_trains_the_same_weights(number: int) -> None:
    one = weights_of_one()  # before the processes are forked, so that they find the queries
    found = in_processes(number, lambda: {kind: weights(kind) for kind in STEPS})
    for kind, (losses, tables) in one.items():
        for their_losses, theirs in (process[kind] for process in found):
            assert their_losses == pytest.approx(losses, rel=1e-9), kind
            for name, table in tables.items():
                close = {"rtol": 1e-6, "atol": 1e-8, "err_msg": f"{kind}, {name}"}
                np.testing.assert_allclose(theirs[name], table, **close)


def test_divided_weights_are_a_part_of_all() -> None:
    def rows() -> list[int]:
        made = fresh_reasoner(predictor(), SMALL, seed=0)
        trainer = Trainer(made, asked(), settings(divided="weights"))
        trainer.step()
        state = trainer.state()
        return [len(t) for name, t in sorted(state.items()) if name in trainer.shards]

    whole = [
        len(table)
        for name, table in sorted(_state().items())
        if table.dim() and "buffer" not in name
    ]
    assert np.sum(in_processes(3, rows), 0).tolist() == whole


def _state() -> dict[str, torch.Tensor]:
    made = fresh_reasoner(predictor(), SMALL, seed=0)
    trainer = Trainer(made, asked(), settings())
    trainer.step()
    return trainer.state()


def test_only_the_rows_of_a_step_are_touched() -> None:
    made = fresh_reasoner(predictor(), SMALL, seed=0)
    group = asked()[0].take(slice(0, 2))
    trainer = Trainer(made, [group], settings(entity_rows="step", negative_count=3))
    before = made.predictor.entities_ED.detach().clone()
    candidates = trainer.candidates([group])
    trainer.step()
    assert candidates.negative_QK is not None
    used = {*group.entities.flatten().tolist(), *candidates.positive_Q.tolist()}
    used |= set(candidates.negative_QK.flatten().tolist())
    moved = (made.predictor.entities_ED != before).any(1).nonzero().flatten().tolist()
    assert set(moved) == used
    assert len(used) < len(before)


def report(scores_at_once: int) -> dict[str, Any]:
    graph = valid_graph()
    protocol = Protocol(("train",), ("train", "valid"), MOST_HARD)
    asked = make_groups(graph, protocol)
    reasoner = ExactReasoner(graph.view("train"))
    found = evaluate(
        *(reasoner, asked, None, graph.view("train", "valid"), ("train",)),
        scores_at_once=scores_at_once,
    )
    return found.as_plain()


def make_groups(graph: Any, protocol: Protocol) -> tuple[Any, ...]:
    from clmpt.sampling.sampler import sample

    return tuple(sample(shape(name), graph, protocol, 20, seed=0) for name in SHAPES)


@pytest.mark.parametrize("number", [2, 3])
def test_a_report_of_several_processes_is_that_of_one(number: int) -> None:
    at_once = 7 * 40  # chunks of seven queries
    assert in_processes(number, lambda: report(at_once)) == [report(at_once)] * number


def test_several_processes_sample_the_queries_of_one(tmp_path: Path) -> None:
    graph, protocol = random_graph(False), Protocol(("train",), ("train",))
    wanted = [(shape(name), 30) for name in SHAPES]
    one = make_queries(graph, wanted, protocol, tmp_path / "one.queries")

    def together() -> QuerySet:
        share = distributed.Together()
        return make_queries(graph, wanted, protocol, tmp_path / "three.queries", share=share)

    for found in in_processes(3, together):
        assert found.checksum == one.checksum
    assert (tmp_path / "three.queries").read_bytes() == (tmp_path / "one.queries").read_bytes()
    assert not partial_folder(tmp_path / "three.queries").exists()


def test_processes_that_are_asked_for_other_queries_are_refused(tmp_path: Path) -> None:
    def differs() -> str:
        protocol = Protocol(("train",), ("train",))
        count = 30 if distributed.is_shown() else 31
        made = (random_graph(False), [(shape("1p"), count)], protocol, tmp_path / "own.queries")
        with pytest.raises(SettingError, match="do not agree") as refusal:
            make_queries(*made, share=distributed.Together())
        return str(refusal.value)

    assert len(set(in_processes(2, differs))) == 1
    assert not list(tmp_path.iterdir())


def test_a_training_run_of_several_processes_is_one_run(tmp_path: Path) -> None:
    graph, asked = valid_graph(), queries(valid_graph())
    model, chosen = changed(SMALL, dropout=0.2), settings(validation_queries=10)

    def run(name: str, stop: int | None = None, divided: str = "nothing") -> int:
        how = replace(chosen, divided=divided)
        steps = train(graph, predictor(), asked, model, how, tmp_path / name)
        taken = len(list(islice(steps, stop)))
        steps.close()
        return taken

    run("one")
    in_processes(3, lambda: run("three"))
    in_processes(2, lambda: run("other", 4))
    run("other")  # resumed by a single process
    in_processes(3, lambda: run("divided", 4, "weights"))
    in_processes(2, lambda: run("divided", 6, "weights"))
    run("divided")
    logs = [[(r["step"], r["valid"]) for r in read_log(tmp_path / n)] for n in ("one", "three")]
    assert [step for step, _ in logs[0]] == [step for step, _ in logs[1]]
    one, *others = (
        load_file(tmp_path / name / "weights.safetensors")
        for name in ("one", "three", "other", "divided")
    )
    for other in others:
        for name, tensor in one.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-5)


def test_a_signal_to_one_process_stops_all(tmp_path: Path) -> None:
    graph, asked_for = valid_graph(), queries(valid_graph())
    chosen = settings(validation_queries=10)

    def stopped() -> bool:
        steps = train(graph, predictor(), asked_for, SMALL, chosen, tmp_path / "run")
        list(islice(steps, 2))
        if not distributed.is_shown():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            list(steps)
        return True

    assert in_processes(2, stopped) == [True, True]
    assert not (tmp_path / "run" / "calibration.json").exists()  # made after the last step only
    steps = list(train(graph, predictor(), asked_for, SMALL, chosen, tmp_path / "run"))
    assert steps[0].step == 3
    assert (tmp_path / "run" / "calibration.json").exists()


def test_a_fit_of_several_processes_is_that_of_one(tmp_path: Path) -> None:
    graph = valid_graph()
    tables: dict[str, dict[str, Any]] = {
        "fitting": {"queries": 20, "test_queries": 5, "tries": 2},
        "pretraining": {"rank": 4, "epochs": 8, "batch": 64, "device": "cpu"},
        "training": {"steps": 6, "batch": 16, "validate_every": 3, "device": "cpu"},
    }
    chosen = fit_settings(graph, tables)

    def fitted(name: str) -> tuple[Any, Any]:
        made = fit_in_stages(graph, tmp_path / name, chosen)
        return made.report, made.chosen

    one = fitted("one")
    for report, best in in_processes(2, lambda: fitted("two")):
        assert best == one[1]
        assert [row["shape"] for row in report["shapes"]] == [
            row["shape"] for row in one[0]["shapes"]
        ]
        assert report["mean"] == pytest.approx(one[0]["mean"], abs=0.02)
    names = [
        sorted(str(file.relative_to(tmp_path / name)) for file in (tmp_path / name).rglob("*"))
        for name in ("one", "two")
    ]
    assert names[0] == names[1]
    assert in_processes(2, lambda: fitted("two")) == [fitted("two")] * 2  # opened at once
    shutil.rmtree(tmp_path / "two")
