"""Asking models whose sets have a number for every entity: a few queries at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from clmpt.compute.chunks import rows_at_once
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.model import GradientModel, ModelReasoner

_AT_ONCE = 2**22  # numbers in the sets of one node of the trees


class PartwiseReasoner(ModelReasoner):
    def __init__(self, model: GradientModel) -> None:
        super().__init__(model)
        self.queries = rows_at_once(model.entities, _AT_ONCE)

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        found = []
        for group in groups:
            for start in range(0, len(group), self.queries):
                part = group.take(slice(start, start + self.queries))
                found.append(super().score([part]))
        return torch.cat(found)
