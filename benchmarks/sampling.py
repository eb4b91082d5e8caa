"""Time and memory of `clmpt sample` for a training set of FB15k-237 as large as BetaE's.

python benchmarks/sampling.py [FOLDER]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "FB15k-237-betae"
SHAPES = [
    "1p",
    "2p",
    "3p",
    "2i",
    "3i",
    *(f"{name}=14968" for name in ["2in", "3in", "inp", "pin", "pni"]),
]


def resident(process: int) -> int:
    """Resident bytes of a process and its children; shared pages count for each."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    return pages * resource.getpagesize() + sum(resident(int(child)) for child in children)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "train.queries"
        command = [str(Path(sys.executable).with_name("clmpt")), "sample", str(folder), "--shapes"]
        start, most = time.perf_counter(), 0
        process = subprocess.Popen([*command, *SHAPES, "--count", "149689", "--out", str(out)])
        while process.poll() is None:
            most = max(most, resident(process.pid))
            time.sleep(0.05)
        print(f"time                {time.perf_counter() - start:8.1f} s")
        print(f"all processes       {most / 2**20:8.0f} MB")
        print(f"file                {out.stat().st_size / 2**20:8.0f} MB")


if __name__ == "__main__":
    main()
