"""Questions answered together: those of one form are scored and solved at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from clmpt.answering.asked_model import AskedModel
from clmpt.compute.chunks import rows_at_once
from clmpt.errors import BadQuestions, ClmptError, DataError, UnsupportedQuery
from clmpt.graph.edges import AnyInts
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Id, Placeholder, Query, Symbol
from clmpt.logic.parser import as_query, no_question
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.indexing import score_with
from clmpt.symbolic.refutation import refuted
from clmpt.symbolic.solver import solve_many

# Shapes: Q queries, E entities

_AT_ONCE = 1024  # questions
LIKELY = "model.ask_sparql answers more of SPARQL; graph.sparql all of it, from known facts"


@dataclass(frozen=True)
class Question:
    """A question in the graph's ids, and who answers it."""

    query: Query
    bound: Query
    asked: AskedModel
    notes: tuple[str, ...]

    @classmethod
    def of(cls, question: str | Query, model: AskedModel, graph: KnowledgeGraph) -> Question:
        query = as_query(question, LIKELY)
        if len(query.frees) > 1:
            raise UnsupportedQuery(
                "The question asks for several variables",
                "model.ask_rows answers it, in rows",
                query.frees[1].position,
            )
        bound = graph.bind(query)
        asked, notes = model.able_to(bound)
        notes += asked.reasoner.notes(bound)
        notes += asked.index_notes
        return cls(query, bound, asked, notes + ((asked.new.note,) if asked.new else ()))


def read_questions(questions: object, model: AskedModel, graph: KnowledgeGraph) -> list[Question]:
    """All of them, or an error that lists those that cannot be asked."""
    if not isinstance(questions, Iterable) or _has_ids(questions):
        raise no_question(questions)
    found: list[Question] = []
    problems: dict[int, ClmptError] = {}
    listed = list(questions)
    for number, question in enumerate(listed):
        try:
            found.append(Question.of(question, model, graph))
        except ClmptError as error:  # noqa: PERF203
            problems[number] = error
    if problems:
        raise BadQuestions(problems, len(listed))
    return found


def _has_ids(questions: object) -> bool:
    """Whether this is one question, a tuple of ids as BetaE writes it."""
    return isinstance(questions, tuple) and any(isinstance(one, int | tuple) for one in questions)


@dataclass(frozen=True)
class ScoredQuestion:
    """The score and the probability of every entity, and what follows from the facts."""

    question: Question
    scores_E: Tensor
    chance_E: Tensor | None
    follows: AnyInts
    seen: AnyInts  # what follows from the facts that the model was trained on
    ruled_out: frozenset[int]  # what facts refute


def scored(
    questions: Sequence[Question], graph: KnowledgeGraph, trained_on: KnowledgeGraph
) -> Iterator[tuple[int, ScoredQuestion]]:
    """Each question with its number, form by form."""
    forms: dict[tuple[str, Query], list[tuple[int, list[int], list[int]]]] = {}
    for number, question in enumerate(questions):
        template, entities, relations = _form(question.bound)
        rows = forms.setdefault((question.asked.name, template), [])
        rows.append((number, entities, relations))
    step = min(_AT_ONCE, rows_at_once(len(graph.entities)))
    for (_, template), rows in forms.items():
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            numbers = [number for number, *_ in some]
            group = _group(template, [row[1] for row in some], [row[2] for row in some])
            found = _scored_group([questions[one] for one in numbers], group, graph, trained_on)
            yield from zip(numbers, found, strict=True)


def _form(bound: Query) -> tuple[Query, list[int], list[int]]:
    """A query over ids as a template and its row. Equal ids share a placeholder, so that the
    template is simplified as the query is."""
    entities: dict[Symbol, Placeholder] = {}
    relations: dict[Symbol, Placeholder] = {}
    template = bound.replace(
        lambda symbol: entities.setdefault(symbol, Placeholder(f"s{len(entities)}")),
        lambda symbol: relations.setdefault(symbol, Placeholder(f"r{len(relations)}")),
    )
    return template, _numbers(entities), _numbers(relations)


def _numbers(symbols: dict[Symbol, Placeholder]) -> list[int]:
    return [symbol.number for symbol in symbols if isinstance(symbol, Id)]


def _group(
    template: Query, entities: Sequence[list[int]], relations: Sequence[list[int]]
) -> QueryGroup:
    nothing = AnswerSets(np.zeros(len(entities) + 1, np.int64), np.empty(0, np.int64))
    entities_QS, relations_QR = (
        np.array(rows, np.int32).reshape(len(entities), -1) for rows in (entities, relations)
    )
    return QueryGroup(str(template), template, entities_QS, relations_QR, nothing, nothing)


def _scored_group(
    questions: Sequence[Question],
    group: QueryGroup,
    graph: KnowledgeGraph,
    trained_on: KnowledgeGraph,
) -> Iterator[ScoredQuestion]:
    follows, seen = (
        solve_many(group.template, known, group.entities, group.relations)
        for known in (graph, trained_on)
    )
    ruled_out = [refuted(question.bound, graph) for question in questions]
    asked, listed = questions[0].asked, _with_others(follows, ruled_out)
    scores_QE = score_with(asked.reasoner, [group], listed).cpu()
    if bool(scores_QE.sum().isnan()):  # one pass, which any NaN survives
        raise DataError("The model's scores are not finite. Its training failed.")
    chance_QE = asked.chances(group.template, scores_QE)
    for at, question in enumerate(questions):
        chance_E = None if chance_QE is None else chance_QE[at]
        yield ScoredQuestion(
            question, scores_QE[at], chance_E, follows[at], seen[at], ruled_out[at]
        )


def _with_others(sets: AnswerSets, others: Sequence[frozenset[int]]) -> AnswerSets:
    parts = [
        np.union1d(one, [*other]).astype(np.int64) for one, other in zip(sets, others, strict=True)
    ]
    offsets = np.cumsum([0, *map(len, parts)])
    return AnswerSets(offsets, np.concatenate(parts))
