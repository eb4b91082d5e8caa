"""Reasoners that can search an index of nearest neighbours instead of scoring every entity.

With an index, entities that it did not find score -∞. What must have a score all the same, such as
known answers, is named to `score_with`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.nearest import NearestNeighbours
from clmpt.graph.edges import EdgeIndex, Ints
from clmpt.logic.formula import placeholders
from clmpt.logic.parser import parse_formula
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.reasoner import Reasoner

# Shapes: E entities, D width, Q queries

_DRAWN = ("?y : $r1($s1, ?y)", "?y : $r1($s1, ?x) & $r2(?x, ?y)")  # to measure an index with


class Searching(Protocol):
    """Finds the rows of a table with the largest inner products, or cosines if `unit`: all of
    them exactly, or with `nearest` if it has one. The index is stored under `index_name`."""

    nearest: NearestNeighbours | None

    @property
    def index_name(self) -> str: ...
    @property
    def unit(self) -> bool: ...
    @property
    def table_ED(self) -> Tensor: ...

    def searched_for(self, group: QueryGroup) -> Tensor:
        """question_BD: what it searches for to answer these queries."""


def searches_of(reasoner: object) -> Sequence[Searching]:
    """All searches that a reasoner does; none for one that cannot use an index."""
    found: Sequence[Searching] = getattr(reasoner, "searches", ())
    return found


def score_with(reasoner: Reasoner, groups: Sequence[QueryGroup], also: AnswerSets | None) -> Tensor:
    """scores_QE in which at least `also`, for each query, have their own scores; those of all other
    entities may be -∞ if the reasoner has an index."""
    own = getattr(reasoner, "score_with", None)
    found: Tensor = own(groups, also) if own else reasoner.score(groups)
    return found


def with_best(values_QE: Tensor, most: int, also: AnswerSets | None) -> AnswerSets:
    """The entities in `also`, and those with the `most` best values above 0 of each query."""
    sets: list[Ints] = []
    for query, value_E in enumerate(values_QE):
        entity_X = np.flatnonzero(value_E.numpy())
        if len(entity_X) > most:
            best = value_E[torch.from_numpy(entity_X)].topk(most).indices
            entity_X = entity_X[best.numpy()]
        others = () if also is None else also[query]
        sets.append(np.union1d(entity_X, np.asarray(others, np.int64)))
    counts = np.array([len(one) for one in sets], np.int64)
    return AnswerSets(np.concatenate([[0], np.cumsum(counts)]), np.concatenate(sets))


def drawn_questions(search: Searching, index: EdgeIndex, count: int, seed: int = 0) -> Tensor:
    """`count` questions that facts of a graph answer, along one link and along two, as the search
    sees them, in random order."""
    random = np.random.default_rng([seed, index.triples])
    keys_K, (order_K, starts) = np.asarray(index.keys_K1[:-1]), index.by_entity
    found = []
    for text in _DRAWN:
        template = parse_formula(text)
        directed, entity = np.divmod(random.choice(keys_K, count // len(_DRAWN)), index.entities)
        between = index.neighbours_X[random.integers(*index.ranges(entity, directed))]
        onwards = order_K[random.integers(starts[between], starts[between + 1])]
        links = np.stack([directed, keys_K[onwards] // index.entities], 1).astype(np.int32)
        links = links[:, : len(placeholders(template)[1])]
        none = AnswerSets(np.zeros(len(entity) + 1, np.int64), np.empty(0, np.int64))
        asked = entity[:, None].astype(np.int32)
        found.append(search.searched_for(QueryGroup(text, template, asked, links, none, none)))
    both = torch.cat(found)
    return both[torch.from_numpy(random.permutation(len(both)))]
