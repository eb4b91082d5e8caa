"""What a fit will do, by the size of the graph, and what it will take."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from clmpt.errors import SettingError
from clmpt.graph.benchmark_folders import train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.links import links_of
from clmpt.settings import (
    Fitting,
    Pretraining,
    Reasoning,
    Training,
    check_heads,
    fitting,
    pretraining,
    reasoning,
    training,
)

TRAINED_SHAPES: tuple[str, ...] = (
    "1p",
    "2p",
    "3p",
    "2i",
    "3i",
    "ip",
    "pi",
    "up",
    "2in",
    "3in",
    "inp",
    "pin",
    "pni",
)
_MOST_WORK = 4 * 10**15  # operations of pre-training by default: about a day on two cores


@dataclass(frozen=True)
class Plan:
    """What `fit` does with a graph."""

    fitting: Fitting
    pretraining: Pretraining
    reasoning: Reasoning
    training: Training


@dataclass(frozen=True)
class Estimate:
    """What a fit takes, roughly: its operations, and how fast this machine does such."""

    seconds: float
    bytes: int


_SMALL_REASONING = {"encoder_layers": 1, "heads": 4, "norm": "post"}
_SMALL_TRAINING = {
    "learning_rate": 2e-3,
    "decay": "cosine",
    "clip": 1.0,
    "temperature": 0.1,
    "negatives": "all",
}
_LARGE_TRAINING = {"batch": 512, "learning_rate": 3e-4, "warm_up": 30}

# How a graph's number of entities decides: up to so many of them, these settings.
_BY_SIZE: tuple[tuple[float, dict[str, Any]], ...] = (
    (
        200,
        {
            "queries": 500,
            "pretraining": {"rank": 32, "epochs": 60, "batch": 64},
            "reasoning": {**_SMALL_REASONING, "feed_forward": 128},
            "training": {**_SMALL_TRAINING, "steps": 300, "batch": 128, "validate_every": 100},
        },
    ),
    (
        5_000,
        {
            "queries": 5_000,
            "pretraining": {"rank": 64, "epochs": 60, "batch": 256, "patience": 10},
            "reasoning": {**_SMALL_REASONING, "feed_forward": 512},
            "training": {**_SMALL_TRAINING, "steps": 600, "batch": 256, "validate_every": 150},
        },
    ),
    (
        50_000,
        {
            "queries": 20_000,
            "pretraining": {"rank": 200, "epochs": 10},
            "reasoning": {"encoder_layers": 1, "feed_forward": 1024},
            "training": {**_LARGE_TRAINING, "steps": 1500, "validate_every": 250},
        },
    ),
    (
        math.inf,
        {
            "queries": 20_000,
            "pretraining": {"rank": 64, "epochs": 10},
            "reasoning": {"encoder_layers": 1, "feed_forward": 512, "frozen": True},
            "training": {**_LARGE_TRAINING, "steps": 2000, "validate_every": 500},
        },
    ),
)


def plan_for(graph: KnowledgeGraph, given: Mapping[str, Mapping[str, Any]] | None = None) -> Plan:
    """Settings by the size of the graph; what is `given`, by table, goes before them.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b")])
    >>> plan_for(graph, {"pretraining": {"rank": 8}}).pretraining.rank
    8
    """
    by_size = next(tables for most, tables in _BY_SIZE if len(graph.entities) <= most)
    makers = {
        "fitting": fitting,
        "pretraining": pretraining,
        "reasoning": reasoning,
        "training": training,
    }
    for name in given or {}:
        if name not in makers:
            raise SettingError(f"There is no table '{name}'. There are: {', '.join(makers)}.")

    def settings(table: str) -> dict[str, Any]:
        return {**by_size.get(table, {}), **(given or {}).get(table, {})}

    chosen = fitting(settings("fitting"))
    chosen = replace(chosen, queries=chosen.queries or by_size["queries"])
    seeded = {"seed": chosen.seed}
    before = pretraining({**seeded, **settings("pretraining")})
    if "epochs" not in (given or {}).get("pretraining", {}):
        an_epoch = 12 * graph.index.triples * len(graph.entities) * before.width
        before = replace(before, epochs=max(1, min(before.epochs, _MOST_WORK // max(an_epoch, 1))))
    model = reasoning(settings("reasoning"))
    check_heads(before, model)
    return Plan(chosen, before, model, training({**seeded, **settings("training")}))


_TOKENS = 4  # an update hears so many messages, on average over the trained shapes
_SHARE_OF_PEAK = 0.4  # that training reaches, all in all
_A_STEP = 0.02  # seconds that a step takes however little there is to do
_BYTES_A_SECOND = 1e10  # that plain arithmetic on a table moves
_START = 400 * 2**20  # bytes that Python and PyTorch take before any work
_RANKED_AT_ONCE = 2**25  # scores in memory while measuring
_SIDE = 768  # of the matrices that tell how fast a processor is
_SAMPLED_A_SECOND = 8_000  # queries, by one process


def idle_peak() -> float:
    """Operations a second of matrix products, on this processor if it had nothing else to do.

    It is measured in a thread's own time, so that other programs hardly matter.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return threads * max(_one_product(_SIDE) for _ in range(5))
    finally:
        torch.set_num_threads(threads)


