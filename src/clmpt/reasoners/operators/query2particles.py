"""Query2Particles (Bai et al., NAACL 2022): a query is some points, and its answers near any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.model import Candidates
from clmpt.reasoners.operators.networks import uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import OperatorSettings, SetOperatorModel
from clmpt.reasoners.token_sets import linear
from clmpt.settings import setting

# Shapes: N rows, k parts, P particles, G graphs, Q queries, K candidates, E entities, R relations,
# D width

_EPSILON = 1e-12  # of the normalisation


@dataclass(frozen=True)
class ParticleSettings(OperatorSettings):
    particles: int = setting(2, "points of a set", least=1, most=64)
    dropout: float = setting(0.1, "dropout probability", least=0, below=1)
    smoothing: float = setting(0.5, "share of the loss that all candidates have", least=0, below=1)
    union: Literal["disjunctive", "de-morgan"] = setting(
        "disjunctive", "the best of the disjuncts counts, or a | b is !(!a & !b)"
    )
    parts: Literal["sorted", "written"] = setting(
        "sorted", "of an intersection: 'sorted' by what they are, or as 'written' in the query"
    )

    @property
    def drops(self) -> float:
        return self.dropout

    @property
    def sorts(self) -> bool:
        return self.parts == "sorted"


class Query2Particles(SetOperatorModel):
    """Sets are points_NPD. Entities have a row [point | bias]."""

    title = "Query2Particles"
    Settings = ParticleSettings
    settings: ParticleSettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        width = self.settings.rank
        rows_EW = uniform(entities, width + 1, width**-0.5, generator).detach()
        rows_EW[:, -1] = 0
        self.entities_EW = nn.Parameter(rows_EW)
        self.relations_RD = uniform(relations, width, width**-0.5, generator)
        self.offsets_PD = uniform(self.settings.particles, width, width**-0.5, generator)
        self.projection = _Projection(width, generator)
        self.higher = _Round(width, 1, generator)
        self.intersection = _Round(width, 2, generator)
        self.complement = _Round(width, 2, generator)

    def anchor(self, row_NW: Tensor) -> Tensor:
        return row_NW[:, None, :-1] + self.offsets_PD

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        if not step.from_anchor:
            set_NX = self.higher(set_NX, dropout)
        relation_ND = look_up(self.relations_RD, relation_N)
        found_NPD: Tensor = self.projection(set_NX, relation_ND, dropout)
        return found_NPD  # eq:particles-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        together_NPD = torch.cat(list(part_kNX), 1)
        kept = slice(None, None, len(part_kNX))  # as many as a set has
        found_NPD: Tensor = self.intersection(together_NPD, dropout)[:, kept]
        return found_NPD  # eq:particles-intersect

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        found_NPD: Tensor = self.complement(set_NX, dropout)
        return found_NPD  # eq:particles-negate

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        near_GPK: Tensor = set_GX @ row_GKF[..., :-1].mT
        return near_GPK.amax(1) + row_GKF[..., -1]  # eq:particles-score

    def match_all(self, set_GX: Tensor, row_EF: Tensor) -> Tensor:
        near_GPE = set_GX @ row_EF[:, :-1].T
        return near_GPE.amax(1) + row_EF[:, -1]

    def loss_of_scores(self, scores_QK: Tensor, wrong_QK: Tensor, candidates: Candidates) -> Tensor:
        """Cross entropy between the positive and the negatives, or among all entities, with
        smoothed labels."""
        if candidates.negative_QK is None:
            right_Q, known_QK = scores_QK[:, 0], scores_QK[:, 1:]
        else:
            right_Q = scores_QK[:, 0]
            wrong_QK = functional.pad(wrong_QK, (1, 0), value=True)
            known_QK = scores_QK.masked_fill(~wrong_QK, -math.inf)
        total_Q = known_QK.logsumexp(1)
        mean_Q = known_QK.masked_fill(known_QK.isinf(), 0).sum(1) / known_QK.isfinite().sum(1)
        smoothing = self.settings.smoothing
        found_Q = total_Q - (1 - smoothing) * right_Q - smoothing * mean_Q  # eq:particles-loss
        return found_Q.mean()

    @classmethod
    def products_per_row(cls, settings: ParticleSettings) -> float:
        return 2.0 * 10 * settings.particles * settings.rank**2


class _Attention(nn.Module):
    """Self-attention whose queries, keys and values are the same."""

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attention = linear(width, width, generator)

    def attend(self, point_NPD: Tensor, dropout: SetDropout) -> Tensor:
        query_NPD: Tensor = self.attention(point_NPD)
        near_NPP = query_NPD @ query_NPD.mT / math.sqrt(query_NPD.shape[-1])
        return dropout.of_members(near_NPP.softmax(-1)) @ query_NPD


class _Projection(_Attention):
    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__(width, generator)
        for gate in ("z", "r", "h"):
            self.add_module(f"W{gate}", linear(width, width, generator))
            self.add_module(f"U{gate}", linear(width, width, generator))
        self.norm1 = nn.LayerNorm(width, _EPSILON)
        self.norm2 = nn.LayerNorm(width, _EPSILON)

    def forward(self, point_NPD: Tensor, relation_ND: Tensor, dropout: SetDropout) -> Tensor:
        def mixed(gate: str, value_NPD: Tensor) -> Tensor:
            of_relation_ND = self.get_submodule(f"W{gate}")(relation_ND)
            found_NPD: Tensor = of_relation_ND[:, None] + self.get_submodule(f"U{gate}")(value_NPD)
            return found_NPD

        new_NPD = mixed("z", point_NPD).sigmoid()
        kept_NPD = mixed("r", point_NPD).sigmoid()
        moved_NPD = mixed("h", point_NPD * kept_NPD).tanh()
        point_NPD = self.norm1((1 - new_NPD) * point_NPD + new_NPD * moved_NPD)
        found_NPD: Tensor = self.norm2(self.attend(point_NPD, dropout))
        return found_NPD


class _Round(_Attention):
    """Rounds of attention and a feed-forward network; each has its own normalisation only."""

    def __init__(self, width: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__(width, generator)
        self.ffn1 = linear(width, width, generator)
        self.ffn2 = linear(width, width, generator)
        self.rounds = rounds
        for number in range(1, 2 * rounds + 1):
            self.add_module(f"norm{number}", nn.LayerNorm(width, _EPSILON))

    def forward(self, point_NPD: Tensor, dropout: SetDropout) -> Tensor:
        for number in range(1, 2 * self.rounds, 2):
            attended_NPD = self.attend(point_NPD, dropout)
            point_NPD = self.get_submodule(f"norm{number}")(attended_NPD)
            hidden_NPD = self.ffn2(functional.gelu(self.ffn1(point_NPD)))
            point_NPD = self.get_submodule(f"norm{number + 1}")(
                point_NPD + dropout.of_members(hidden_NPD)
            )
        return point_NPD
