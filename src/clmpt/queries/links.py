"""One-hop questions: where does this relation, read in either direction, lead from this entity?

Link predictors are trained and measured on these. Every edge is asked from both ends, once: a graph
that has both directions of a relation as separate relations (BetaE's do) already asks from both
ends when it is read forwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import AnyInts, Bools, EdgeIndex, Ints, positions
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.store import AnswerSets

# Shapes: P questions, R relations, R2 = 2 R directed relations


@dataclass(frozen=True)
class Links:
    """Distinct questions (entity, directed relation), each with all its answers.

    The directed relation r + R is the relation r read backwards.
    """

    entity_P: Ints
    directed_P: Ints
    answers: AnswerSets

    def __len__(self) -> int:
        return len(self.entity_P)

    @property
    def facts(self) -> int:
        """How many (question, answer) pairs there are."""
        return len(self.answers.entities)

    def take(self, rows: AnyInts) -> Links:
        return Links(self.entity_P[rows], self.directed_P[rows], self.answers.take(rows))

    def one_by_one(self) -> Links:
        """The same facts, each as a separate question with a single answer."""
        owner = self.answers.owners
        single = AnswerSets(np.arange(self.facts + 1), self.answers.entities)
        return Links(self.entity_P[owner], self.directed_P[owner], single)

    def drawn(self, count: int, seed: int = 0) -> Links:
        """Some of the questions, the same for a seed; all of them if `count` is 0 or too many."""
        if not 0 < count < len(self):
            return self
        return self.take(np.sort(np.random.default_rng(seed).permutation(len(self))[:count]))

    def divided(self, most: int) -> Links:
        """The same facts, a question with more than `most` answers several times with some each.

        >>> links = Links(np.array([7]), np.array([0]), AnswerSets(np.array([0, 3]), np.arange(3)))
        >>> [found.tolist() for found in links.divided(2).answers]
        [[0, 1], [2]]
        """
        parts_P = np.maximum(-(-self.answers.counts // most), 1)
        owner = np.repeat(np.arange(len(self)), parts_P)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(parts_P) - parts_P, parts_P)
        starts = self.answers.offsets[owner] + number * most
        offsets = np.append(starts, self.facts)
        return Links(
            self.entity_P[owner], self.directed_P[owner], AnswerSets(offsets, self.answers.entities)
        )


def links_of(graph: KnowledgeGraph, *splits: str) -> Links:
    """The one-hop questions of some splits, by default all, sorted by relation and entity.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b"), ("a", "likes", "c")])
    >>> links = links_of(graph)
    >>> links.entity_P.tolist(), links.directed_P.tolist()  # a likes?  b, c: liked by?
    ([0, 1, 2], [0, 1, 1])
    >>> [found.tolist() for found in links.answers]
    [[1, 2], [0], [0]]
    """
    index = graph.view(*splits).index
    key_K = np.asarray(index.keys_K1[:-1])
    directed_K = key_K // max(index.entities, 1)
    asked_K = np.flatnonzero(asked(graph)[directed_K])
    answers = AnswerSets(np.asarray(index.offsets_K2[:-1], np.int64), index.neighbours_X)
    return Links(
        key_K[asked_K] - directed_K[asked_K] * index.entities,
        directed_K[asked_K],
        answers.take(asked_K),
    )


def known_answers(graph: KnowledgeGraph, links: Links) -> AnswerSets:
    """The answers to each question in any of the graph's splits: the usual filter."""
    return answers_in(graph.view().index, links)


def answers_in(index: EdgeIndex, links: Links) -> AnswerSets:
    """The answers to each question among the edges of an index."""
    start_P, stop_P = index.ranges(links.entity_P, links.directed_P)
    counts = (stop_P - start_P).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return AnswerSets(offsets, index.neighbours_X[positions(start_P, counts)])


def asked(graph: KnowledgeGraph) -> Bools:
    """Which directed relations are asked: not those that repeat a relation read forwards."""
    forwards = np.ones(len(graph.relations), np.bool_)
    return np.concatenate([forwards, split_inverses(graph) < 0])


def split_inverses(graph: KnowledgeGraph) -> Ints:
    """For each relation, the one with its triples reversed, split by split, or -1.

    If a fact is in one split and its reverse in another, the reverse is not a mere repetition.
    """
    index = graph.view().index
    bounds = index.offsets_K2[
        index.keys_K1.searchsorted(np.arange(2 * index.relations + 1) * index.entities)
    ]

    def splits(directed: int) -> AnyInts:
        return index.splits_X[bounds[directed] : bounds[directed + 1]]

    found: Ints = np.array(graph.inverse_ids)
    for relation in np.flatnonzero(found >= 0).tolist():
        backward, forward = splits(relation + index.relations), splits(int(found[relation]))
        if not np.array_equal(backward, forward):
            found[relation] = -1
    return found


def inverse_rows(graph: KnowledgeGraph) -> Ints:
    """For each relation, the row of its inverse in a table that has all directions.

    The first R rows are the graph's relations; the inverses that it lacks come after them.

    >>> graph = KnowledgeGraph.from_triples([("a", "owns", "b"), ("b", "ownedBy", "a"),
    ...                                      ("a", "likes", "b"), ("a", "likes", "c")])
    >>> inverse_rows(graph).tolist()
    [1, 0, 3]
    """
    inverse = split_inverses(graph)
    added = len(inverse) + np.cumsum(inverse < 0) - 1
    return np.where(inverse < 0, added, inverse)
