"""What conditional passing saves: time and memory of training, as the paper defines it.

    python benchmarks/conditional.py [--paper]

Each model trains some steps in a process of its own, with conditional passing and without, in turn,
three times over. Saved is (without - with) / without, of a step's time and of what model,
optimizer and steps took of memory at most. Queries are made up in FB15k-237's proportions.
With --paper the model has the paper's measures, which takes about twenty minutes on two cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import torch

from clmpt.bench import RELATIONS, made_up_queries
from clmpt.config import Reasoning, Training
from clmpt.neural.devices import forget_peak_memory, peak_memory
from clmpt.neural.predictors.complex import ComplEx
from clmpt.neural.reasoners.models import fresh_reasoner
from clmpt.neural.training import Trainer

ENTITIES, BATCH, ROUNDS = 14505, 512, 3
SIZES = {"laptop": (200, 1, 1024, 12), "paper": (1000, 2, 8192, 2)}  # rank, layers, hidden, steps


def measure(size: str, reasoner: str, conditional: bool) -> None:
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
    settings = Reasoning(
        reasoner=reasoner,  # type: ignore[arg-type]
        conditional=conditional,
        encoder_layers=layers,
        feed_forward=hidden,
        frozen=reasoner == "lmpnn",  # as published
    )
    model = fresh_reasoner(predictor, settings, seed=0)
    trainer = Trainer(model, made_up_queries(ENTITIES), Training(batch=BATCH, device="cpu"))
    trainer.step()
    seconds = []
    for _ in range(steps):
        start = time.process_time()
        trainer.step()
        seconds.append(time.process_time() - start)
    print(json.dumps([statistics.median(seconds), peak_memory(device) - before]))


def asked(size: str, reasoner: str, conditional: bool) -> tuple[float, float]:
    words = [sys.executable, __file__, size, reasoner, str(int(conditional))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return float(seconds), float(memory)


def main() -> None:
    size = "paper" if "--paper" in sys.argv else "laptop"
    rank, layers, hidden, _ = SIZES[size]
    print(f"rank {rank}, {layers} layers, feed-forward {hidden}, batch {BATCH}; processor time")
    for reasoner in ("clmpt", "lmpnn"):
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for conditional in (True, False):
                found[conditional].append(asked(size, reasoner, conditional))
        for at, (what, unit) in enumerate((("time", 1.0), ("memory", 1e6))):
            with_c, without = (
                statistics.mean(run[at] for run in found[conditional]) / unit
                for conditional in (True, False)
            )
            saved = 100 * (without - with_c) / without
            unit_name = "s a step" if what == "time" else "MB"
            print(
                f"{reasoner}, {what}: {with_c:.2f} {unit_name} with, {without:.2f} without: "
                f"{saved:.1f} % saved"
            )


if __name__ == "__main__":
    if len(sys.argv) == 4:
        measure(sys.argv[1], sys.argv[2], bool(int(sys.argv[3])))
    else:
        main()
