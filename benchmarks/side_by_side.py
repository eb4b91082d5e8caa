"""The processor time of N runs at once, compared with one alone.

    python benchmarks/side_by_side.py [N]

Pre-trains ComplEx of rank 64 on the bundled world, as `clmpt fit` does, first alone and then N
times at once (4 by default), each in its own `clmpt` process. With threads that sleep while they
wait, and no more of them than a step is worth, N runs take about N times the processor time of one.
For comparison, the same with one thread per processor that spins while it waits.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clmpt.world import FACTS

SPINNING = {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "infinite"}
OPTIONS = "--rank 64 --epochs 20 --batch 256 --patience 99 --device cpu"


def run(count: int, folder: Path, environment: dict[str, str], fixed: bool) -> tuple[float, float]:
    """Processor and wall seconds of `count` runs at once."""
    script = "import sys; from clmpt.cli.main import main; sys.exit(main(sys.argv[1:]))"
    if fixed:  # one thread per processor, whatever the work
        script = (
            "import clmpt.training.loop as loop; loop.threads_for = lambda _products: 10**6; "
        ) + script
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", script, "pretrain", str(FACTS), *OPTIONS.split()),
                *("--out", str(folder / f"{count}-{number}-{fixed}")),
            ],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.wait() == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - started


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as name:
        for title, environment, fixed in (
            ("ours", {}, False),
            ("a spinning thread per processor", SPINNING, True),
        ):
            alone, _ = run(1, Path(name), environment, fixed)
            together, wall = run(count, Path(name), environment, fixed)
            print(
                f"{title}: one run {alone:.1f} s of processor time, {count} at once "
                f"{together:.1f} s ({together / alone:.2f} times as much; {wall:.1f} s elapsed)",
                flush=True,
            )


if __name__ == "__main__":
    main()
