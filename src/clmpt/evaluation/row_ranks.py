"""Figures for questions about several variables (EFO-k): rows ranked together, and by variable.

After EFOk-CQA (Yin et al. 2023). *Joint* is the rank of a hard row among all rows that are not
answers. *Marginal* is the rank of its entity among the values of one variable, whose score is that
of the best row with it. *Multiply* counts a row as found if the entities of all its variables are
among the first ten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import Ints

# Shapes: N rows of a ranking, H hard rows, C variables

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RowFigures:
    """Means over the hard rows of one question."""

    joint_mrr: float
    joint_hits_at_10: float
    marginal_mrr: float
    multiply_hits_at_10: float


def row_figures(
    rows_NC: Ints, score_N: Scores, hard_HC: Ints, answers_AC: Ints, entities: int
) -> RowFigures:
    """The figures of one question. Rows that are not ranked have score 0; `answers_AC` are all
    true rows, which never count against each other.

    >>> rows = np.array([[0, 1], [0, 2], [3, 1]])
    >>> figures = row_figures(rows, np.array([.9, .8, .5], np.float32), rows[2:], rows[2:], 4)
    >>> round(figures.joint_mrr, 3), figures.joint_hits_at_10
    (0.333, 1.0)
    """
    joint = _ranks(_codes(rows_NC, entities), score_N, *_both(hard_HC, answers_AC, entities))
    marginal = np.stack(
        [
            _ranks(*_best(rows_NC[:, at], score_N), hard_HC[:, at], answers_AC[:, at], entities)
            for at in range(rows_NC.shape[1])
        ],
        axis=1,
    )
    return RowFigures(
        float((1 / joint).mean()),
        float((joint <= 10).mean()),
        float((1 / marginal).mean()),
        float((marginal <= 10).all(axis=1).mean()),
    )


def _both(hard_HC: Ints, answers_AC: Ints, entities: int) -> tuple[Ints, Ints, int]:
    columns = hard_HC.shape[1]
    return _codes(hard_HC, entities), _codes(answers_AC, entities), entities**columns


def _codes(rows_NC: Ints, entities: int) -> Ints:
    code_N = np.zeros(len(rows_NC), np.int64)
    for column in rows_NC.T:
        code_N = code_N * entities + column
    return code_N


def _best(value_N: Ints, score_N: Scores) -> tuple[Ints, Scores]:
    """Each value once, with the best of its scores."""
    found, own_N = np.unique(value_N, return_inverse=True)
    best = np.zeros(len(found), np.float32)
    np.maximum.at(best, own_N, score_N)
    return found, best


def _ranks(
    code_N: Ints, score_N: Scores, hard_H: Ints, answers_A: Ints, size: int
) -> npt.NDArray[np.float64]:
    """Filtered ranks, ties at mean rank; whatever is not ranked shares the last places."""
    order = np.argsort(code_N)
    code_N, score_N = code_N[order], score_N[order]
    false_N = score_N[~np.isin(code_N, answers_A)]
    sorted_N = np.sort(false_N)
    at_H = np.minimum(np.searchsorted(code_N, hard_H), max(len(code_N) - 1, 0))
    own_H = np.zeros(len(hard_H), np.float32)
    if len(code_N):
        own_H = np.where(code_N[at_H] == hard_H, score_N[at_H], 0).astype(np.float32)
    better_H = len(sorted_N) - sorted_N.searchsorted(own_H, "right")
    equal_H = len(sorted_N) - sorted_N.searchsorted(own_H, "left") - better_H
    unranked = size - len(code_N) - np.count_nonzero(~np.isin(np.unique(answers_A), code_N))
    equal_H = equal_H + np.where(own_H == 0, max(unranked, 0), 0)
    found: npt.NDArray[np.float64] = 1 + better_H + equal_H / 2
    return found
