"""Trackers: what they are told, that nothing is told twice, and nothing without being asked."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import clmpt
from clmpt.cli.main import main
from clmpt.errors import SettingError
from clmpt.predictors.predictor import read_pretraining
from clmpt.storage.run_folder import read_log
from clmpt.storage.sealing import remove_listed
from clmpt.training.runs import pretrain
from clmpt.training.trackers import TrackedRun
from clmpt.training.tracking import figures_of, tracked
from killing import killed_when, wait_for
from several_processes import in_processes
from small_experiment import arguments
from toy import random_graph

Captured = pytest.CaptureFixture[str]
QUICK = ("--rank", "4", "--epochs", "5", "--batch", "64", "--device", "cpu")
SETTINGS = read_pretraining({"rank": 4, "epochs": 5, "batch": 64, "device": "cpu"})


def words(home: Path, out: Path, *more: str) -> list[str]:
    return ["pretrain", str(home / "NELL-betae"), "--out", str(out), *QUICK, *more]


def told_by_log(out: Path) -> dict[int, dict[str, float]]:
    return {record["step"]: figures_of(record) for record in read_log(out)}


class Listener:
    """A tracker in memory that keeps what it is told in a file, as one on another machine would."""

    def __init__(self, run: TrackedRun, fails_at: int = -1) -> None:
        self.path, self.fails_at = run.folder.parent / "told.jsonl", fails_at
        self.path.touch()
        self.closed = False
        self.settings = dict(run.settings)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    @property
    def last_step(self) -> int:
        return max((one["step"] for one in self.told), default=-1)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        if step == self.fails_at:
            self.fails_at = -1
            raise ConnectionError("nobody there")
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, **figures}) + "\n")

    def close(self) -> None:
        self.closed = True


# --- the seam -------------------------------------------------------------------------------------


def test_every_log_entry_is_told_once_however_often_training_stops(tmp_path: Path) -> None:
    """Interrupted without saved state, training logs its first steps again; nobody is told."""
    graph, out = random_graph(True), tmp_path / "run"
    listeners: list[Listener] = []

    def opened(run: TrackedRun) -> Listener:
        listeners.append(Listener(run))
        return listeners[-1]

    for stop in (7, 12, 10_000):
        with tracked(out, "mine", {"mine": opened}) as look:
            for now in pretrain(graph, SETTINGS, out, save_seconds=1e9):
                look()
                if now.step == stop:
                    break
        remove_listed(out / "state.safetensors")  # leaving the loop saved it; a kill would not
    assert [one["step"] for one in listeners[0].told] == list(told_by_log(out))
    figures = {one.pop("step"): one for one in listeners[0].told}
    for step, wanted in told_by_log(out).items():
        assert {k: v for k, v in figures[step].items() if k != "seconds"} == {
            k: v for k, v in wanted.items() if k != "seconds"
        }
    assert {"loss", "learning_rate", "epoch"} <= figures[step].keys()
    assert all(listener.closed for listener in listeners)
    assert listeners[0].settings["settings/rank"] == 4


def test_a_tracker_that_fails_is_told_later_and_training_goes_on(tmp_path: Path) -> None:
    out, fails_at = tmp_path / "run", _second(tmp_path)

    def train() -> None:
        with tracked(out, "mine", {"mine": lambda run: Listener(run, fails_at)}) as look:
            for _ in pretrain(random_graph(True), SETTINGS, out):
                look()

    with pytest.warns(UserWarning, match=rf"mine was not told of step {fails_at} .*nobody there"):
        train()
    told = [json.loads(line)["step"] for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert told == list(told_by_log(out))


def _second(folder: Path) -> int:
    """The second step that a run logs."""
    out = folder / "other"
    for _ in pretrain(random_graph(True), SETTINGS, out):
        pass
    return list(told_by_log(out))[1]


def test_one_of_several_processes_tells(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def work() -> int:
        seen: list[Listener] = []

        def opened(run: TrackedRun) -> Listener:
            seen.append(Listener(run))
            return seen[-1]

        with tracked(out, "mine", {"mine": opened}) as look:
            for _ in pretrain(random_graph(True), SETTINGS, out):
                look()
        return len(seen)

    assert in_processes(2, work) == [1, 0]
    told = [json.loads(line)["step"] for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert told == list(told_by_log(out))


def test_another_run_s_log_is_not_told(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for _ in pretrain(random_graph(True), SETTINGS, out):
        pass
    with (
        pytest.raises(clmpt.ClmptError, match="other settings"),
        tracked(out, "mine", {"mine": Listener}),
    ):
        next(pretrain(random_graph(False), SETTINGS, out))
    assert not (tmp_path / "told.jsonl").exists()


# --- asking for one -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_written(
    home: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    told = f"Install it: pip install clmpt[{name}]"
    assert main(words(home, tmp_path / "run", "--track", name)) == 2
    assert told in capsys.readouterr().err
    assert main(arguments(home, tmp_path / "run", "--track", name)) == 2
    assert told in capsys.readouterr().err
    fit = ["fit", str(home / "facts.csv"), "--out", str(tmp_path / "run"), "--track", name]
    assert main(fit) == 2
    assert told in capsys.readouterr().err
    with pytest.raises(clmpt.ClmptError, match="is not installed"):
        clmpt.pretrain(random_graph(True), tmp_path / "run", track=name)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_refused(home: Path, tmp_path: Path, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(words(home, tmp_path / "run", "--track", "wand"))
    assert "invalid choice: 'wand'" in capsys.readouterr().err
    with pytest.raises(SettingError, match="There is no tracker 'wand'"):
        clmpt.pretrain(random_graph(True), tmp_path / "run", track="wand")


def test_no_tracker_is_loaded_or_written_to_unless_asked(home: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from clmpt.cli.main import main\n"
        f"assert main({words(home, tmp_path / 'run')}) == 0\n"
        "print({'tensorboard', 'wandb', 'mlflow'} & set(sys.modules))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.endswith("set()\n"), found.stderr
    assert not [path for path in (tmp_path / "run").iterdir() if path.is_dir()]


# --- TensorBoard ----------------------------------------------------------------------------------


def events_in(folder: Path) -> tuple[Counter[tuple[str, int]], dict[tuple[str, int], float], str]:
    """How often each figure of a step was written, the figures, and the settings."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    counts, figures, settings = Counter[tuple[str, int]](), {}, ""
    for path in sorted(folder.glob("*tfevents*")):
        for event in loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.tag == "settings/text_summary":
                    settings += value.tensor.string_val[0].decode()
                else:
                    key = (value.tag, event.step)
                    counts[key] += 1
                    figures[key] = value.tensor.float_val[0]
    return counts, figures, settings


