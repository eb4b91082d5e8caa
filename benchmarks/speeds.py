"""The speeds of this machine that the cost model needs, with as many processes as there are now.

All processes measure at the same time, since they share the machine when they work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from clmpt.compute import distributed
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import Links, links_of
from clmpt.training.pretrainer import Pretrainer, batch_of
from cost_model import Speeds

_BYTES = 2**23  # of a message that is long enough for latency not to matter


def speeds_here(graph: KnowledgeGraph, own: int, compared: int, width: int) -> Speeds:
    """For steps in which a process compares `own` questions with `compared` entities."""
    table, projected = torch.randn(compared, width), torch.randn(width, own)
    products = 2 * compared * width * own / seconds_of(lambda: table @ projected)
    scores = torch.rand(compared, own)
    passes = 2 * scores.nbytes / seconds_of(lambda: scores.mul_(0.999))
    number = distributed.processes()
    sent, latency = float("inf"), 0.0
    if number > 1:
        message, counts = torch.zeros(_BYTES // 4), [_BYTES // 4 // number] * number
        message = message[: sum(counts)]
        latency = seconds_of(lambda: distributed.total(torch.zeros(())), 200)
        given = seconds_of(lambda: distributed.returned(message, counts, counts), 20) - latency
        sent = message.nbytes * (number - 1) / number / given
    links = links_of(graph, "train")
    question = seconds_of(lambda: prepared(links, own)) / own
    return Speeds(products, passes, sent, sent, latency, least_step(graph, latency), question)


def prepared(links: Links, count: int) -> Any:
    rows = np.random.default_rng(0).integers(len(links), size=count)
    return batch_of(links.take(rows), torch.device("cpu"))


def least_step(graph: KnowledgeGraph, latency: float) -> float:
    """Seconds of a step that has next to nothing to compute, and of which messages take no part."""
    given = {"rank": 1, "batch": distributed.processes(), "candidates": 1, "device": "cpu"}
    settings = read_pretraining({**given, "averaging": 0.0, "divided": "tables"})
    learner = Pretrainer(fresh_predictor(graph, settings), links_of(graph, "train"), settings)
    rounds = 0 if distributed.processes() == 1 else 9
    return max(seconds_of(learner.step, 50) - rounds * latency, 0.0)


def seconds_of(work: Callable[[], Any], times: int = 30) -> float:
    work()
    distributed.wait_for_all()
    started = time.perf_counter()
    for _ in range(times):
        work()
    return max(distributed.from_all((time.perf_counter() - started) / times))
