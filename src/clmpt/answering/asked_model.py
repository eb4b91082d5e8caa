"""A model folder, opened for questions: the reasoner to ask, its probabilities, its evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from clmpt.answering.model_folder import choice_in, weights_in
from clmpt.answering.model_index import use_indexes
from clmpt.answering.new_names import NewNames
from clmpt.errors import SettingError, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import QueryGraph, query_graphs
from clmpt.predictors.calibration import is_calibrated
from clmpt.predictors.carrying_over import on_newer_graph
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
    new: NewNames | None = None  # what a newer graph has that the model does not know
    index_notes: tuple[str, ...] = ()  # why it has an index and does not use it

    @property
    def calibration(self) -> AnswerCalibration | None:
        return self.calibrations.get(self.name)

    @property
    def has_probabilities(self) -> bool:
        return self.calibration is not None or isinstance(self.reasoner, TruthValueReasoner)

    @property
    def from_facts(self) -> bool:
        """Whether it can answer questions without constants: from facts, not from embeddings."""
        return bool(getattr(self.reasoner, "from_facts", False))

    def able_to(self, query: Query) -> tuple[AskedModel, tuple[str, ...]]:
        """Itself, or truth values for a question whose answers would be arbitrary otherwise,
        because it has no constants or names what is new to the model; and a note that says so.
        Refuses if the user insists."""
        new = self.new.in_query(query) if self.new else []
        graphs = query_graphs(query).alternatives
        starts = all(_has_constant(graph) for graph in graphs)
        if (self.from_facts or starts) and (not new or self.name == TRUTH_VALUES):
            return self, ()
        unknown = " and ".join(f"'{label}'" for label in new) + " is new to the model"
        if self.truth is not None and not self.insisted:
            able = replace(self, reasoner=self.truth, name=TRUTH_VALUES)
            why = unknown if new else "The question names no entity to start from"
            return able, (f"{why}: truth values answer it.",)
        if new:
            raise UnsupportedQuery(
                f"{unknown}: {self.reasoner.name} has not seen it",
                self._instead("know its facts"),
            )
        raise UnsupportedQuery(
            f"{self.reasoner.name} starts from the entities that a question names, and no atom "
            "that must hold names one here",
            self._instead("start from all facts"),
        )

    def _instead(self, which: str) -> str:
        """What to ask where this reasoner cannot answer."""
        if self.truth is None:
            return f"Ask a model with a link predictor, whose truth values {which}"
        return f"Ask truth values, which {which}: --reasoner {TRUTH_VALUES}"

    def chances(self, query: Query, scores_QE: Tensor) -> Tensor | None:
        """The probability of every entity, for queries of one template; without calibration,
        truth values as they are."""
        if self.calibration is not None:
            return self.calibration.probabilities(self.reasoner, scores_QE, kind_of(query))
        return scores_QE.clone() if isinstance(self.reasoner, TruthValueReasoner) else None

    def possible(self, scores_E: Tensor) -> Tensor:
        """Which entities may be predicted: those with any truth at all, or if the reasoner cannot
        tell, those that it knows."""
        if isinstance(self.reasoner, TruthValueReasoner):
            return scores_E > 0
        possible_E = ~scores_E.isneginf()  # an index did not find the others
        if self.new:
            possible_E[torch.from_numpy(self.new.entities)] = False
        return possible_E


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
    known: KnowledgeGraph | None = None,
    newer: bool = False,
    index: bool = True,
) -> tuple[AskedModel, StoredReasoner | None]:
    """The model in a folder, with the reasoner `wanted`: by default the one that `fit` chose, or
    else the trained one; over a predictor alone, truth values if it is calibrated. It may use the
    facts in `known`, by default those of the training split. With `newer` the graph may have names
    that the model does not know. With `index` it searches the folder's index, if there is one."""
    weights = weights_in(folder)
    seen = known or graph.view(train_split(graph))
    if not is_reasoner(weights):
        found = open_predictor(weights, device, trust)
        match = found.names.match_newer(graph, newer)
        predictor = on_newer_graph(found.predictor, match) if match else found.predictor
        new = NewNames.of(graph, match) if match else None
        own = over_predictor(predictor, seen)
        usual = TRUTH_VALUES if is_calibrated(predictor) else BEAM_SEARCH
        name = wanted or usual
        truth = own[TRUTH_VALUES]
        assert isinstance(truth, TruthValueReasoner)
        insisted = wanted is not None
        notes = use_indexes(weights, own.values()) if index else ()
        asked = AskedModel(_chosen(own, name), name, truth, {}, insisted, new, notes)
        return asked, None
    stored = open_reasoner(weights, graph, device, trust, seen, newer)
    parts = reasoners_of(stored.model, seen)
    name = wanted or choice_in(folder) or REASONERS.name_of(type(stored.model))
    evident = parts.get(TRUTH_VALUES)
    assert evident is None or isinstance(evident, TruthValueReasoner)
    reasoner, insisted = _chosen(parts, name), wanted is not None
    new = NewNames.of(graph, stored.match) if stored.match else None
    notes = use_indexes(weights, parts.values()) if index else ()
    chances = calibrations_in(weights)
    return AskedModel(reasoner, name, evident, chances, insisted, new, notes), stored


def reasoners_of(model: ReasonerModel, seen: KnowledgeGraph) -> dict[str, Reasoner]:
    """All reasoners that a model offers, by name; `seen` are the facts it may use."""
    found: dict[str, Reasoner] = {REASONERS.name_of(type(model)): model.reasoner(), **model.parts()}
    before = model.untrained_predictor
    return {**(over_predictor(before, seen, found.get(TRUTH_VALUES)) if before else {}), **found}


def over_predictor(
    predictor: EmbeddingPredictor, seen: KnowledgeGraph, truth: Reasoner | None = None
) -> dict[str, Reasoner]:
    """The reasoners that need no training; `truth` if the model has truth values of its own."""
    truth = truth or TruthValues(Basis(seen, predictor), TruthValueSettings()).reasoner()
    return {TRUTH_VALUES: truth, BEAM_SEARCH: BeamSearch(predictor, len(seen.relations))}


def _chosen(reasoners: dict[str, Reasoner], name: str) -> Reasoner:
    if name not in reasoners:
        raise SettingError(
            f"The model has no reasoner '{name}'. Available: {', '.join(reasoners)}."
        )
    return reasoners[name]
