"""TuckER (Balažević et al. 2019): φ(h, r, t) = Σ h_i r_j t_k G_jik, with one core tensor G.

The core mixes the same matrices for all relations, and r says how much of each. A head is predicted
as the tail of the inverse, as published.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clmpt.predictors.inner_products import LARGER_START, MatrixPredictor, check_numbers

# Shapes: E entities, S rows of the relation table, N relations, D width of an entity, W of a
# relation


class TuckER(MatrixPredictor):
    defaults = LARGER_START

    def __init__(self, entities_ED: Tensor, relations_SW: Tensor, inverse_R: Tensor) -> None:
        super().__init__(entities_ED, relations_SW, inverse_R)
        width = entities_ED.shape[1]
        self.core_WDD = nn.Parameter(entities_ED.new_zeros(relations_SW.shape[1], width, width))

    @classmethod
    def other_numbers(cls, rows: int, rank: int) -> int:
        return rows * rank + rank**3

    @classmethod
    def products(cls, rank: int) -> float:
        return 2.0 * rank**3

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        check_numbers(f"The core tensor of TuckER at rank {rank:,}", rank**3)
        entities_ED = torch.randn(entities, rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, rank, generator=generator).mul_(scale)

    def initialise(self, generator: torch.Generator) -> None:
        nn.init.uniform_(self.core_WDD, -1, 1, generator=generator)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        """Any two fit: the core has the width of each."""

    def matrices(self, relations_NW: Tensor) -> Tensor:
        matrices_NX = relations_NW @ self.core_WDD.flatten(1)  # eq:tucker
        return matrices_NX.view(-1, *self.core_WDD.shape[1:])
