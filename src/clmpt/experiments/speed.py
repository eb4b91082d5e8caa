"""How fast this machine trains and answers, as fractions of its best matrix product.

Made-up tables and queries of FB15k-237's size and proportions, so no data is needed. Peaks and
steps are measured in turn, so that noise meets both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.devices import peak_memory
from clmpt.evaluation.ranks import filtered_ranks, united
from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.message_passing.clmpt import MessagePassing
from clmpt.reasoners.message_passing.layout import batch_queries
from clmpt.reasoners.models import fresh_reasoner
from clmpt.reasoners.reasoner import NeuralReasoner
from clmpt.settings import Reasoning, Training
from clmpt.training.trainer import Trainer

RELATIONS = 474
# Training queries of FB15k-237 by shape, in thousands.
PROPORTIONS = {
    **dict.fromkeys(("1p", "2p", "3p", "2i", "3i"), 149.689),
    **dict.fromkeys(("2in", "3in", "inp", "pin", "pni"), 14.968),
}
_BATCH = 512
_POOL = 16  # batches that queries are made up for
_HARD_ANSWERS = 10


@dataclass(frozen=True)
class Size:
    """A model's measures."""

    rank: int
    encoder_layers: int
    feed_forward: int
    entities: int = 14505

    @property
    def flops_per_token(self) -> float:
        """Multiplications and additions of one token on its way through the encoder."""
        width = 2 * self.rank
        return self.encoder_layers * 2.0 * (4 * width**2 + 2 * width * self.feed_forward)


SIZES = {"S": Size(1000, 2, 8192), "M": Size(200, 1, 1024)}


@dataclass
class Clock:
    """Seconds by phase, by the wall and of processors, and tokens that went through an encoder."""

    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
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


def measure(
    size: Size, negatives: str = "query", steps: int = 3, frozen: bool = False
) -> dict[str, Any]:
    """Training and inference at one size, in this process. Figures are of the median step."""
    queries, random = made_up_queries(size.entities), torch.Generator().manual_seed(0)
    predictor = ComplEx(
        torch.randn(size.entities, 2 * size.rank, generator=random) * 0.1,
        torch.randn(RELATIONS, 2 * size.rank, generator=random) * 0.3,
        torch.arange(RELATIONS) ^ 1,
    )
    settings = Reasoning(
        encoder_layers=size.encoder_layers, feed_forward=size.feed_forward, frozen=frozen
    )
    model = fresh_reasoner(predictor, settings, seed=0)
    trained = _training(model, queries, size, negatives, steps)
    return {
        "rank": size.rank,
        "encoder_layers": size.encoder_layers,
        "feed_forward": size.feed_forward,
        "entities": size.entities,
        "negatives": negatives,
        "batch": _BATCH,
        "threads": torch.get_num_threads(),
        "training": trained,
        "inference": _inference(model, queries, size, steps),
    }


def matrix_peak(sides: Sequence[int] = (1024, 2048, 3072)) -> float:
    """Floating point operations a second of a large matrix product, the best of a few."""
    best = 0.0
    for side in sides:
        left, right = torch.randn(side, side), torch.randn(side, side)
        for _ in range(3):
            start = time.perf_counter()
            left @ right
            best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best


def made_up_queries(entities: int) -> list[QueryGroup]:
    """Queries of the training shapes with one easy and some hard answers each, all at random."""
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


def _training(
    model: MessagePassing, queries: list[QueryGroup], size: Size, negatives: str, steps: int
) -> dict[str, Any]:
    trainer = Trainer(model, queries, Training(batch=_BATCH, negatives=negatives, device="cpu"))  # type: ignore[arg-type]
    trainer.step()  # warms up, and makes the optimizer's state
    runs = []
    for _ in range(steps):
        peak, clock = matrix_peak(), Clock()
        watched = _watched(trainer.model, clock), _watched_training(trainer, clock)
        with watched[0], watched[1], clock.phase("step"):
            trainer.step()
        runs.append((clock.total("step"), peak, clock))
    seconds, _, clock = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    peak = statistics.median(peak for _, peak, _ in runs)
    needed = 3 * size.flops_per_token * clock.tokens
    phases = {name: clock.total(name) for name in ("encoder", "backward", "optimizer")}
    messages = clock.total("thinking") - clock.total("encoder")
    rest = seconds - messages - sum(phases.values())
    return {
        "seconds": seconds,
        "processor_seconds": clock.processor["step"],
        "phases": {"messages": messages, **phases, "loss": rest},
        "tokens_per_query": clock.tokens / _BATCH,
        "encoder_flops_needed": needed,
        "encoder_flops_spent": needed,  # dropout leaves nothing to share
        "peak_flops_per_second": peak,
        "fraction_of_peak": needed / seconds / peak,
        "peak_memory_bytes": peak_memory(trainer.device),
    }


def _inference(
    model: MessagePassing, queries: list[QueryGroup], size: Size, steps: int
) -> dict[str, Any]:
    reasoner = NeuralReasoner(model)
    alone = replace(reasoner.passing, share=False)
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
    runs = sorted(runs[1:], key=lambda run: run[0])  # the first fills the memory
    seconds, clock, part = runs[len(runs) // 2]
    count = sum(map(len, part))
    return {
        "seconds": seconds,
        "queries_per_second": count / seconds,
        "queries_per_processor_second": count / clock.processor["all"],
        "phases": {
            "messages": clock.total("thinking") - clock.total("encoder"),
            "encoder": clock.total("encoder"),
            "scoring": clock.total("scores") - clock.total("thinking"),
            "ranking": clock.total("ranking"),
        },
        "encoder_flops_needed": size.flops_per_token * batch_queries(part, alone).tokens,
        "encoder_flops_spent": size.flops_per_token * clock.tokens,
    }


@contextmanager
def _watched(model: MessagePassing, clock: Clock) -> Iterator[None]:
    """Times a model's phases from outside: nothing in the model itself knows of clocks."""
    update = model.update

    def counted(token_TD: Tensor, *rest: Any) -> Tensor:
        clock.tokens += len(token_TD)
        return update(token_TD, *rest)

    model.think = clock.timed("thinking", model.think)  # type: ignore[method-assign]
    model.update = clock.timed("encoder", counted)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.think, model.update


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
