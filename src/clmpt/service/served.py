"""A graph or a model that is served: what requests can ask of it, as plain values.

Torch is needed for models only, and imported where one is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmpt.errors import UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.name_search import NameSearch
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import train_split
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Id, Name, Query
from clmpt.logic.iris import iri_of
from clmpt.logic.parser import parse
from clmpt.logic.printing import name_text
from clmpt.service.examples import example_questions
from clmpt.service.model_page import model_page
from clmpt.service.service_settings import ServedFolder
from clmpt.symbolic.solver import solve_rows

if TYPE_CHECKING:
    from clmpt.answering.answerer import Answerer
    from clmpt.answering.answers import Answer, Answers

_EVIDENCE = 3  # derivations of an answer
_ANSWERS = 20


@dataclass(frozen=True)
class Asking:
    """How a question is to be answered."""

    limit: int = _ANSWERS
    at_least: float = 0.0
    only: str | None = None
    evidence: bool = False
    reasoner: str | None = None


@dataclass(frozen=True)
class Served:
    """`models` are one folder's model with each of its reasoners that has been asked for; the one
    it answers with by itself is under None. A plain graph has none."""

    folder: ServedFolder
    graph: KnowledgeGraph
    models: dict[str | None, Answerer] = field(default_factory=dict)
    device: str = "auto"
    trust: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: ServedFolder, device: str, trust: tuple[str, ...]) -> Served:
        if not folder.is_model:
            return cls(folder, open_graph(folder.path))
        from clmpt.service.served_models import open_answerer

        model = open_answerer(folder, device, trust, None)
        return cls(folder, model.graph, {None: model}, device, trust)

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def entities(self) -> NameSearch:
        return NameSearch(self.graph.entities)

    @cached_property
    def relations(self) -> NameSearch:
        return NameSearch(self.graph.relations)

    @cached_property
    def page(self) -> dict[str, Any]:
        """What is told of the model; nothing of a plain graph."""
        return model_page(Path(self.folder.path)) if self.models else {}

    def warm_up(self) -> None:
        """Makes what the first question would otherwise wait for."""
        self.entities, self.relations, self.page  # noqa: B018

    def model(self, reasoner: str | None = None) -> Answerer:
        if not self.models:
            raise UnsupportedQuery(
                f"'{self.name}' is a graph without a model, so nothing is likely there",
                "Ask for exact answers, or serve a model made by 'clmpt fit'",
            )
        if reasoner not in self.models:
            from clmpt.service.served_models import open_answerer

            self.models[reasoner] = open_answerer(self.folder, self.device, self.trust, reasoner)
        return self.models[reasoner]

    # --- questions --------------------------------------------------------------------------------

    def ask(self, questions: Sequence[str], how: Asking) -> list[dict[str, Any]]:
        """The answers to each question: likely ones too, if there is a model."""
        queries = [self.read(question) for question in questions]
        if not self.models:
            if how.reasoner:
                self.model(how.reasoner)
            return [self._exact(query, how) for query in queries]
        model = self.model(how.reasoner)
        if len(queries) == 1 and len(queries[0].frees) > 1:
            return [self._rows(model, queries[0], how)]
        found = model.ask(queries, how.limit, how.only, how.at_least)  # type: ignore[arg-type]
        return [self._as_plain(answers, how) for answers in found]

    def read(self, question: str) -> Query:
        query = parse(question)
        self.graph.bind(query)
        return query

    def explain(self, question: str, entity: str, reasoner: str | None) -> list[dict[str, Any]]:
        """The best derivations of one answer."""
        query, number = self.read(question), self.entity(entity)
        return [
            {
                "value": round(found.value, 6),
                "text": str(found),
                "atoms": _plain_atoms(found),
            }
            for found in self.model(reasoner).explain(query, number, _EVIDENCE)
        ]

    def entity(self, name: str) -> int:
        """By name, label, or id as in `#7`."""
        if name.startswith("#") and name[1:].isdecimal():
            return self.graph.entities.resolve(Id(int(name[1:])))
        return self.graph.entities.resolve(Name(name))

    def _exact(self, query: Query, how: Asking) -> dict[str, Any]:
        rows = solve_rows(self.graph.bind(query), self.graph)
        labels = [tuple(map(self.graph.entities.label, row)) for row in rows.tolist()]
        order = sorted(range(len(labels)), key=labels.__getitem__)[: how.limit]
        answers = [
            {**self._row(rows[at].tolist()), "probability": 1.0, "status": "known"} for at in order
        ]
        return self._result(query, answers, len(rows), 0, ())

    def _rows(self, model: Answerer, query: Query, how: Asking) -> dict[str, Any]:
        found = model.ask_rows(query, how.limit, how.only, how.at_least)  # type: ignore[arg-type]
        answers = [
            {
                **self._row(list(one.entities)),
                "probability": one.probability,
                "status": one.status,
            }
            for one in found
        ]
        return self._result(query, answers, found.known, 0, found.notes)

    def _as_plain(self, found: Answers, how: Asking) -> dict[str, Any]:
        answers = [
            {
                **self._row([one.entity]),
                "probability": None if one.probability is None else round(one.probability, 6),
                "score": round(one.score, 6),
                "status": one.status,
                **({"evidence": self._evidence(one)} if how.evidence else {}),
            }
            for one in found
        ]
        return self._result(found.query, answers, found.known, found.refuted, found.notes)

    def _evidence(self, answer: Answer) -> list[dict[str, Any]]:
        return _plain_atoms(answer.evidence) if answer.evidence else []

    def _row(self, entities: list[int]) -> dict[str, Any]:
        """The first entity of a row, and all of them if there are more."""
        cells = [self.described(entity) for entity in entities]
        return {**cells[0], **({"row": cells} if len(cells) > 1 else {})}

    def described(self, entity: int) -> dict[str, Any]:
        names = self.graph.entities
        return {"label": names.label(entity), "name": names.names[entity], "id": entity}

    def _result(
        self,
        query: Query,
        answers: list[dict[str, Any]],
        known: int,
        refuted: int,
        notes: Sequence[str],
    ) -> dict[str, Any]:
        return {
            "query": str(query),
            "variables": [variable.name for variable in query.frees],
            "answers": answers,
            "known": known,
            "refuted": refuted,
            "notes": list(notes),
        }

    # --- the graph --------------------------------------------------------------------------------

    def complete(self, text: str, kind: str | None, limit: int) -> list[dict[str, Any]]:
        """Entities and relations whose names begin with a text, or are similar to it, and how each
        is written in a question."""
        return [
            {
                "kind": own,
                "label": search.spelt(number, text),
                **_written(search.vocabulary, number),
            }
            for own, search in (("relation", self.relations), ("entity", self.entities))
            if kind in (None, own)
            for number in search.find(text, limit)
        ]

    def neighbours(self, name: str, limit: int) -> dict[str, Any]:
        """The facts about an entity, in both directions, by relation."""
        entity, relations = self.entity(name), len(self.graph.relations)
        trained = self.graph.view(train_split(self.graph)) if self.models else self.graph
        facts, total = list[dict[str, Any]](), 0
        for directed, others in self.graph.index.around(entity):
            total += len(others)
            relation, inverse = directed % relations, directed >= relations
            seen = set(trained.neighbours(entity, relation, inverse=inverse))
            for other in others[: max(0, limit - len(facts))].tolist():
                ends = (other, entity) if inverse else (entity, other)
                facts.append(
                    {
                        "head": self.described(ends[0]),
                        "relation": self.graph.relations.label(relation),
                        "tail": self.described(ends[1]),
                        "status": "known" if other in seen else "hidden",
                    }
                )
        return {"entity": self.described(entity), "facts": facts, "total": total}

    @cached_property
    def examples(self) -> list[str]:
        """Questions that the graph can answer."""
        return example_questions(self.graph)


def _written(vocabulary: Vocabulary, number: int) -> dict[str, Any]:
    """A name as it is, as formulas write it, and as SPARQL writes it."""
    name = vocabulary.names[number]
    return {
        "name": name,
        "id": number,
        "formula": name_text(vocabulary.spelling(number)),
        "sparql": f"<{iri_of(Name(name))}>",
    }


def _plain_atoms(evidence: Any) -> list[dict[str, Any]]:
    from clmpt.answering.answers import evidence_as_plain

    return evidence_as_plain(evidence)
