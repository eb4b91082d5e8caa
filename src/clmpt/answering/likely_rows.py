"""Answers to questions about several variables: rows, ranked together by truth values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from clmpt.answering.answers import Status
from clmpt.answering.asked_model import TRUTH_VALUES, AskedModel
from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import Bools, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Exists, Query
from clmpt.logic.normal_form import Pattern, all_variables, to_formula
from clmpt.reasoners.question_kinds import kind_of
from clmpt.symbolic.solver import solve_rows

CANDIDATES = 20_000  # predicted rows that are considered

# Shapes: N rows, C variables


@dataclass(frozen=True)
class RankedRows:
    """Rows of entity ids with their scores, probabilities and statuses, the best first."""

    rows_NC: Ints
    score_N: npt.NDArray[np.float32]
    probability_N: npt.NDArray[np.float64] | None
    status: list[Status]
    known: int

    def __len__(self) -> int:
        return len(self.status)


def ranked_rows(
    asked: AskedModel,
    graph: KnowledgeGraph,
    trained_on: KnowledgeGraph,
    query: Query,
    most: int,
) -> RankedRows:
    """The rows of a question over ids: what follows from facts, then what is likely."""
    truth = asked.truth
    if truth is None:
        raise UnsupportedQuery(
            "Several variables are ranked by truth values, which this model lacks",
            "Ask for one variable",
        )
    seen, whole = solve_rows(query, trained_on), solve_rows(query, graph)
    hidden = whole[~_among(whole, seen)]
    rows_NC, score_N = truth.best_of_rows(query, CANDIDATES)
    hidden, hidden_score = _by_score(hidden, rows_NC, score_N)
    possible = ~_among(rows_NC, np.concatenate([seen, whole]))
    possible &= ~refuted_rows(query, graph, rows_NC)
    groups: list[tuple[Status, Ints, npt.NDArray[np.float32]]] = [
        ("known", seen, np.ones(len(seen), np.float32)),
        ("hidden", hidden, hidden_score),
        ("predicted", rows_NC[possible], score_N[possible]),
    ]
    scores = np.concatenate([score for _, _, score in groups])[:most]
    return RankedRows(
        np.concatenate([rows for _, rows, _ in groups])[:most],
        scores,
        _probabilities(asked, query, scores, len(seen)),
        [status for status, rows, _ in groups for _ in range(len(rows))][:most],
        len(seen) + len(hidden),
    )


def _by_score(
    rows_NC: Ints, scored_MC: Ints, score_M: npt.NDArray[np.float32]
) -> tuple[Ints, npt.NDArray[np.float32]]:
    """Rows that are true, by what the model gives them; 0 for those that it does not rank."""
    ranked = {tuple(row): at for at, row in enumerate(scored_MC.tolist())}
    places = [ranked.get(tuple(row)) for row in rows_NC.tolist()]
    score_N = np.array([0 if at is None else score_M[at] for at in places], np.float32)
    order_N = np.argsort(-score_N, kind="stable")
    return rows_NC[order_N], score_N[order_N]


def _probabilities(
    asked: AskedModel,
    query: Query,
    scores: npt.NDArray[np.float32],
    known: int,
) -> npt.NDArray[np.float64]:
    """By the calibration of truth values for such questions; without one, truth values."""
    assert asked.truth is not None
    calibration = asked.calibrations.get(TRUTH_VALUES)
    found = scores.astype(np.float64)
    if calibration is not None and len(scores):
        others = Exists(query.frees[1:], query.body) if len(query.frees) > 1 else query.body
        kind = kind_of(Query(query.frees[0], others, None, query.limits))
        chances = calibration.probabilities(asked.truth, torch.from_numpy(scores)[None], kind)
        found = chances[0].double().numpy()
    found[:known] = 1.0
    return found


def refuted_rows(query: Query, graph: KnowledgeGraph, rows_NC: Ints) -> Bools:
    """Which rows cannot be, whatever facts the graph lacks: in every alternative, a part holds
    that must not."""
    found = np.ones(len(rows_NC), np.bool_)
    for pattern in query.patterns:
        own = np.zeros(len(rows_NC), np.bool_)
        for part in pattern.absent:
            own |= _holds(part, query, graph, rows_NC)
        found &= own
    return found


def _holds(part: Pattern, query: Query, graph: KnowledgeGraph, rows_NC: Ints) -> Bools:
    """For which rows a negated part holds that speaks of asked variables only."""
    bound = set(part.variables)
    outer = tuple(v for v in all_variables(part) if v not in bound and v in query.frees)
    loose = [v for v in all_variables(part) if v not in bound and v not in query.frees]
    if loose or not outer or part.absent:
        return np.zeros(len(rows_NC), np.bool_)
    held = solve_rows(Query(outer, to_formula(part), None, query.limits), graph)
    columns = [query.frees.index(variable) for variable in outer]
    return _among(rows_NC[:, columns], held)


def _among(rows_NC: Ints, others_MC: Ints) -> Bools:
    """Which rows are among others."""
    if not len(rows_NC) or not len(others_MC):
        return np.zeros(len(rows_NC), np.bool_)
    both = np.concatenate([rows_NC, others_MC])
    _, code = np.unique(both, axis=0, return_inverse=True)
    code = code.reshape(-1)
    return np.isin(code[: len(rows_NC)], code[len(rows_NC) :])
