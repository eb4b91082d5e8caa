"""CylE (Nguyen et al., EMNLP 2023): cones with a height, which negation keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.cone import half_angle, half_sines, opposite, to_cones
from clmpt.reasoners.operators.networks import Attention, Layers, attended, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import MarginModel, NetworkSettings
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs, K candidates, U entities, R relations, D width


@dataclass(frozen=True)
class CylESettings(NetworkSettings):
    margin: float = setting(20.0, "margin γ: the score of an entity at distance 0", above=0)
    inside: float = setting(0.02, "weight of distances within a sector", least=0)


class CylE(MarginModel):
    """Sets are [axis | aperture | height]; rows of entities are [axis | height]."""

    title = "CylE"
    Settings = CylESettings
    settings: CylESettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width, hidden, layers = self.settings.rank, self.settings.hidden, self.settings.layers
        self.entities_EW = uniform(entities, 2 * width, self.bound, generator)
        self.relation_axis_RD = uniform(relations, width, self.bound, generator)
        self.relation_aperture_RD = uniform(relations, width, self.bound, generator)
        self.relation_height_RD = uniform(relations, width, self.bound, generator)
        self.modulus = nn.Parameter(torch.tensor([self.bound / 2]))
        silu = functional.silu
        self.projection = Layers(3 * width, hidden, layers, 3 * width, generator, silu)
        self.intersection = Attention(3 * width, 2 * width, width, generator, silu)

    def angle(self, number_ND: Tensor) -> Tensor:
        return math.pi * (number_ND / self.bound).tanh()

    def anchor(self, row_NW: Tensor) -> Tensor:
        axis_ND, height_ND = row_NW.chunk(2, 1)
        found = [self.angle(axis_ND), torch.zeros_like(axis_ND), _height(height_ND)]
        return torch.cat(found, 1)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        axis_ND, aperture_ND, height_ND = (
            look_up(table, relation_N)
            for table in (
                self.relation_axis_RD,
                self.relation_aperture_RD,
                self.relation_height_RD,
            )
        )
        moved = [self.angle(axis_ND), self.angle(aperture_ND), _height(height_ND)]
        hidden_NX = self.projection(set_NX + torch.cat(moved, 1), dropout)
        axis_ND, aperture_ND, height_ND = hidden_NX.chunk(3, 1)
        return torch.cat([to_cones(axis_ND, aperture_ND), _height(height_ND)], 1)  # eq:cyle-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        logits_kND = self.intersection(part_kNX)
        return attended(part_kNX, logits_kND.repeat(1, 1, 3))  # eq:cyle-intersect

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        axis_ND, aperture_ND, height_ND = set_NX.chunk(3, 1)
        turned = [opposite(axis_ND), math.pi - aperture_ND, height_ND]
        return torch.cat(turned, 1)  # eq:cyle-negate

    def compared(self, row_UW: Tensor) -> Tensor:
        axis_UD, height_UD = row_UW.chunk(2, 1)
        return torch.cat([half_angle(self.angle(axis_UD)), _height(height_UD)], 1)

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        """Distances are 1 - cos of an angle: twice the square of the sine of its half."""
        sin_GKD, cos_GKD, height_GKD = row_GKF.chunk(3, -1)
        axis_G1D, aperture_G1D, own_G1D = set_GX[:, None].chunk(3, -1)
        outside_GKD, inside_GKD = half_sines(sin_GKD, cos_GKD, axis_G1D, aperture_G1D)
        apart_GKD = 2 * (outside_GKD**2 + self.settings.inside * inside_GKD**2)
        distance_GK = (apart_GKD + (height_GKD - own_G1D).abs()).sum(-1)
        return self.settings.margin - self.modulus * distance_GK  # eq:cyle-score

    @classmethod
    def products_per_row(cls, settings: NetworkSettings) -> float:
        return settings.products(3, 3)


def _height(number_ND: Tensor) -> Tensor:
    return math.pi * number_ND.tanh()  # 2π (σ(2v) - ½)
