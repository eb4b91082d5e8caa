"""The softmax over a sample of entities, for graphs with too many to score them all.

A step compares its questions with the answers of all of them and with some entities drawn at
random. Each candidate's score is corrected by how often the sample has it (Bengio and Senécal
2008), so that the loss estimates that of the full softmax. Only the rows of these entities are read
and changed: the time and memory of a step do not depend on the number of entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, overload

import torch
from torch import Tensor

from clmpt.compute.row_shards import RowShard
from clmpt.predictors.cross_entropy import grouped_cross_entropy
from clmpt.predictors.inner_products import InnerProductPredictor
from clmpt.predictors.link_batch import LinkBatch
from clmpt.predictors.predictor import look_up
from clmpt.settings import Pretraining

# Shapes: B questions, T facts, K negatives, U distinct entities of a step, C candidates, D width,
# E entities, N distinct relations or rows of a table, W width of a relation

MOST_ANSWERS = 32  # of a question in a step: one with thousands would fill a step alone


class SampledSoftmax:
    def negatives(self, settings: Pretraining) -> int:
        return settings.candidates

    def scored(self, settings: Pretraining, entities: int) -> int:
        return min(entities, settings.candidates + (settings.group or settings.batch))

    def seen(self, settings: Pretraining, own: slice, questions: int) -> slice:
        """Whole groups."""
        size = settings.group or max(questions, 1)
        return slice(own.start // size * size, min(-(-own.stop // size) * size, questions))

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer:
        return RowAdagrad(list(parameters), settings.learning_rate)

    def loss(
        self,
        predictor: InnerProductPredictor,
        batch: LinkBatch,
        negative_K: Tensor | None,
        settings: Pretraining,
        facts: float,
    ) -> Tensor:
        assert negative_K is not None
        weight, group = settings.regularisation, settings.group
        return sampled_softmax_loss(predictor, batch, negative_K, weight, facts, group)


def sampled_softmax_loss(
    predictor: InnerProductPredictor,
    batch: LinkBatch,
    negative_K: Tensor,
    regularisation: float,
    facts: float,
    group: int = 0,
) -> Tensor:
    """As `softmax_loss`, against the answers of the step and the negatives instead of all entities.

    With `group`, so many questions after each other are compared with their own answers only. So a
    process needs the rows of its own questions' groups, however many processes take part.
    """
    own_B = batch.own_B
    groups = [_Group.of(batch, part, negative_K) for part in _groups(batch, own_B, group)]
    needed = [batch.entity_B[own_B], *(one.candidate_C for one in groups)]
    row_U = torch.unique(torch.cat(needed))
    rows = _Rows(row_U, predictor.embeddings(row_U, sparse=True))
    relations_NW, place_B = predictor.distinct(batch.directed_B[own_B])
    loss = 0 * (rows.rows_UD.sum() + relations_NW.sum())  # goes backward without questions too
    for one, (_, part) in zip(groups, _groups(batch, own_B, group), strict=True):
        own = relations_NW, place_B[part.start - own_B.start : part.stop - own_B.start]
        loss = loss + one.loss(predictor, rows, own, len(negative_K), regularisation)
    return loss / facts


@dataclass(frozen=True)
class _Rows:
    """The rows of the entities that a process needs in a step."""

    row_U: Tensor
    rows_UD: Tensor

    def of(self, entity_A: Tensor) -> Tensor:
        return look_up(self.rows_UD, torch.searchsorted(self.row_U, entity_A))


def _groups(batch: LinkBatch, own_B: slice, size: int) -> Iterator[tuple[slice, slice]]:
    """The groups that have questions of this process, and these questions."""
    questions = len(batch.entity_B)
    size = size or max(questions, 1)
    for first in range(own_B.start // size * size, own_B.stop, size):
        last = min(first + size, questions)
        own = slice(max(own_B.start, first), min(own_B.stop, last))
        if own.start < own.stop:
            yield slice(first, last), own


@dataclass(frozen=True)
class _Group:
    """This process's questions of a group, and the candidates of the whole group.

    An entity is one candidate however often it was drawn, so a negative that is an answer never
    counts against itself.
    """

    own: LinkBatch
    candidate_C: Tensor
    share: float  # of a full step's questions that a group has

    @classmethod
    def of(cls, batch: LinkBatch, parts: tuple[slice, slice], negative_K: Tensor) -> _Group:
        group, own = parts
        candidate_C = torch.unique(torch.cat([batch.answer_T[batch.facts_of(group)], negative_K]))
        share = (group.stop - group.start) / max(batch.questions, 1)
        return cls(batch.part(own), candidate_C, share)

    def loss(
        self,
        predictor: InnerProductPredictor,
        rows: _Rows,
        relations: tuple[Tensor, Tensor],
        negatives: int,
        regularisation: float,
    ) -> Tensor:
        """`chance_C` is how likely a group has a candidate at all: it may be an answer many times
        over."""
        own, candidate_C = self.own, self.candidate_C
        assert own.often_E is not None
        head_BD, candidate_CD = rows.of(own.entity_B), rows.of(candidate_C)
        often_C = negatives / predictor.shard.count + self.share * own.often_E[candidate_C]
        chance_C = -torch.expm1(-often_C)
        at_T = torch.searchsorted(candidate_C, own.answer_T)
        projected_BD = predictor.project_along(head_BD, *relations)
        loss: Tensor = grouped_cross_entropy(
            projected_BD,
            candidate_CD,
            replace(own, answer_T=at_T),
            RowShard.whole(len(candidate_C)),
            chance_C.log(),
        )
        if regularisation:
            used = head_BD, relations, projected_BD, look_up(candidate_CD, at_T)
            loss = loss + regularisation * predictor.regulariser(own.count_B, *used)
        return loss


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad with one sum of squares for each row of a table, as in FBGEMM and torchrec; of sparse
    gradients only their rows are touched.

    >>> table = torch.zeros(3, 2, requires_grad=True)
    >>> optimizer = RowAdagrad([table], 0.5)
    >>> torch.nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum().backward()
    >>> optimizer.step()
    >>> table.detach().tolist()  # 0.5 × 1 / √1
    [[0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    """

    def __init__(self, parameters: list[Tensor], learning_rate: float, least: float = 1e-10):
        super().__init__(parameters, {"lr": learning_rate, "eps": least})
        for table in parameters:
            sums_N = table.new_zeros(len(table), dtype=torch.float32).detach()
            self.state[table] |= {"step": torch.zeros(()), "row_sum": sums_N}

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Any = None) -> float | None:
        assert closure is None
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group["lr"], group["eps"])
        return None

    def _update(self, table: Tensor, gradient: Tensor, rate: float, least: float) -> None:
        sum_N = self.state[table]["row_sum"]
        self.state[table]["step"] += 1
        if not gradient.is_sparse:
            slope_NX, table_NX = _by_rows(gradient), _by_rows(table)
            sum_N += slope_NX.square().mean(1)
            table_NX -= rate * slope_NX / (sum_N.sqrt() + least)[:, None]
            return
        gradient = gradient.coalesce()
        row_U, slope_UD = gradient.indices()[0], gradient.values()
        sum_U = sum_N[row_U] + slope_UD.square().mean(1)
        sum_N[row_U] = sum_U.to(sum_N.dtype)
        table.index_add_(0, row_U, (slope_UD / (sum_U.sqrt() + least)[:, None]), alpha=-rate)


def _by_rows(weight: Tensor) -> Tensor:
    """A view of a tensor with two dimensions, of which the first is its own."""
    return weight.flatten(1) if weight.dim() > 1 else weight[:, None]
