"""MLP and MLP-Mixer (Amayuelas et al., ICLR 2022): every operator is a network on points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.logic.operator_tree import Intersect
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.operators.gqe import GQE
from clmpt.reasoners.operators.networks import Layers, uniform
from clmpt.reasoners.operators.program import OperatorStep
from clmpt.reasoners.operators.set_model import (
    MarginModel,
    MarginSettings,
    NetworkSettings,
)
from clmpt.reasoners.token_sets import linear
from clmpt.settings import setting

# Shapes: N rows, k parts, E entities, R relations, D width, C channels

_ORDER = "of an intersection's parts: 'sorted' by what they are, or as 'written' in the query"


@dataclass(frozen=True)
class MLPSettings(NetworkSettings):
    margin: float = setting(24.0, "margin γ: the score of an entity at distance 0", above=0)
    layers: int = setting(1, "hidden layers of a network", least=1, most=64)
    parts: Literal["sorted", "written"] = setting("sorted", _ORDER)

    @property
    def sorts(self) -> bool:
        return self.parts == "sorted"


@dataclass(frozen=True)
class MixerSettings(MarginSettings):
    blocks: int = setting(3, "blocks of a network", least=1, most=64)
    channels: int = setting(20, "channels that two points are expanded to", least=1)
    token_hidden: int = setting(200, "hidden width of maps over dimensions", least=1)
    channel_hidden: int = setting(4, "hidden width of maps over channels", least=1)
    parts: Literal["sorted", "written"] = setting("sorted", _ORDER)

    @property
    def sorts(self) -> bool:
        return self.parts == "sorted"


class PointNetworks(MarginModel):
    """Sets are points; relations are points too, and join theirs in a network."""

    relations_RD: nn.Parameter
    projection: nn.Module
    conjunction: nn.Module

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        self.entities_EW = uniform(entities, self.settings.rank, self.bound, generator)
        self.relations_RD = uniform(relations, self.settings.rank, self.bound, generator)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        relation_ND = look_up(self.relations_RD, relation_N)
        found_NX: Tensor = self.projection(torch.cat([set_NX, relation_ND], 1), dropout)
        return found_NX  # eq:mlp-project

    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        def both(one_NX: Tensor, other_NX: Tensor) -> Tensor:
            found_NX: Tensor = self.conjunction(torch.cat([one_NX, other_NX], 1), dropout)
            return found_NX

        return reduce(both, part_kNX.unbind())  # eq:mlp-intersect

    match = GQE.match
    match_all = GQE.match_all


class MLP(PointNetworks):
    title = "MLP"
    Settings = MLPSettings
    settings: MLPSettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        super().add_tables(entities, relations, generator)
        width, hidden, layers = self.settings.rank, self.settings.hidden, self.settings.layers
        self.projection = Layers(2 * width, hidden, layers, width, generator)
        self.conjunction = Layers(2 * width, hidden, layers, width, generator)
        self.negation = Layers(width, width, layers, width, generator)

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        found_NX: Tensor = self.negation(set_NX, dropout)
        return found_NX  # eq:mlp-negate

    @classmethod
    def products_per_row(cls, settings: NetworkSettings) -> float:
        return settings.products(2, 1)


class MLPMixer(PointNetworks):
    title = "MLP-Mixer"
    Settings = MixerSettings
    operators = frozenset({Intersect})
    settings: MixerSettings

    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        super().add_tables(entities, relations, generator)
        self.projection = _Mixer(self.settings, generator)
        self.conjunction = _Mixer(self.settings, generator)

    @classmethod
    def products_per_row(cls, settings: MixerSettings) -> float:
        per_number = settings.channels * (settings.token_hidden + settings.channel_hidden)
        return 4.0 * settings.blocks * settings.rank * per_number


class _Mixer(nn.Module):
    """Two points as channels of each dimension, mixed over dimensions and over channels."""

    def __init__(self, settings: MixerSettings, generator: torch.Generator) -> None:
        super().__init__()
        width, channels = settings.rank, settings.channels
        self.expand = linear(2, channels, generator)
        for number in range(settings.blocks):
            self.add_module(f"block{number}", _Block(settings, generator))
        self.last = linear(width, width, generator)
        self.blocks = settings.blocks

    def forward(self, pair_NX: Tensor, dropout: SetDropout) -> Tensor:
        value_NDC = self.expand(pair_NX.view(len(pair_NX), 2, -1).transpose(1, 2))
        for number in range(self.blocks):
            value_NDC = self.get_submodule(f"block{number}")(value_NDC)
        found_ND: Tensor = self.last(_normal(value_NDC).mean(2))
        return found_ND


class _Block(nn.Module):
    def __init__(self, settings: MixerSettings, generator: torch.Generator) -> None:
        super().__init__()
        width, channels = settings.rank, settings.channels
        self.token1 = linear(width, settings.token_hidden, generator)
        self.token2 = linear(settings.token_hidden, width, generator)
        self.channel1 = linear(channels, settings.channel_hidden, generator)
        self.channel2 = linear(settings.channel_hidden, channels, generator)

    def forward(self, value_NDC: Tensor) -> Tensor:
        mixed_NCD = self.token2(functional.gelu(self.token1(_normal(value_NDC).mT)))
        value_NDC = value_NDC + mixed_NCD.mT
        mixed_NDC: Tensor = self.channel2(functional.gelu(self.channel1(_normal(value_NDC))))
        return value_NDC + mixed_NDC


def _normal(value_NDC: Tensor) -> Tensor:
    """Each matrix with mean 0 and variance 1."""
    return functional.layer_norm(value_NDC, value_NDC.shape[1:])
