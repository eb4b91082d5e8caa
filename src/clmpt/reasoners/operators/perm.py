"""PERM (Choudhary et al., NeurIPS 2021): a query is a Gaussian, or with *or* a mixture of some.

An entity is near if its Mahalanobis distance is small. All operators act on each Gaussian of a
mixture, so a query's mixture has one for each of its disjuncts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from clmpt.logic.operator_tree import Intersect
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.networks import Layers, uniform
from clmpt.reasoners.operators.program import OperatorBatch, OperatorStep
from clmpt.reasoners.operators.set_model import ByProducts, MarginSettings
from clmpt.settings import setting

# Shapes: N rows, k parts, G graphs (Gaussians), Q queries, K candidates, E entities, R relations,
# D width

_FLAT = 1e-6  # a precision that is not divided by


@dataclass(frozen=True)
class PERMSettings(MarginSettings):
    mixture: Literal["weighted", "nearest"] = setting(
        "weighted", "distance from a mixture: the weighted mean, or that from the nearest Gaussian"
    )


class PERM(ByProducts):
    """Sets are [mean | precision], with a covariance matrix for each that is diagonal."""

    title = "PERM"
    Settings = PERMSettings
    operators = frozenset({Intersect})
    settings: PERMSettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width = self.settings.rank
        # Of a question of one hop, an entity is then about γ away: precisions are 1.
        bound = (self.settings.margin / width) ** 0.5
        self.entities_EW = _table(entities, width, bound, generator)
        self.relations_RX = _table(relations, width, bound, generator)
        self.attention = Layers(2 * width, width, 1, 1, generator)
        nn.init.zeros_(self.attention.layer0.weight)  # until it is trained, all weigh the same

    def anchor(self, row_NW: Tensor) -> Tensor:
        mean_ND, root_ND = row_NW.chunk(2, -1)
        return torch.cat([mean_ND, root_ND**2], 1)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        return set_NX + self.anchor(look_up(self.relations_RX, relation_N))  # eq:perm-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        mean_kND, precision_kND = part_kNX.chunk(2, -1)
        precision_ND = precision_kND.sum(0)
        weighted_ND = (precision_kND * mean_kND).sum(0)
        return torch.cat(
            [weighted_ND / precision_ND.clamp_min(_FLAT), precision_ND], 1
        )  # eq:perm-intersect

    def of_sets(self, set_GX: Tensor) -> tuple[Tensor, Tensor]:
        """γ - Σ precision (entity - mean)², written out."""
        mean_GD, precision_GD = set_GX.chunk(2, -1)
        factor_GX = torch.cat([-precision_GD, 2 * precision_GD * mean_GD], 1)
        return factor_GX, self.settings.margin - (precision_GD * mean_GD**2).sum(1)  # eq:perm-score

    def of_entities(self, row_UW: Tensor) -> tuple[Tensor, Tensor]:
        mean_UD = row_UW.chunk(2, -1)[0]
        return torch.cat([mean_UD**2, mean_UD], 1), torch.zeros_like(mean_UD[:, 0])

    def of_queries(self, scores_GK: Tensor, set_GX: Tensor, batch: OperatorBatch) -> Tensor:
        if self.settings.mixture == "nearest" or len(set_GX) == batch.queries:
            return super().of_queries(scores_GK, set_GX, batch)
        logit_G, query_G = self.attention(set_GX)[:, 0], batch.query_G
        most_Q = logit_G.new_full((batch.queries,), -torch.inf)
        most_Q = most_Q.scatter_reduce(0, query_G, logit_G.detach(), "amax")
        share_G = (logit_G - most_Q[query_G]).exp()
        whole_Q = torch.zeros_like(most_Q).index_add(0, query_G, share_G)
        weight_G1 = (share_G / whole_Q[query_G])[:, None]
        found_QK = scores_GK.new_zeros(batch.queries, scores_GK.shape[1])
        return found_QK.index_add(0, query_G, weight_G1 * scores_GK)  # eq:perm-unite


def _table(rows: int, width: int, bound: float, generator: torch.Generator) -> nn.Parameter:
    """Means between -bound and bound, and the roots of precisions of 1/2."""
    mean_ED = uniform(rows, width, bound, generator).detach()
    return nn.Parameter(torch.cat([mean_ED, torch.full_like(mean_ED, 0.5**0.5)], 1))
