"""A trained model and its graph in memory: text in, ranked answers out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from clmpt.answering.answers import Answer, Answers, Evidence
from clmpt.answering.asked_model import AskedModel, open_model
from clmpt.answering.evidence import Explainer
from clmpt.answering.judging import Choice, Only, judge
from clmpt.answering.model_folder import REASONER, graph_of, save_choice
from clmpt.compute.devices import find_device
from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH, open_graph
from clmpt.graph.splits import train_split
from clmpt.graph.stored_names import StoredNames
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.reasoner_folder import (
    StoredReasoner,
    replace_reasoner,
    save_calibrations,
)
from clmpt.storage.sealing import sealed_folder

_ANSWERS = 10  # by default


class Answerer:
    """A model and its graph in memory; questions use the graph's names."""

    def __init__(
        self, asked: AskedModel, graph: KnowledgeGraph, stored: StoredReasoner | None = None
    ) -> None:
        self.asked, self.reasoner, self.graph, self.stored = asked, asked.reasoner, graph, stored
        self.trained_on = graph.view(train_split(graph))

    @classmethod
    def open(
        cls,
        folder: str | Path,
        graph: str | Path | None = None,
        device: str = "auto",
        trust: Collection[str] = (),
        reasoner: str | None = None,
    ) -> Answerer:
        """Opens a folder made by `fit` or `save`, or a checkpoint of a reasoner or a predictor.

        `reasoner` chooses one of those that the folder has, by default the one that `fit` found
        best; a predictor alone answers by truth values. The graph is the model's own, unless a
        newer state of it is given: then its facts count, and the answers' notes name what is new
        to the model. Classes outside this installation are imported only if `trust`
        names them.
        """
        known = open_graph(graph or graph_of(folder))
        asked, stored = open_model(
            folder, known, find_device(device), trust, reasoner, newer=graph is not None
        )
        return cls(asked, known, stored)

    def save(self, folder: str | Path) -> None:
        """Saves the model and its graph to a new folder, which can be moved elsewhere."""
        if self.stored is None:
            raise DataError("Only a trained reasoner can be saved with its graph.")
        if self.asked.new:
            raise DataError("The graph is newer than the model. Update it with 'clmpt fit' first.")
        with sealed_folder(Path(folder)) as scratch:
            self.graph.save(scratch / GRAPH)
            (scratch / REASONER).mkdir()
            StoredNames.of(self.graph).save(scratch / REASONER)
            replace_reasoner(scratch / REASONER, self.stored.model, self.stored.about)
            save_calibrations(scratch / REASONER, self.asked.calibrations)
            save_choice(scratch, self.asked.name)

    def ask(
        self,
        question: str | Query,
        limit: int | None = None,
        only: Only | None = None,
        at_least: float = 0.0,
        refuted: bool = False,
    ) -> Answers:
        """The `limit` best answers; by default the question's own LIMIT, or ten.

        First all that follow from the graph's facts, those that the model was trained on before
        held-out ones; then what is likely, by probability. What a known fact refutes is left out,
        or listed last if `refuted`. `only` lists known or predicted answers alone, `at_least` those
        of this probability or more. Negation applies to what the model predicts, not only to known
        facts.
        """
        query = parse(question) if isinstance(question, str) else question
        most = next(one for one in (limit, query.limit, _ANSWERS) if one is not None)
        bound = self.graph.bind(query)
        asked, notes = self.asked.able_to(bound)
        (scores_E,) = asked.reasoner.score([QueryGroup.single(bound)]).cpu()
        if bool(scores_E.isnan().any()):
            raise DataError("The model's scores are not finite. Its training failed.")
        choice = Choice(most, only, at_least, refuted)
        chances = asked.chances(bound, scores_E[None])
        chance_E = None if chances is None else chances[0]
        possible_E = asked.possible(scores_E)
        judged = judge(
            *(bound, self.graph, self.trained_on, scores_E, chance_E, possible_E, choice)
        )
        explain = self._explainer(bound, [entity for entity, *_ in judged.listed])
        found = tuple(
            Answer(
                entity,
                self.graph.entities.names[entity],
                self.graph.entities.label(entity),
                float(scores_E[entity]),
                status,
                probability,
                explain,
            )
            for entity, status, probability in judged.listed
        )
        notes += asked.reasoner.notes(bound)
        if asked.new:
            notes += (asked.new.note,)
        return Answers(query, found, judged.known, notes, judged.refuted)

    def _explainer(
        self, bound: Query, listed: list[int]
    ) -> Callable[[int, int], tuple[Evidence, ...]]:
        if self.asked.truth is None:
            return lambda entity, most: ()  # noqa: ARG005
        return Explainer(self.asked.truth, bound, self.graph, self.trained_on, listed)


def load(
    folder: str | Path,
    device: str = "auto",
    trust: Collection[str] = (),
    reasoner: str | None = None,
) -> Answerer:
    """A model from a folder made by `fit` or `Answerer.save`, ready for questions."""
    return Answerer.open(folder, device=device, trust=trust, reasoner=reasoner)
