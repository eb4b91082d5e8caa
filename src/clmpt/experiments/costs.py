"""Rough cost estimates of stages: their operations, and the speed of this machine."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from clmpt.compute.chunks import SCORES_AT_ONCE
from clmpt.compute.processors import available_processors
from clmpt.compute.threads import torch_threads
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.predictors.objectives import SAMPLED, objective_of
from clmpt.queries.links import links_of
from clmpt.reasoners.model import Cost, GradientModel
from clmpt.registry import PREDICTORS, REASONERS
from clmpt.settings import Pretraining, Reasoning, Training

_SHARE_OF_PEAK = 0.4  # that training reaches overall
_A_STEP = 0.02  # fixed overhead per step, in seconds
_BYTES_A_SECOND = 1e10  # of element-wise arithmetic on a table
_START = 400 * 2**20  # bytes, of Python and PyTorch alone
_SIDE = 768  # of the matrices that measure the processor's speed
_SAMPLED_A_SECOND = 8_000  # queries per process
_MISSING_LINKS = 3_000  # queries per second, to count missing links
BEAM_ROWS = 16  # how often beam search scores all entities per query, on average


@dataclass(frozen=True)
class Work:
    """Operations of matrix products, bytes moved, fixed seconds, and peak memory in bytes."""

    products: float = 0.0
    bytes: float = 0.0
    fixed: float = 0.0
    memory: float = 0.0

    def seconds(self, peak: float) -> float:
        return self.products / (_SHARE_OF_PEAK * peak) + self.bytes / _BYTES_A_SECOND + self.fixed


def idle_peak() -> float:
    """Matrix-product operations per second on this processor when idle.

    Measured in thread time, so that other programs hardly matter.
    """
    threads = min(torch.get_num_threads(), available_processors())
    with torch_threads(1):
        return threads * max(_one_product(_SIDE) for _ in range(5))


def _one_product(side: int) -> float:
    left, right = torch.randn(side, side), torch.randn(side, side)
    start = time.thread_time()
    left @ right
    return 2 * side**3 / max(time.thread_time() - start, 1e-6)


def predictor_width(settings: Pretraining) -> int:
    return PREDICTORS.find(settings.model).width(settings.rank)


def check_reasoning(reasoning: Reasoning, settings: Pretraining) -> None:
    """Rejects a reasoner that does not fit the predictor it would stand on."""
    kind = REASONERS.find(reasoning.reasoner)
    if kind.needs_predictor:
        kind.check(reasoning.settings, PREDICTORS.find(settings.model), predictor_width(settings))


def products_per_question(settings: Pretraining, entities: int) -> float:
    """Operations of matrix products that a question of pre-training takes, forward and backward."""
    kind = PREDICTORS.find(settings.model)
    scored = objective_of(kind.objective, settings).scored(settings, entities)
    return 6.0 * scored * kind.width(settings.rank) + 3 * kind.products(settings.rank)


def pretraining_work(graph: KnowledgeGraph, settings: Pretraining) -> Work:
    questions, size = len(links_of(graph, train_split(graph))), len(graph.entities)
    steps = settings.epochs * math.ceil(questions / settings.batch)
    kind, width = PREDICTORS.find(settings.model), predictor_width(settings)
    scored = objective_of(kind.objective, settings).scored(settings, size)
    table = 4 * size * width
    others = 4 * kind.other_numbers(2 * len(graph.relations), settings.rank)
    is_sampled = settings.candidates and kind.objective in SAMPLED
    touched = 4 * (scored + settings.batch) * width if is_sampled else table
    copies = 2 if is_sampled else 5  # gradients, sums and averages are of rows, or of the table
    return Work(
        settings.epochs * questions * products_per_question(settings, size),
        12 * (touched + others) * steps,
        _A_STEP * steps,
        _START + copies * table + 5 * others + 3 * 4 * settings.batch * scored,
    )


def training_work(
    entities: int, width: int, queries: int, reasoning: Reasoning, settings: Training
) -> Work:
    """The work of training; none for a model that takes no steps."""
    kind = REASONERS.find(reasoning.reasoner)
    if not issubclass(kind, GradientModel):
        return Work()
    expected: Cost = kind.expected_cost(reasoning.settings, width)
    each: Cost = kind.expected_cost_per_entity(reasoning.settings, width)
    steps = settings.steps or settings.epochs * math.ceil(queries / settings.batch)
    candidates = entities if settings.negatives == "all" else settings.negative_count
    table = 4 * entities * width
    inside = expected.products + entities * each.products
    products = 3 * steps * settings.batch * (inside + 2 * candidates * width)
    is_whole = kind.trains_entities(reasoning.settings) and settings.entity_rows == "all"
    moved = steps * ((12 * table if is_whole else 0) + settings.batch * entities * each.bytes)
    if settings.negatives == "query":
        moved += 12 * steps * settings.batch * candidates * width
    memory = _START + 6 * table + 6 * settings.batch * expected.bytes
    memory += settings.batch * entities * each.kept
    if settings.minutes:
        return Work(fixed=60 * settings.minutes, memory=memory)
    return Work(products, moved, _A_STEP * steps, memory)


def sampling_work(queries: int, workers: int = 1) -> Work:
    return Work(fixed=queries / _SAMPLED_A_SECOND / max(workers, 1))


def measuring_work(entities: int, width: int, queries: int, rows: int = 1) -> Work:
    """The work of scoring all entities `rows` times per query, ranking, and counting links."""
    table, ranking = 4 * entities * width, 8 * min(SCORES_AT_ONCE, 1024 * entities)
    return Work(
        2.0 * queries * rows * entities * width,
        16.0 * queries * rows * entities,
        queries / _MISSING_LINKS,
        _START + 6 * table + ranking,
    )
