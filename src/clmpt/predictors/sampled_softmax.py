"""The softmax over a sample of entities, for graphs with too many to score them all.

A step compares its questions with the answers of all of them and with some entities drawn at
random. Each candidate's score is corrected by how often the sample has it (Bengio and Senécal
2008), so that the loss estimates that of the full softmax. Only the rows of these entities are read
and changed: the time and memory of a step do not depend on the number of entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor

from clmpt.predictors.link_batch import LinkBatch
from clmpt.predictors.predictor import BilinearPredictor
from clmpt.settings import Pretraining

# Shapes: B questions, T facts, K negatives, U distinct entities of a step, C candidates, D width,
# E entities, N rows of a table


class SampledSoftmax:
    def negatives(self, settings: Pretraining) -> int:
        return settings.candidates

    def scored(self, settings: Pretraining, entities: int) -> int:
        return min(entities, settings.candidates + settings.batch)

    def optimizer(
        self, parameters: Iterable[Tensor], settings: Pretraining
    ) -> torch.optim.Optimizer:
        return RowAdagrad(list(parameters), settings.learning_rate)

    def loss(
        self,
        predictor: BilinearPredictor,
        batch: LinkBatch,
        negative_K: Tensor | None,
        settings: Pretraining,
        facts: float,
    ) -> Tensor:
        assert negative_K is not None
        return sampled_softmax_loss(predictor, batch, negative_K, settings.regularisation, facts)


def sampled_softmax_loss(
    predictor: BilinearPredictor,
    batch: LinkBatch,
    negative_K: Tensor,
    regularisation: float,
    facts: float,
) -> Tensor:
    """As `softmax_loss`, against the step's answers and the negatives instead of all entities."""
    often_E = batch.often_E
    assert often_E is not None
    candidate_C = torch.unique(torch.cat([batch.answer_T, negative_K]))
    row_U = torch.unique(torch.cat([batch.entity_B, candidate_C]))
    rows_UD = predictor.embeddings(row_U, sparse=True)
    batch = batch.part(batch.own()[0])
    head_BD = rows_UD[torch.searchsorted(row_U, batch.entity_B)]
    candidate_CD = rows_UD[torch.searchsorted(row_U, candidate_C)]
    relation_BD = predictor.directed(batch.directed_B)
    expected_C = len(negative_K) / predictor.shard.count + often_E[candidate_C]
    scores_BC = predictor.project(head_BD, relation_BD) @ candidate_CD.T - expected_C.log()
    at_T = torch.searchsorted(candidate_C, batch.answer_T)
    loss: Tensor = (batch.count_B * scores_BC.logsumexp(1)).sum()
    loss = loss - scores_BC[batch.owner_T, at_T].sum()
    if regularisation:
        cubes = predictor.n3(batch.count_B, head_BD, relation_BD, candidate_CD[at_T])
        loss = loss + regularisation * cubes
    return loss / facts


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
            sum_N += gradient.square().mean(1)
            table -= rate * gradient / (sum_N.sqrt() + least)[:, None]
            return
        gradient = gradient.coalesce()
        row_U, slope_UD = gradient.indices()[0], gradient.values()
        sum_U = sum_N[row_U] + slope_UD.square().mean(1)
        sum_N[row_U] = sum_U.to(sum_N.dtype)
        table.index_add_(0, row_U, (slope_UD / (sum_U.sqrt() + least)[:, None]), alpha=-rate)
