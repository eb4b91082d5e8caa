"""A trained message-passing model for inference from any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute.nearest import NearestNeighbours
from clmpt.logic.formula import Query
from clmpt.queries.store import AnswerSets, QueryGroup
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
        self.table_ED: Tensor = model.predictor.entities_ED.detach()
        self.idle_caches: deque[StateCache] = deque()
        self.nearest: NearestNeighbours | None = None

    @cached_property
    def unit_ED(self) -> Tensor:
        """A copy of the table, which only exact search needs."""
        return self.model.unit_entities().detach()

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.score_with(groups, None)

    @torch.no_grad()
    def score_with(self, groups: Sequence[QueryGroup], also: AnswerSets | None) -> Tensor:
        batch, answers_GD = self._answers(groups)
        if self.nearest is None:
            return self.model.similarities(answers_GD, self.unit_ED, batch)
        places = None
        if also is not None:
            own = also.take(batch.query_G.numpy())
            entity_X = torch.from_numpy(np.asarray(own.entities, np.int64))
            places = torch.from_numpy(own.owners), entity_X
        scores_GE = self.nearest.scores(functional.normalize(answers_GD, dim=-1), places)
        return self.model.best_alternative(scores_GE, batch)

    def _answers(self, groups: Sequence[QueryGroup]) -> tuple[QueryBatch, Tensor]:
        try:
            cache = self.idle_caches.pop()
        except IndexError:
            cache = StateCache(self.table_ED)
        batch = lay_out_queries(groups, self.passing, cache).to(self.table_ED.device)
        answers_GD = self.model(batch, cache=cache)
        self.idle_caches.append(cache)  # an interrupted call drops its incomplete cache
        return batch, answers_GD

    def strengths(self, scores_QE: Tensor) -> Tensor:
        logits_QE = scores_QE / self.model.settings.temperature
        return self.nearest.log_softmax(logits_QE) if self.nearest else logits_QE.log_softmax(1)

    # --- what an index is made of: see indexing.py ------------------------------------------------

    index_name, unit = "cosines", True

    @property
    def searches(self) -> tuple[MessagePassingReasoner, ...]:
        return (self,)

    @torch.no_grad()
    def searched_for(self, group: QueryGroup) -> Tensor:
        return functional.normalize(self._answers([group])[1], dim=-1)

    def notes(self, query: Query) -> tuple[str, ...]:
        return self.model.notes(query)

    @torch.no_grad()
    def trace(self, groups: Sequence[QueryGroup]) -> tuple[QueryBatch, Trace]:
        """All intermediate embeddings and attention weights, for explanations."""
        batch = lay_out_queries(groups, self.passing).to(self.table_ED.device)
        return batch, self.model.propagate(batch, traced=True)
