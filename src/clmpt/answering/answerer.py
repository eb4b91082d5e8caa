"""A trained model and its graph in memory: text in, ranked answers out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from clmpt.compute.devices import find_device
from clmpt.errors import DataError
from clmpt.graph.benchmark_folders import open_graph, train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.beam_search import HopByHop
from clmpt.reasoners.reasoner import NeuralReasoner, Reasoner
from clmpt.storage.files import new_folder, open_json
from clmpt.storage.run_folder import is_finished
from clmpt.symbolic.solver import solve
from clmpt.training.checkpoint import (
    is_reasoner,
    open_checkpoint,
    open_reasoner,
    save_reasoner,
    save_vocabulary,
)

# A fitted model's folder: a graph, and a reasoner for it.
GRAPH = "graph"
REASONER = "reasoner"

# known: follows from the facts that the model was trained on.
# hidden: follows from the graph's facts, but only with such as were kept from training.
# predicted: does not follow from the graph's facts.
Status = Literal["known", "hidden", "predicted"]


@dataclass(frozen=True)
class Answer:
    """An entity, how well it fits, and what the graph's facts say of it.

    Scores order the answers of one query; between queries they mean nothing.
    """

    entity: int
    name: str
    label: str
    score: float
    status: Status

    @property
    def known(self) -> bool:
        """Whether the graph's facts, all of them, say so."""
        return self.status != "predicted"


@dataclass(frozen=True)
class Answers:
    """The best answers, best first. `notes` tell where the model scores less than was asked."""

    query: Query
    answers: tuple[Answer, ...]
    known: int  # how many answers the graph's facts give, shown or not
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __str__(self) -> str:
        lines = [f"{one.score:7.4f}  {one.status:<9}  {one.label}" for one in self.answers]
        return "\n".join([str(self.query), *lines])


class Answerer:
    """A model and its graph in memory, to be asked in the graph's own names."""

    def __init__(
        self, reasoner: Reasoner, graph: KnowledgeGraph, about: dict[str, Any] | None = None
    ) -> None:
        self.reasoner, self.graph, self.about = reasoner, graph, about or {}
        self.trained_on = graph.view(train_split(graph))

    @classmethod
    def open(
        cls, checkpoint: str | Path, graph: str | Path | None = None, device: str = "auto"
    ) -> Answerer:
        """A folder made by `fit` or `save`; or by training, a reasoner's or a predictor's (used
        hop by hop).

        The graph is opened from where it was in training, unless said otherwise.
        """
        known, model = open_graph(graph or graph_of(checkpoint)), model_of(checkpoint)
        about = open_json(model / "reasoner.json") if is_reasoner(model) else None
        return cls(reasoner_of(model, known, find_device(device)), known, about)

    def save(self, folder: str | Path) -> None:
        """A new folder with the model and its graph, all that is needed to ask it elsewhere."""
        if not isinstance(self.reasoner, NeuralReasoner):
            raise DataError("Only a trained reasoner can be saved with its graph.")
        with new_folder(Path(folder)) as scratch:
            self.graph.save(scratch / GRAPH)
            (scratch / REASONER).mkdir()
            save_vocabulary(
                scratch / REASONER, self.graph.entities.names, self.graph.relations.names
            )
            save_reasoner(scratch / REASONER, self.reasoner.model, self.about)

    def ask(self, question: str | Query, limit: int = 10) -> Answers:
        """The `limit` best of all entities; negated parts speak of what the model believes."""
        query = parse(question) if isinstance(question, str) else question
        bound = self.graph.bind(query)
        (scores_E,) = self.reasoner.score([QueryGroup.single(bound)])
        if not bool(scores_E.isfinite().all()):
            raise DataError("The model gives scores that are not numbers. Its training went wrong.")
        known, seen = solve(bound, self.graph), solve(bound, self.trained_on)
        best = torch.topk(scores_E, max(0, min(limit, len(scores_E))))
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


def reasoner_of(checkpoint: str | Path, graph: KnowledgeGraph, device: torch.device) -> Reasoner:
    """What a folder of weights holds, ready to score; refuses a graph with other names."""
    if is_reasoner(checkpoint):
        stored = open_reasoner(checkpoint, device)
        stored.check_graph(graph)
        return NeuralReasoner(stored.model)
    found = open_checkpoint(checkpoint, device)
    found.check_graph(graph)
    return HopByHop(found.predictor, len(graph.relations))


def model_of(folder: str | Path) -> Path:
    """Where in a folder the weights are: in itself, or in a part of a fitted model's."""
    folder = Path(folder)
    if not (folder / GRAPH).is_dir():
        return folder
    if (folder / "run.json").exists() and not is_finished(folder):
        raise DataError(f"'{folder}' is not finished. The command that began it goes on with it.")
    if not is_reasoner(folder / REASONER):
        raise DataError(f"'{folder}' is damaged: it has no model. Run what made it again.")
    return folder / REASONER


def graph_of(checkpoint: str | Path) -> str:
    """Where the graph lies: in a fitted model's folder, or where it lay in training."""
    folder = Path(checkpoint)
    if (folder / GRAPH).is_dir():
        return str(folder / GRAPH)
    if not any(
        (folder / name).exists() for name in ("run.json", "predictor.json", "reasoner.json")
    ):
        if folder.is_file():
            raise DataError(
                f"'{folder}' is a file, not a model. Make a model of it, 'clmpt fit {folder}', or "
                "ask for exact answers: 'clmpt solve'."
            )
        raise DataError(
            f"'{folder}' is not a model. Make one with 'clmpt fit', or with 'clmpt pretrain' "
            "and 'clmpt train'."
        )
    run = folder / "run.json"
    about = open_json(run) if run.exists() else None
    source = about.get("source") if isinstance(about, dict) else None
    if not isinstance(source, str) or not source or not Path(source).exists():
        raise DataError(f"The graph of '{checkpoint}' is not where it was. Use --graph FOLDER.")
    return source
