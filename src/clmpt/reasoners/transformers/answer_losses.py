"""The loss of models that tell answers from all other entities: each answer of a query against all
entities that are not known to be one, so that answers do not compete with each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.queries.store import AnswerSets

# Shapes: Q queries, E entities, K negatives, X known answers of all queries


def answers_loss(scores_QE: Tensor, answers: AnswerSets, smoothing: float = 0.0) -> Tensor:
    """The mean over queries of the mean over a query's answers of -log of an answer's share among
    itself and all entities that are not answers.

    `smoothing` of an answer's label is on all entities alike.

    >>> one = AnswerSets(np.array([0, 2]), np.array([1, 2]))
    >>> scores = torch.tensor([[0.0, math.log(3.0), 0.0]])
    >>> loss = answers_loss(scores, one)  # the mean of log 4/3 and log 2
    >>> round(float(loss.exp()) ** 2, 4)
    2.6667
    """
    device = scores_QE.device
    owner_X = torch.from_numpy(answers.owners).to(device)
    entity_X = torch.from_numpy(np.asarray(answers.entities, np.int64)).to(device)
    found: tuple[Tensor, Tensor, Tensor] = _Compared.apply(  # type: ignore[no-untyped-call]
        _exact(scores_QE), owner_X, entity_X
    )
    right_X, others_Q, mean_Q = found
    loss_X = functional.softplus(others_Q[owner_X] - right_X)  # eq:answer-share
    if smoothing:
        loss_X = loss_X + smoothing * (right_X - mean_Q[owner_X])  # eq:answer-smoothing
    count_Q = torch.from_numpy(answers.counts).to(device, loss_X.dtype)
    sum_Q = torch.zeros_like(others_Q).index_add(0, owner_X, loss_X)
    return (sum_Q / count_Q.clamp_min(1)).mean()


def one_answer_loss(scores_QK: Tensor, wrong_QK: Tensor, smoothing: float = 0.0) -> Tensor:
    """The same for one answer of each query, which is first, and a sample of other entities;
    `wrong_QK` says which of these are not answers.

    >>> scores = torch.tensor([[math.log(3.0), 0.0, 9.0]])
    >>> loss = one_answer_loss(scores, torch.tensor([[True, False]]))
    >>> round(float(loss.exp()), 4)
    1.3333
    """
    scores_QK = _exact(scores_QK)
    among_QK = functional.pad(wrong_QK, (1, 0), value=True)
    total_Q = scores_QK.masked_fill(~among_QK, -math.inf).logsumexp(1)
    found_Q = total_Q - scores_QK[:, 0]
    if smoothing:
        mean_Q = (scores_QK * among_QK).sum(1) / among_QK.sum(1)
        found_Q = found_Q + smoothing * (scores_QK[:, 0] - mean_Q)
    return found_Q.mean()


def _exact(scores_QE: Tensor) -> Tensor:
    """Scores in at least single precision, for sums of many exponentials."""
    return scores_QE.float() if scores_QE.dtype == torch.bfloat16 else scores_QE


class _Compared(torch.autograd.Function):
    """The scores of answers; the logarithm of the sum of exponentials of all others; and the mean
    of all scores.

    What this costs are passes over all scores: there are as few as possible.
    """

    @staticmethod
    def forward(
        ctx: Any, scores_QE: Tensor, owner_X: Tensor, entity_X: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        right_X, mean_Q = scores_QE[owner_X, entity_X], scores_QE.mean(1)
        share_QE = scores_QE.clone()
        share_QE[owner_X, entity_X] = -math.inf
        limits = torch.finfo(scores_QE.dtype)
        peak_Q1 = share_QE.amax(1, keepdim=True).clamp_min_(limits.min)  # all may be answers
        share_QE.sub_(peak_Q1).exp_()
        sum_Q1 = share_QE.sum(1, keepdim=True)
        ctx.save_for_backward(share_QE, sum_Q1.clamp_min(limits.tiny), owner_X, entity_X)
        others_Q = (sum_Q1.log() + peak_Q1)[:, 0].clamp_min(limits.min)
        return right_X, others_Q, mean_Q

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        share_QE, sum_Q1, owner_X, entity_X = ctx.saved_tensors
        right_X, others_Q, mean_Q = grads
        each_Q = mean_Q / share_QE.shape[1]
        grad_QE = share_QE * (others_Q[:, None] / sum_Q1)
        if bool(mean_Q.any()):
            grad_QE += each_Q[:, None]
        grad_QE[owner_X, entity_X] = right_X + each_Q[owner_X]
        return grad_QE, None, None
