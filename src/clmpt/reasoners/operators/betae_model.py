"""BetaE (Ren and Leskovec, NeurIPS 2020): a query is a Beta distribution for each dimension."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Attention, Layers, attended, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import ByProducts, NetworkSettings
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs, E entities, R relations, D width

_LEAST, _MOST = 0.05, 1e9


@dataclass(frozen=True)
class BetaESettings(NetworkSettings):
    margin: float = setting(60.0, "margin γ: the score of an entity at distance 0", above=0)


class BetaE(ByProducts):
    """Sets are [α | β]."""

    title = "BetaE"
    Settings = BetaESettings
    settings: BetaESettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width, hidden = self.settings.rank, self.settings.hidden
        self.entities_EW = uniform(entities, 2 * width, self.bound, generator)
        self.relations_RD = uniform(relations, width, self.bound, generator)
        layers = self.settings.layers
        self.projection = Layers(3 * width, hidden, layers, 2 * width, generator)
        self.intersection = Attention(2 * width, 2 * width, width, generator)

    def anchor(self, row_NW: Tensor) -> Tensor:
        return _positive(row_NW)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        input_NX = torch.cat([set_NX, look_up(self.relations_RD, relation_N)], 1)
        return _positive(self.projection(input_NX, dropout))  # eq:betae-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        logits_kND = self.intersection(part_kNX)
        return attended(part_kNX, logits_kND.repeat(1, 1, 2))  # eq:betae-intersect

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        return 1 / set_NX  # eq:betae-negate

    def of_sets(self, set_GX: Tensor) -> tuple[Tensor, Tensor]:
        alpha_GD, beta_GD = set_GX.chunk(2, -1)
        return set_GX, self.settings.margin - _log_beta(alpha_GD, beta_GD).sum(-1)

    def of_entities(self, row_UW: Tensor) -> tuple[Tensor, Tensor]:
        """KL(Beta(a, b) ‖ Beta(α, β)) = ln B(α, β) - ln B(a, b) + (a - α) (ψ(a) - ψ(a + b))
        + (b - β) (ψ(b) - ψ(a + b)), summed over dimensions; it is never negative."""
        whole_UW = _positive(row_UW)
        a_UD, b_UD = whole_UW.chunk(2, -1)
        mean_UW = whole_UW.digamma() - (a_UD + b_UD).digamma().repeat(1, 2)  # of ln x, ln(1 - x)
        own_U = _log_beta(a_UD, b_UD).sum(-1) - (whole_UW * mean_UW).sum(-1)
        return mean_UW, own_U  # eq:betae-score

    @classmethod
    def products_per_row(cls, settings: NetworkSettings) -> float:
        return settings.products(3, 2)


def _positive(value_NW: Tensor) -> Tensor:
    return (value_NW + 1).clamp(_LEAST, _MOST)


def _log_beta(a_ND: Tensor, b_ND: Tensor) -> Tensor:
    return a_ND.lgamma() + b_ND.lgamma() - (a_ND + b_ND).lgamma()
