"""Commands that torchrun, srun or Kubernetes start: restarts, several machines, clear refusals."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from clmpt.cli.main import main
from clmpt.errors import SettingError
from clmpt.storage.run_folder import is_finished, read_log
from service_process import free_port
from test_pretraining import circle

GUIDE = Path(__file__).parents[1] / "docs" / "how-to" / "processes.md"
EPOCHS = 20  # enough for a kill to come in the middle
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


def assert_weights_of_one(tmp_path: Path, out: str, epochs: int = 4) -> None:
    """The run's weights are those of a single process."""
    assert main(pretrain(tmp_path, "alone", epochs)[2:]) == 0
    one, other = (load_file(tmp_path / name / "weights.safetensors") for name in ("alone", out))
    for name, tensor in one.items():
        assert (other[name] - tensor).abs().max() < 1e-3, name


def test_torchrun_restarts_a_killed_worker_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    words = pretrain(tmp_path, "killed", EPOCHS)
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
    assert_weights_of_one(tmp_path, "killed", epochs=EPOCHS)


def block_with(word: str) -> str:
    """The block of the documents that has a word."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if word in block)
    return str(found)


def with_programs(tmp_path: Path, **texts: str) -> dict[str, str]:
    """An environment in which some programs are scripts of ours, and `clmpt` is this one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    own = str(Path(sys.executable).parent)
    return {"PATH": os.pathsep.join([str(folder), own, os.environ["PATH"]])}


def chosen_by(tmp_path: Path, name: str) -> tuple[str, str]:
    """What a user puts in place of GRAPH and FOLDER, here with options."""
    words = pretrain(tmp_path, name)
    return words[3], " ".join(words[words.index("--out") + 1 :])


# What srun does: as many tasks as there are, each with its number.
SRUN = """
for number in $(seq 0 $((SLURM_NTASKS - 1))); do
  SLURM_PROCID=$number SLURM_LOCALID=$number "$@" > "$SRUN_OUTPUT/$number.txt" & tasks+=" $!"
done
for task in $tasks; do wait "$task" || exit 1; done"""


def test_the_slurm_script_of_the_documents_is_one_run(tmp_path: Path) -> None:
    graph, folder = chosen_by(tmp_path, "slurm")
    script = block_with("#SBATCH").replace("GRAPH", graph).replace("FOLDER", folder)
    environment = with_programs(tmp_path, srun=SRUN, scontrol="echo 127.0.0.1; echo other")
    environment |= {"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1", "SRUN_OUTPUT": str(tmp_path)}
    job = run(["bash", "-c", script.replace("29400", str(free_port()))], **environment)
    _, told = job.communicate(timeout=120)
    assert job.returncode == 0, told
    assert is_finished(tmp_path / "slurm")
    assert "validation MRR" in (tmp_path / "0.txt").read_text()
    assert (tmp_path / "1.txt").read_text() == ""  # one of them talks


def test_the_kubernetes_job_of_the_documents_is_one_run(tmp_path: Path) -> None:
    service, job = yaml.safe_load_all(block_with("kind: Job"))
    pods, (container,) = (
        job["spec"]["template"]["spec"],
        job["spec"]["template"]["spec"]["containers"],
    )
    name, subdomain = job["metadata"]["name"], service["metadata"]["name"]
    assert service["spec"] == {"clusterIP": "None", "selector": {"job-name": name}}
    assert pods["subdomain"] == subdomain
    (script,) = container["args"]
    first = f"{name}-0.{subdomain}:29400"  # the name that a cluster gives to the first pod
    for written, ours in (
        *((first, f"127.0.0.1:{free_port()}"), ("--nproc-per-node 4", "--nproc-per-node 1")),
        *zip(("/data/GRAPH", "/data/FOLDER"), chosen_by(tmp_path, "job"), strict=True),
    ):
        assert script.count(written) == 1
        script = script.replace(written, ours)
    environment = with_programs(tmp_path)
    running = [
        run([*container["command"], script], JOB_COMPLETION_INDEX=str(index), **environment)
        for index in range(job["spec"]["completions"])
    ]
    for pod in running:
        _, told = pod.communicate(timeout=120)
        assert pod.returncode == 0, told
    assert is_finished(tmp_path / "job")
    assert_weights_of_one(tmp_path, "job")


def test_a_port_that_is_taken_is_named_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        joined = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        port = str(taken.getsockname()[1])
        task = run([sys.executable, *pretrain(tmp_path, "taken")], MASTER_PORT=port, **joined)
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
