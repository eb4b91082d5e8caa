"""Which entities are listed as answers, in which order, and as what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from clmpt.answering.answers import Status
from clmpt.answering.batches import ScoredQuestion
from clmpt.errors import SettingError
from clmpt.graph.edges import Bools, Ints

# Shapes: E entities, X some of them

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


def judge(found: ScoredQuestion, choice: Choice) -> Judged:
    """Certain answers first, then the others by score; what facts refute is left out."""
    score_E, chance_E = found.scores_E.numpy(), found.chance_E
    follows, seen = frozenset(found.follows.tolist()), frozenset(found.seen.tolist())
    ruled_out = found.ruled_out - follows
    other_E = found.question.asked.possible(found.scores_E).numpy()
    other_E[_ids({*follows, *ruled_out})] = False
    groups: dict[Status, Ints] = {
        "known": _by_score(_ids(follows & seen), score_E),
        "hidden": _by_score(_ids(follows - seen), score_E),
        "predicted": _best(other_E, score_E, choice.most),
        "refuted": _by_score(_ids(ruled_out), score_E),
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
    return np.fromiter(sorted(entities), np.int64, len(entities))


def _by_score(entity_X: Ints, score_E: npt.NDArray[np.floating]) -> Ints:
    """The best first, of equals the first."""
    return entity_X[np.argsort(-score_E[entity_X], kind="stable")]


def _best(wanted_E: Bools, score_E: npt.NDArray[np.floating], most: int) -> Ints:
    """The best `most` of the entities that are wanted, without sorting all of them."""
    entity_X = np.flatnonzero(wanted_E)
    if most < len(entity_X):
        score_X = score_E[entity_X]
        least = np.partition(score_X, len(score_X) - most)[-most] if most else np.inf
        entity_X = entity_X[score_X >= least]
    return _by_score(entity_X, score_E)[:most]


def _chance(status: Status, modelled: float | None) -> float | None:
    certain: dict[Status, float] = {"known": 1.0, "refuted": 0.0}
    return certain.get(status, modelled)


def _reaches(chance: float | None, least: float) -> bool:
    return chance is not None and chance >= least
