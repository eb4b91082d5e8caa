"""What released code of other models computes: fixed weights, queries and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import shape
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import Basis, Candidates, GradientModel, build_model, read_reasoning

FIGURES = Path(__file__).parent / "figures"
GIVEN = json.loads((FIGURES / "rival_queries.json").read_text())
TRAINED = ("1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni")
ACCURACY = 1e-4


def numbers(model: str) -> dict[str, Any]:
    return dict(np.load(FIGURES / "rivals" / f"numbers_{model}.npz"))


def weights(model: str) -> dict[str, torch.Tensor]:
    stored = np.load(FIGURES / "rivals" / f"weights_{model}.npz")
    return {name: torch.from_numpy(stored[name]) for name in stored}


def golden_graph() -> KnowledgeGraph:
    entities = [f"e{number}" for number in range(GIVEN["entities"])]
    relations = [f"r{number}" for number in range(GIVEN["relations"])]
    builder = GraphBuilder(entities, relations)
    for head, relation, tail in GIVEN["graph"]:
        builder.add("train", entities[head], relations[relation], entities[tail])
    return builder.build()


def golden_group(name: str, template: str | None = None) -> QueryGroup:
    """The four queries of a shape, with their answers as the known ones."""
    asked, query = GIVEN["queries"][name], shape(template or name)
    columns = [
        np.array([[one[column] for column in kind] for one in asked], np.int32)
        for kind in placeholders(query)
    ]
    counts = [len(one["answers"]) for one in asked]
    answers = np.concatenate([np.sort(one["answers"]) for one in asked])
    easy = AnswerSets(np.concatenate([[0], np.cumsum(counts)]), answers)
    none = AnswerSets(np.zeros(len(asked) + 1, np.int64), np.empty(0, np.int64))
    return QueryGroup(name, query, columns[0], columns[1], easy, none)


def golden_candidates(*names: str) -> Candidates:
    """The positives and negatives of the queries of some shapes."""
    asked = [one for name in names for one in GIVEN["queries"][name]]
    weight_Q = 1 / (4 + torch.tensor([len(one["answers"]) for one in asked])).sqrt()
    return Candidates(
        torch.tensor([one["positive"] for one in asked]),
        torch.tensor([one["negatives"] for one in asked]),
        weight_Q=weight_Q / weight_Q.mean(),
    )


def golden_model(name: str, **settings: Any) -> GradientModel:
    """An untrained model on the graph of the golden numbers."""
    basis = Basis(golden_graph())
    model = build_model(basis, read_reasoning({"reasoner": name, **settings}), seed=0)
    assert isinstance(model, GradientModel)
    return model


def assert_close(found: torch.Tensor, wanted: Any, accuracy: float = ACCURACY) -> None:
    """|a - b| ≤ accuracy · max(1, |b|)."""
    wanted = torch.as_tensor(wanted, dtype=torch.float64)
    wrong = (found.detach().double() - wanted).abs() / wanted.abs().clamp_min(1)
    assert found.shape == wanted.shape
    assert float(wrong.max()) <= accuracy, float(wrong.max())
