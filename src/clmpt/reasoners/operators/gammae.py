"""GammaE (Yang et al., EMNLP 2022): a query is a Gamma distribution for each dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.logic.operator_tree import Intersect, Negate, Unite
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Attention, Layers, attended, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import ByProducts, NetworkSettings
from clmpt.reasoners.token_sets import linear
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs, E entities, R relations, D width

_LEAST, _MOST = 0.15, 1e9
_TURN = 0.07  # how far negation moves β
_SMALL, _LEAST_WEIGHT = 1e-4, 1e-6  # so that nothing is divided by 0


@dataclass(frozen=True)
class GammaESettings(NetworkSettings):
    margin: float = setting(60.0, "margin γ: the score of an entity at distance 0", above=0)
    union: Literal["operator", "disjunctive", "de-morgan"] = setting(  # type: ignore[assignment]
        "operator", "a network of its own, the best of the disjuncts, or a | b as !(!a & !b)"
    )
    united: Literal["rate", "scale"] = setting(
        "rate", "what a union makes of the second number; released is a scale in place of a rate"
    )


class GammaE(ByProducts):
    """Sets are [α | β], shapes and rates."""

    title = "GammaE"
    Settings = GammaESettings
    operators = frozenset({Intersect, Negate, Unite})
    settings: GammaESettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width, bound = self.settings.rank, 3 * self.bound
        self.entities_EW = uniform(entities, 2 * width, bound, generator)
        self.relation_alpha_RD = uniform(relations, width, bound, generator)
        self.relation_beta_RD = uniform(relations, width, bound, generator)
        hidden, layers = self.settings.hidden, self.settings.layers

        def pair(make: type[nn.Module], *sizes: int) -> nn.ModuleDict:
            return nn.ModuleDict({each: make(*sizes, generator) for each in ("alpha", "beta")})

        self.projection = pair(Layers, 2 * width, hidden, layers, width)
        self.intersection = pair(Attention, 2 * width, width, width)
        self.union = pair(_UnionAttention, width)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        alpha_ND, beta_ND = set_NX.chunk(2, -1)
        from_alpha = torch.cat([alpha_ND, look_up(self.relation_alpha_RD, relation_N)], 1)
        from_beta = torch.cat([beta_ND, look_up(self.relation_beta_RD, relation_N)], 1)
        found = [
            self.projection["alpha"](from_alpha, dropout),
            self.projection["beta"](from_beta, dropout),
        ]
        return _positive(torch.cat(found, 1))  # eq:gammae-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        return attended(part_kNX, _logits(self.intersection, part_kNX))  # eq:gammae-intersect

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        alpha_ND, beta_ND = set_NX.chunk(2, -1)
        turned_ND = torch.where(beta_ND >= 1, beta_ND - _TURN, beta_ND + _TURN)
        return torch.cat([1 / alpha_ND, turned_ND], 1)  # eq:gammae-negate

    def unite(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        weight_kNX = _logits(self.union, part_kNX).softmax(0).clamp_min(_LEAST_WEIGHT)
        weighed_kNX = weight_kNX * part_kNX
        shape_kND, rate_kND = weighed_kNX.chunk(2, -1)
        scale_kND = 1 / rate_kND
        mean_ND = (shape_kND * scale_kND).sum(0)
        alpha_ND = mean_ND**2 / (shape_kND * scale_kND**2).sum(0)
        scale_ND = mean_ND / (alpha_ND * len(part_kNX))
        beta_ND = scale_ND if self.settings.united == "scale" else 1 / scale_ND
        found_NX = torch.cat([alpha_ND, beta_ND], 1)
        return torch.where(found_NX.abs() < _SMALL, _SMALL, found_NX)  # eq:gammae-unite

    def of_sets(self, set_GX: Tensor) -> tuple[Tensor, Tensor]:
        alpha_GD, beta_GD = set_GX.chunk(2, -1)
        own_G = (alpha_GD.lgamma() - alpha_GD * beta_GD.log()).sum(-1)
        return set_GX, self.settings.margin - own_G

    def of_entities(self, row_UW: Tensor) -> tuple[Tensor, Tensor]:
        """KL(Gamma(a, b) ‖ Gamma(α, β)) = α ln(b / β) + lnΓ(α) - lnΓ(a) + (a - α) ψ(a)
        + (β - b) a / b, summed over dimensions; it is never negative."""
        a_UD, b_UD = _positive(row_UW).chunk(2, -1)
        mean_UX = torch.cat([a_UD.digamma() - b_UD.log(), -a_UD / b_UD], 1)  # of ln x and -x
        own_U = (a_UD.lgamma() - a_UD * a_UD.digamma() + a_UD).sum(-1)
        return mean_UX, own_U  # eq:gammae-score

    @classmethod
    def products_per_row(cls, settings: NetworkSettings) -> float:
        return 2 * settings.products(2, 1)


class _UnionAttention(nn.Module):
    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layer1 = linear(2 * width, width, generator)
        self.layer2 = linear(width, max(1, width // 2), generator)
        self.layer3 = linear(max(1, width // 2), width, generator)

    def forward(self, part_kNX: Tensor) -> Tensor:
        hidden_kND = functional.relu(self.layer2(functional.relu(self.layer1(part_kNX))))
        logits_kND: Tensor = self.layer3(hidden_kND)
        return logits_kND


def _logits(pair: nn.ModuleDict, part_kNX: Tensor) -> Tensor:
    return torch.cat([pair["alpha"](part_kNX), pair["beta"](part_kNX)], -1)


def _positive(value_NW: Tensor) -> Tensor:
    return (value_NW + 1).clamp(_LEAST, _MOST)
