"""Several processes give what one gives: the same weights, the same figures, the same files."""

from __future__ import annotations

import shutil
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

from clmpt.cli.main import main
from clmpt.compute import distributed
from clmpt.compute.row_shards import RowShard
from clmpt.compute.sharded_files import save_sharded
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.calibration import calibrate
from clmpt.predictors.predictor import fresh_predictor
from clmpt.queries.links import links_of
from clmpt.storage.run_folder import RunFolder, identity_of, read_log
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.runs import pretrain
from clmpt.training.state import load_state
from several_processes import in_processes
from test_pretraining import circle, settings

KINDS = {
    "full": {},
    "sampled": {"candidates": 6},
    "groups": {"candidates": 6, "group": 5, "batch": 16},
    "few": {"batch": 2},  # fewer questions in a step than processes
    "relations": {"relation_weight": 0.5, "model": "distmult"},
    "tables": {"divided": "tables"},
    "sampled tables": {"divided": "tables", "candidates": 6},
    "core": {"model": "tucker"},
    "network": {"model": "conve", "candidates": 6},
    "matrices": {"model": "rescal", "divided": "tables"},
    "halves": {"model": "cp", "divided": "tables", "candidates": 6},
    "negatives": {"model": "rotate", "learning_rate": 0.01},
    "negatives, tables": {"model": "rotate", "learning_rate": 0.01, "divided": "tables"},
}
SHARDS_OF_30 = {1: [30], 2: [15, 15], 3: [10, 10, 10], 4: [8, 8, 8, 6]}


def weights(
    chosen: dict[str, Any], steps: int = 12
) -> tuple[list[float], list[np.ndarray[Any, Any]]]:
    """The losses of some steps, and the tables after them."""
    graph, table = circle(), settings(initial_scale=0.3, **chosen)
    learner = Pretrainer(fresh_predictor(graph, table).double(), links_of(graph, "train"), table)
    losses = [float(learner.step()) for _ in range(steps)]
    return losses, [parameter.detach().numpy() for parameter in learner.result.parameters()]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_any_number_of_processes_gives_the_same_weights(number: int) -> None:
    found = in_processes(number, lambda: {kind: weights(KINDS[kind]) for kind in KINDS})
    for kind, chosen in KINDS.items():
        losses, tables = weights(chosen)
        ours = [one[kind] for one in found]
        assert [len(shards[0]) for _, shards in ours] == SHARDS_OF_30[number]
        for their_losses, _ in ours:
            assert their_losses == pytest.approx(losses, rel=1e-6), kind
        divided = chosen.get("divided") == "tables"
        for at, table in enumerate(tables):
            shards = [theirs[at] for _, theirs in ours]
            is_divided = at == 0 or (divided and at == 1)
            wholes = [np.concatenate(shards)] if is_divided else shards
            for whole in wholes:
                np.testing.assert_allclose(whole, table, rtol=1e-5, atol=1e-7, err_msg=kind)


def test_a_large_table_starts_alike_in_any_number_of_processes() -> None:
    names = [f"e{number}" for number in range(150_000)]  # drawn in three blocks of 65,536 rows
    builder = GraphBuilder(names, ["next"])
    builder.add_ids("train", np.array([[0, 0, 1]], np.int32))
    graph, table = builder.build(), settings(rank=1, initial_scale=1.0)

    def tables() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        made = fresh_predictor(graph, table)
        return made.entities_ED.detach().numpy(), made.relations_SW.detach().numpy()

    whole_ED, whole_SW = tables()
    assert len(np.unique(whole_ED)) > 0.99 * whole_ED.size  # no block repeats another
    found = in_processes(3, tables)
    np.testing.assert_array_equal(np.concatenate([shard for shard, _ in found]), whole_ED)
    for _, relations_SW in found:
        np.testing.assert_array_equal(relations_SW, whole_SW)


def few() -> KnowledgeGraph:
    """A graph of five entities: of four processes the last has none."""
    facts = [(f"e{n}", "next", f"e{(n + 1) % 5}") for n in range(5)]
    return KnowledgeGraph.from_triples(facts)


def test_a_process_without_rows_takes_part() -> None:
    def trained(kind: str) -> tuple[list[float], np.ndarray[Any, Any]]:
        graph, table = few(), settings(initial_scale=0.3, **KINDS[kind])
        learner = Pretrainer(fresh_predictor(graph, table).double(), links_of(graph), table)
        losses = [float(learner.step()) for _ in range(5)]
        return losses, learner.result.entities_ED.detach().numpy()

    kinds = "full", "sampled", "negatives", "sampled tables"
    found = in_processes(4, lambda: {kind: trained(kind) for kind in kinds})
    for kind in kinds:
        losses, entities = trained(kind)
        assert [len(one[kind][1]) for one in found] == [2, 2, 1, 0]
        np.testing.assert_allclose(
            np.concatenate([one[kind][1] for one in found]), entities, rtol=1e-5, atol=1e-7
        )
        assert all(one[kind][0] == pytest.approx(losses, rel=1e-6) for one in found)


