"""Models that compute a set for each node of a query's tree of operators, whatever a set is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query
from clmpt.logic.operator_tree import Operator
from clmpt.queries.links import inverse_rows
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.model import Basis, GradientModel
from clmpt.reasoners.operators.program import (
    OperatorBatch,
    de_morgan,
    disjunctive,
    lay_out_operators,
    refuse_others,
    undivided,
)

# Shapes: R relations of the graph

_TREES = {"disjunctive": disjunctive, "de-morgan": de_morgan, "operator": undivided}


class OperatorModel(GradientModel):
    """`operators` are those it has, beside projection. `usual_union` says what becomes of an *or*,
    unless a setting `union` does."""

    operators: ClassVar[frozenset[type[Operator]]]
    usual_union: ClassVar[str] = "disjunctive"
    inverse_R: Tensor

    def __init__(self, basis: Basis, settings: Any) -> None:
        super().__init__(basis, settings)
        inverse_R = inverse_rows(basis.graph)
        self.relation_rows = max(len(inverse_R), int(inverse_R.max(initial=-1)) + 1)
        self.register_buffer("inverse_R", torch.from_numpy(inverse_R), persistent=False)

    def lay_out(self, groups: Sequence[QueryGroup]) -> OperatorBatch:
        return lay_out_operators(groups, partial(self.trees, self.settings), self._inverse_rows())

    def _inverse_rows(self) -> Ints:
        found: Ints = self.inverse_R.cpu().numpy()
        return found

    @classmethod
    def trees(cls, settings: Any, query: Query) -> tuple[Operator, ...]:
        """The trees of a query, one for each disjunct; refuses what the model cannot express."""
        found = _TREES[getattr(settings, "union", cls.usual_union)](query)
        refuse_others(found, cls.operators, cls.title)
        return found

    @classmethod
    def check_query(cls, settings: Any, query: Query) -> None:
        cls.trees(settings, query)
