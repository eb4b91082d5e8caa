"""A trained model and its graph in memory: text in, ranked answers out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import overload

import numpy as np

from clmpt.answering.answers import Answer, Answers, Evidence
from clmpt.answering.asked_model import TRUTH_VALUES, AskedModel, open_model
from clmpt.answering.batches import (
    LIKELY,
    Question,
    ScoredQuestion,
    read_questions,
    scored,
)
from clmpt.answering.evidence import Explainer
from clmpt.answering.judging import Choice, Only, judge
from clmpt.answering.likely_rows import CANDIDATES, RankedRows, ranked_rows
from clmpt.answering.likely_sparql import likely_sparql
from clmpt.answering.model_folder import REASONER, RELIABILITY, graph_of, save_choice
from clmpt.answering.row_answers import LikelyResult, LikelyRow, LikelyRows
from clmpt.compute.devices import find_device
from clmpt.display.text import counted
from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH, graph_from
from clmpt.graph.splits import train_split
from clmpt.graph.stored_names import StoredNames
from clmpt.logic.algebra import SparqlQuery
from clmpt.logic.formula import Limits, Query
from clmpt.logic.parser import as_query
from clmpt.logic.sparql_parser import as_sparql
from clmpt.reasoners.reasoner_folder import (
    StoredReasoner,
    replace_reasoner,
    save_calibrations,
)
from clmpt.storage.checksums import is_there
from clmpt.storage.sealing import sealed_folder

_ANSWERS = 10  # by default
_FEW = 30  # held-out facts; below that, probabilities can be off by an order of magnitude


class Answerer:
    """A model and its graph in memory; questions use the graph's names."""

    def __init__(
        self,
        asked: AskedModel,
        graph: KnowledgeGraph,
        stored: StoredReasoner | None = None,
        folder: Path | None = None,
    ) -> None:
        self.folder = folder  # where it was opened
        self.asked, self.reasoner, self.graph, self.stored = asked, asked.reasoner, graph, stored
        self.trained_on = graph.view(train_split(graph))

    def __repr__(self) -> str:
        return f"<Answerer: {self.asked.name}, {self.graph.size}>"

    @classmethod
    def open(
        cls,
        folder: str | Path,
        graph: KnowledgeGraph | str | Path | None = None,
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
        known = graph_from(graph_of(folder) if graph is None else graph)
        asked, stored = open_model(
            folder, known, find_device(device), trust, reasoner, newer=graph is not None
        )
        return cls(asked, known, stored, Path(folder))

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
            self._copy_reports(scratch)

    def _copy_reports(self, out: Path) -> None:
        """The figures that `fit` measured, for the model's card and its page."""
        if self.folder and is_there(self.folder / RELIABILITY):
            shutil.copyfile(self.folder / RELIABILITY, out / RELIABILITY)
        for path in sorted(self.folder.glob("report*/report.json")) if self.folder else ():
            (out / path.parent.name).mkdir()
            shutil.copyfile(path, out / path.parent.name / path.name)

    @overload
    def ask(  # type: ignore[overload-overlap]  # a text is one question
        self,
        question: str | Query,
        limit: int | None = ...,
        only: Only | None = ...,
        at_least: float = ...,
        refuted: bool = ...,
    ) -> Answers: ...

    @overload
    def ask(
        self,
        question: Iterable[str | Query],
        limit: int | None = ...,
        only: Only | None = ...,
        at_least: float = ...,
        refuted: bool = ...,
    ) -> list[Answers]: ...

    def ask(
        self,
        question: str | Query | Iterable[str | Query],
        limit: int | None = None,
        only: Only | None = None,
        at_least: float = 0.0,
        refuted: bool = False,
    ) -> Answers | list[Answers]:
        """The `limit` best answers; by default the question's own LIMIT, or ten.

        First all that follow from the graph's facts, those that the model was trained on before
        held-out ones; then what is likely, by probability. What a known fact refutes is left out,
        or listed last if `refuted`. `only` lists known or predicted answers alone, `at_least` those
        of this probability or more. Negation applies to what the model predicts, not only to known
        facts.

        A list of questions gives a list of answers, in the same order, and takes a fraction of the
        time: those of one form are computed together. If some cannot be asked, none is: the error
        has the number of each and what is wrong with it.
        """
        if isinstance(question, str | Query):
            asked = [Question.of(question, self.asked, self.graph)]
        else:
            asked = read_questions(question, self.asked, self.graph)
        answers: dict[int, Answers] = {}
        for number, found in scored(asked, self.graph, self.trained_on):
            most = _most(limit, found.question.query)
            answers[number] = self._answers(found, Choice(most, only, at_least, refuted))
        if isinstance(question, str | Query):
            return answers[0]
        return [answers[number] for number in range(len(asked))]

    def _answers(self, found: ScoredQuestion, choice: Choice) -> Answers:
        judged, entities = judge(found, choice), self.graph.entities
        explain = self._explainer(found.question.bound, [entity for entity, *_ in judged.listed])
        listed = tuple(
            Answer(
                entity,
                entities.names[entity],
                entities.label(entity),
                float(found.scores_E[entity]),
                status,
                probability,
                explain,
            )
            for entity, status, probability in judged.listed
        )
        question = found.question
        return Answers(question.query, listed, judged.known, question.notes, judged.refuted)

    def explain(self, question: str | Query, entity: int, most: int = 3) -> tuple[Evidence, ...]:
        """Up to `most` derivations of one answer, the best first; none if it has none."""
        query = as_query(question, LIKELY)
        return self._explainer(self.graph.bind(query), [entity])(entity, most)

    def ask_rows(
        self,
        question: str | Query,
        limit: int | None = None,
        only: Only | None = None,
        at_least: float = 0.0,
    ) -> LikelyRows:
        """The best rows for a question about several variables, ranked together by truth values.

        As with `ask`, rows that follow from facts come first, and what a known fact refutes is
        left out.
        """
        query = as_query(question, LIKELY)
        choice = Choice(_most(limit, query), only, at_least)
        ranked, notes = self._ranked(query)
        rows = (row for row in self._rows(ranked) if choice.takes(row.status, row.probability))
        return LikelyRows(query, tuple(islice(rows, choice.most)), ranked.known, notes)

    def _rows(self, ranked: RankedRows) -> Iterator[LikelyRow]:
        names, label = self.graph.entities.names, self.graph.entities.label
        for at, row in enumerate(ranked.rows_NC.tolist()):
            yield LikelyRow(
                tuple(row),
                tuple(names[one] for one in row),
                tuple(label(one) for one in row),
                float(ranked.score_N[at]),
                ranked.status[at],
                None if ranked.probability_N is None else float(ranked.probability_N[at]),
            )

    def ask_sparql(
        self, query: str | SparqlQuery, at_least: float = 0.0, limits: Limits | None = None
    ) -> LikelyResult:
        """The result of a SPARQL SELECT or ASK over what is likely; see `likely_sparql`."""
        base = self.graph.rdf.base if self.graph.rdf else ""
        query = as_sparql(query, base)
        found = likely_sparql(query, self.graph, self._ranked, at_least, limits)
        told = query.select.grouped or found.status == "predicted"  # a number without an order
        return replace(found, notes=(*found.notes, *self._doubts())) if told else found

    def _doubts(self) -> Iterator[str]:
        """That probabilities cannot be relied on, where they were fitted to next to nothing."""
        fitted_to = self.graph.view("valid").index.triples if "valid" in self.graph.splits else 0
        if 0 < fitted_to < _FEW:
            facts = counted(fitted_to, "held-out fact")
            yield f"Probabilities are rough: they were fitted to {facts} only."

    def _ranked(self, query: Query) -> tuple[RankedRows, tuple[str, ...]]:
        """All likely rows of a question: by the model's reasoner for one variable, by truth values
        for several."""
        if len(query.frees) > 1:
            bound = self.graph.bind(query)
            notes: tuple[str, ...] = (self.asked.new.note,) if self.asked.new else ()
            if self.asked.insisted and self.asked.name != TRUTH_VALUES:
                notes += (f"{self.reasoner.name} knows one variable: truth values rank the rows.",)
            ranked = ranked_rows(self.asked, self.graph, self.trained_on, bound, CANDIDATES)
            return ranked, notes
        answers = self.ask(query, limit=CANDIDATES)
        chances = [one.probability for one in answers]
        known = [chance for chance in chances if chance is not None]
        ranked = RankedRows(
            np.array([[one.entity] for one in answers], np.int64).reshape(-1, 1),
            np.array([one.score for one in answers], np.float32),
            np.array(known, np.float64) if len(known) == len(chances) else None,
            [one.status for one in answers],
            answers.known,
        )
        return ranked, answers.notes

    def _explainer(
        self, bound: Query, listed: list[int]
    ) -> Callable[[int, int], tuple[Evidence, ...]]:
        if self.asked.truth is None:
            return lambda entity, most: ()  # noqa: ARG005
        return Explainer(self.asked.truth, bound, self.graph, self.trained_on, listed)


def _most(limit: int | None, query: Query) -> int:
    return next(one for one in (limit, query.limit, _ANSWERS) if one is not None)


def load(
    folder: str | Path,
    device: str = "auto",
    trust: Collection[str] = (),
    reasoner: str | None = None,
) -> Answerer:
    """A model from a folder made by `fit` or `Answerer.save`, ready for questions."""
    return Answerer.open(folder, device=device, trust=trust, reasoner=reasoner)
