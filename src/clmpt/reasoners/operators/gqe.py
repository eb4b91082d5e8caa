"""GQE (Hamilton et al., NeurIPS 2018): a query is a point, and its answers are near it.

As in the comparisons since Query2box: a relation is a translation, an intersection a mean weighted
by attention, and nearness the L1 distance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.logic.operator_tree import Intersect
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Attention, attended, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import MarginModel, MarginSettings

# Shapes: N rows, k parts, G graphs, K candidates, E entities, R relations, D width


class GQE(MarginModel):
    """Sets are points_ND."""

    title = "GQE"
    Settings = MarginSettings
    operators = frozenset({Intersect})

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width = self.settings.rank
        self.entities_EW = uniform(entities, width, self.bound, generator)
        self.relations_RD = uniform(relations, width, self.bound, generator)
        self.intersection = Attention(width, width, width, generator)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        return set_NX + look_up(self.relations_RD, relation_N)  # eq:gqe-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        return attended(part_kNX, self.intersection(part_kNX))  # eq:gqe-intersect

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        distance_GK = (row_GKF - set_GX[:, None]).abs().sum(-1)
        return self.settings.margin - distance_GK  # eq:gqe-score

    def match_all(self, set_GX: Tensor, row_EF: Tensor) -> Tensor:
        return self.settings.margin - torch.cdist(set_GX, row_EF, p=1.0)

    @classmethod
    def products_per_row(cls, settings: MarginSettings) -> float:
        return 2.0 * settings.rank**2