def test_tensorboard_has_what_the_log_has(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    assert main(words(home, out, "--track", "tensorboard")) == 0
    counts, figures, settings = events_in(out / "tensorboard")
    wanted = {
        (name, step): value
        for step, entry in told_by_log(out).items()
        for name, value in entry.items()
    }
    assert figures == pytest.approx(wanted)
    assert set(counts.values()) == {1}
    assert "| settings/rank | 4 |" in settings
    assert main(["check", str(out)]) == 0


def test_tensorboard_has_every_step_once_after_a_kill(home: Path, tmp_path: Path) -> None:
    """Killed before any state was saved, the same command logs all of its steps again."""
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    command = words(home, out, "--track", "tensorboard")
    command[command.index("--epochs") + 1] = "60"

    def logged(count: int) -> bool:
        log = out / "log.jsonl"
        return log.exists() and len(log.read_bytes().splitlines()) >= count

    for count in (3, 6):
        killed_when(lambda count=count: logged(count), [sys.executable, "-m", "clmpt", *command])  # type: ignore[misc]
        assert not list(out.glob("state*"))
    before, _, _ = events_in(out / "tensorboard")
    assert len(before) > 3
    assert main(command) == 0
    counts, _, settings = events_in(out / "tensorboard")
    assert set(counts.values()) == {1}
    assert {step for name, step in counts if name == "loss"} == set(told_by_log(out))
    assert settings.count("| settings/rank | 4 |") == 1
    assert len(list((out / "tensorboard").iterdir())) >= 2


def test_a_finished_run_can_be_told_afterwards(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    assert main(words(home, out)) == 0
    assert not (out / "tensorboard").exists()
    for _ in range(2):
        assert main(words(home, out, "--track", "tensorboard")) == 0
    counts, _, _ = events_in(out / "tensorboard")
    assert {step for name, step in counts if name == "loss"} == set(told_by_log(out))
    assert set(counts.values()) == {1}


def test_every_training_of_an_experiment_is_tracked(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    grid = ("--set", "training.learning_rate=0.001,0.01")
    assert main(arguments(home, out, *grid, "--track", "tensorboard")) == 0
    folders = [*out.glob("predictors/*"), *out.glob("reasoners/*")]
    assert len(folders) == 3
    for folder in folders:
        counts, figures, _ = events_in(folder / "tensorboard")
        assert {step for name, step in counts if name == "loss"} == set(told_by_log(folder))
    assert ("valid/shapes/2p", 8) in figures
    assert len(list(out.rglob("*tfevents*"))) == 3


# --- Weights & Biases, MLflow ---------------------------------------------------------------------


def run_twice(home: Path, out: Path, name: str, **environment: str) -> None:
    """A tracked run that is killed once, and finished by the same command."""
    command = [sys.executable, "-m", "clmpt", *words(home, out, "--track", name)]
    command[command.index("--epochs") + 1] = "40"
    log = out / "log.jsonl"
    process = subprocess.Popen(command, env={**os.environ, **environment})
    wait_for(lambda: log.exists() and len(log.read_bytes().splitlines()) >= 3, process)  # type: ignore[arg-type]
    process.kill()
    assert process.wait() == -9
    subprocess.run(command, env={**os.environ, **environment}, check=True)


def wandb_records(path: Path) -> list[Any]:
    """The records of an offline run: LevelDB's log format after a header of seven bytes."""
    protocol = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    content, at, part, found = path.read_bytes(), 7, b"", []
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        if not kind:
            break
        part += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = protocol.Record()
            record.ParseFromString(part)
            found.append(record)
            part = b""
    return found


def test_wandb_offline_has_every_step_at_most_once_and_sends_nothing(
    home: Path, tmp_path: Path
) -> None:
    pytest.importorskip("wandb")
    out = tmp_path / "run"
    run_twice(home, out, "wandb", WANDB_MODE="offline", WANDB_DIR="", WANDB_PROJECT="")
    files = sorted(out.glob("wandb/offline-run-*/*.wandb"))
    records = [record for path in files for record in wandb_records(path)]
    steps = [
        int(item.value_json)
        for record in records
        if record.WhichOneof("record_type") == "history"
        for item in record.history.item
        if "_step" in (item.key, *item.nested_key)
    ]
    log = told_by_log(out)
    assert max(Counter(steps).values()) == 1
    # A kill between noting and sending may lose one step, and what was in the way to the disk.
    assert set(steps) <= set(log)
    assert {*list(log)[-5:]} <= set(steps)
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert len({run.run_id for run in runs}) == 1
    assert runs[0].project == "clmpt"
    assert "settings/rank" in {update.key for update in runs[0].config.update}
    assert not runs[0].git.remote_url
    assert not list(out.rglob("requirements.txt"))


def test_mlflow_has_every_step_once_after_a_kill(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    out, store = tmp_path / "run", tmp_path / "mlruns"
    where = {"MLFLOW_TRACKING_URI": store.as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    run_twice(home, out, "mlflow", **where)
    (metric,) = store.rglob("metrics/loss")
    steps = [int(line.split()[2]) for line in metric.read_text().splitlines()]
    assert steps == list(told_by_log(out))
    assert len(list(store.rglob("metrics/valid/mrr"))) == 1
    assert (metric.parents[1] / "params" / "settings" / "rank").read_text() == "4"
    assert (metric.parents[1] / "tags" / "mlflow.runName").read_text() == "/".join(out.parts[-3:])
