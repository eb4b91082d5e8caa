"""Commands that torchrun, srun or Kubernetes start: restarts, several machines, clear refusals."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from clmpt.errors import SettingError
from clmpt.storage.run_folder import is_finished, read_log
from service_process import free_port
from test_pretraining import circle

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
CHOSEN = ["--rank", "8", "--batch", "16", "--device", "cpu", "--patience", "10000"]


def pretrain(tmp_path: Path, out: str, epochs: int = 4) -> list[str]:
    if not (tmp_path / "graph").exists():
        circle().save(tmp_path / "graph")
    where = [str(tmp_path / "graph"), "--out", str(tmp_path / out), "--epochs", str(epochs)]
    return ["-m", "clmpt", "pretrain", *where, *CHOSEN]


def run(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_same_weights(first: Path, second: Path) -> None:
    one, other = (load_file(folder / "weights.safetensors") for folder in (first, second))
    for name, tensor in one.items():
        assert (other[name] - tensor).abs().max() < 1e-3, name


def test_torchrun_restarts_a_killed_worker_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    words = pretrain(tmp_path, "killed", epochs=60)
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    running = run([*TORCHRUN, *options, *words])
    log, deadline = tmp_path / "killed" / "log.jsonl", time.monotonic() + 60
    while not log.exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True)
    os.kill(int(random.choice(workers.stdout.split())), signal.SIGKILL)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 0, told
    assert is_finished(tmp_path / "killed")
    steps = [record["step"] for record in read_log(tmp_path / "killed")]
    assert steps == sorted(set(steps))  # nothing twice, nothing missing
    alone = run([sys.executable, *pretrain(tmp_path, "alone", epochs=60)])
    alone.communicate(timeout=120)
    assert_same_weights(tmp_path / "alone", tmp_path / "killed")


def test_two_torchruns_are_two_machines(tmp_path: Path) -> None:
    """As in the documents, with two agents on this machine instead of one on each of two."""
    endpoint = f"127.0.0.1:{free_port()}"
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    command = [*TORCHRUN, *options, "--rdzv-endpoint", endpoint, *pretrain(tmp_path, "two")]
    machines = [run(command), run(command)]
    for machine in machines:
        _, told = machine.communicate(timeout=120)
        assert machine.returncode == 0, told
    run([sys.executable, *pretrain(tmp_path, "alone")]).communicate(timeout=60)
    assert_same_weights(tmp_path / "alone", tmp_path / "two")


def slurm(tmp_path: Path, number: int, of: int, port: int) -> subprocess.Popen[str]:
    """A task as srun starts it, with the line that the documents have."""
    line = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID " + " ".join(
        [sys.executable, *pretrain(tmp_path, "slurm")]
    )
    environment = {"SLURM_PROCID": str(number), "SLURM_NTASKS": str(of), "SLURM_LOCALID": "0"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return run(["bash", "-c", line], **environment)


def test_tasks_of_srun_find_each_other(tmp_path: Path) -> None:
    port = free_port()
    tasks = [slurm(tmp_path, number, 2, port) for number in range(2)]
    shown, told = tasks[0].communicate(timeout=120)
    assert tasks[0].returncode == 0, told
    assert "validation MRR" in shown
    quiet, _ = tasks[1].communicate(timeout=60)
    assert quiet == ""  # one of them talks
    assert is_finished(tmp_path / "slurm")


def test_a_port_that_is_taken_is_named_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        task = slurm(tmp_path, 0, 2, taken.getsockname()[1])
        _, told = task.communicate(timeout=120)
    assert task.returncode == 2
    lines = [line for line in told.splitlines() if line.startswith("clmpt:")]
    assert len(lines) == 1
    assert "cannot reach each other" in lines[0]
    assert "in use" in lines[0]
    assert "Traceback" not in told


def test_a_build_without_gloo_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import distributed

    from clmpt.compute.joining import joined_processes

    monkeypatch.setattr(distributed, "is_gloo_available", lambda: False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingError, match="built without Gloo"), joined_processes():
        raise AssertionError