def _one_product(side: int) -> float:
    left, right = torch.randn(side, side), torch.randn(side, side)
    start = time.thread_time()
    left @ right
    return 2 * side**3 / max(time.thread_time() - start, 1e-6)


@dataclass(frozen=True)
class Work:
    """Operations of matrix products, bytes moved, and seconds that nothing makes shorter."""

    products: float = 0.0
    bytes: float = 0.0
    fixed: float = 0.0

    def seconds(self, peak: float) -> float:
        return self.products / (_SHARE_OF_PEAK * peak) + self.bytes / _BYTES_A_SECOND + self.fixed


def pretraining_work(graph: KnowledgeGraph, settings: Pretraining) -> Work:
    questions, size = len(links_of(graph, train_split(graph))), len(graph.entities)
    steps = settings.epochs * math.ceil(questions / settings.batch)
    return Work(
        6 * settings.epochs * questions * _scored(settings, size) * settings.width,
        12 * 4 * size * settings.width * steps,
        _A_STEP * steps,
    )


def _scored(settings: Pretraining, size: int) -> int:
    """How many entities a question is scored against."""
    return size if settings.model in ("complex", "distmult") else settings.negatives


def training_work(
    size: int, width: int, queries: int, model: Reasoning, settings: Training
) -> Work:
    steps = settings.steps or settings.epochs * math.ceil(queries / settings.batch)
    token = model.encoder_layers * (8.0 * width**2 + 4.0 * width * model.feed_forward)
    if model.reasoner == "lmpnn":
        token = 4.0 * width * model.feed_forward / _TOKENS  # its messages are added up first
    candidates = size if settings.negatives == "all" else settings.negative_count
    products = 3 * steps * settings.batch * (_TOKENS * token + 2 * candidates * width)
    moved = steps * (0 if model.frozen else 12 * 4 * size * width)
    if settings.negatives == "query":
        moved += 12 * steps * settings.batch * candidates * width
    return Work(products, moved, _A_STEP * steps)


def sampling_work(queries: int, workers: int) -> Work:
    return Work(fixed=queries / _SAMPLED_A_SECOND / max(workers, 1))


def measuring_work(size: int, width: int, queries: int, rows: int = 1) -> Work:
    """Of scoring every entity `rows` times for each query, and ranking."""
    return Work(2.0 * queries * rows * size * width, 16.0 * queries * rows * size)


def estimate(graph: KnowledgeGraph, plan: Plan) -> Estimate:
    """Time and memory of a fit on the processor, from a short measurement of its speed."""
    before, after, size = plan.pretraining, plan.training, len(graph.entities)
    queries = len(TRAINED_SHAPES) * plan.fitting.queries
    peak = idle_peak()
    works = (
        pretraining_work(graph, before),
        training_work(size, before.width, queries, plan.reasoning, after),
    )
    table = 4 * size * before.width
    scores = 4 * before.batch * _scored(before, size) * 3
    activations = 4 * after.batch * (_TOKENS * (8 * before.width + 2 * plan.reasoning.feed_forward))
    ranking = 8 * min(_RANKED_AT_ONCE, 1024 * size)
    memory = _START + max(5 * table + scores, 6 * table + max(6 * activations, ranking))
    return Estimate(sum(work.seconds(peak) for work in works), memory)
