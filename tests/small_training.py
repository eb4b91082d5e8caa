"""A very small training setup: forty entities, five relations, a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QuerySet
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Reasoning, Training, read_table
from clmpt.storage.run_folder import read_log
from clmpt.training.trainer import Trainer
from models import fresh_reasoner, reasoning
from toy import random_graph

TRAIN = Protocol(("train",), ("train",))
SHAPES = ("1p", "2p", "2i", "2in", "pni", "2u")
SMALL = reasoning(heads=2, feed_forward=16, encoder_layers=1)
RELATIONS, ENTITIES = 5, 40


def queries(graph: KnowledgeGraph, count: int = 30, shapes: tuple[str, ...] = SHAPES) -> QuerySet:
    groups = tuple(sample(shape(name), graph, TRAIN, count, seed=0) for name in shapes)
    return QuerySet(groups, {"graph": graph.fingerprint})


def predictor(seed: int = 0) -> ComplEx:
    random = torch.Generator().manual_seed(seed)
    return ComplEx(
        torch.randn(ENTITIES, 8, generator=random),
        torch.randn(RELATIONS, 8, generator=random),
        torch.full((RELATIONS,), -1),
    )


def settings(**changes: Any) -> Training:
    chosen = {"batch": 32, "epochs": 3, "negative_count": 7, "device": "cpu", **changes}
    return read_table(Training, chosen)


def trainer(model_settings: Reasoning = SMALL, **changes: Any) -> Trainer:
    model = fresh_reasoner(predictor(), model_settings, seed=0)
    return Trainer(model, queries(random_graph(False)).groups, settings(**changes))


def valid_graph() -> KnowledgeGraph:
    random = np.random.default_rng(0)
    builder = GraphBuilder([f"e{n}" for n in range(ENTITIES)], [f"r{n}" for n in range(RELATIONS)])
    for split, count in (("train", 400), ("valid", 60), ("test", 60)):
        rows = random.integers((ENTITIES, RELATIONS, ENTITIES), size=(count, 3))
        builder.add_ids(split, rows.astype(np.int32))
    return builder.build()


def districts() -> KnowledgeGraph:
    """Sixty people in six districts; a relation leads from everybody of one district to everybody
    of another. A fifth of the facts is held out."""
    random = np.random.default_rng(0)
    people, districts, relations = 60, 6, 4
    builder = GraphBuilder([f"p{number}" for number in range(people)])
    for relation in range(relations):
        target = random.permutation(districts)
        for head in range(people):
            for tail in range(people):
                if target[head % districts] == tail % districts:
                    split = random.choice(["train", "valid", "test"], p=[0.8, 0.1, 0.1])
                    builder.add(split, f"p{head}", f"r{relation}", f"p{tail}")
    return builder.build()


def assert_same_run(first: Path, second: Path) -> None:
    one, two = (load_file(folder / "weights.safetensors") for folder in (first, second))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    logs = [[{**line, "seconds": None} for line in read_log(folder)] for folder in (first, second)]
    assert logs[0] == logs[1]
