"""What answers queries by scoring every entity, and how a trained model does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.message_passing.clmpt import MessagePassing, Thoughts, best_alternative, unit
from clmpt.reasoners.message_passing.layout import QueryBatch, batch_queries
from clmpt.reasoners.message_passing.state_cache import Memory

# Shapes: Q queries, E entities


class Reasoner(Protocol):
    """Scores of all entities as answers; the higher, the likelier within a query."""

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        """scores_QE, a row for each query of the groups in their order; the caller's to change."""

    def notes(self, query: Query) -> tuple[str, ...]:
        """In what the scores fall short of what was asked, in words."""


class NeuralReasoner:
    """A trained model at inference. Its weights must not change as long as this is used."""

    def __init__(self, model: MessagePassing) -> None:
        self.model, self.passing = model, model.passing()
        table_ED = model.predictor.entities_ED.detach()
        self.device = table_ED.device
        self.unit_ED = unit(table_ED)
        self.memory = Memory(table_ED)

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        memory, self.memory = self.memory, Memory(self.unit_ED)  # whole, should this be stopped
        batch = batch_queries(groups, self.passing, memory).to(self.device)
        answers_GD = self.model(batch, memory=memory)
        self.memory = memory
        scores_GE = unit(answers_GD) @ self.unit_ED.T
        return best_alternative(scores_GE, batch.query_G, batch.queries)

    def notes(self, query: Query) -> tuple[str, ...]:
        graphs = query_graphs(query)
        return graphs.notes + graphs.too_far

    @torch.no_grad()
    def think(self, groups: Sequence[QueryGroup]) -> tuple[QueryBatch, Thoughts]:
        """Every embedding and the attention that led to it, for explanations."""
        batch = batch_queries(groups, self.passing).to(self.device)
        return batch, self.model.think(batch, watch=True)
