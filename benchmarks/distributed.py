"""One, two and four processes: time a step, what they send each other, and memory.

    python benchmarks/distributed.py speed FB15k-237-betae [--rank 100] [--steps 20]
    python benchmarks/distributed.py memory [--entities 1000000] [--rank 64]

Bytes are counted where they are sent, and the time of communication is that of Gloo's own events
in PyTorch's profiler, waiting for the slowest process included. More processes than cores share
these: what is measured then is the price of working together, not a gain. Beside it stands what
`cost_model.py` says, given the speeds that were measured just before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from clmpt.compute import distributed
from clmpt.compute.devices import forget_peak_memory, peak_memory
from clmpt.compute.joining import joined_processes
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import links_of
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Training, read_table
from clmpt.training.loop import Learner
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.trainer import Trainer
from cost_model import Job, step_of
from speeds import speeds_here

NUMBERS = (1, 2, 4)
PRETRAINING: dict[str, dict[str, Any]] = {
    "pretrain, all entities": {},
    "pretrain, K = 1024": {"candidates": 1024},
    "pretrain, K = 1024, groups of 250": {"candidates": 1024, "group": 250},
    "pretrain, K = 1024, tables divided": {"candidates": 1024, "divided": "tables"},
}
TRAINING: dict[str, dict[str, Any]] = {
    "train, frozen table": {"frozen": True},
    "train, frozen table, weights divided": {"frozen": True, "divided": "weights"},
    "train, rows of a step": {"frozen": False, "entity_rows": "step"},
}


def learners(graph: KnowledgeGraph, rank: int) -> Iterator[tuple[str, Learner]]:
    same: dict[str, Any] = {"rank": rank, "batch": 1000, "averaging": 0.0, "device": "cpu"}
    for name, chosen in PRETRAINING.items():
        settings = read_pretraining({**same, **chosen})
        predictor = fresh_predictor(graph, settings)
        yield name, Pretrainer(predictor, links_of(graph, "train"), settings)
    entities, relations = len(graph.entities), len(graph.relations)
    tables = ComplEx.initial(entities, relations, rank, 0.1, torch.Generator().manual_seed(0))
    whole = ComplEx(*tables, torch.full((relations,), -1))
    protocol = Protocol(("train",), ("train",))
    asked = [sample(shape(name), graph, protocol, 2000, 0) for name in ("2p", "2i", "pin")]
    for name, chosen in TRAINING.items():
        frozen = chosen["frozen"]
        reasoning = read_reasoning({"heads": 4, "feed_forward": 512, "frozen": frozen})
        model = build_model(Basis(graph, whole), reasoning, 0)
        given = {"batch": 256, "device": "cpu", **chosen}
        given.pop("frozen")
        yield name, Trainer(model, asked, read_table(Training, given))  # type: ignore[arg-type]


def speed(options: argparse.Namespace) -> None:
    graph = open_graph(options.graph)
    for name, learner in learners(graph, options.rank):
        learner.step()
        learner.step()
        expected = predicted(graph, learner)
        distributed.wait_for_all()
        before, started = distributed.traffic.sent, time.perf_counter()
        for _ in range(options.steps):
            learner.step()
        seconds = (time.perf_counter() - started) / options.steps
        sent = (distributed.traffic.sent - before) / options.steps
        talking, sent_by_fsdp = talk(learner.step, min(options.steps, 10))
        if distributed.is_shown():
            print(
                f"{name:37} {distributed.processes():9} {1000 * seconds:9.0f} "
                f"{(sent + sent_by_fsdp) / 2**20:12.2f} {talking:13.0%}  {expected}",
                flush=True,
            )


def predicted(graph: KnowledgeGraph, learner: Learner) -> str:
    """Time, bytes and communication of a step by the cost model; only of a sampled softmax."""
    if not isinstance(learner, Pretrainer) or not learner.settings.candidates:
        return ""
    settings, links = learner.settings, learner.links
    width, number = learner.predictor.entities_ED.shape[1], distributed.processes()
    rows = len(learner.predictor.relations_SW) * learner.predictor.relation_shard.parts
    job = Job(
        *(len(graph.entities), rows, links.facts, len(links), width, settings.batch),
        *(settings.candidates, settings.group, settings.divided),
    )
    group = settings.group or settings.batch
    compared = settings.candidates + round(group * links.facts / len(links))
    speeds = speeds_here(graph, settings.batch // number, compared, width)
    step = step_of(job, 1, number, speeds)
    return f"{1000 * step.seconds:9.0f} {step.sent / 2**20:12.2f} {step.communication:13.0%}"


def talk(step: Callable[[], Any], steps: int) -> tuple[float, float]:
    """The share of a step that is communication, and the bytes that FSDP sends in a step."""
    if distributed.processes() == 1:
        return 0.0, 0.0
    started = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for _ in range(steps):
            step()
    seconds = time.perf_counter() - started
    events = profiled.events() or []
    talking = sum(e.time_range.elapsed_us() for e in events if e.name.startswith("gloo:")) / 1e6
    whole = {"c10d::_allgather_base_": 0, "c10d::_reduce_scatter_base_": 1}  # only FSDP uses these
    numbers = sum(prod(e.input_shapes[whole[e.name]]) for e in events if e.name in whole)
    number = distributed.processes()
    return talking / seconds, 4 * numbers * (number - 1) / number / steps


def memory(options: argparse.Namespace) -> None:
    """A table of many rows, its optimizer's state and some steps, above what the graph takes."""
    random = np.random.default_rng(0)
    names = [f"e{number}" for number in range(options.entities)]
    builder = GraphBuilder(names, [f"r{number}" for number in range(20)])
    facts = random.integers((options.entities, 20, options.entities), size=(200_000, 3))
    builder.add_ids("train", facts.astype(np.int32))
    graph, cpu = builder.build(), torch.device("cpu")
    links = links_of(graph, "train")
    given = {"rank": options.rank, "batch": 1000, "candidates": 1024, "device": "cpu"}
    settings = read_pretraining({**given, "averaging": 0.0})
    forget_peak_memory(cpu)
    before = peak_memory(cpu)
    learner = Pretrainer(fresh_predictor(graph, settings), links, settings)
    for _ in range(10):
        learner.step()
    found = distributed.from_all((peak_memory(cpu) - before) / 2**20)
    own = max(distributed.from_all(learner.predictor.entities_ED.nbytes)) / 2**20
    if distributed.is_shown():
        print(f"{distributed.processes():9} {own:17.0f} {max(found):29.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    kinds = parser.add_subparsers(required=True)
    for name, run in (("speed", speed), ("memory", memory)):
        kind = kinds.add_parser(name)
        kind.set_defaults(run=run)
        kind.add_argument("--steps", type=int, default=20)
        kind.add_argument("--rank", type=int, default=100 if name == "speed" else 64)
        if name == "speed":
            kind.add_argument("graph")
        else:
            kind.add_argument("--entities", type=int, default=1_000_000)
    options = parser.parse_args()
    if "RANK" in os.environ:  # torchrun has started this process
        torch.set_num_threads(1)
        with joined_processes():
            options.run(options)
        return
    if options.run is speed:
        columns = f" {'ms a step':>9} {'MB sent each':>12} {'communication':>13} "
        print(f"{'':47} {'measured':^36}  {'by the model':^36}")
        print(f"{'':37} {'processes':>9}{columns}{columns}")
    else:
        print(f"{'processes':>9} {'rows of each, MB':>17} {'peak of each above start, MB':>29}")
    sys.stdout.flush()
    for number in NUMBERS:
        words = ["--standalone", f"--nproc-per-node={number}", __file__, *sys.argv[1:]]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words], check=True, env=environment
        )


if __name__ == "__main__":
    main()
