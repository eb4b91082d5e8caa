"""What conditional passing saves: time and memory of training, as the paper defines it.

    python benchmarks/conditional.py [--paper]

Each model trains for some steps in a process of its own, alternating with and without conditional
passing, three times. The saving is (without - with) / without, of the time per step and of the peak
memory of model, optimizer and steps. First with every node updated in every layer, as published;
then only with updates that can reach the answer, as in this package. Queries are random, in
FB15k-237's proportions. With --paper the model has the paper's size: twenty minutes on two cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from clmpt.compute.devices import forget_peak_memory, peak_memory
from clmpt.experiments.speed import Size, made_up_basis, made_up_queries
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.message_passing.clmpt import CLMPT
from clmpt.reasoners.message_passing.layout import QueryBatch, lay_out_queries
from clmpt.reasoners.message_passing.lmpnn import LMPNN
from clmpt.reasoners.model import GradientModel, build_model, read_reasoning
from clmpt.settings import Training
from clmpt.training.trainer import Trainer

ENTITIES, BATCH, ROUNDS = 14505, 512, 3
SIZES = {"laptop": (200, 1, 1024, 12), "paper": (1000, 2, 8192, 2)}  # rank, layers, hidden, steps


class EveryUpdate(CLMPT):
    """CLMPT as published: every node is updated in every layer, even if no answer needs it."""

    def lay_out(self, groups: Sequence[QueryGroup]) -> QueryBatch:
        return lay_out_queries(groups, replace(self.passing(share=False), prune=False))


class EveryUpdateLMPNN(LMPNN):
    lay_out = EveryUpdate.lay_out


PRUNED = {"clmpt": "clmpt", "lmpnn": "lmpnn"}
EVERY = {"clmpt": "conditional:EveryUpdate", "lmpnn": "conditional:EveryUpdateLMPNN"}


def measure(size: str, reasoner: str, conditional: bool, every: bool) -> None:
    rank, layers, hidden, steps = SIZES[size]
    device = torch.device("cpu")
    forget_peak_memory(device)
    before = peak_memory(device)
    own = {"encoder_layers": layers} if reasoner == "clmpt" else {}
    chosen = read_reasoning(
        {
            "reasoner": (EVERY if every else PRUNED)[reasoner],
            "conditional": conditional,
            "feed_forward": hidden,
            **own,
        }
    )
    model = build_model(made_up_basis(Size(rank, {}, ENTITIES)), chosen, seed=0)
    assert isinstance(model, GradientModel)
    trainer = Trainer(model, made_up_queries(ENTITIES), Training(batch=BATCH, device="cpu"))
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
            name = f"{reasoner}, {'every update' if every else 'needed updates'}"
            show(name, size, reasoner, every)


def show(name: str, size: str, reasoner: str, every: bool) -> None:
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for conditional, runs in found.items():
            runs.append(asked(size, reasoner, conditional, every))
    for at, (what, scale, unit) in enumerate((("time", 1.0, "s per step"), ("memory", 1e6, "MB"))):
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
