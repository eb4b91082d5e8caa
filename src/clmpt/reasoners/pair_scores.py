"""Scores of each query with its own candidates, without copying any candidate's embedding.

A gather would write [queries, candidates, width] numbers, and its gradient as many again. Weighted
sums of table rows (`embedding_bag`) compute scores and gradients directly from the table.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Shapes: G graphs, K candidates of each, U rows of a table, D width, P pairs


def pair_scores(query_GD: Tensor, rows_UD: Tensor, candidate_GK: Tensor) -> Tensor:
    """scores_GK: the inner product of each query with each of its own candidates.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> pair_scores(torch.tensor([[2.0, 3.0]]), rows, torch.tensor([[2, 0]]))
    tensor([[5., 2.]])
    """
    query_GD = query_GD.to(rows_UD.dtype)
    scores_GK: Tensor = _PairScores.apply(query_GD, rows_UD, candidate_GK)  # type: ignore[no-untyped-call]
    return scores_GK


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_GD: Tensor, rows_UD: Tensor, candidate_GK: Tensor) -> Tensor:
        ctx.save_for_backward(query_GD, rows_UD, candidate_GK)
        weight_GK = query_GD.new_zeros(candidate_GK.shape, requires_grad=True)
        with torch.enable_grad():
            # The derivative of the sum of w · row by w, along the query, is row · query.
            sum_GD = _weighted_sums(candidate_GK, rows_UD.detach(), weight_GK)
        (scores_GK,) = torch.autograd.grad(sum_GD, weight_GK, query_GD)
        return scores_GK

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        query_GD, rows_UD, candidate_GK = ctx.saved_tensors
        (grad_GK,) = grads
        query_grad = rows_grad = None
        if ctx.needs_input_grad[0]:
            query_grad = _weighted_sums(candidate_GK, rows_UD, grad_GK)
        if ctx.needs_input_grad[1]:
            candidate_P = candidate_GK.flatten()
            order_P = torch.argsort(candidate_P, stable=True)
            counts_U = torch.bincount(candidate_P, minlength=len(rows_UD))
            rows_grad = functional.embedding_bag(
                order_P // candidate_GK.shape[1],
                query_GD,
                counts_U.cumsum(0) - counts_U,
                mode="sum",
                per_sample_weights=grad_GK.flatten()[order_P],
            )
        return query_grad, rows_grad, None


def _weighted_sums(row_GK: Tensor, rows_UD: Tensor, weight_GK: Tensor) -> Tensor:
    return functional.embedding_bag(row_GK, rows_UD, mode="sum", per_sample_weights=weight_GK)
