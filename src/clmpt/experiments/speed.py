"""The speed of training and inference on this machine, relative to its peak matrix product.

Uses random tables and queries of FB15k-237's size and proportions, so no data is needed. Peaks and
steps are measured alternately, so that noise affects both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.devices import peak_memory
from clmpt.evaluation.ranks import filtered_ranks, united
from clmpt.graph.edges import build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.queries.refusals import sort_out
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import (
    Basis,
    Cost,
    GradientModel,
    ReasonerModel,
    build_model,
    read_reasoning,
)
from clmpt.settings import Training, read_table
from clmpt.training.trainer import Trainer

RELATIONS = 474
_FACTS = 20_000
# Training queries of FB15k-237 by shape, in thousands.
PROPORTIONS = {
    **dict.fromkeys(("1p", "2p", "3p", "2i", "3i"), 149.689),
    **dict.fromkeys(("2in", "3in", "inp", "pin", "pni"), 14.968),
}
_BATCH = 512
_POOL = 16  # batches of random queries
_HARD_ANSWERS = 10


@dataclass(frozen=True)
class Size:
    """A rank, a number of entities, and the settings by reasoner."""

    rank: int
    reasoning: Mapping[str, Mapping[str, Any]]
    entities: int = 14505


SIZES = {
    "S": Size(
        1000,
        {
            "clmpt": {"encoder_layers": 2, "feed_forward": 8192},
            "lmpnn": {"feed_forward": 8192, "frozen": False},
        },
    ),
    "M": Size(
        200,
        {
            "clmpt": {"encoder_layers": 1, "feed_forward": 1024},
            "lmpnn": {"feed_forward": 1024, "frozen": False},
        },
    ),
}


@dataclass
class Clock:
    """Wall and processor seconds by phase, and the model's own cost estimate."""

    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    products: float = 0.0
    tokens: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start, processor = time.perf_counter(), time.process_time()
        yield
        self.seconds[name] = self.total(name) + time.perf_counter() - start
        spent = time.process_time() - processor
        self.processor[name] = self.processor.get(name, 0.0) + spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            with self.phase(name):
                return function(*arguments, **options)

        return run

    def total(self, name: str) -> float:
        return self.seconds.get(name, 0.0)


