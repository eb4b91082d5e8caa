"""What conditional passing saves: time and memory of training, as the paper defines it.

    python benchmarks/conditional.py [--paper]

Each model trains some steps in a process of its own, with conditional passing and without, in turn,
three times over. Saved is (without - with) / without, of a step's time and of what model,
optimizer and steps took of memory at most. First every node is updated in every layer, as
published; then only what can still reach the answer, as we do. Queries are made up in FB15k-237's
proportions. With --paper the model has the paper's measures: twenty minutes on two cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import torch

from clmpt.compute.devices import forget_peak_memory, peak_memory
from clmpt.experiments.speed import RELATIONS, made_up_queries
from clmpt.predictors.complex import ComplEx
from clmpt.settings import Training
from clmpt.training.trainer import Trainer
from models import fresh_reasoner, reasoning

ENTITIES, BATCH, ROUNDS = 14505, 512, 3
SIZES = {"laptop": (200, 1, 1024, 12), "paper": (1000, 2, 8192, 2)}  # rank, layers, hidden, steps


def measure(size: str, reasoner: str, conditional: bool, every: bool) -> None:
    rank, layers, hidden, steps = SIZES[size]
    device = torch.device("cpu")
    forget_peak_memory(device)
    before = peak_memory(device)
    random = torch.Generator().manual_seed(0)
    predictor = ComplEx(
        torch.randn(ENTITIES, 2 * rank, generator=random) * 0.1,
        torch.randn(RELATIONS, 2 * rank, generator=random) * 0.3,
        torch.arange(RELATIONS) ^ 1,
    )
    settings = reasoning(
        reasoner=reasoner,  # type: ignore[arg-type]
        conditional=conditional,
        encoder_layers=layers,
        feed_forward=hidden,
        frozen=reasoner == "lmpnn",  # as published
    )
    model = fresh_reasoner(predictor, settings, seed=0)
    trainer = Trainer(model, made_up_queries(ENTITIES), Training(batch=BATCH, device="cpu"))
    if every:
        trainer.passing = replace(trainer.passing, prune=False, share=False)
    trainer.step()
    seconds = []
    for _ in range(steps):
        start = time.process_time()
        trainer.step()
        seconds.append(time.process_time() - start)
    print(json.dumps([statistics.median(seconds), peak_memory(device) - before]))


def asked(size: str, reasoner: str, conditional: bool, every: bool) -> tuple[float, float]:
    words = [sys.executable, __file__, size, reasoner, str(int(conditional)), str(int(every))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return float(seconds), float(memory)


def main() -> None:
    size = "paper" if "--paper" in sys.argv else "laptop"
    rank, layers, hidden, _ = SIZES[size]
    print(f"rank {rank}, {layers} layers, feed-forward {hidden}, batch {BATCH}; processor time")
    for reasoner in ("clmpt", "lmpnn"):
        for every in (True, False):
            name = f"{reasoner}, {'every update' if every else 'what reaches the answer'}"
            show(name, size, reasoner, every)


def show(name: str, size: str, reasoner: str, every: bool) -> None:
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for conditional, runs in found.items():
            runs.append(asked(size, reasoner, conditional, every))
    for at, (what, scale, unit) in enumerate((("time", 1.0, "s a step"), ("memory", 1e6, "MB"))):
        with_c, without = (statistics.mean(run[at] for run in runs) for runs in found.values())
        saved = 100 * (without - with_c) / without
        print(
            f"{name}, {what}: {with_c / scale:.2f} {unit} with, {without / scale:.2f} without: "
            f"{saved:.1f} % saved",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) == 5:
        measure(sys.argv[1], sys.argv[2], sys.argv[3] == "1", sys.argv[4] == "1")
    else:
        main()
