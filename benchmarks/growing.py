"""The world without a twentieth of its entities, then with them: an update beside a new fit.

python benchmarks/growing.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from clmpt.world import FACTS

SHARE = 0.05


def main() -> None:
    facts = [line.split("\t") for line in FACTS.read_text(encoding="utf-8").splitlines()]
    names = sorted({name for head, _, tail in facts for name in (head, tail)})
    gone = set(np.random.default_rng(0).choice(names, int(SHARE * len(names)), replace=False))
    with tempfile.TemporaryDirectory() as folder:
        out, before = Path(folder), Path(folder) / "before.tsv"
        kept = [fact for fact in facts if fact[0] not in gone and fact[2] not in gone]
        before.write_text("".join("\t".join(fact) + "\n" for fact in kept), encoding="utf-8")
        print(f"{len(names):,} entities, at first without {len(gone):,} of them")
        show("the smaller graph", before, out / "model")
        show("updated", FACTS, out / "model")
        show("from scratch", FACTS, out / "fresh")


def show(name: str, facts: Path, out: Path) -> None:
    started = time.perf_counter()
    command = [sys.executable, "-m", "clmpt", "fit", str(facts), "--out", str(out), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    made = json.loads(done.stdout)
    reports = {"hybrid": made["report"], **made["parts"], "beam search": made["beam search"]}
    figures = ", ".join(f"{part} {100 * found['mean']:.1f}" for part, found in reports.items())
    print(f"{name}: {time.perf_counter() - started:.0f} s, mean MRR × 100: {figures}", flush=True)


if __name__ == "__main__":
    main()
