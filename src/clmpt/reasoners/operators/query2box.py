"""Query2box (Ren et al., ICLR 2020): a query is a box, and its answers are in it or near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.logic.operator_tree import Intersect
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Attention, attended, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import MarginModel, MarginSettings
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs, K candidates, E entities, R relations, D width


@dataclass(frozen=True)
class Query2boxSettings(MarginSettings):
    inside: float = setting(0.02, "weight α of distances within a box", least=0)
    offsets: Literal["absolute", "raw"] = setting(
        "absolute", "a relation widens a box by |offset|, or by a number that may be negative"
    )


class Query2box(MarginModel):
    """Sets are boxes: [centre | offset], which is half of a side."""

    title = "Query2box"
    Settings = Query2boxSettings
    operators = frozenset({Intersect})
    settings: Query2boxSettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width = self.settings.rank
        self.entities_EW = uniform(entities, width, self.bound, generator)
        self.relations_RD = uniform(relations, width, self.bound, generator)
        offsets = uniform(relations, width, self.bound, generator)
        self.offsets_RD = nn.Parameter(offsets.detach().abs())
        self.center = Attention(width, width, width, generator)
        self.offset = Attention(width, width, width, generator)

    def anchor(self, row_NW: Tensor) -> Tensor:
        return torch.cat([row_NW, torch.zeros_like(row_NW)], 1)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        wider_ND = look_up(self.offsets_RD, relation_N)
        if self.settings.offsets == "absolute":
            wider_ND = wider_ND.abs()
        moved_ND = look_up(self.relations_RD, relation_N)
        return set_NX + torch.cat([moved_ND, wider_ND], 1)  # eq:query2box-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        centre_kND, offset_kND = part_kNX.chunk(2, -1)
        centre_ND = attended(centre_kND, self.center(centre_kND))
        offset_ND = offset_kND.amin(0) * self.offset.shrinking(offset_kND)
        return torch.cat([centre_ND, offset_ND], 1)  # eq:query2box-intersect

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        centre_G1D, offset_G1D = set_GX[:, None].chunk(2, -1)
        distance_GKD = (row_GKF - centre_G1D).abs()
        outside_GK = functional.relu(distance_GKD - offset_G1D).sum(-1)
        inside_GK = torch.minimum(distance_GKD, offset_G1D).abs().sum(-1)
        settings = self.settings
        return settings.margin - outside_GK - settings.inside * inside_GK  # eq:query2box-score

    def match_all(self, set_GX: Tensor, row_EF: Tensor) -> Tensor:
        """By distances to two corners and the centre: of steps, a quarter of the time. With an
        offset o ≥ 0, max(0, |d| - o) is half of |d - o| + |d + o|, less o."""
        if self.settings.offsets != "absolute":
            return super().match_all(set_GX, row_EF)
        centre_GD, offset_GD = set_GX.chunk(2, -1)
        low_GE, high_GE, centre_GE = (
            torch.cdist(corner_GD, row_EF, p=1.0)
            for corner_GD in (centre_GD - offset_GD, centre_GD + offset_GD, centre_GD)
        )
        outside_GE = (low_GE + high_GE) / 2 - offset_GD.sum(-1, keepdim=True)
        inside_GE = centre_GE - outside_GE
        return self.settings.margin - outside_GE - self.settings.inside * inside_GE

    @classmethod
    def products_per_row(cls, settings: MarginSettings) -> float:
        return 4.0 * settings.rank**2
