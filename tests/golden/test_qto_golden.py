"""Truth values with QTO's settings are those of its released code, on a graph of 40 entities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.predictors.calibration import Sharpening
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.truth_values.rows import PredictedRows
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner

FIGURES = Path(__file__).parent / "figures"
NUMBERS = np.load(FIGURES / "qto_numbers.npz")
WEIGHTS = np.load(FIGURES / "qto_weights.npz")
GIVEN = json.loads((FIGURES / "rival_queries.json").read_text())
# QTO negates the last relation of pni, where BetaE's answers, and our shape, negate the whole path.
SHAPES = {name: "pni-exists" if name == "pni" else name for name in (*EPFO, *NEGATION)}


def golden_graph() -> KnowledgeGraph:
    entities = [f"e{number}" for number in range(GIVEN["entities"])]
    relations = [f"r{number}" for number in range(GIVEN["relations"])]
    builder = GraphBuilder(entities, relations)
    for head, relation, tail in GIVEN["graph"]:
        builder.add("train", entities[head], relations[relation], entities[tail])
    return builder.build()


@pytest.fixture(scope="module")
def rows() -> PredictedRows:
    relations = len(WEIGHTS["relations"])
    predictor = ComplEx(
        torch.from_numpy(WEIGHTS["entities"]),
        torch.from_numpy(WEIGHTS["relations"]),
        torch.arange(relations) ^ 1,
    )
    return PredictedRows(predictor, golden_graph().index, Sharpening("count"), 0.02, 0.02, 2**20)


def test_truth_values_of_atoms(rows: PredictedRows) -> None:
    for relation, wanted in enumerate(NUMBERS["adjacency"]):
        found = rows.rows(np.arange(40), np.full(40, relation))
        dense = np.zeros((40, 40))
        dense[np.repeat(np.arange(40), found.counts_U), found.entity_X] = found.value_X
        assert dense == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_scores(rows: PredictedRows, name: str) -> None:
    template, asked = shape(SHAPES[name]), GIVEN["queries"][name]
    columns = [
        np.array([[one[column] for column in kind] for one in asked], np.int32)
        for kind in placeholders(template)
    ]
    none = AnswerSets(np.zeros(len(asked) + 1, np.int64), np.empty(0, np.int64))
    group = QueryGroup(name, template, columns[0], columns[1], none, none)
    reasoner = TruthValueReasoner(rows, golden_graph(), 3.0, "noisy-or")
    assert reasoner.score([group]).numpy() == pytest.approx(NUMBERS[f"{name}_scores"], abs=1e-4)
