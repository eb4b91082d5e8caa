"""Models on trees and on tokens learn, resume, and leave out what they cannot express."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clmpt.errors import SettingError, UnsupportedQuery, WrongGraph
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor, read_pretraining
from clmpt.queries.store import QuerySet
from clmpt.reasoners.model import Basis, build_model
from clmpt.reasoners.operators.operator_model import OperatorModel
from clmpt.reasoners.operators.query2box import Query2box
from clmpt.reasoners.reasoner_folder import about_reasoner, open_reasoner
from clmpt.reasoners.transformers.token_model import TokenModel
from clmpt.registry import REASONERS
from clmpt.sampling.sampler import Protocol, sample
from clmpt.training.runs import train
from killing import killed_after_saves, saving_often
from models import reasoning
from small_training import assert_same_run, districts, queries, settings, valid_graph

HELD_OUT = Protocol(("train", "valid"), ("train", "valid", "test"), 100)
POINTS = {"rank": 16, "margin": 6, "objective": "softmax"}
NETWORKS = {**POINTS, "hidden": 48}
# settings, learning rate and steps that suffice for a graph this small
LEARNING: dict[str, tuple[dict[str, Any], float, int]] = {
    "gqe": (POINTS, 0.05, 200),
    "query2box": (POINTS, 0.05, 200),
    "betae": (NETWORKS, 0.02, 200),
    "cone": ({**NETWORKS, "rank": 64, "margin": 4, "inside": 1.0}, 0.003, 400),
    "cyle": (NETWORKS, 0.01, 200),
    "gammae": (NETWORKS, 0.05, 200),
    "mlp": (NETWORKS, 0.02, 200),
    "mlp-mixer": ({**POINTS, "blocks": 1, "channels": 8, "token_hidden": 32}, 0.02, 200),
    "perm": (POINTS, 0.05, 200),
    "query2particles": ({"rank": 16, "smoothing": 0.1}, 0.02, 150),
    "kgtransformer": ({"rank": 16, "layers": 4, "feed_forward": 32, "dropout": 0.0}, 0.01, 200),
    "biqe": ({"rank": 16, "layers": 2, "feed_forward": 32, "dropout": 0.0}, 0.01, 200),
    "gnn-qe": ({"rank": 8, "layers": 3}, 0.02, 40),
    "enesy": ({"objective": "softmax", "hidden": 16}, 0.02, 100),
}
BATCH = {"gnn-qe": 24}  # of others 256: a step of theirs is cheap
NEGATING = ("betae", "cone", "cyle", "gammae", "mlp", "query2particles", "gnn-qe", "enesy")


def test_all_models_are_here() -> None:
    families = (OperatorModel, TokenModel)
    assert set(LEARNING) == {n for n in REASONERS.own if issubclass(REASONERS.find(n), families)}


def untrained(graph: KnowledgeGraph) -> EmbeddingPredictor:
    """A predictor that knows nothing yet, so that what a model learns is not what it was given."""
    return fresh_predictor(graph, read_pretraining({"rank": 8, "initial_scale": 0.3}))


@pytest.mark.parametrize("name", LEARNING)
def test_a_model_learns_what_is_hidden(name: str, tmp_path: Path) -> None:
    chosen, rate, steps = LEARNING[name]
    graph, trained = districts(), ("1p", "2p", "2i", "2in")
    asked = [sample(shape(kind), graph, HELD_OUT, 100, 1) for kind in ("1p", "2i", "pi")]
    course = settings(
        batch=BATCH.get(name, 256),
        steps=steps,
        learning_rate=rate,
        decay="cosine",
        warm_up=20,
        negatives="all",
        validation_queries=20,
        validate_every=steps,
    )
    made = reasoning(reasoner=name, **chosen)
    needed = untrained(graph) if REASONERS.find(name).needs_predictor else None
    list(train(graph, needed, queries(graph, 1000, trained), made, course, tmp_path / "run"))
    learnt = evaluate(open_reasoner(tmp_path / "run", graph).model.reasoner(), asked)
    chance = float(np.mean(1 / np.arange(1, len(graph.entities))))
    for each in learnt.shapes:
        assert each.figures.mrr > 2 * chance, each.name
    kind: Any = REASONERS.find(name)
    refused = {} if name in NEGATING else {"2in": f"{kind.title} has no negation"}
    assert about_reasoner(tmp_path / "run")["left_out"] == refused


@pytest.mark.parametrize("name", ["query2box", "kgtransformer", "biqe"])
def test_a_report_says_which_queries_a_model_cannot_express(name: str) -> None:
    graph = valid_graph()
    asked = [sample(shape(kind), graph, HELD_OUT, 20, 1) for kind in ("2p", "2in", "pni")]
    model = build_model(Basis(graph), reasoning(reasoner=name), 0)
    report = evaluate(model.reasoner(), asked)
    assert [each.name for each in report.shapes] == ["2p"]
    assert report.notes[-1] == f"2in, pni: left out, since {model.title} has no negation."
    assert report.as_plain()["left_out"].keys() == {"2in", "pni"}


def test_queries_that_a_model_cannot_express_are_not_enough(tmp_path: Path) -> None:
    graph = districts()
    only = queries(graph, 10, ("2in",))
    with pytest.raises(UnsupportedQuery, match="2in: GQE has no negation"):
        list(train(graph, None, only, reasoning(reasoner="gqe"), settings(), tmp_path / "run"))


@pytest.mark.parametrize("name", ["gqe", "kgtransformer", "gnn-qe"])
def test_weights_for_entities_or_relations_do_not_stand_for_others(
    name: str, tmp_path: Path
) -> None:
    """A newer graph may have the same number of them in another order."""
    graph = valid_graph()
    chosen = {"rank": 4, "layers": 2} if name != "gqe" else {"rank": 4}
    course = settings(steps=1, validation_queries=0)
    made = reasoning(reasoner=name, **chosen)
    list(train(graph, None, queries(graph, shapes=("1p",)), made, course, tmp_path / "run"))
    places = (reversed(range(40)), reversed(range(5)))
    builder = GraphBuilder([f"e{n}" for n in places[0]], [f"r{n}" for n in places[1]])
    for split in ("train", "valid", "test"):
        builder.add_ids(split, np.array([[0, 1, 2]], np.int32))
    with pytest.raises(WrongGraph, match="Train one on the newer graph"):
        open_reasoner(tmp_path / "run", builder.build(), newer=True)


def test_a_graph_network_needs_relations_that_are_as_inverse_as_before(tmp_path: Path) -> None:
    facts = [("a", "owns", "b"), ("b", "owned by", "a"), ("a", "likes", "b"), ("b", "likes", "c")]
    before = KnowledgeGraph.from_triples(facts)
    after = KnowledgeGraph.from_triples([*facts, ("c", "owns", "d")])  # but not owned by
    all_facts = Protocol(("facts",), ("facts",))
    asked = QuerySet((sample(shape("1p"), before, all_facts, 4, seed=0),), {})
    made, course = reasoning(reasoner="gnn-qe", rank=4), settings(steps=1, validation_queries=0)
    list(train(before, None, asked, made, course, tmp_path / "run"))
    with pytest.raises(WrongGraph, match="relations are inverse to each other"):
        open_reasoner(tmp_path / "run", after, newer=True)


def test_a_table_of_its_own_is_updated_whole(tmp_path: Path) -> None:
    graph = valid_graph()
    course, made = settings(steps=1, entity_rows="step"), reasoning(reasoner="gqe")
    with pytest.raises(SettingError, match="GQE has a table of its own"):
        list(train(graph, None, queries(graph), made, course, tmp_path / "run"))


RESUMED: dict[str, tuple[dict[str, Any], int]] = {  # one of each family, and the epochs of a run
    "betae": ({"rank": 8, "hidden": 16, "dropout": 0.1}, 12),
    "kgtransformer": ({"rank": 8, "layers": 2, "feed_forward": 8, "dropout": 0.1}, 8),
    "gnn-qe": ({"rank": 4, "layers": 2}, 6),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_killed_run_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    graph, (chosen, epochs) = valid_graph(), RESUMED[name]
    graph.save(tmp_path / "graph")
    queries(graph).save(tmp_path / "train.queries")
    call = (
        "train(KnowledgeGraph.open(sys.argv[1]), None, QuerySet.open(sys.argv[2]), "
        f"read_reasoning({ ({'reasoner': name, **chosen})!r}), "
        "read_table(Training, json.loads(sys.argv[3])), sys.argv[4], save_seconds=SAVE_SECONDS)"
    )
    course = {"batch": 16, "epochs": epochs, "validate_every": 16, "patience": 99}
    course |= {"validation_queries": 5, "negative_count": 7}
    places = [str(tmp_path / name) for name in ("graph", "train.queries")]
    command = [*saving_often(call), *places, json.dumps({**course, "device": "cpu"})]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    killed_after_saves(command, tmp_path / "killed", kills=2 if name == "betae" else 1)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_boxes_score_all_entities_as_they_score_each() -> None:
    graph, made = districts(), reasoning(reasoner="query2box", rank=16, inside=0.3)
    model = build_model(Basis(graph.view("train"), None), made, 0)
    assert isinstance(model, Query2box)
    random = torch.Generator().manual_seed(1)
    centre, offset = torch.randn(2, 5, 16, generator=random)
    offset = offset.abs()
    offset[0], offset[1, :8] = 0.0, 9.0  # a point; a box, wide in half
    set_GX, row_ED = torch.cat([centre, offset], 1), model.entities_EW
    each_GE = model.match(set_GX, row_ED[None])
    torch.testing.assert_close(model.match_all(set_GX, row_ED), each_GE, rtol=1e-5, atol=1e-4)
