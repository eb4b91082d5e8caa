"""Which entities are listed as answers, in which order, and as what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clmpt.answering.answers import Status
from clmpt.answering.batches import ScoredQuestion
from clmpt.errors import SettingError
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.symbolic.refutation import refuted

# Shapes: E entities

Only = Literal["known", "predicted"]
_LISTED: dict[Only | None, tuple[Status, ...]] = {
    None: ("known", "hidden", "predicted"),
    "known": ("known", "hidden"),
    "predicted": ("predicted",),
}


@dataclass(frozen=True)
class Choice:
    """What to list: `most` answers, known or predicted ones `only`, of a probability `at_least`,
    and refuted ones after all others if asked for."""

    most: int
    only: Only | None = None
    at_least: float = 0.0
    with_refuted: bool = False

    def __post_init__(self) -> None:
        if self.most < 0:
            raise SettingError(f"limit must be at least 0, not {self.most}.")
        if self.only not in _LISTED:
            raise SettingError(f"only must be 'known' or 'predicted', not '{self.only}'.")
        if not 0 <= self.at_least <= 1:
            raise SettingError(f"at_least must be from 0 to 1, not {self.at_least}.")

    def takes(self, status: Status, chance: float | None) -> bool:
        """Whether to list an answer that is not refuted."""
        likely = not self.at_least or _reaches(chance, self.at_least)
        return status in _LISTED[self.only] and likely


@dataclass(frozen=True)
class Judged:
    """Entities with their status and probability, and how many are certain and refuted."""

    listed: list[tuple[int, Status, float | None]]
    known: int
    refuted: int


def judge(found: ScoredQuestion, graph: KnowledgeGraph, choice: Choice) -> Judged:
    """Certain answers first, then the others by score; what facts refute is left out."""
    question, scores_E, chance_E = found.question, found.scores_E, found.chance_E
    follows, seen = frozenset(found.follows.tolist()), frozenset(found.seen.tolist())
    ruled_out = refuted(question.bound, graph) - follows
    possible_E = question.asked.possible(scores_E)
    order_E = np.argsort(-scores_E.numpy(), kind="stable")
    other_E = np.ones(len(order_E), np.bool_)
    other_E[_ids({*follows, *ruled_out})] = False
    other_E &= possible_E.numpy()
    groups: dict[Status, Ints] = {
        "known": _within(order_E, follows & seen),
        "hidden": _within(order_E, follows - seen),
        "predicted": order_E[other_E[order_E]],
        "refuted": _within(order_E, ruled_out),
    }
    listed: list[tuple[int, Status, float | None]] = []
    for status in (*_LISTED[choice.only], *(("refuted",) if choice.with_refuted else ())):
        room = max(choice.most - len(listed), 0)
        for entity in groups[status][:room].tolist():
            chance = _chance(status, None if chance_E is None else float(chance_E[entity]))
            if status == "refuted" or choice.takes(status, chance):
                listed.append((entity, status, chance))
    return Judged(listed, len(follows), len(ruled_out))


def _ids(entities: Collection[int]) -> Ints:
    return np.fromiter(entities, np.int64, len(entities))


def _within(order_E: Ints, entities: Collection[int]) -> Ints:
    """Some of the entities, in the order given."""
    inside_E = np.zeros(len(order_E), np.bool_)
    inside_E[_ids(entities)] = True
    return order_E[inside_E[order_E]]


def _chance(status: Status, modelled: float | None) -> float | None:
    certain: dict[Status, float] = {"known": 1.0, "refuted": 0.0}
    return certain.get(status, modelled)


def _reaches(chance: float | None, least: float) -> bool:
    return chance is not None and chance >= least
