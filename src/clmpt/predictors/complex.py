"""ComplEx (Trouillon et al. 2016): φ(h, r, t) = Re⟨r ⊗ h, t̄⟩, the paper's predictor.

Complex vectors are stored as [real half | imaginary half].
"""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.predictors.inner_products import DiagonalPredictor

# Shapes: A atoms, D = 2 × rank


class ComplEx(DiagonalPredictor):
    @classmethod
    def width(cls, rank: int) -> int:
        return 2 * rank

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        entities_ED = torch.randn(entities, 2 * rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, 2 * rank, generator=generator).mul_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        if entity_width != relation_width or entity_width % 2:
            raise DataError(
                f"ComplEx needs entities and relations of the same even width, not "
                f"{entity_width} and {relation_width}."
            )

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        return multiply(relation_AW, source_AD)  # eq:rho-tail

    def reverse(self, relation_AW: Tensor) -> Tensor:
        return conjugate(relation_AW)  # eq:rho-head

    def cubed_moduli(self, embedding_AD: Tensor) -> Tensor:
        real, imaginary = embedding_AD.chunk(2, dim=-1)
        return (real**2 + imaginary**2) ** 1.5  # has gradient 0 at 0, unlike a square root


def multiply(left_AD: Tensor, right_AD: Tensor) -> Tensor:
    """The element-wise product of complex vectors.

    >>> multiply(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))  # (1 + 2i)(3 + 4i)
    tensor([[-5., 10.]])
    """
    left_real, left_imaginary = left_AD.chunk(2, dim=-1)
    right_real, right_imaginary = right_AD.chunk(2, dim=-1)
    return torch.cat(
        [
            left_real * right_real - left_imaginary * right_imaginary,
            left_real * right_imaginary + left_imaginary * right_real,
        ],
        dim=-1,
    )


def conjugate(vector_AD: Tensor) -> Tensor:
    real, imaginary = vector_AD.chunk(2, dim=-1)
    return torch.cat([real, -imaginary], dim=-1)
