"""Reasoners in several threads, and how many threads PyTorch gets."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
import torch
from torch import Tensor

from clmpt.compute.processors import available_processors
from clmpt.compute.threads import threads_for, torch_threads
from clmpt.logic.parser import parse
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QueryGroup
from models import fresh_reasoner, reasoning


def meeting(barrier: Barrier) -> None:
    """Waits for the other thread, for a limited time."""
    with contextlib.suppress(BrokenBarrierError):
        barrier.wait(5)


def test_two_threads_in_the_worst_interleaving_get_the_right_scores() -> None:
    """Both request a cache before either has one, and both lay out their query before either
    computes: a shared cache would be asked for rows that do not exist yet."""
    random = torch.Generator().manual_seed(0)
    predictor = ComplEx(
        torch.randn(9, 8, generator=random),
        torch.randn(3, 8, generator=random),
        torch.full((3,), -1),
    )
    model = fresh_reasoner(predictor, reasoning(heads=2, feed_forward=16))
    query = QueryGroup.single(parse("?y : #0(#4, ?x) & #1(?x, ?y)"))
    expected = model.reasoner().score([query])
    cache_wanted, laid_out = Barrier(2), Barrier(2)

    class Slow(Tensor):
        def new_empty(self, *arguments: int) -> Tensor:  # type: ignore[override]
            meeting(cache_wanted)
            return self.as_subclass(Tensor).new_empty(*arguments)

    reasoner = model.reasoner()
    reasoner.unit_ED = reasoner.unit_ED.as_subclass(Slow)  # type: ignore[assignment]
    model.register_forward_pre_hook(lambda *_: meeting(laid_out))
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(reasoner.score, [query]) for _ in range(2)]
        for scores in found:
            torch.testing.assert_close(scores.result().as_subclass(Tensor), expected)
    assert not cache_wanted.broken
    assert not laid_out.broken


# --- how many threads -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("products", "threads"),
    [(1e6, 1), (3e8, 1), (1.1e9, 2), (1e12, 4), (float("inf"), 4)],
)
def test_small_work_gets_one_thread_and_large_work_all(products: float, threads: int) -> None:
    assert threads_for(products, processors=4) == threads


def cgroup(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),  # one and a half: rounded up
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({}, 8),
    ],
)
def test_the_quota_of_a_container_is_respected(
    files: dict[str, str], processors: int, tmp_path: Path
) -> None:
    assert available_processors(cgroup(tmp_path, files), processors=8) == processors


def test_there_is_at_least_one_processor() -> None:
    assert available_processors() >= 1


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()

    def fails() -> None:
        with torch_threads(3):
            assert torch.get_num_threads() == 3
            raise KeyError

    checks: list[Callable[[], None]] = [fails]
    for check in checks:
        with pytest.raises(KeyError):
            check()
    assert torch.get_num_threads() == before


def test_python_programs_prepare_pytorch_unless_the_user_says_otherwise() -> None:
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "THP_MEM_ALLOC_ENABLE")
    program = (
        "import os, sys, clmpt\n"
        "clmpt.KnowledgeGraph\n"
        "assert 'OMP_WAIT_POLICY' not in os.environ\n"
        "clmpt.load\n"
        "assert 'torch' in sys.modules\n"
        f"print(*(os.environ[name] for name in {names}))\n"
    )
    bare = {name: value for name, value in os.environ.items() if name not in names}
    for more, expected in (({}, "PASSIVE 5000 1"), ({"GOMP_SPINCOUNT": "7"}, "PASSIVE 7 1")):
        command = [sys.executable, "-c", program]
        found = subprocess.run(
            command, env={**bare, **more}, capture_output=True, text=True, check=True, timeout=120
        )
        assert found.stdout.strip() == expected
