"""Imported PyKEEN models give the same scores, if PyKEEN is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("pykeen", reason="PyKEEN is not installed")

from pykeen.models import model_resolver
from pykeen.triples import TriplesFactory

from clmpt.errors import DataError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.imports import predictor_from_pykeen
from toy import random_graph


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("model", ["ComplEx", "DistMult", "TransE", "RotatE", "RESCAL", "CP"])
@pytest.mark.parametrize("inverses", [False, True])
def test_a_pykeen_model_gives_the_same_scores(model: str, inverses: bool) -> None:
    graph = random_graph(False)
    names, relations = graph.entities.names, graph.relations.names
    rows = graph.triples().tolist()
    labelled = np.array([(names[h], relations[r], names[t]) for h, r, t in rows])
    factory = TriplesFactory.from_labeled_triples(labelled, create_inverse_triples=inverses)
    original = model_resolver.make(
        model, triples_factory=factory, embedding_dim=6, random_seed=1
    ).eval()
    shuffled = _shuffled(graph)
    if model == "CP" and not inverses:
        with pytest.raises(DataError, match="the inverse of each needs a row of its own"):
            predictor_from_pykeen(original, factory, shuffled)
        return
    predictor = predictor_from_pykeen(original, factory, shuffled)
    theirs, ours = _ids(factory, labelled[:50]), _own_ids(shuffled, labelled[:50])
    expected = original.predict_hrt(theirs).detach().flatten()
    found = predictor.score(*ours.T).detach()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    # Scoring heads: PyKEEN also uses the inverse if it has one.
    backward_BE = predictor.score_answers(ours[:, 2], ours[:, 1] + len(relations)).detach()
    heads_BE = original.predict_h(theirs[:, 1:]).detach()
    found = backward_BE.gather(1, ours[:, :1])
    torch.testing.assert_close(found, heads_BE.gather(1, theirs[:, :1]), rtol=1e-4, atol=1e-4)


def _ids(factory: Any, labelled: Any) -> torch.Tensor:
    entities, relations = factory.entity_to_id, factory.relation_to_id
    return torch.tensor([[entities[h], relations[r], entities[t]] for h, r, t in labelled])


def _own_ids(graph: KnowledgeGraph, labelled: Any) -> torch.Tensor:
    entities, relations = graph.entities.names.find, graph.relations.names.find
    return torch.tensor([[entities(h)[0], relations(r)[0], entities(t)[0]] for h, r, t in labelled])


def _shuffled(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same graph with other ids."""
    builder = GraphBuilder()
    for head, relation, tail in reversed(graph.triples().tolist()):
        names, relations = graph.entities.names, graph.relations.names
        builder.add("train", names[head], relations[relation], names[tail])
    return builder.build()
