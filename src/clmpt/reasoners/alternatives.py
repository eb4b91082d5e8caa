"""Unions as the best of their alternatives."""

from __future__ import annotations

import math

from torch import Tensor

# Shapes: G graphs (disjuncts), Q queries, N candidates or entities


def best_alternative(scores_GN: Tensor, query_G: Tensor, queries: int) -> Tensor:
    """scores_QN: a union scores as high as the best of its alternatives."""
    if len(scores_GN) == queries:  # one alternative each, in order
        return scores_GN
    best_QN = scores_GN.new_full((queries, scores_GN.shape[1]), -math.inf)
    rows_GN = query_G[:, None].expand_as(scores_GN)
    return best_QN.scatter_reduce(0, rows_GN, scores_GN, "amax")  # eq:union
