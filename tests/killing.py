"""Kills processes in the middle of their work, and checks that it did."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SAVE_SECONDS = 0.05
_LONGEST = 100.0  # seconds that a test waits


def saving_often(call: str) -> list[str]:
    """A command that runs a call of `pretrain` or `train` to its end, saving often.

    Further arguments are `sys.argv[1:]` in the call, which may use `SAVE_SECONDS`.
    """
    script = (
        "import json, sys\n"
        "from clmpt.graph.knowledge_graph import KnowledgeGraph\n"
        "from clmpt.predictors.predictor_folder import open_predictor\n"
        "from clmpt.predictors.predictor import read_pretraining\n"
        "from clmpt.queries.store import QuerySet\n"
        "from clmpt.reasoners.model import read_reasoning\n"
        "from clmpt.settings import Training, read_table\n"
        "from clmpt.training.runs import pretrain, train\n"
        f"for _ in {call.replace('SAVE_SECONDS', str(SAVE_SECONDS))}: pass\n"
    )
    return [sys.executable, "-c", script]


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Waits for a condition; fails if the process ends first."""
    deadline = time.monotonic() + _LONGEST
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def killed_when(condition: Callable[[], object], command: Sequence[str], later: float = 0) -> None:
    """Starts a command and kills it `later` seconds after the condition is met."""
    process = started(command)
    wait_for(condition, process)
    time.sleep(later)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"


def interrupted_when(
    condition: Callable[[], object], command: Sequence[str], number: int = signal.SIGINT
) -> str:
    """Starts a command, interrupts it with Ctrl-C or SIGTERM, and returns its standard error."""
    process = started(command)
    wait_for(condition, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=_LONGEST)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    return said


def killed_three_times(command: Sequence[str], out: Path) -> None:
    """Trains into `out`, is killed after each of three saves, and then finishes."""
    killed_after_saves(command, out, 3)


def killed_after_saves(command: Sequence[str], out: Path, kills: int) -> None:
    saved_again = SavedAgain(out / "state.safetensors")
    for kill in range(kills):
        killed_when(saved_again, [*command, str(out)], later=0.03 * kill)
        saved_again.note()
    subprocess.run([*command, str(out)], check=True, capture_output=True)


class SavedAgain:
    """Whether a file has been written again since the last time this was true."""

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, set[int]()

    def __call__(self) -> bool:
        return self.path.exists() and self.path.stat().st_mtime_ns not in self.seen

    def note(self) -> None:
        self.seen.add(self.path.stat().st_mtime_ns)
