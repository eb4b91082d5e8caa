"""RESCAL (Nickel et al. 2011): φ(h, r, t) = hᵀ R t, a matrix for each relation.

A relation has rank² numbers, so ranks are lower than elsewhere: at rank 500, a thousand relations
and inverses have as many numbers as a million entities of rank 250.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.predictors.inner_products import LARGER_START, MatrixPredictor, check_numbers

# Shapes: A atoms, N relations, D = rank, W = rank²


class RESCAL(MatrixPredictor):
    defaults = LARGER_START

    @classmethod
    def other_numbers(cls, rows: int, rank: int) -> int:
        return rows * rank**2

    @classmethod
    def products(cls, rank: int) -> float:
        return 2.0 * rank**2

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        check_numbers(f"{rows:,} relations and inverses of RESCAL at rank {rank:,}", rows * rank**2)
        entities_ED = torch.randn(entities, rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, rank**2, generator=generator).mul_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        if relation_width != entity_width**2:
            raise DataError(
                "RESCAL needs relations of width² numbers for entities of a width, not "
                f"{relation_width} for {entity_width}."
            )

    def matrices(self, relations_NW: Tensor) -> Tensor:
        width = self.entities_ED.shape[1]
        return relations_NW.view(-1, width, width)  # eq:rescal

    def reverse(self, relation_AW: Tensor) -> Tensor:
        return self.matrices(relation_AW).mT.flatten(1)
