"""The protocol of reasoners: anything that scores entities as answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from clmpt.logic.formula import Query
from clmpt.queries.store import QueryGroup


class Reasoner(Protocol):
    """Scores all entities as answers. Thread-safe."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        """scores_QE, one row per query, in the order of the groups; the caller may modify it.

        Higher is more likely, -∞ is allowed. Scores are not comparable across queries.
        """

    def notes(self, query: Query) -> tuple[str, ...]:
        """Where the scores only approximate the query, in words."""