def test_the_best_of_all_shards_are_the_best_of_the_table() -> None:
    scores_BN = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    for count in (1, 4, 9):  # more than a shard has, more than all have

        def best(count: int = count) -> tuple[list[Any], list[Any], list[Any]]:
            shard = RowShard.own(5)
            own_BN = scores_BN[:, shard.start : shard.stop]
            values_BC, rows_BC = shard.best(own_BN, count)
            return values_BC.tolist(), rows_BC.tolist(), shard.logsumexp(own_BN).tolist()

        wanted = scores_BN.topk(min(count, 5))
        for values, rows, normaliser in in_processes(4, best):  # the last has no rows
            assert values == wanted.values.tolist()
            assert rows == wanted.indices.tolist()
            assert normaliser == pytest.approx(scores_BN.logsumexp(1).tolist())


def test_shards_are_calibrated_as_the_whole_table_is() -> None:
    graph = circle()
    predictor = fresh_predictor(graph, settings(initial_scale=0.3))

    def calibrated(divided: bool) -> list[Any]:
        predictor.calibration_SC.zero_()
        calibrate(predictor.own_part() if divided else predictor, graph, 0)
        return predictor.calibration_SC.tolist()

    one = calibrated(False)
    assert any(map(any, one))
    for found in in_processes(4, lambda: calibrated(True)):
        np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 4), (4, 1), (1, 3)])
def test_a_state_is_divided_anew_for_any_number_of_processes(
    tmp_path: Path, before: int, after: int
) -> None:
    chosen = settings(candidates=6, epochs=8, divided="tables")

    def some_steps() -> bool:
        run = pretrain(circle(), chosen, tmp_path / "run", save_seconds=1e9)
        list(islice(run, 5))
        run.close()
        return True

    def restored(divided: str) -> dict[str, np.ndarray[Any, Any]]:
        table = replace(chosen, divided=divided)
        learner = Pretrainer(fresh_predictor(circle(), table), links_of(circle(), "train"), table)
        run = RunFolder.find(tmp_path / "run", identity_of(tmp_path / "run"))
        assert run is not None
        found = load_state(run, learner.shards)
        assert found is not None
        learner.restore(found[0], int(found[1]["steps_done"]))
        assert learner.steps_done == 5
        return {name: tensor.numpy() for name, tensor in learner.state().items()}

    in_processes(before, some_steps)
    first = restored("entities")
    divisions = "entities", "tables"
    parts = in_processes(after, lambda: {one: restored(one) for one in divisions})
    for division in divisions:
        for name, whole in first.items():
            pieces = [part[division][name] for part in parts]
            alone = not whole.ndim or (len(pieces[0]) == len(whole))
            np.testing.assert_array_equal(pieces[0] if alone else np.concatenate(pieces), whole)


def test_of_two_states_that_a_kill_left_the_newer_is_resumed(tmp_path: Path) -> None:
    def steps_until(last: int) -> int:
        run = pretrain(circle(), settings(), tmp_path / "run", save_seconds=1e9)
        steps = list(islice(run, last))
        run.close()
        return steps[0].step

    in_processes(2, lambda: steps_until(5))
    (older,) = (tmp_path / "run").glob("state-*")
    shutil.copytree(older, tmp_path / "older")
    assert steps_until(3) == 6
    assert not older.exists()  # the state of a single process took its place, after eight steps
    shutil.copytree(tmp_path / "older", older)
    assert steps_until(1) == 9


def test_a_state_that_cannot_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    def refused() -> bool:
        tensors, shards = {"a": torch.zeros(1, 2)}, {"a": RowShard.own(2)}
        with pytest.raises(DataError, match="nowhere"):
            save_sharded(tmp_path / "nowhere" / "file", tensors, shards, {})
        return True

    (tmp_path / "nowhere").touch()
    assert in_processes(2, refused) == [True, True]


def test_a_damaged_state_is_refused_in_one_line(tmp_path: Path) -> None:
    def some_steps() -> bool:
        run = pretrain(circle(), settings(), tmp_path / "run", save_seconds=1e9)
        list(islice(run, 5))
        run.close()
        return True

    in_processes(2, some_steps)
    (state,) = (tmp_path / "run").glob("state-*")
    file = sorted(state.glob("*.safetensors"))[1]
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)

    def refused() -> bool:
        with pytest.raises(DataError, match=r"state-.*is damaged. Remove it to start"):
            list(pretrain(circle(), settings(), tmp_path / "run"))
        return True

    assert in_processes(3, refused) == [True] * 3
    assert refused()


@pytest.mark.parametrize("number", [2, 3])
def test_figures_of_shards_are_those_of_the_whole_table(number: int) -> None:
    chosen = settings(initial_scale=0.3)

    def found() -> Any:
        return evaluate_links(fresh_predictor(circle(), chosen), circle(), "test")

    assert in_processes(number, found) == [found()] * number


@pytest.mark.parametrize("number", [2, 3])
def test_figures_of_several_processes_are_those_of_one(number: int) -> None:
    graph = circle()
    predictor = fresh_predictor(graph, settings(initial_scale=0.3))
    one = evaluate_links(predictor, graph, "test")
    assert in_processes(number, lambda: evaluate_links(predictor, graph, "test")) == [one] * number


