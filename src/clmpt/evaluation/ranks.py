"""Filtered ranks and the figures computed from them, for anything that scores entities.

An answer is ranked among non-answers only. Ties count half, so a model that gives everything the
same score ranks in the middle, not at the top.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.chunks import rows_at_once
from clmpt.compute.row_shards import RowShard
from clmpt.errors import Diverged
from clmpt.graph.edges import Ints
from clmpt.queries.store import AnswerSets

# Shapes: B questions of a chunk, E entities, T answers to rank, Q queries; 4 figures of each

Floats = npt.NDArray[np.float64]

_MANY_ANSWERS = 200  # from here on, sorting a question's scores is cheaper than a scan per answer


@dataclass(frozen=True)
class Figures:
    """Means over `count` ranked answers or queries."""

    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    count: int

    def as_plain(self) -> dict[str, float | int]:
        return asdict(self)


def figures(ranks_T: Floats, weight_T: Floats | None = None, count: int | None = None) -> Figures:
    """Figures from ranks. With weights that sum to one per query, means over queries.

    >>> figures(np.array([1.0, 2.0, 4.0, 20.0])).mrr
    0.45
    """
    weight_T = np.ones(len(ranks_T)) if weight_T is None else weight_T
    total = float(weight_T.sum())

    def mean(values: npt.NDArray[np.floating | np.bool_]) -> float:
        return float((values * weight_T).sum() / total) if total else float("nan")

    return Figures(
        mrr=mean(1 / ranks_T),
        hits_at_1=mean(ranks_T <= 1),
        hits_at_3=mean(ranks_T <= 3),
        hits_at_10=mean(ranks_T <= 10),
        count=len(ranks_T) if count is None else count,
    )


def figures_by_query(ranks_T: Floats, owner_T: Ints) -> Floats:
    """MRR, Hits@1, Hits@3 and Hits@10 of each query that has an answer among these, as rows.

    >>> figures_by_query(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 7])).tolist()
    [[0.75, 0.5, 1.0, 1.0], [0.25, 0.0, 0.0, 1.0]]
    """
    _, owner_T = np.unique(owner_T, return_inverse=True)
    columns = (1 / ranks_T, ranks_T <= 1, ranks_T <= 3, ranks_T <= 10)
    sums_4Q = np.stack([np.bincount(owner_T, column) for column in columns])
    return np.ascontiguousarray((sums_4Q / np.bincount(owner_T)).T)


def mean_figures(rows_Q4: Floats) -> Figures:
    """Means over queries; zeros if there are none."""
    mrr, first, third, tenth = (rows_Q4.sum(0) / max(len(rows_Q4), 1)).tolist()
    return Figures(mrr, first, third, tenth, len(rows_Q4))


def filtered_ranks(
    scores_BE: Tensor,
    wanted: AnswerSets,
    known: AnswerSets,
    sort_from: int = _MANY_ANSWERS,
    shard: RowShard | None = None,
) -> Floats:
    """The rank of each wanted answer of each row among entities that are not known answers.

    `known` must contain the wanted answers. The scores are overwritten. A row with more than
    `sort_from` answers is sorted once instead of scanned for each. If every process has the scores
    of a shard of the entities only, they count together.

    >>> scores = torch.tensor([[0.9, 0.8, 0.7, 0.7, 0.1]])
    >>> hard, all_answers = AnswerSets(np.array([0, 1]), np.array([2])), AnswerSets(
    ...     np.array([0, 2]), np.array([0, 2]))
    >>> filtered_ranks(scores, hard, all_answers)  # 1 is better, 3 ties, 0 is filtered out
    array([2.5])
    """
    columns = _Columns(shard or RowShard.whole(scores_BE.shape[1]))
    if columns.any_of(bool(scores_BE.sum().isnan())):  # one pass, which any NaN survives
        raise Diverged("The model's scores are not numbers. Its training failed.")
    score_T = columns.read(scores_BE, wanted)
    if bool(score_T.isneginf().any()):  # a score like any other, but below it is the filter
        scores_BE.clamp_(min=torch.finfo(scores_BE.dtype).min)
        score_T = columns.read(scores_BE, wanted)
    row, column, _ = columns.places(known, scores_BE.device)
    scores_BE[row, column] = -torch.inf
    return 1 + columns.total(_better(scores_BE, score_T, wanted, sort_from))


@dataclass(frozen=True)
class _Columns:
    """The entities whose scores this process has."""

    shard: RowShard

    def places(self, sets: AnswerSets, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns of the answers that are in this shard, and which answers these are."""
        entity_T = torch.from_numpy(np.asarray(sets.entities, np.int64))
        here_T = self.shard.has(entity_T).nonzero().squeeze(1)
        row = torch.from_numpy(sets.owners)[here_T]
        return row.to(device), (entity_T[here_T] - self.shard.start).to(device), here_T.to(device)

    def read(self, scores_BE: Tensor, sets: AnswerSets) -> Tensor:
        row, column, here_T = self.places(sets, scores_BE.device)
        score_T = scores_BE.new_zeros(len(sets.entities))
        score_T[here_T] = scores_BE[row, column]
        return distributed.total(score_T) if self.shard.parts > 1 else score_T

    def total(self, counted_T: Floats) -> Floats:
        if self.shard.parts == 1:
            return counted_T
        return distributed.total(torch.from_numpy(counted_T)).numpy()

    def any_of(self, flag: bool) -> bool:
        return distributed.any_of(flag) if self.shard.parts > 1 else flag


def _better(scores_BE: Tensor, score_T: Tensor, wanted: AnswerSets, sort_from: int) -> Floats:
    """How many scores of its row are above each answer's; those that are equal count half."""
    device, found_T = scores_BE.device, np.empty(len(score_T))
    many = wanted.counts > sort_from
    few_T = np.flatnonzero(~many[wanted.owners])
    if device.type == "cpu":
        rivals_BE, scores = scores_BE.numpy(), score_T.numpy()
        for at, row in zip(few_T.tolist(), wanted.owners[few_T].tolist(), strict=True):
            # NumPy counts booleans many times faster than torch sums them.
            above, not_below = rivals_BE[row] > scores[at], rivals_BE[row] >= scores[at]
            found_T[at] = (np.count_nonzero(above) + np.count_nonzero(not_below)) / 2
    else:
        row_T = torch.from_numpy(wanted.owners).to(device)
        step = rows_at_once(scores_BE.shape[1])
        for start in range(0, len(few_T), step):
            part = few_T[start : start + step]
            rival_TE, own_T1 = scores_BE[row_T[part]], score_T[part, None]
            better_T, tied_T = (rival_TE > own_T1).sum(1), (rival_TE == own_T1).sum(1)
            found_T[part] = (better_T + tied_T / 2).cpu()
    for row in np.flatnonzero(many).tolist():
        own = slice(wanted.offsets[row], wanted.offsets[row + 1])
        rivals_E, own_T = scores_BE[row].sort().values, score_T[own]
        above_T = torch.searchsorted(rivals_E, own_T, right=True)
        below_T = torch.searchsorted(rivals_E, own_T)
        better_T = len(rivals_E) - above_T
        found_T[own] = (better_T + (above_T - below_T) / 2).cpu()
    return found_T


def united(easy: AnswerSets, hard: AnswerSets) -> AnswerSets:
    owner = np.concatenate([easy.owners, hard.owners])
    order = np.argsort(owner, kind="stable")
    entities = np.concatenate([easy.entities, hard.entities])
    return AnswerSets.of(owner[order], entities[order], len(easy))
