"""A trained message-passing model for inference from any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clmpt.logic.formula import Query
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.message_passing.layout import QueryBatch, lay_out_queries
from clmpt.reasoners.message_passing.state_cache import StateCache

if TYPE_CHECKING:
    from clmpt.reasoners.message_passing.clmpt import MessagePassing, Trace

# Shapes: G graphs (a query's alternatives), E entities, D width


class MessagePassingReasoner:
    """A trained model that caches states which depend on relations alone.

    Each call has a cache to itself while it runs, so calls may overlap.
    """

    def __init__(self, model: MessagePassing) -> None:
        self.model, self.name, self.passing = model, model.title, model.passing()
        self.unit_ED = model.unit_entities().detach()
        self.idle_caches: deque[StateCache] = deque()

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        try:
            cache = self.idle_caches.pop()
        except IndexError:
            cache = StateCache(self.unit_ED)
        batch = lay_out_queries(groups, self.passing, cache).to(self.unit_ED.device)
        answers_GD = self.model(batch, cache=cache)
        self.idle_caches.append(cache)  # an interrupted call drops its incomplete cache
        return self.model.similarities(answers_GD, self.unit_ED, batch)

    def strengths(self, scores_QE: Tensor) -> Tensor:
        return (scores_QE / self.model.settings.temperature).log_softmax(1)

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.model.notes(query)

    @torch.no_grad()
    def trace(self, groups: Sequence[QueryGroup]) -> tuple[QueryBatch, Trace]:
        """All intermediate embeddings and attention weights, for explanations."""
        batch = lay_out_queries(groups, self.passing).to(self.unit_ED.device)
        return batch, self.model.propagate(batch, traced=True)
