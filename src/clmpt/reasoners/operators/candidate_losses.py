"""Losses of a query's positive and its negatives, of which none is a known answer."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.queries.store import AnswerSets

# Shapes: Q queries, K candidates, X known answers of all queries, U distinct candidates

_NO_SHARE = -60.0  # e⁻⁶⁰ is nothing beside 1; less gives denormal numbers, which are slow


def is_wrong(
    answers: AnswerSets, negative_QK: Tensor | None, entities: int, device: torch.device
) -> Tensor:
    """wrong_QK: which of the negatives are not known answers; of all entities if there are none.

    >>> answers = AnswerSets(np.array([0, 2, 3]), np.array([1, 3, 0]))
    >>> is_wrong(answers, torch.tensor([[0, 1, 2]]), 4, torch.device("cpu")).tolist()
    [[True, False, True], [False, True, True]]
    """
    owner = torch.from_numpy(answers.owners).to(device)
    entity = torch.from_numpy(np.asarray(answers.entities, np.int64)).to(device)
    if negative_QK is None:
        wrong_QK = torch.ones(len(answers), entities, dtype=torch.bool, device=device)
        wrong_QK[owner, entity] = False
        return wrong_QK
    if not len(entity):
        return torch.ones(len(answers), negative_QK.shape[1], dtype=torch.bool, device=device)
    if len(negative_QK) == 1:
        return _shared_are_wrong(owner, entity, negative_QK[0], len(answers))
    code_X = owner * entities + entity  # sorted, as answers are
    query_Q1 = torch.arange(len(answers), device=device)[:, None]
    code_QK = query_Q1 * entities + negative_QK
    at_QK = torch.searchsorted(code_X, code_QK).clamp_max(len(code_X) - 1)
    return code_X[at_QK] != code_QK


def _shared_are_wrong(
    owner_X: Tensor, entity_X: Tensor, negative_K: Tensor, queries: int
) -> Tensor:
    """The same for negatives of all queries: a look-up for each answer, not for each pair."""
    entity_U, column_K = torch.unique(negative_K, return_inverse=True)
    at_X = torch.searchsorted(entity_U, entity_X).clamp_max(len(entity_U) - 1)
    is_drawn_X = entity_U[at_X] == entity_X
    wrong_QU = torch.ones(queries, len(entity_U), dtype=torch.bool, device=negative_K.device)
    wrong_QU[owner_X[is_drawn_X], at_X[is_drawn_X]] = False
    return wrong_QU[:, column_K]


def separate_loss(scores_QK: Tensor, wrong_QK: Tensor, weight_Q: Tensor | None) -> Tensor:
    """Half of -log σ of the positive's score, and half of the mean of -log σ(-score) of the
    negatives, as a mean over queries, weighted by `weight_Q`.

    >>> scores = torch.tensor([[0.0, 0.0, 9.0]])
    >>> round(float(separate_loss(scores, torch.tensor([[True, False]]), None)), 4)  # log 2
    0.6931
    """
    right_Q = -functional.logsigmoid(scores_QK[:, 0])
    wrong = wrong_QK.to(scores_QK.dtype)
    missed_Q = -(functional.logsigmoid(-scores_QK[:, 1:]) * wrong).sum(1)
    missed_Q = missed_Q / wrong.sum(1).clamp_min(1)
    found_Q = (right_Q + missed_Q) / 2  # eq:logistic
    return (found_Q if weight_Q is None else found_Q * weight_Q).mean()


def joint_loss(scores_QK: Tensor, wrong_QK: Tensor, weight_Q: Tensor | None) -> Tensor:
    """-log of the positive's share in the softmax over it and the negatives; see `separate_loss`.

    >>> scores = torch.tensor([[0.0, 0.0, 9.0]])
    >>> round(float(joint_loss(scores, torch.tensor([[True, False]]), None)), 4)  # log 2
    0.6931
    """
    among_QK = functional.pad(wrong_QK, (1, 0), value=True)
    scores_QK = scores_QK.masked_fill(~among_QK, -math.inf)
    best_Q1 = scores_QK.detach().amax(1, keepdim=True)
    total_Q = (scores_QK - best_Q1).clamp_min(_NO_SHARE).logsumexp(1)
    found_Q = total_Q - (scores_QK[:, :1] - best_Q1)[:, 0]
    return (found_Q if weight_Q is None else found_Q * weight_Q).mean()
