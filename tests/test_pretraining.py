"""Pre-training learns, and an interruption at any time does not change the result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from clmpt.cli.main import main
from clmpt.compute.tensor_files import open_tensors, save_tensors
from clmpt.errors import DataError, TrainingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.links import links_of
from clmpt.registry import PREDICTORS
from clmpt.storage.run_folder import RunFolder, is_finished, read_log
from clmpt.training.loop import Course, Validation, follow
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.runs import pretrain
from killing import interrupted_when, killed_three_times, saving_often
from tampering import without_checksums
from toy import random_graph


def circle(both_directions: bool = False) -> KnowledgeGraph:
    """Thirty places on a circle; steps of 1, 2 and 3, of which a few are held out.

    Three steps are one step and two steps: there is something to learn.
    """
    builder = GraphBuilder()
    rng = np.random.default_rng(0)
    for place in range(30):
        for step in (1, 2, 3):
            split = rng.choice(["train", "valid", "test"], p=[0.8, 0.1, 0.1])
            builder.add(split, f"p{place}", f"plus{step}", f"p{(place + step) % 30}")
            if both_directions:
                builder.add(split, f"p{(place + step) % 30}", f"minus{step}", f"p{place}")
    return builder.build()


def settings(**changes: Any) -> Any:
    return read_pretraining({"rank": 8, "batch": 16, "epochs": 4, "device": "cpu", **changes})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "weights.safetensors")


def assert_same_weights(first: Path, second: Path) -> None:
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name


def without_times(folder: Path) -> list[dict[str, Any]]:
    return [{**record, "seconds": None} for record in read_log(folder)]


LEARNING = {
    "complex": {"epochs": 60, "regularisation": 0.01},
    "distmult": {"epochs": 60, "regularisation": 0.01},
    "transe": {"epochs": 150, "learning_rate": 0.05, "margin": 3.0},
    "rotate": {"epochs": 150, "learning_rate": 0.05, "margin": 3.0},
    "rescal": {"epochs": 60, "regularisation": 0.01},
    "cp": {"epochs": 60, "regularisation": 0.05},
    "tucker": {"epochs": 60, "regularisation": 0.01},
}


@pytest.mark.parametrize("both_directions", [False, True])
@pytest.mark.parametrize("model", LEARNING)  # for ConvE see test_more_weights.py
def test_every_model_learns(model: str, both_directions: bool, tmp_path: Path) -> None:
    graph = circle(both_directions)
    chosen = settings(model=model, validate_every=5, patience=99, **LEARNING[model])
    losses = [progress.loss for progress in pretrain(graph, chosen, tmp_path / "run")]
    assert losses[-1] < 0.7 * losses[0]
    predictor = open_predictor(tmp_path / "run").predictor
    # Guessing among some 28 places puts a third of the answers into the first ten.
    assert evaluate_links(predictor, graph, "test").hits_at_10 > 0.6
    assert evaluate_links(predictor, graph, "train").hits_at_10 > 0.8


@pytest.mark.parametrize("model", ["complex", "distmult", "rescal", "cp", "tucker"])
def test_a_sample_of_entities_teaches_as_well(model: str, tmp_path: Path) -> None:
    graph = circle(False)
    chosen = settings(model=model, candidates=8, validate_every=5, patience=99, **LEARNING[model])
    list(pretrain(graph, chosen, tmp_path / "run"))
    predictor = open_predictor(tmp_path / "run").predictor
    assert evaluate_links(predictor, graph, "test").hits_at_10 > 0.6
    assert evaluate_links(predictor, graph, "train").hits_at_10 > 0.8


@pytest.mark.parametrize("model", ["complex", "rotate"])
def test_a_seed_gives_the_same_run(model: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        list(pretrain(circle(), settings(model=model, seed=3), tmp_path / name))
    list(pretrain(circle(), settings(model=model, seed=4), tmp_path / "other"))
    assert_same_weights(tmp_path / "first", tmp_path / "second")
    assert without_times(tmp_path / "first") == without_times(tmp_path / "second")
    assert not torch.equal(
        weights(tmp_path / "first")["entities_ED"], weights(tmp_path / "other")["entities_ED"]
    )


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_large_steps_on_several_threads_are_deterministic(model: str) -> None:
    rng = np.random.default_rng(0)
    builder = GraphBuilder([f"e{n}" for n in range(500)], ["r", "s"])
    builder.add_ids("train", rng.integers((500, 2, 500), size=(4000, 3)).astype(np.int32))
    graph = builder.build()
    chosen = settings(model=model, rank=64, batch=2000)
    threads, found = torch.get_num_threads(), []
    torch.set_num_threads(4)
    try:
        for _ in range(4):
            trainer = Pretrainer(fresh_predictor(graph, chosen), links_of(graph, "train"), chosen)
            for _ in range(3):
                trainer.step()
            found.append(trainer.state())
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(found[0][name], other[name]) for name in other)


@pytest.mark.parametrize(
    ("model", "candidates"), [*((name, 0) for name in PREDICTORS.names()), ("complex", 8)]
)
@pytest.mark.parametrize("stops", [[1], [9], [10, 3, 1]])  # nine steps are an epoch
def test_an_interrupted_run_ends_with_the_same_weights(
    model: str, candidates: int, stops: list[int], tmp_path: Path
) -> None:
    chosen = settings(model=model, decay="linear", candidates=candidates)
    list(pretrain(circle(), chosen, tmp_path / "whole"))
    for steps in stops:
        run = pretrain(circle(), chosen, tmp_path / "parts")
        assert len(list(islice(run, steps))) == steps
        run.close()  # as when leaving a for loop
    assert (tmp_path / "parts" / "state.safetensors").exists()
    rest = list(pretrain(circle(), chosen, tmp_path / "parts"))
    assert rest[0].step == sum(stops) + 1
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "parts")
    assert not (tmp_path / "parts" / "state.safetensors").exists()


def _stored(tmp_path: Path) -> Path:
    circle().save(tmp_path / "graph")
    return tmp_path / "graph"


LONG = {
    "rank": 16,
    "batch": 32,
    "epochs": 60,
    "validate_every": 10,
    "patience": 99,
    "device": "cpu",
}


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    graph = _stored(tmp_path)
    call = (
        "pretrain(KnowledgeGraph.open(sys.argv[1]), read_pretraining(json.loads(sys.argv[2])), "
        "sys.argv[3], save_seconds=SAVE_SECONDS)"
    )
    command = [*saving_often(call), str(graph), json.dumps(LONG)]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    killed_three_times(command, tmp_path / "killed")
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_save_and_say_how_to_resume(tmp_path: Path, number: int) -> None:
    graph, out = _stored(tmp_path), tmp_path / "run"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in LONG.items()]
    script = str(Path(sys.executable).with_name("clmpt"))
    command = [script, "pretrain", str(graph), "--out", str(out), *options]
    said = interrupted_when(lambda: read_log(out) if out.exists() else [], command, number)
    assert "Run the same command again to resume" in said
    # Saves are two minutes apart, so this one is from the signal.
    assert (out / "state.safetensors").exists()
    subprocess.run(command, check=True, capture_output=True)
    assert is_finished(out)


def test_ctrl_c_loses_no_step(tmp_path: Path) -> None:
    list(pretrain(circle(), settings(), tmp_path / "whole"))
    run = pretrain(circle(), settings(), tmp_path / "stopped")
    for _ in range(3):
        next(run)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        next(run)
    assert next(pretrain(circle(), settings(), tmp_path / "stopped")).step == 4
    list(pretrain(circle(), settings(), tmp_path / "stopped"))
    assert_same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_stopped_after_its_last_step_can_be_finished(tmp_path: Path) -> None:
    list(pretrain(circle(), settings(), tmp_path / "whole"))
    run = pretrain(circle(), settings(), tmp_path / "stopped")
    assert len(list(islice(run, 36))) == 36
    run.close()
    graph = _stored(tmp_path)
    options = "--rank 8 --batch 16 --epochs 4 --device cpu"
    assert main(["pretrain", str(graph), "--out", str(tmp_path / "stopped"), *options.split()]) == 0
    assert_same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_concurrent_runs_are_rejected_and_leftovers_of_a_kill_removed(tmp_path: Path) -> None:
    first = pretrain(circle(), settings(), tmp_path / "run")
    next(first)
    with pytest.raises(DataError, match="Another process"):
        next(pretrain(circle(), settings(), tmp_path / "run"))
    first.close()
    leftover = tmp_path / "run" / ".state.safetensors-abc.unfinished"
    leftover.write_bytes(b"half")
    list(pretrain(circle(), settings(), tmp_path / "run"))
    assert not leftover.exists()


def test_a_run_does_not_resume_with_other_facts_or_splits(tmp_path: Path) -> None:
    def graph(last: str) -> KnowledgeGraph:
        builder = GraphBuilder()
        for place in range(9):
            split = last if place == 8 else "train"
            builder.add(split, f"p{place}", "next", f"p{place + 1}")
        builder.add("valid", "p0", "next", "p2")
        return builder.build()

    run = pretrain(graph("train"), settings(), tmp_path / "run")
    next(run)
    run.close()
    with pytest.raises(DataError, match=r"graph\.edges"):
        next(pretrain(graph("valid"), settings(), tmp_path / "run"))


# --- the run folder -------------------------------------------------------------------------------


def test_a_run_folder_describes_itself(tmp_path: Path) -> None:
    list(pretrain(circle(), settings(seed=7), tmp_path / "run", source="somewhere"))
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["identity"]["settings"]["seed"] == 7
    assert set(about["versions"]) == {"clmpt", "python", "torch", "numpy"}
    assert about["source"] == "somewhere"
    assert about["threads"] == torch.get_num_threads()
    assert {"commit", "platform", "started"} <= set(about)
    log = read_log(tmp_path / "run")
    assert [record["epoch"] for record in log] == [1, 2, 3, 4]
    assert all(0 < record["valid"]["mrr"] <= 1 for record in log)


def test_the_best_epoch_is_kept_and_patience_ends_the_run(tmp_path: Path) -> None:
    # Validation MRR is 0.1, 0.3, 0.2, 0.3 (no better), so it stops there with a patience of two.
    said, kept = iter([0.1, 0.3, 0.2, 0.3, 0.9]), list[Any]()
    chosen, graph = settings(epochs=9), circle()
    learner = Pretrainer(fresh_predictor(graph, chosen), links_of(graph, "train"), chosen)
    an_epoch, run = learner.steps_per_epoch, RunFolder.create(tmp_path / "run", {}, "", Path.touch)

    def validate() -> Validation:
        return Validation(mrr := next(said), {"mrr": mrr})

    def keep(about: dict[str, Any]) -> None:
        kept.append((about["epoch"], learner.result.entities_ED.clone()))

    device = torch.device("cpu")
    seen = list(follow(run, learner, Course(9, 2, an_epoch, an_epoch, validate, keep, device)))
    assert (seen[-1].epoch, seen[-1].best) == (4, 0.3)
    assert [epoch for epoch, _ in kept] == [1, 2]
    list(pretrain(graph, settings(epochs=2), tmp_path / "two"))
    assert torch.equal(kept[-1][1], weights(tmp_path / "two")["entities_ED"])


def test_without_a_valid_split_the_last_epoch_is_kept(tmp_path: Path) -> None:
    list(pretrain(random_graph(False), settings(), tmp_path / "run"))
    checkpoint = open_predictor(tmp_path / "run")
    assert checkpoint.about["epoch"] == 4
    assert checkpoint.about["valid"] is None


def test_a_run_does_not_resume_with_other_settings(tmp_path: Path) -> None:
    run = pretrain(circle(), settings(), tmp_path / "run")
    next(run)
    run.close()
    with pytest.raises(DataError, match=r"settings\.rank: 8 there, 9 here"):
        next(pretrain(circle(), settings(rank=9), tmp_path / "run"))
    with pytest.raises(DataError, match=r"graph\."):
        next(pretrain(circle(True), settings(), tmp_path / "run"))


def test_a_finished_run_is_not_started_again(tmp_path: Path) -> None:
    list(pretrain(circle(), settings(), tmp_path / "run"))
    with pytest.raises(DataError, match="already finished"):
        next(pretrain(circle(), settings(), tmp_path / "run"))


def test_an_unrelated_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="already exists"):
        next(pretrain(circle(), settings(), tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_damaged_state_is_rejected(content: bytes | None, tmp_path: Path) -> None:
    run = pretrain(circle(), settings(), tmp_path / "run")
    next(run)
    run.close()
    state = tmp_path / "run" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-9] if content is None else content)
    with pytest.raises(DataError, match=r"state\.safetensors"):
        next(pretrain(circle(), settings(), tmp_path / "run"))


def test_an_unfinished_run_is_not_yet_a_checkpoint(tmp_path: Path) -> None:
    run = pretrain(circle(), settings(), tmp_path / "run")
    next(run)
    run.close()
    with pytest.raises(DataError, match="no trained weights yet"):
        open_predictor(tmp_path / "run")


@pytest.mark.parametrize("rate", [1e9, 1e15, 1e30])
def test_training_that_diverges_stops_and_keeps_no_bad_weights(rate: float, tmp_path: Path) -> None:
    chosen = settings(learning_rate=rate, epochs=50)
    with pytest.raises(TrainingError, match="lower learning rate"):
        list(pretrain(random_graph(False), chosen, tmp_path / "run", save_seconds=9e9))
    assert not (tmp_path / "run" / "weights.safetensors").exists()
    assert not (tmp_path / "run" / "state.safetensors").exists()


@pytest.mark.parametrize("change", ["rank", "missing", "tally"])
def test_a_state_of_another_run_is_rejected(change: str, tmp_path: Path) -> None:
    for name, rank in (("one", 8), ("two", 9)):
        run = pretrain(circle(), settings(rank=rank), tmp_path / name)
        next(run)
        run.close()
    state = without_checksums(tmp_path / "one") / "state.safetensors"
    tensors, about = open_tensors(state)
    if change == "rank":
        shutil.copy(tmp_path / "two" / "state.safetensors", state)
    elif change == "missing":
        save_tensors(state, {k: v for k, v in tensors.items() if "sum" not in k}, about)
    else:
        save_tensors(state, tensors, {**about, "steps_done": "x"})
    with pytest.raises(DataError, match="start again"):
        next(pretrain(circle(), settings(), tmp_path / "one"))


def test_a_graph_without_facts_is_rejected(tmp_path: Path) -> None:
    builder = GraphBuilder(["a", "b"], ["r"])
    builder.add("valid", "a", "r", "b")
    builder.add_ids("train", np.empty((0, 3), np.int32))
    with pytest.raises(TrainingError, match="no facts"):
        next(pretrain(builder.build(), settings(), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # from the compiler
def test_a_compiled_loss_is_the_same_loss() -> None:
    graph = circle()
    losses = []
    for chosen in (settings(), settings(compile=True)):
        trainer = Pretrainer(fresh_predictor(graph, chosen), links_of(graph, "train"), chosen)
        losses.append([trainer.step().item() for _ in range(12)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_bfloat16_is_close(model: str, tmp_path: Path) -> None:
    losses = [
        [p.loss for p in pretrain(circle(), settings(model=model, precision=p), tmp_path / p)][-1]
        for p in ("float32", "bfloat16")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
    distances = ("transe", "rotate")  # no matrix products, so nothing is rounded
    assert (losses[0] == losses[1]) is (model in distances)