def measure_speed(
    size: Size,
    reasoner: str = "clmpt",
    negatives: str = "query",
    steps: int = 3,
    changes: Mapping[str, Any] | None = None,
    peak: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """Measures training and inference at one size, in this process; figures are of the median step.

    `changes` override the size's settings of the reasoner; `peak` measures the machine. A model
    that takes no training steps has no figures for them.
    """
    chosen = {"reasoner": reasoner, **size.reasoning, **(changes or {})}
    model = build_model(made_up_basis(size), read_reasoning(chosen), seed=0)
    expressible = partial(model.check_query, model.settings)
    queries, _ = sort_out(expressible, made_up_queries(size.entities))
    trained = None
    if isinstance(model, GradientModel):
        trained = _training(model, queries, negatives, steps, peak or matrix_peak)
    return {
        "reasoner": reasoner,
        "rank": size.rank,
        **size.reasoning.get(reasoner, {}),
        "entities": size.entities,
        "negatives": negatives,
        "batch": _BATCH,
        "threads": torch.get_num_threads(),
        "training": trained,
        "inference": _inference(model, queries, steps),
    }


def matrix_peak(sides: Sequence[int] = (1024, 2048, 3072)) -> float:
    """Floating-point operations per second of a large matrix product, the best of several."""
    best = 0.0
    for side in sides:
        left, right = torch.randn(side, side), torch.randn(side, side)
        for _ in range(3):
            start = time.perf_counter()
            left @ right
            best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best


# --- what is measured -----------------------------------------------------------------------------


def made_up_basis(size: Size) -> Basis:
    """Random facts, and a ComplEx predictor with random weights."""
    numbers, random = np.random.default_rng(0), torch.Generator().manual_seed(0)
    ends = (size.entities, RELATIONS, size.entities)
    facts = numbers.integers(ends, size=(_FACTS, 3)).astype(np.int32)
    entities, relations = (
        Vocabulary(kind, NameTable.of(f"{kind[0]}{number}" for number in range(count)))
        for kind, count in (("entity", size.entities), ("relation", RELATIONS))
    )
    graph = KnowledgeGraph(entities, relations, build_index(size.entities, RELATIONS, [facts]))
    predictor = ComplEx(
        torch.randn(size.entities, 2 * size.rank, generator=random),  # some answers stand out
        torch.randn(RELATIONS, 2 * size.rank, generator=random) * 0.3,
        torch.arange(RELATIONS) ^ 1,
    )
    return Basis(graph, predictor)


def made_up_queries(entities: int) -> list[QueryGroup]:
    """Random queries of the training shapes, with one easy and several hard answers each."""
    random, total = np.random.default_rng(0), sum(PROPORTIONS.values())
    groups = []
    for name, share in PROPORTIONS.items():
        count, template = round(_POOL * _BATCH * share / total), shape(name)
        places = [len(names) for names in placeholders(template)]
        easy = random.integers(entities, size=count)
        hard = np.sort(random.integers(entities, size=(count, _HARD_ANSWERS)), axis=1)
        groups.append(
            QueryGroup(
                name,
                template,
                random.integers(entities, size=(count, places[0])).astype(np.int32),
                random.integers(RELATIONS, size=(count, places[1])).astype(np.int32),
                AnswerSets(np.arange(count + 1), easy),
                AnswerSets(np.arange(count + 1) * _HARD_ANSWERS, hard.ravel()),
            )
        )
    return groups


# --- measuring it ---------------------------------------------------------------------------------


def _training(
    model: GradientModel,
    queries: list[QueryGroup],
    negatives: str,
    steps: int,
    measured_peak: Callable[[], float],
) -> dict[str, Any]:
    settings = read_table(Training, {"batch": _BATCH, "negatives": negatives, "device": "cpu"})
    trainer = Trainer(model, queries, settings)
    trainer.step()  # warm-up; allocates the optimizer's state
    runs = []
    for _ in range(steps):
        peak, clock = measured_peak(), Clock()
        with _watched(model, clock), _watched_training(trainer, clock), clock.phase("step"):
            trainer.step()
        runs.append((clock.total("step"), peak, clock))
    seconds, _, clock = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    peak = statistics.median(peak for _, peak, _ in runs)
    needed = 3 * clock.products
    phases = {name: clock.total(name) for name in (*model.phases, "backward", "optimizer")}
    return {
        "seconds": seconds,
        "processor_seconds": clock.processor["step"],
        "phases": {**phases, "loss": seconds - sum(phases.values())},
        "tokens_per_query": clock.tokens / _BATCH,
        "encoder_flops_needed": needed,
        "encoder_flops_spent": needed,  # with dropout, nothing is shared
        "peak_flops_per_second": peak,
        "fraction_of_peak": needed / seconds / peak,
        "peak_memory_bytes": peak_memory(trainer.device),
    }


def _inference(model: ReasonerModel, queries: list[QueryGroup], steps: int) -> dict[str, Any]:
    reasoner = model.reasoner()
    runs = []
    for step in range(steps + 1):
        part = [group.take(np.arange(step % _POOL, len(group), _POOL)) for group in queries]
        hard = AnswerSets.joined([group.hard for group in part])
        known = united(AnswerSets.joined([group.easy for group in part]), hard)
        clock = Clock()
        with _watched(model, clock), clock.phase("all"):
            with clock.phase("scores"):
                scores_QE = reasoner.score(part)
            with clock.phase("ranking"):
                filtered_ranks(scores_QE, hard, known)
        runs.append((clock.total("all"), clock, part))
    runs = sorted(runs[1:], key=lambda run: run[0])  # the first one fills caches
    seconds, clock, part = runs[len(runs) // 2]
    count, phases = sum(map(len, part)), {name: clock.total(name) for name in model.phases}
    cost = model.cost(model.lay_out(part)) if isinstance(model, GradientModel) else Cost()
    return {
        "seconds": seconds,
        "queries_per_second": count / seconds,
        "queries_per_processor_second": count / clock.processor["all"],
        "phases": {
            **phases,
            "scoring": clock.total("scores") - sum(phases.values()),
            "ranking": clock.total("ranking"),
        },
        "encoder_flops_needed": cost.products,
        "encoder_flops_spent": clock.products,
    }


@contextmanager
def _watched(model: ReasonerModel, clock: Clock) -> Iterator[None]:
    """Times a model's phases from outside, without changing the model's code."""

    def note_cost(_module: Any, arguments: tuple[Any, ...]) -> None:
        assert isinstance(model, GradientModel)  # no other is called
        cost = model.cost(arguments[0])
        clock.products += cost.products
        clock.tokens += cost.tokens

    hook = model.register_forward_pre_hook(note_cost)
    for phase, method in model.phases.items():
        setattr(model, method, clock.timed(phase, getattr(model, method)))
    try:
        yield
    finally:
        hook.remove()
        for method in model.phases.values():
            delattr(model, method)


@contextmanager
def _watched_training(trainer: Trainer, clock: Clock) -> Iterator[None]:
    optimizer, backward = trainer.optimizer, Tensor.backward
    optimizer.step = clock.timed("optimizer", optimizer.step)  # type: ignore[method-assign]
    Tensor.backward = clock.timed("backward", backward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del optimizer.step
        Tensor.backward = backward  # type: ignore[method-assign]
