"""ConE (Zhang et al., NeurIPS 2021): a query is a sector of the circle for each dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Attention, Layers, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import MarginModel, NetworkSettings
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs, K candidates, U entities, R relations, D width

_SMALL = 1e-3


@dataclass(frozen=True)
class ConESettings(NetworkSettings):
    margin: float = setting(30.0, "margin γ: the score of an entity at distance 0", above=0)
    inside: float = setting(0.02, "weight of distances within a cone", least=0)


class ConE(MarginModel):
    """Sets are [axis | aperture]: an angle in (-π, π), and half the width of a sector in [0, π]."""

    title = "ConE"
    Settings = ConESettings
    settings: ConESettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width, hidden, layers = self.settings.rank, self.settings.hidden, self.settings.layers
        self.entities_EW = uniform(entities, width, self.bound, generator)
        self.relation_axis_RD = uniform(relations, width, self.bound, generator)
        self.relation_aperture_RD = uniform(relations, width, self.bound, generator)
        self.modulus = nn.Parameter(torch.tensor([self.bound / 2]))
        self.projection = Layers(2 * width, hidden, layers, 2 * width, generator)
        self.axis = Attention(2 * width, width, width, generator)
        self.aperture = Attention(2 * width, width, width, generator)

    def angle(self, number_ND: Tensor) -> Tensor:
        return math.pi * (number_ND / self.bound).tanh()

    def anchor(self, row_NW: Tensor) -> Tensor:
        return torch.cat([self.angle(row_NW), torch.zeros_like(row_NW)], 1)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        turn_ND = self.angle(look_up(self.relation_axis_RD, relation_N))
        wider_ND = self.angle(look_up(self.relation_aperture_RD, relation_N))
        hidden_NX = self.projection(set_NX + torch.cat([turn_ND, wider_ND], 1), dropout)
        return to_cones(*hidden_NX.chunk(2, 1))  # eq:cone-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        axis_kND, aperture_kND = part_kNX.chunk(2, -1)
        ends_kNX = torch.cat([axis_kND - aperture_kND, axis_kND + aperture_kND], -1)
        weight_kND = self.axis(ends_kNX).softmax(0)
        x_ND, y_ND = (weight_kND * axis_kND.cos()).sum(0), (weight_kND * axis_kND.sin()).sum(0)
        x_ND = torch.where(x_ND.abs() < _SMALL, _SMALL, x_ND)  # atan2 has no gradient at 0, 0
        aperture_ND = aperture_kND.amin(0) * self.aperture.shrinking(ends_kNX)
        return torch.cat([torch.atan2(y_ND, x_ND), aperture_ND], 1)  # eq:cone-intersect

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        axis_ND, aperture_ND = set_NX.chunk(2, -1)
        return torch.cat([opposite(axis_ND), math.pi - aperture_ND], 1)  # eq:cone-negate

    def compared(self, row_UW: Tensor) -> Tensor:
        return half_angle(self.angle(row_UW))

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        sin_GKD, cos_GKD = row_GKF.chunk(2, -1)
        axis_G1D, aperture_G1D = set_GX[:, None].chunk(2, -1)
        outside_GKD, inside_GKD = half_sines(sin_GKD, cos_GKD, axis_G1D, aperture_G1D)
        distance_GK = (outside_GKD + self.settings.inside * inside_GKD).sum(-1)
        return self.settings.margin - self.modulus * distance_GK  # eq:cone-score

    @classmethod
    def products_per_row(cls, settings: NetworkSettings) -> float:
        return settings.products(2, 2)


def to_cones(axis_ND: Tensor, aperture_ND: Tensor) -> Tensor:
    """Any numbers as [axis | aperture]."""
    aperture_ND = math.pi / 2 * ((2 * aperture_ND).tanh() + 1)
    return torch.cat([math.pi * axis_ND.tanh(), aperture_ND], 1)


def opposite(axis_ND: Tensor) -> Tensor:
    """The angle on the other side, also between -π and π."""
    return torch.where(axis_ND >= 0, axis_ND - math.pi, axis_ND + math.pi)


def half_angle(angle_UD: Tensor) -> Tensor:
    """What `half_sines` needs of entities: [sine | cosine] of half their angles."""
    half_UD = angle_UD / 2
    return torch.cat([half_UD.sin(), half_UD.cos()], 1)


def half_sines(
    sin_GKD: Tensor, cos_GKD: Tensor, axis_G1D: Tensor, aperture_G1D: Tensor
) -> tuple[Tensor, Tensor]:
    """How far entities are outside of sectors, and how far inside, as sines of half the angles.

    With x half the angle between entity and axis, and b half the aperture, an entity is |sin x|
    from the axis and, if it is outside, the smaller of |sin(x + b)| and |sin(x - b)| from the
    sector: |sin x| cos b - |cos x| sin b, which is negative inside. Distances from the axis end
    at the edge.
    """
    half_axis, half_aperture = axis_G1D / 2, aperture_G1D / 2
    sin_axis, cos_axis = half_axis.sin(), half_axis.cos()
    away_GKD = (sin_GKD * cos_axis - cos_GKD * sin_axis).abs()
    near_GKD = (cos_GKD * cos_axis + sin_GKD * sin_axis).abs()
    edge_G1D = half_aperture.sin()
    outside_GKD = functional.relu(away_GKD * half_aperture.cos() - near_GKD * edge_G1D)
    return outside_GKD, torch.minimum(away_GKD, edge_G1D)
