"""The exact solver as a reasoner: known answers score 1, all others 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.symbolic.solver import solve_many


class ExactReasoner:
    """Answers from the edges of `graph` alone: pass only the observed ones.

    On hard answers it must do no better than chance; otherwise the benchmark leaks.
    """

    name = "exact solver"

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        found = AnswerSets.joined(
            [
                solve_many(group.template, self.graph, group.entities, group.relations)
                for group in groups
            ]
        )
        scores_QE = torch.zeros(len(found), len(self.graph.entities))
        scores_QE[torch.from_numpy(found.owners), torch.from_numpy(found.entities)] = 1
        return scores_QE

    def notes(self, query: Query) -> tuple[str, ...]:  # noqa: ARG002
        return ()
