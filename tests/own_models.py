"""Custom models, each different from CLMPT in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.evaluation.measuring import evaluate
from clmpt.logic.formula import Query
from clmpt.logic.operator_tree import Anchor, Intersect, Negate, Operator, Project, operator_tree
from clmpt.predictors.distmult import DistMult
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.exact import ExactReasoner
from clmpt.reasoners.model import (
    Basis,
    Candidates,
    GradientModel,
    ReasonerModel,
    build_model,
    read_reasoning,
)
from clmpt.reasoners.reasoner import Reasoner
from clmpt.settings import Settings, setting

# Shapes: n queries of a group, Q queries, E entities, D width


@dataclass(frozen=True)
class Groups:
    groups: tuple[QueryGroup, ...]

    @property
    def queries(self) -> int:
        return sum(map(len, self.groups))

    def to(self, device: torch.device) -> Groups:  # noqa: ARG002
        return self


# --- a query that is not a vector, without a predictor --------------------------------------------


@dataclass(frozen=True)
class BoxSettings(Settings):
    rank: int = setting(8, "numbers per corner", least=1)


Box = tuple[Tensor, Tensor]  # centre_nD and extent_nD


class Boxes(GradientModel):
    """Sets of entities are boxes; negation is ignored; a union takes its best branch."""

    title, Settings, needs_predictor = "Boxes", BoxSettings, False

    def __init__(self, basis: Basis, settings: BoxSettings, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        self.relations = len(basis.graph.relations)
        self.entity_ED = nn.Parameter(
            torch.randn(self.entities, settings.rank, generator=generator)
        )
        self.move_RD, self.grow_RD = (
            nn.Parameter(torch.randn(2 * self.relations, settings.rank, generator=generator))
            for _ in range(2)
        )

    def lay_out(self, groups: Sequence[QueryGroup]) -> Groups:
        return Groups(tuple(groups))

    def box(self, node: Operator, group: QueryGroup) -> Box:
        if isinstance(node, Anchor):
            centre = self.entity_ED[torch.from_numpy(filled(node.entity, group, "entities"))]
            return centre, torch.zeros_like(centre)
        if isinstance(node, Project):
            centre, extent = self.box(node.of, group)
            relation = torch.from_numpy(filled(node.relation, group, "relations"))
            relation = (relation + node.backwards * self.relations) % len(self.move_RD)
            return centre + self.move_RD[relation], extent + self.grow_RD[relation].abs()
        if isinstance(node, Intersect):
            boxes = [self.box(part, group) for part in node.parts if not isinstance(part, Negate)]
            centres, extents = (torch.stack(found) for found in zip(*boxes, strict=True))
            return centres.mean(0), extents.amin(0)
        raise AssertionError(node)

    def scores(self, batch: Groups) -> Tensor:
        found = []
        for group in batch.groups:
            alternatives = []
            for part in group.template.disjuncts():
                centre, extent = self.box(operator_tree(part), group)
                outside = (centre[:, None] - self.entity_ED).abs() - extent[:, None]
                alternatives.append(-outside.clamp_min(0).sum(2))
            found.append(torch.stack(alternatives).amax(0))
        return torch.cat(found)

    def loss(self, batch: Groups, candidates: Candidates, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        scores_QE = self.scores(batch)
        assert candidates.negative_QK is not None
        right_Q1 = scores_QE.gather(1, candidates.positive_Q[:, None])
        wrong_QK = scores_QE.gather(1, candidates.negative_QK.expand(batch.queries, -1))
        return functional.softplus(wrong_QK - right_Q1).mean()


# --- truth values over all entities, not trained by gradient --------------------------------------


@dataclass(frozen=True)
class KnownSettings(Settings):
    popular: float = setting(0.1, "weight of an entity's degree, before tuning", least=0)


class Known(ReasonerModel):
    """Answers that follow from the facts come first, then entities by degree."""

    title, Settings, needs_predictor = "Known", KnownSettings, False
    weights = (0.0, 0.25, 0.5)

    def __init__(self, basis: Basis, settings: KnownSettings, generator: torch.Generator) -> None:  # noqa: ARG002
        super().__init__(basis, settings)
        self.graph = basis.graph
        self.register_buffer("weight", torch.tensor(settings.popular))
        self.tuned_with: list[float] = []

    def reasoner(self) -> KnownReasoner:
        return KnownReasoner(self)

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        figures = {}
        for weight in self.weights:
            self.weight.fill_(weight)
            figures[weight] = evaluate(self.reasoner(), queries).mean
        self.tuned_with = list(figures.values())
        self.weight.fill_(max(figures, key=lambda weight: figures[weight]))


class KnownReasoner:
    name = "Known"

    def __init__(self, model: Known) -> None:
        self.weight = float(model.weight)
        self.exact = ExactReasoner(model.graph)
        rows = torch.from_numpy(model.graph.triples()[:, [0, 2]].astype("int64"))
        degree_E = torch.bincount(rows.flatten(), minlength=model.entities).float()
        self.popular_E = degree_E / degree_E.max()

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.exact.score(groups) + self.weight * self.popular_E

    def notes(self, query: Query) -> tuple[str, ...]:  # noqa: ARG002
        return ("Degrees do not depend on the query.",)


# --- what the modules of others bring along -------------------------------------------------------


class Noisy(Boxes):
    """Has a layer that behaves differently in training, and counts its steps in a buffer."""

    title = "Noisy"

    def __init__(self, basis: Basis, settings: BoxSettings, generator: torch.Generator) -> None:
        super().__init__(basis, settings, generator)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(()))

    def scores(self, batch: Groups) -> Tensor:
        dropped: Tensor = self.drop(super().scores(batch))
        return dropped

    def loss(self, batch: Groups, candidates: Candidates, generator: torch.Generator) -> Tensor:
        assert self.training
        self.seen += 1
        return super().loss(batch, candidates, generator)


class Scaled(DistMult):
    """DistMult with a weight of its own besides the two tables."""

    def __init__(self, entities_ED: Tensor, relations_SW: Tensor, inverse_R: Tensor) -> None:
        super().__init__(entities_ED, relations_SW, inverse_R)
        self.scale_1D = nn.Parameter(torch.ones(1, entities_ED.shape[1]))

    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        return super().project(source_AD, relation_AW) * self.scale_1D


# --- a combination of two models ------------------------------------------------------------------


@dataclass(frozen=True)
class BothSettings(Settings):
    share: float = setting(0.5, "of the neural model", least=0)
    heads: int = setting(2, "of the neural model", least=1)


class Both(GradientModel):
    """CLMPT combined with known answers."""

    title, Settings = "Both", BothSettings

    def __init__(self, basis: Basis, settings: BothSettings, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        neural = {"heads": settings.heads, "feed_forward": 16, "encoder_layers": 1}
        made = build_model(basis, read_reasoning(neural), generator.initial_seed())
        assert isinstance(made, GradientModel)
        self.neural, self.known = made, Known(basis, KnownSettings(), generator)

    def lay_out(self, groups: Sequence[QueryGroup]) -> Any:
        return self.neural.lay_out(groups)

    def scores(self, batch: Any) -> Tensor:
        return self.neural.scores(batch)

    def loss(self, batch: Any, candidates: Candidates, generator: torch.Generator) -> Tensor:
        return self.neural.loss(batch, candidates, generator)

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        self.known.tune(queries)

    def reasoner(self) -> Reasoner:
        return Mixture(self.settings.share, self.neural.reasoner(), self.known.reasoner())


class Mixture:
    name = "Both"

    def __init__(self, share: float, neural: Reasoner, known: Reasoner) -> None:
        self.share, self.neural, self.known = share, neural, known

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.share * self.neural.score(groups) + self.known.score(groups)

    def notes(self, query: Query) -> tuple[str, ...]:
        return (*self.neural.notes(query), *self.known.notes(query))
