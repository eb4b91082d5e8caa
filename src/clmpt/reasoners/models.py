"""Reasoners by name."""

from __future__ import annotations

import torch

from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.reasoners.message_passing.clmpt import CLMPT, MessagePassing
from clmpt.reasoners.message_passing.lmpnn import LMPNN
from clmpt.settings import Reasoning

REASONERS: dict[str, type[MessagePassing]] = {"clmpt": CLMPT, "lmpnn": LMPNN}


def fresh_reasoner(predictor: EmbeddingPredictor, settings: Reasoning, seed: int) -> MessagePassing:
    """An untrained reasoner on a trained predictor, which it takes over and trains further."""
    generator = torch.Generator().manual_seed(seed)
    model = REASONERS[settings.reasoner](predictor, settings, generator)
    predictor.requires_grad_(not settings.frozen)
    return model.to(predictor.entities_ED.device, predictor.entities_ED.dtype)
