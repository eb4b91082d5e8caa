"""RotatE (Sun et al. 2019): φ(h, r, t) = -‖r ⊗ h - t‖, each number of r a rotation by a phase.

Entities are complex vectors, stored as [real half | imaginary half]; relations are phases. The
norm is that of the whole vector (L2); the authors' code sums the moduli instead.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.predictors.complex import multiply
from clmpt.predictors.predictor import DISTANCE_DEFAULTS, EmbeddingPredictor

# Shapes: A atoms, B questions, E entities, D = 2 × rank, W = rank


class RotatE(EmbeddingPredictor):
    defaults = DISTANCE_DEFAULTS

    @classmethod
    def width(cls, rank: int) -> int:
        return 2 * rank

    @classmethod
    def other_numbers(cls, rows: int, rank: int) -> int:
        return rows * rank

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        entities_ED = torch.rand(entities, 2 * rank, generator=generator).mul_(2).sub_(1)
        phases_SW = torch.rand(rows, rank, generator=generator).mul_(2).sub_(1)
        return entities_ED.mul_(scale), phases_SW.mul_(math.pi)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        if entity_width != 2 * relation_width:
            raise DataError(
                f"RotatE needs entities twice as wide as relations, not {entity_width} and "
                f"{relation_width}."
            )

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        rotation_AD = torch.cat([relation_AW.cos(), relation_AW.sin()], dim=-1)
        return multiply(rotation_AD, source_AD)

    def reverse(self, relation_AW: Tensor) -> Tensor:
        return -relation_AW

    def match(self, projected_AD: Tensor, entity_AD: Tensor) -> Tensor:
        distance_A: Tensor = torch.linalg.vector_norm(projected_AD - entity_AD, dim=-1)
        return -distance_A

    def match_all(self, projected_BD: Tensor, entities_ED: Tensor) -> Tensor:
        # Computing this with matrix products is faster, but too inexact for small distances.
        return -torch.cdist(projected_BD, entities_ED, compute_mode="donot_use_mm_for_euclid_dist")
