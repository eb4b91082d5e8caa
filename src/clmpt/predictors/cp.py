"""CP (Hitchcock 1927, Lacroix et al. 2018): φ(h, r, t) = ⟨r · h, t'⟩.

An entity has two vectors, one as a head and one as a tail: [head half | tail half]. What a relation
projects to is matched with the tail half, so its head half is zero. A head is predicted as the tail
of the inverse, which has a vector of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.predictors.inner_products import LARGER_START, DiagonalPredictor

# Shapes: A atoms, B questions, T facts, D = 2 × rank, W = rank


class CP(DiagonalPredictor):
    defaults = LARGER_START

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
        entities_ED = torch.randn(entities, 2 * rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, rank, generator=generator).mul_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        if entity_width != 2 * relation_width:
            raise DataError(
                f"CP needs entities twice as wide as relations, not {entity_width} and "
                f"{relation_width}."
            )

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        as_tail_AW = relation_AW * source_AD.chunk(2, dim=-1)[0]  # eq:cp
        return torch.cat([torch.zeros_like(as_tail_AW), as_tail_AW], dim=-1)

    def score_relations(self, head_TD: Tensor, tail_TD: Tensor) -> Tensor:
        product_TW = head_TD.chunk(2, dim=-1)[0] * tail_TD.chunk(2, dim=-1)[1]
        return product_TW @ self.relations_SW.T

    def regulariser(
        self,
        count_B: Tensor,
        head_BD: Tensor,
        relations: tuple[Tensor, Tensor],
        projected_BD: Tensor,
        answer_TD: Tensor,
    ) -> Tensor:
        """Of the halves that the facts use."""
        as_head_BW, as_tail_TW = head_BD.chunk(2, dim=-1)[0], answer_TD.chunk(2, dim=-1)[1]
        return super().regulariser(count_B, as_head_BW, relations, projected_BD, as_tail_TW)

    def cubed_moduli(self, embedding_AD: Tensor) -> Tensor:
        return embedding_AD.abs() ** 3
