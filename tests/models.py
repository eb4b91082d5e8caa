"""Small models for tests, built as the package builds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from clmpt.graph.edges import build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.vocabulary import Vocabulary
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.reasoners.message_passing.clmpt import MessagePassing
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.registry import PREDICTORS
from clmpt.settings import Reasoning


def random_predictor(
    name: str, entities: int, relations: int, width: int = 8, seed: int = 0
) -> EmbeddingPredictor:
    """A predictor of any class with a row for every relation, and then for every inverse."""
    kind, random = PREDICTORS.find(name), torch.Generator().manual_seed(seed)
    tables = kind.initial(entities, 2 * relations, width // kind.width(1), 1.0, random)
    made = kind(*tables, torch.arange(relations) + relations)
    made.initialise(random)
    return made


def reasoning(**given: Any) -> Reasoning:
    return read_reasoning(given)


def basis_of(predictor: EmbeddingPredictor) -> Basis:
    """A predictor with a graph of its size and one unused fact."""
    sizes = {"entity": len(predictor.entities_ED), "relation": len(predictor.inverse_R)}
    entities, relations = (
        Vocabulary(kind, NameTable.of(f"{kind}{number}" for number in range(size)))
        for kind, size in sizes.items()
    )
    index = build_index(len(entities), len(relations), [np.zeros((1, 3), np.int32)])
    return Basis(KnowledgeGraph(entities, relations, index), predictor)


def fresh_reasoner(
    predictor: EmbeddingPredictor, chosen: Reasoning | None = None, seed: int = 0
) -> MessagePassing:
    """An untrained CLMPT or LMPNN."""
    model = build_model(basis_of(predictor), chosen or reasoning(), seed)
    assert isinstance(model, MessagePassing)
    return model


def changed(chosen: Reasoning, **changes: Any) -> Reasoning:
    return replace(chosen, settings=replace(chosen.settings, **changes))
