"""ConvE (Dettmers et al. 2018): φ(h, r, t) = ⟨f(h, r), t⟩ + b_t, f a convolutional network.

The numbers of h and of r become two grids, one above the other, which the network reads as a
picture. An entity's last number is its bias b as an answer, and what f projects to ends in a 1: so
the score is an inner product of embeddings. The network cannot be reversed, so a head is predicted
as the tail of the inverse, as published.

Each picture is normalised by itself (layer norm), not with its batch as published: otherwise a
score would depend on what else is asked.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.compute.chunks import rows_at_once
from clmpt.errors import DataError, SettingError
from clmpt.predictors.inner_products import LARGER_START, InnerProductPredictor, check_numbers
from clmpt.predictors.predictor import check_same_width

# Shapes: A atoms, D = rank, W = rank, H × L a picture's height and length, C channels, h × l a
# filter's size, X features: what the filters make of a picture, V = D - 1

_CHANNELS, _FILTER = 32, 3
_COPIES = 4  # of the features, while a network is applied


class ConvE(InnerProductPredictor):
    defaults = LARGER_START

    def __init__(self, entities_ED: Tensor, relations_SW: Tensor, inverse_R: Tensor) -> None:
        super().__init__(entities_ED, relations_SW, inverse_R)
        width, new = entities_ED.shape[1], entities_ED.new_zeros
        self.picture = 2 * grid(width)[0], grid(width)[1]
        self.filters_C1hl = nn.Parameter(new(_CHANNELS, 1, *_filter(width)))
        self.feature_scale_C = nn.Parameter(new(_CHANNELS))
        self.feature_shift_C = nn.Parameter(new(_CHANNELS))
        self.features_VX = nn.Parameter(new(width - 1, _features(width)))
        self.hidden_scale_V = nn.Parameter(new(width - 1))
        self.hidden_shift_V = nn.Parameter(new(width - 1))

    @classmethod
    def other_numbers(cls, rows: int, rank: int) -> int:
        return rows * rank + _features(rank) * (rank - 1)

    @classmethod
    def products(cls, rank: int) -> float:
        high, long = _filter(rank)
        return 2.0 * _features(rank) * (high * long + rank - 1)

    @classmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        if rank < 2:
            raise SettingError("ConvE needs a rank of at least 2: one number is an entity's bias.")
        check_numbers(f"ConvE's network at rank {rank:,}", _features(rank) * (rank - 1))
        entities_ED = torch.randn(entities, rank, generator=generator).mul_(scale)
        return entities_ED, torch.randn(rows, rank, generator=generator).mul_(scale)

    def initialise(self, generator: torch.Generator) -> None:
        for weights in (self.filters_C1hl, self.features_VX):
            nn.init.normal_(weights, generator=generator)
        for scale in (self.feature_scale_C, self.hidden_scale_V):
            nn.init.ones_(scale)

    def check_widths(self, entity_width: int, relation_width: int) -> None:
        check_same_width("ConvE", entity_width, relation_width)
        if entity_width < 2:
            raise DataError("ConvE needs a width of at least 2: one number is an entity's bias.")

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        step = rows_at_once(_COPIES * self.features_VX.shape[1])
        pairs = zip(torch.split(source_AD, step), torch.split(relation_AW, step), strict=True)
        parts = [self._hidden(*pair) for pair in pairs]
        hidden_AV = torch.cat(parts).to(source_AD.dtype)
        return functional.pad(hidden_AV, (0, 1), value=1.0)  # eq:conve

    def _hidden(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        pictures_A1HL = torch.cat([source_AD, relation_AW], 1).view(-1, 1, *self.picture)
        pictures_A1HL = functional.layer_norm(pictures_A1HL, pictures_A1HL.shape[1:])
        features_ACHL = functional.conv2d(pictures_A1HL, self.filters_C1hl)
        affine = self.feature_scale_C, self.feature_shift_C
        features_ACHL = functional.group_norm(features_ACHL, 1, *affine).relu()
        scale = self.features_VX.shape[1] ** -0.5  # all weights start near 1: one rate suits all
        hidden_AV = functional.linear(features_ACHL.flatten(1), self.features_VX * scale)
        affine = self.hidden_scale_V, self.hidden_shift_V
        return functional.layer_norm(hidden_AV, hidden_AV.shape[1:], *affine).relu()


def grid(width: int) -> tuple[int, int]:
    """The grid of so many numbers that is closest to a square, and at least as high as long.

    >>> grid(200), grid(7)  # as published; of a prime number a column
    ((20, 10), (7, 1))
    """
    long = next(side for side in range(math.isqrt(width), 0, -1) if width % side == 0)
    return width // long, long


def _filter(width: int) -> tuple[int, int]:
    """A filter's height and length: no larger than the picture."""
    high, long = grid(width)
    return min(_FILTER, 2 * high), min(_FILTER, long)


def _features(width: int) -> int:
    (high, long), (filter_high, filter_long) = grid(width), _filter(width)
    return _CHANNELS * (2 * high - filter_high + 1) * (long - filter_long + 1)
