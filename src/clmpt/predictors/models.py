"""The predictors there are, by the names that settings and checkpoints use."""

from __future__ import annotations

import torch

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.distmult import DistMult
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.predictors.rotate import RotatE
from clmpt.predictors.transe import TransE
from clmpt.queries.links import inverse_rows
from clmpt.settings import Pretraining

MODELS: dict[str, type[EmbeddingPredictor]] = {
    model.name: model for model in (ComplEx, DistMult, TransE, RotatE)
}


def fresh_predictor(graph: KnowledgeGraph, settings: Pretraining) -> EmbeddingPredictor:
    """An untrained predictor with a row for every relation of the graph and every missing inverse.

    The same seed gives the same numbers on any device.
    """
    inverse_R = inverse_rows(graph)
    rows = max(len(graph.relations), int(inverse_R.max(initial=-1)) + 1)
    generator = torch.Generator().manual_seed(settings.seed)
    entities_ED, relations_SW = MODELS[settings.model].initial(
        len(graph.entities), rows, settings.rank, settings.initial_scale, generator
    )
    return MODELS[settings.model](entities_ED, relations_SW, torch.from_numpy(inverse_R))
