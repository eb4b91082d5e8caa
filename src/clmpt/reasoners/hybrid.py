"""A trained reasoner and truth values in one score, so that each covers the other's weakness.

The score is the log-odds of the truth value + w · log softmax of the other's scores. Truth values
know the facts and negate properly; a trained reasoner has seen queries and generalises over
intermediate entities. The weight w depends on the kind of question (hops, negation) and is chosen
on validation queries; 0 leaves truth values alone, so the hybrid is not worse than they are there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.nearest import FOUND, NearestNeighbours
from clmpt.evaluation.measuring import mrr_by_query
from clmpt.logic.formula import Query
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.indexing import Searching, score_with, searches_of, with_best
from clmpt.reasoners.message_passing.clmpt import CLMPT
from clmpt.reasoners.message_passing.clmpt_settings import CLMPTSettings
from clmpt.reasoners.model import Basis, GradientModel
from clmpt.reasoners.question_kinds import KINDS, kind_of
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.truth_values.truth_values import (
    ROWS_PER_QUERY,
    TruthValueReasoner,
    TruthValues,
    TruthValueSettings,
    log_odds,
)
from clmpt.registry import REASONERS

# Shapes: Q queries, E entities, K kinds of questions

WEIGHTS = (0.0, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5)
_LEAST = 1e-7  # truth value: what truth values find impossible is left to the other reasoner


class HybridReasoner:
    """Scores are log-odds, comparable across queries of one kind."""

    name = "hybrid"
    from_facts = True

    def __init__(
        self, truth: TruthValueReasoner, other: Reasoner, temperature: float, weight_K: list[float]
    ) -> None:
        self.truth, self.other, self.temperature = truth, other, temperature
        self.weight_K = weight_K

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return torch.cat([self._scores(group, None) for group in groups])

    def score_with(self, groups: Sequence[QueryGroup], also: AnswerSets | None) -> Tensor:
        start, found = 0, []
        for group in groups:
            own = also and also.take(np.arange(start, start + len(group)))
            found.append(self._scores(group, own))
            start += len(group)
        return torch.cat(found)

    def _scores(self, group: QueryGroup, also: AnswerSets | None) -> Tensor:
        weight = self.weight_K[kind_of(group.template)]
        values_QE = self.truth.score([group])
        odds_QE = log_odds(values_QE, _LEAST)
        if not weight:
            return odds_QE
        if self._nearest is not None:  # what truth values find best has the other's score too
            also = with_best(values_QE, FOUND, also)
        other_QE = score_with(self.other, [group], also).cpu()
        return odds_QE + weight * self.other_strengths(other_QE)

    @property
    def _nearest(self) -> NearestNeighbours | None:
        return getattr(self.other, "nearest", None)

    def other_strengths(self, scores_QE: Tensor) -> Tensor:
        logits_QE = scores_QE / self.temperature
        return self._nearest.log_softmax(logits_QE) if self._nearest else logits_QE.log_softmax(1)

    @property
    def searches(self) -> Sequence[Searching]:
        return (*self.truth.searches, *searches_of(self.other))

    def strengths(self, scores_QE: Tensor) -> Tensor:
        return scores_QE

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.truth.notes(query)


class WithTruthValues(GradientModel):
    """Makes a hybrid of a model that learns by gradient descent: `class Mine(WithTruthValues,
    Model)`, with settings that extend both tables and `part_names` that name the model first.

    It is trained like the model alone. Truth values use the predictor as it was before that.
    """

    rows_per_query = ROWS_PER_QUERY
    weight_K: Tensor

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        before = copy.deepcopy(basis.predictor)
        assert before is not None
        super().__init__(basis, settings, generator)
        own = {each.name: getattr(settings, each.name) for each in fields(TruthValueSettings)}
        self.truth = TruthValues(
            Basis(basis.graph, before.requires_grad_(False)), TruthValueSettings(**own)
        )
        self.register_buffer("weight_K", torch.zeros(len(KINDS)))

    def reasoner(self) -> HybridReasoner:
        temperature = getattr(self.settings, "temperature", 1.0)
        weights = self.weight_K.tolist()
        return HybridReasoner(self.truth.reasoner(), super().reasoner(), temperature, weights)

    def parts(self) -> Mapping[str, Reasoner]:
        trained = super().reasoner()
        trained.name = REASONERS.find(self.part_names[0]).title  # type: ignore[misc]
        found = (trained, self.truth.reasoner())
        return dict(zip(self.part_names, found, strict=True))

    @property
    def untrained_predictor(self) -> EmbeddingPredictor | None:
        return self.truth.predictor

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        self.truth.tune(queries)
        self.weight_K.copy_(torch.tensor(best_weights(self.reasoner(), queries)))

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.truth.reasoner().notes(query)


def best_weights(hybrid: HybridReasoner, queries: Sequence[QueryGroup]) -> list[float]:
    """The weight of the trained reasoner for each kind of question: the one that gains most in mean
    MRR over groups, after one standard error is taken off, so that chance alone does not choose; 0
    for kinds that do not occur."""
    gain = np.zeros((len(KINDS), len(WEIGHTS)))
    variance = np.zeros_like(gain)
    for group in queries:
        kind = kind_of(group.template)
        odds_QE = log_odds(hybrid.truth.score([group]), _LEAST)
        other_QE = hybrid.other_strengths(hybrid.other.score([group]).cpu())
        alone_Q = mrr_by_query(odds_QE.clone(), group)
        for number, weight in enumerate(WEIGHTS):
            gained_Q = mrr_by_query(odds_QE + weight * other_QE, group) - alone_Q
            gain[kind, number] += gained_Q.mean()
            variance[kind, number] += gained_Q.var() / len(gained_Q)
    return [WEIGHTS[int(best)] for best in (gain - np.sqrt(variance)).argmax(1)]


@dataclass(frozen=True)
class HybridSettings(CLMPTSettings, TruthValueSettings):
    """Those of CLMPT and of truth values."""


class Hybrid(WithTruthValues, CLMPT):  # type: ignore[misc]
    title, part_names = "hybrid", ("clmpt", "truth-values")
    Settings = HybridSettings  # type: ignore[assignment]
