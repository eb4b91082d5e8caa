"""A model folder, opened for questions: the reasoner to ask, its probabilities, its evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from clmpt.answering.model_folder import choice_in, weights_in
from clmpt.errors import SettingError, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import QueryGraph, query_graphs
from clmpt.predictors.calibration import is_calibrated
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.reasoners.answer_calibration import AnswerCalibration
from clmpt.reasoners.beam_search import BeamSearch
from clmpt.reasoners.model import Basis, ReasonerModel
from clmpt.reasoners.question_kinds import kind_of
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import (
    StoredReasoner,
    calibrations_in,
    is_reasoner,
    open_reasoner,
)
from clmpt.reasoners.truth_values.truth_values import (
    TruthValueReasoner,
    TruthValues,
    TruthValueSettings,
)
from clmpt.registry import REASONERS

# Shapes: E entities

BEAM_SEARCH, TRUTH_VALUES = "beam-search", "truth-values"


@dataclass(frozen=True)
class AskedModel:
    """`truth` finds the evidence, whichever reasoner answers; None if there is no predictor."""

    reasoner: Reasoner
    name: str  # of the reasoner, among those that the model has
    truth: TruthValueReasoner | None = None
    calibrations: Mapping[str, AnswerCalibration] = field(default_factory=dict)  # by name
    insisted: bool = False  # the user chose this reasoner, and gets no other

    @property
    def calibration(self) -> AnswerCalibration | None:
        return self.calibrations.get(self.name)

    @property
    def from_facts(self) -> bool:
        """Whether it can answer questions without constants: from facts, not from embeddings."""
        return bool(getattr(self.reasoner, "from_facts", False))

    def able_to(self, query: Query) -> tuple[AskedModel, tuple[str, ...]]:
        """Itself, or truth values for a question without constants, whose answers would be
        arbitrary otherwise; and a note that says so. Refuses if the user insists."""
        graphs = query_graphs(query).alternatives
        if self.from_facts or all(_has_constant(graph) for graph in graphs):
            return self, ()
        if self.truth is not None and not self.insisted:
            able = replace(self, reasoner=self.truth, name=TRUTH_VALUES)
            return able, ("The question names no entity to start from: truth values answer it.",)
        raise UnsupportedQuery(
            f"{self.reasoner.name} starts from the entities that a question names, and no atom "
            "that must hold names one here",
            "Ask truth values, which start from all facts: --reasoner truth-values",
        )

    def chances(self, query: Query, scores_QE: Tensor) -> Tensor | None:
        """The probability of every entity, for queries of one template; without calibration,
        truth values as they are."""
        if self.calibration is not None:
            return self.calibration.probabilities(self.reasoner, scores_QE, kind_of(query))
        return scores_QE.clone() if isinstance(self.reasoner, TruthValueReasoner) else None

    def possible(self, scores_E: Tensor) -> Tensor | None:
        """Which entities have any truth at all; None if the reasoner cannot tell."""
        return scores_E > 0 if isinstance(self.reasoner, TruthValueReasoner) else None


def _has_constant(graph: QueryGraph) -> bool:
    """Whether some atom that must hold has a constant."""
    return any(
        graph.is_constant(end)
        for edge in graph.edges
        if not edge.negated
        for end in (edge.head, edge.tail)
    )


def open_model(
    folder: str | Path,
    graph: KnowledgeGraph,
    device: torch.device,
    trust: Collection[str] = (),
    wanted: str | None = None,
) -> tuple[AskedModel, StoredReasoner | None]:
    """The model in a folder, with the reasoner `wanted`: by default the one that `fit` chose, or
    else the trained one; over a predictor alone, truth values if it is calibrated."""
    weights = weights_in(folder)
    seen = graph.view(train_split(graph))
    if not is_reasoner(weights):
        found = open_predictor(weights, device, trust)
        found.names.check_graph(graph)
        own = over_predictor(found.predictor, seen)
        usual = TRUTH_VALUES if is_calibrated(found.predictor) else BEAM_SEARCH
        name = wanted or usual
        truth = own[TRUTH_VALUES]
        assert isinstance(truth, TruthValueReasoner)
        return AskedModel(_chosen(own, name), name, truth, insisted=wanted is not None), None
    stored = open_reasoner(weights, graph, device, trust)
    parts = reasoners_of(stored.model, seen)
    name = wanted or choice_in(folder) or REASONERS.name_of(type(stored.model))
    evident = parts.get(TRUTH_VALUES)
    assert evident is None or isinstance(evident, TruthValueReasoner)
    reasoner, insisted = _chosen(parts, name), wanted is not None
    return AskedModel(reasoner, name, evident, calibrations_in(weights), insisted), stored


def reasoners_of(model: ReasonerModel, seen: KnowledgeGraph) -> dict[str, Reasoner]:
    """All reasoners that a model offers, by name; `seen` are the facts it was trained on."""
    found: dict[str, Reasoner] = {REASONERS.name_of(type(model)): model.reasoner(), **model.parts()}
    before = model.untrained_predictor
    return {**(over_predictor(before, seen) if before else {}), **found}


def over_predictor(predictor: EmbeddingPredictor, seen: KnowledgeGraph) -> dict[str, Reasoner]:
    truth = TruthValues(Basis(seen, predictor), TruthValueSettings()).reasoner()
    return {TRUTH_VALUES: truth, BEAM_SEARCH: BeamSearch(predictor, len(seen.relations))}


def _chosen(reasoners: dict[str, Reasoner], name: str) -> Reasoner:
    if name not in reasoners:
        raise SettingError(
            f"The model has no reasoner '{name}'. Available: {', '.join(reasoners)}."
        )
    return reasoners[name]
