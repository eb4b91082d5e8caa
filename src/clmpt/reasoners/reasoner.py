"""What can be asked and measured: anything that scores entities as answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from clmpt.logic.formula import Query
from clmpt.queries.store import QueryGroup


class Reasoner(Protocol):
    """Scores of all entities as answers. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        """scores_QE, a row for each query of the groups in their order; the caller's to change.

        The higher, the likelier, within a query; between queries scores mean nothing.
        """

    def notes(self, query: Query) -> tuple[str, ...]:
        """Where the scores fall short of what was asked, in words."""
