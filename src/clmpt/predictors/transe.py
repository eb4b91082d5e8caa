"""TransE (Bordes et al. 2013): φ(h, r, t) = -‖h + r - t‖₁."""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.predictors.predictor import DISTANCE_DEFAULTS, EmbeddingPredictor, check_same_width

# Shapes: A atoms, B questions, E entities, D = rank


class TransE(EmbeddingPredictor):
    defaults = DISTANCE_DEFAULTS

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        entities_ED = torch.rand(entities, rank, generator=generator).mul_(2).sub_(1)
        relations_SW = torch.rand(rows, rank, generator=generator).mul_(2).sub_(1)
        return entities_ED.mul_(scale), relations_SW.mul_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        check_same_width("TransE", entity_width, relation_width)

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        return source_AD + relation_AW

    def reverse(self, relation_AW: Tensor) -> Tensor:
        return -relation_AW

    def match(self, projected_AD: Tensor, entity_AD: Tensor) -> Tensor:
        return -(projected_AD - entity_AD).abs().sum(-1)

    def match_all(self, projected_BD: Tensor, entities_ED: Tensor) -> Tensor:
        return -torch.cdist(projected_BD, entities_ED, p=1)
