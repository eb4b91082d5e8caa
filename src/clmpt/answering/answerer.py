"""A trained model and its graph in memory: text in, ranked answers out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from clmpt.answering.model_folder import REASONER, graph_of, reasoner_in, weights_in
from clmpt.compute.devices import find_device
from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH, open_graph
from clmpt.graph.splits import train_split
from clmpt.graph.stored_names import StoredNames
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import (
    StoredReasoner,
    is_reasoner,
    open_reasoner,
    replace_reasoner,
)
from clmpt.storage.files import new_folder
from clmpt.symbolic.solver import solve

_ANSWERS = 10  # by default

# known: follows from the facts that the model was trained on.
# hidden: follows from the graph's facts, but only with facts held out from training.
# predicted: does not follow from the graph's facts.
Status = Literal["known", "hidden", "predicted"]


@dataclass(frozen=True)
class Answer:
    """An entity, its score, and its status according to the graph's facts.

    Scores rank the answers of one query; they are not comparable across queries.
    """

    entity: int
    name: str
    label: str
    score: float
    status: Status

    @property
    def known(self) -> bool:
        """Whether it follows from the graph's facts, including held-out ones."""
        return self.status != "predicted"


@dataclass(frozen=True)
class Answers:
    """The best answers, best first. `notes` say where the scores only approximate the query."""

    query: Query
    answers: tuple[Answer, ...]
    known: int  # number of answers that follow from the graph's facts, shown or not
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __str__(self) -> str:
        lines = [f"{one.score:7.4f}  {one.status:<9}  {one.label}" for one in self.answers]
        return "\n".join([str(self.query), *lines])


class Answerer:
    """A model and its graph in memory; questions use the graph's names."""

    def __init__(
        self, reasoner: Reasoner, graph: KnowledgeGraph, stored: StoredReasoner | None = None
    ) -> None:
        self.reasoner, self.graph, self.stored = reasoner, graph, stored
        self.trained_on = graph.view(train_split(graph))

    @classmethod
    def open(
        cls,
        folder: str | Path,
        graph: str | Path | None = None,
        device: str = "auto",
        trust: Collection[str] = (),
    ) -> Answerer:
        """Opens a folder made by `fit` or `save`, or a checkpoint of a reasoner or a predictor; a
        predictor answers by beam search.

        A checkpoint's graph is where it was in training, unless given. Classes outside this
        installation are imported only if `trust` names them.
        """
        known, weights = open_graph(graph or graph_of(folder)), weights_in(folder)
        if not is_reasoner(weights):
            return cls(reasoner_in(weights, known, find_device(device), trust), known)
        stored = open_reasoner(weights, known, find_device(device), trust)
        return cls(stored.model.reasoner(), known, stored)

    def save(self, folder: str | Path) -> None:
        """Saves the model and its graph to a new folder, which can be moved elsewhere."""
        if self.stored is None:
            raise DataError("Only a trained reasoner can be saved with its graph.")
        with new_folder(Path(folder)) as scratch:
            self.graph.save(scratch / GRAPH)
            (scratch / REASONER).mkdir()
            StoredNames.of(self.graph).save(scratch / REASONER)
            replace_reasoner(scratch / REASONER, self.stored.model, self.stored.about)

    def ask(self, question: str | Query, limit: int | None = None) -> Answers:
        """The `limit` best entities; by default the question's own LIMIT, or ten. Negation applies
        to what the model predicts, not only to known facts."""
        query = parse(question) if isinstance(question, str) else question
        chosen = (limit, query.limit, _ANSWERS)
        most = next(one for one in chosen if one is not None)
        bound = self.graph.bind(query)
        (scores_E,) = self.reasoner.score([QueryGroup.single(bound)])
        if bool(scores_E.isnan().any()):
            raise DataError("The model's scores are not finite. Its training failed.")
        known, seen = solve(bound, self.graph), solve(bound, self.trained_on)
        best = torch.topk(scores_E, max(0, min(most, len(scores_E))))
        found = [
            Answer(
                entity,
                self.graph.entities.names[entity],
                self.graph.entities.label(entity),
                score,
                "predicted" if entity not in known else "known" if entity in seen else "hidden",
            )
            for score, entity in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        return Answers(query, tuple(found), len(known), self.reasoner.notes(bound))


def load(folder: str | Path, device: str = "auto", trust: Collection[str] = ()) -> Answerer:
    """A model from a folder made by `fit` or `Answerer.save`, ready for questions."""
    return Answerer.open(folder, device=device, trust=trust)
