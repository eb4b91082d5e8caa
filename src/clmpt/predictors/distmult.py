"""DistMult (Yang et al. 2015): φ(h, r, t) = ⟨r · h, t⟩, symmetric in head and tail."""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.predictors.inner_products import DiagonalPredictor
from clmpt.predictors.predictor import check_same_width

# Shapes: A atoms, D = rank


class DistMult(DiagonalPredictor):
    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        entities_ED = torch.randn(entities, rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, rank, generator=generator).mul_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        check_same_width("DistMult", entity_width, relation_width)

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        return relation_AW * source_AD

    def reverse(self, relation_AW: Tensor) -> Tensor:
        return relation_AW

    def cubed_moduli(self, embedding_AD: Tensor) -> Tensor:
        return embedding_AD.abs() ** 3
