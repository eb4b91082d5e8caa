"""A benchmark's stored answers compared with our own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import Bools
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.queries.store import AnswerSets, QueryGroup, difference
from clmpt.symbolic.solver import solve_many


@dataclass(frozen=True)
class Agreement:
    """How many queries of a shape have exactly the stored easy and hard answers."""

    shape: str
    queries: int
    easy: int
    hard: int
    first_wrong: int | None

    @property
    def is_perfect(self) -> bool:
        return self.easy == self.hard == self.queries


def verify_group(group: QueryGroup, graph: KnowledgeGraph, split: str) -> Agreement:
    """How a group's answers compare with ours on the observed and the full graph of `split`."""
    group.check(len(graph.entities), len(graph.relations))
    observed, full = OBSERVED[split], FULL[split]
    easy = solve_many(group.template, graph.view(*observed), group.entities, group.relations)
    answers = solve_many(group.template, graph.view(*full), group.entities, group.relations)
    hard = difference(answers, easy, len(graph.entities))
    same_easy, same_hard = _same(easy, group.easy), _same(hard, group.hard)
    wrong = np.flatnonzero(~(same_easy & same_hard))
    return Agreement(
        group.name,
        len(group),
        int(same_easy.sum()),
        int(same_hard.sum()),
        int(wrong[0]) if len(wrong) else None,
    )


def _same(ours: AnswerSets, theirs: AnswerSets) -> Bools:
    """For each query, whether the two sets are equal."""
    equal: Bools = ours.counts == theirs.counts
    rows = np.flatnonzero(equal)
    left, right = ours.take(rows), theirs.take(rows)
    differing = left.owners[left.entities != right.entities]
    equal[rows[np.unique(differing)]] = False
    return equal
