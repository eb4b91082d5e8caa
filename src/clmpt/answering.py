"""A trained model and its graph in memory: text in, ranked answers out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from clmpt.errors import DataError
from clmpt.graph.benchmarks import open_graph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.query_store import QueryGroup
from clmpt.graph.storage import open_json
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.neural.checkpoint import is_reasoner, open_checkpoint, open_reasoner
from clmpt.neural.devices import find_device
from clmpt.neural.reasoners.hop_by_hop import HopByHop
from clmpt.neural.reasoners.reasoner import NeuralReasoner, Reasoner
from clmpt.symbolic.solver import solve


@dataclass(frozen=True)
class Answer:
    """An entity, how well it fits, and whether the graph's edges already say so.

    Scores order the answers of one query; between queries they mean nothing.
    """

    entity: int
    name: str
    label: str
    score: float
    known: bool


@dataclass(frozen=True)
class Answers:
    """The best answers, best first. `notes` tell where the model scores less than was asked."""

    query: Query
    answers: tuple[Answer, ...]
    known: int  # how many answers the graph's edges give, shown or not
    notes: tuple[str, ...]


class Answerer:
    """Answers questions in the graph's own names; docs/reasoners.md has an example."""

    def __init__(self, reasoner: Reasoner, graph: KnowledgeGraph) -> None:
        self.reasoner, self.graph = reasoner, graph

    @classmethod
    def open(
        cls, checkpoint: str | Path, graph: str | Path | None = None, device: str = "auto"
    ) -> Answerer:
        """A folder made by training, a reasoner's or a predictor's (used hop by hop).

        The graph is opened from where it was in training, unless said otherwise.
        """
        known = open_graph(graph or graph_of(checkpoint))
        return cls(reasoner_of(checkpoint, known, find_device(device)), known)

    def answer(self, question: str | Query, limit: int = 10) -> Answers:
        """The `limit` best of all entities; negated parts speak of what the model believes."""
        query = parse(question) if isinstance(question, str) else question
        bound = self.graph.bind(query)
        (scores_E,) = self.reasoner.score([QueryGroup.single(bound)])
        if not bool(scores_E.isfinite().all()):
            raise DataError("The model gives scores that are not numbers. Its training went wrong.")
        known = solve(bound, self.graph)
        best = torch.topk(scores_E, max(0, min(limit, len(scores_E))))
        found = [
            Answer(
                entity,
                self.graph.entities.names[entity],
                self.graph.entities.label(entity),
                score,
                entity in known,
            )
            for score, entity in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        return Answers(query, tuple(found), len(known), self.reasoner.notes(bound))


def reasoner_of(checkpoint: str | Path, graph: KnowledgeGraph, device: torch.device) -> Reasoner:
    """What a folder holds, ready to score; refuses a graph with other names."""
    if is_reasoner(checkpoint):
        stored = open_reasoner(checkpoint, device)
        stored.check_graph(graph)
        return NeuralReasoner(stored.model)
    found = open_checkpoint(checkpoint, device)
    found.check_graph(graph)
    return HopByHop(found.predictor, len(graph.relations))


def graph_of(checkpoint: str | Path) -> str:
    """Where the graph lay when a model was trained."""
    folder = Path(checkpoint)
    if not any(
        (folder / name).exists() for name in ("run.json", "predictor.json", "reasoner.json")
    ):
        raise DataError(
            f"'{folder}' is not a model. Make one with 'clmpt pretrain' and 'clmpt train'."
        )
    run = folder / "run.json"
    about = open_json(run) if run.exists() else None
    source = about.get("source") if isinstance(about, dict) else None
    if not isinstance(source, str) or not source or not Path(source).exists():
        raise DataError(f"The graph of '{checkpoint}' is not where it was. Use --graph FOLDER.")
    return source