def test_a_run_of_several_processes_is_one_run(tmp_path: Path) -> None:
    graph, chosen = circle(), settings()
    list(pretrain(graph, chosen, tmp_path / "one"))
    in_processes(3, lambda: len(list(pretrain(graph, chosen, tmp_path / "three"))))
    records = [
        [{**record, "seconds": 0} for record in read_log(tmp_path / name)]
        for name in ("one", "three")
    ]
    assert [r["step"] for r in records[0]] == [r["step"] for r in records[1]]  # logged once
    one, three = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "three"))
    for name, tensor in one.items():
        torch.testing.assert_close(three[name], tensor, rtol=1e-3, atol=1e-4)


def test_a_run_resumes_with_another_number_of_processes(tmp_path: Path) -> None:
    graph, chosen = circle(), settings()
    list(pretrain(graph, chosen, tmp_path / "one"))

    def begin() -> int:
        run = pretrain(graph, chosen, tmp_path / "other")
        steps = len(list(islice(run, 5)))
        run.close()
        return steps

    assert in_processes(3, begin) == [5, 5, 5]
    rest = list(pretrain(graph, chosen, tmp_path / "other"))
    assert rest[0].step == 6
    one, other = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "other"))
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4)


def test_what_no_process_uses_has_no_gradient() -> None:
    """So that an optimizer leaves it alone, as it does in a single process."""

    def gradients() -> list[Any]:
        one, some, none = (torch.ones(2, requires_grad=True) for _ in range(3))
        loss = one.sum() + (some.sum() if distributed.is_shown() else 0)
        loss.backward()
        distributed.sum_gradients([one, some, none])
        return [None if p.grad is None else p.grad.tolist() for p in (one, some, none)]

    assert in_processes(2, gradients) == [[[2.0, 2.0], [1.0, 1.0], None]] * 2


def test_shares_cover_everything_once() -> None:
    def own() -> list[list[int]]:
        return [list(range(count)[distributed.own_share(count)]) for count in (0, 1, 2, 7, 100)]

    shares = in_processes(3, own)
    for number, count in enumerate((0, 1, 2, 7, 100)):
        together = [one for share in shares for one in share[number]]
        assert together == list(range(count))
        sizes = [len(share[number]) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_processes_that_disagree_are_refused(tmp_path: Path) -> None:
    def differs() -> str:
        seed = 0 if distributed.is_shown() else 1
        with pytest.raises(SettingError, match="do not agree") as refusal:
            list(pretrain(circle(), settings(seed=seed), tmp_path / "run"))
        return str(refusal.value)

    assert len(set(in_processes(2, differs))) == 1
    assert not (tmp_path / "run").exists()


def test_an_error_of_another_process_is_named() -> None:
    def ended() -> None:
        if not distributed.is_shown():
            raise DataError("The disk of this machine is full.")
        distributed.wait_for_all()

    troubles = in_processes(2, ended, failing=True)
    assert "process 2 of 2: The disk of this machine is full" in troubles[0]
    assert "Run the same command again" in troubles[0]


def test_a_failure_before_the_first_step_is_everyones(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()

    def refused() -> bool:
        with pytest.raises(Exception, match="run"):
            list(pretrain(circle(), settings(), tmp_path / "run"))
        return True

    assert in_processes(2, refused) == [True, True]


# --- commands -------------------------------------------------------------------------------------


def words(tmp_path: Path, out: str, *more: str) -> list[str]:
    chosen = ["--rank", "8", "--batch", "16", "--epochs", "4", "--device", "cpu"]
    return ["pretrain", str(tmp_path / "graph"), "--out", str(tmp_path / out), *chosen, *more]


def wait_for_log(log: Path) -> None:
    """Until a record was written."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if log.exists() and log.stat().st_size:
            return
        time.sleep(0.05)
    raise AssertionError("Nothing was logged.")


def test_the_command_starts_its_processes_and_says_which_was_killed(tmp_path: Path) -> None:
    circle().save(tmp_path / "graph")
    command = [sys.executable, "-m", "clmpt"]
    long = words(tmp_path, "two", "--epochs", "4000", "--patience", "4000", "--processes", "2")
    running = subprocess.Popen([*command, *long], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log = tmp_path / "two" / "log.jsonl"
    wait_for_log(log)
    listed = subprocess.run(
        ["pgrep", "-f", f"clmpt pretrain.*{tmp_path}"], capture_output=True, text=True, check=False
    )
    own = [int(line) for line in listed.stdout.split() if int(line) != running.pid]
    assert len(own) == 2
    subprocess.run(["kill", "-9", str(own[1])], check=True)
    _, told = running.communicate(timeout=60)
    assert running.returncode not in (0, None)
    assert b"Traceback" not in told
    assert b"was killed. Run the same command again" in told


def test_other_commands_are_not_started_by_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    circle().save(tmp_path / "graph")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["info", str(tmp_path / "graph")]) == 2
    assert "works in a single process" in capsys.readouterr().err
