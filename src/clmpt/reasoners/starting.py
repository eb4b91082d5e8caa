"""Training that starts from the weights of a trained model, perhaps of an older graph.

What a model learned besides embeddings carries over as it is. Embeddings that are trained on carry
over by name; those of a frozen predictor are its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.carrying_over import carry_over
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.reasoners.model import ReasonerModel
from clmpt.reasoners.reasoner_folder import StoredWeights, own_state


@torch.no_grad()
def start_from(model: ReasonerModel, start: StoredWeights | None, graph: KnowledgeGraph) -> None:
    """Gives an untrained model the weights that it has in common with a trained one, if any."""
    if start is None:
        return
    embedded = tuple(
        f"{name}." for name, part in model.named_modules() if isinstance(part, EmbeddingPredictor)
    )
    learned = {name for name, _ in model.named_parameters() if not name.startswith(embedded)}
    shared = [name for name in own_state(model) if name in learned and name in start.own]
    if learned and not shared:
        raise DataError(
            f"A {model.title} model has no weights in common with the one to start from."
        )
    own = model.state_dict(keep_vars=True)
    for name in shared:
        if own[name].shape != start.own[name].shape:
            raise DataError(
                f"The model to start from has other settings: '{name}' has the size "
                f"{_size(start.own[name])} there, {_size(own[name])} here."
            )
        own[name].copy_(start.own[name])
    into = model.predictor
    if start.predictor is not None and into is not None and into.entities_ED.requires_grad:
        carry_over(start.predictor, into, start.names.match(graph))


def _size(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape)) or "1"
