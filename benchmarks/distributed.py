"""Pre-training in one, two and four processes: time a step, and what they send each other.

    python benchmarks/distributed.py FB15k-237-betae [--rank 100] [--steps 20]

Bytes are counted where they are sent, not estimated. More processes than cores share these: what
is measured then is the price of working together, not a gain.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import torch

from clmpt.compute import distributed
from clmpt.compute.joining import is_launched, joined_processes
from clmpt.graph.opening import open_graph
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import links_of
from clmpt.training.pretrainer import Pretrainer

KINDS = {"full softmax": 0, "sampled": 1024}


def measure(options: argparse.Namespace) -> None:
    graph = open_graph(options.graph)
    for name, candidates in KINDS.items():
        given = {"rank": options.rank, "batch": 1000, "candidates": candidates, "device": "cpu"}
        settings = read_pretraining({**given, "averaging": 0.0})
        learner = Pretrainer(fresh_predictor(graph, settings), links_of(graph, "train"), settings)
        learner.step()
        distributed.wait_for_all()
        before, started = distributed.traffic.sent, time.perf_counter()
        for _ in range(options.steps):
            learner.step()
        seconds = (time.perf_counter() - started) / options.steps
        sent = (distributed.traffic.sent - before) / options.steps / 2**20
        if distributed.is_shown():
            print(f"{name:14} {distributed.processes():9} {1000 * seconds:11.0f} {sent:14.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graph")
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if is_launched():
        torch.set_num_threads(1)
        with joined_processes():
            measure(options)
        return
    print(f"{'loss':14} {'processes':>9} {'ms a step':>11} {'MB sent each':>14}", flush=True)
    torch.set_num_threads(1)
    measure(options)
    sys.stdout.flush()
    for number in (2, 4):
        words = ["--standalone", f"--nproc-per-node={number}", __file__, *sys.argv[1:]]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words], check=True, env=environment
        )


if __name__ == "__main__":
    main()
