"""Trees of set operators as a few steps for a whole batch, whatever shapes are in it.

Each node of a tree is a block of rows, one for each query of its group. Blocks of all groups with
the same operator, and as far from the constants, are one step. A step takes its rows from earlier
steps, in as many parts as the operator has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query
from clmpt.logic.operator_tree import (
    Anchor,
    Intersect,
    Negate,
    Operator,
    Project,
    Unite,
    operator_tree,
)
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.dropout import KEYS_PER_QUERY

# Shapes: N rows of a step, G graphs (disjuncts), Q queries, k parts of an operator, R relations

Trees: TypeAlias = Callable[[Query], tuple[Operator, ...]]  # one per disjunct that is scored


@dataclass(frozen=True)
class Block:
    """Rows `start` to `stop` of what step `step` computes."""

    step: int
    start: int
    stop: int


@dataclass(frozen=True)
class OperatorStep:
    """An operator on N rows. `id_N` are entities of an anchor, directed relations of a projection.

    `parts` are what it is applied to. `order_kN` sorts the parts of each row by what they are, so
    that it does not matter how the query was written. `key_N` tells rows apart, for dropout.
    `last_N` says which rows no other projection follows on the way to an answer.
    """

    operator: type[Operator]
    parts: tuple[tuple[Block, ...], ...]
    id_N: Tensor
    order_kN: Tensor
    key_N: Tensor
    last_N: Tensor
    from_anchor: bool  # whether its one part is a single entity

    def to(self, device: torch.device) -> OperatorStep:
        names = ("id_N", "order_kN", "key_N", "last_N")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


Computed: TypeAlias = Callable[
    [OperatorStep, list[Tensor]], Tensor
]  # the rows of a step from its parts


@dataclass(frozen=True)
class OperatorBatch:
    """Queries as steps; `results` has the sets of all disjuncts, `query_G` whose they are."""

    steps: tuple[OperatorStep, ...]
    results: tuple[Block, ...]
    query_G: Tensor
    answers: AnswerSets  # that are known, so that none of them is taken for a negative

    @property
    def queries(self) -> int:
        return len(self.answers)

    def to(self, device: torch.device) -> OperatorBatch:
        steps = tuple(step.to(device) for step in self.steps)
        return replace(self, steps=steps, query_G=self.query_G.to(device))


def run_steps(batch: OperatorBatch, computed: Computed) -> Tensor:
    """The sets of all disjuncts, from a function that computes those of a step from its parts'."""
    done: list[Tensor] = []
    for step in batch.steps:
        done.append(computed(step, [_taken(done, part) for part in step.parts]))
    return _taken(done, batch.results)


def _taken(done: list[Tensor], blocks: Sequence[Block]) -> Tensor:
    parts = [done[block.step][block.start : block.stop] for block in blocks]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def disjunctive(query: Query) -> tuple[Operator, ...]:
    """A tree without unions for each disjunct; the same set counts once.

    >>> from clmpt.logic.shapes import shape
    >>> [type(tree).__name__ for tree in disjunctive(shape("2u"))]
    ['Project', 'Project']
    """
    return _distinct(_simple(operator_tree(part)) for part in query.disjuncts())


def undivided(query: Query) -> tuple[Operator, ...]:
    """One tree with its unions.

    >>> from clmpt.logic.shapes import shape
    >>> [type(tree).__name__ for tree in undivided(shape("2u"))]
    ['Unite']
    """
    return (_simple(_whole(query)),)


def _whole(query: Query) -> Operator:
    """The tree of the formula as it is written, or else a union of its disjuncts' trees: where an
    *or* shares variables with what is outside of it, only these are trees."""
    try:
        return operator_tree(query)
    except UnsupportedQuery:
        return Unite(disjunctive(query))


def united_disjuncts(query: Query) -> tuple[Operator, ...]:
    """One tree, with a union of the disjuncts at its root and nowhere else.

    >>> from clmpt.logic.shapes import shape
    >>> [type(part).__name__ for part in united_disjuncts(shape("up"))[0].parts]
    ['Project', 'Project']
    """
    return (_simple(Unite(disjunctive(query))),)


def de_morgan(query: Query) -> tuple[Operator, ...]:
    """One tree, with a | b as !(!a & !b).

    >>> from clmpt.logic.shapes import shape
    >>> print(de_morgan(shape("2u"))[0].of.parts[0])  # doctest: +ELLIPSIS
    Negate(of=Project(...
    """
    return (_simple(_without_unions(_whole(query))),)


def _without_unions(node: Operator) -> Operator:
    if isinstance(node, Anchor):
        return node
    if isinstance(node, Project):
        return Project(node.relation, node.backwards, _without_unions(node.of))
    if isinstance(node, Negate):
        return Negate(_without_unions(node.of))
    parts = tuple(map(_without_unions, node.parts))
    return Intersect(parts) if isinstance(node, Intersect) else Negate(Intersect(_not(parts)))


def _not(parts: tuple[Operator, ...]) -> tuple[Operator, ...]:
    return tuple(map(Negate, parts))


def _simple(node: Operator) -> Operator:
    """The same set without double negation, an operator directly in itself, or a repeated part."""
    if isinstance(node, Anchor):
        return node
    if isinstance(node, Project):
        return Project(node.relation, node.backwards, _simple(node.of))
    if isinstance(node, Negate):
        inner = _simple(node.of)
        return inner.of if isinstance(inner, Negate) else Negate(inner)
    kind = type(node)
    parts = [
        each
        for part in map(_simple, node.parts)
        for each in (part.parts if isinstance(part, kind) else (part,))
    ]
    found = _distinct(parts)
    return kind(found) if len(found) > 1 else found[0]


def _distinct(trees: Iterable[Operator]) -> tuple[Operator, ...]:
    """Trees without those that differ from others in the order of parts alone."""
    found: dict[Hashable, Operator] = {}
    for tree in trees:
        found.setdefault(_in_any_order(tree), tree)
    return tuple(found.values())


def _in_any_order(node: Operator) -> Hashable:
    if isinstance(node, Anchor):
        return node
    own = (node.relation, node.backwards) if isinstance(node, Project) else ()
    return type(node), own, frozenset(map(_in_any_order, _parts_of(node)))


def operators_of(trees: Iterable[Operator]) -> set[type[Operator]]:
    """All operators in some trees."""
    found: set[type[Operator]] = set()
    for tree in trees:
        found |= {type(tree)} | operators_of(_parts_of(tree))
    return found


def refuse_others(trees: Iterable[Operator], known: Iterable[type[Operator]], title: str) -> None:
    """Refuses trees with an operator that a model does not have."""
    words = {Negate: "negation", Unite: "union inside of a query", Intersect: "intersection"}
    for other in operators_of(trees) - {*known, Anchor, Project}:
        raise UnsupportedQuery(
            f"{title} has no {words[other]}", "Ask a model that has it, such as CLMPT or BetaE"
        )


def _parts_of(node: Operator) -> tuple[Operator, ...]:
    if isinstance(node, Anchor):
        return ()
    return (node.of,) if isinstance(node, Project | Negate) else node.parts


# --- from trees to steps --------------------------------------------------------------------------


def lay_out_operators(groups: Sequence[QueryGroup], trees: Trees, inverse_R: Ints) -> OperatorBatch:
    """`inverse_R` is the row of each relation's inverse in the model's table of relations.

    >>> from clmpt.logic.shapes import shape
    >>> none = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    >>> ids = np.array([[1, 2], [3, 4]])
    >>> group = QueryGroup("2i", shape("2i"), ids, ids, none, none)
    >>> batch = lay_out_operators([group], disjunctive, np.arange(5))
    >>> [(step.operator.__name__, len(step.id_N)) for step in batch.steps]
    [('Anchor', 4), ('Project', 4), ('Intersect', 2)]
    """
    layout = _Layout(inverse_R)
    results, owners, first = [], [], 0
    for group in groups:
        placed: dict[Operator, _Node] = {}
        for tree in trees(group.template):
            results.append(layout.place(tree, group, first, placed))
            results[-1].mark_last()
            owners.append(np.arange(first, first + len(group)))
        first += len(group)
    steps = layout.steps()
    query_G = np.concatenate([np.empty(0, np.int64), *owners])
    return OperatorBatch(
        steps,
        tuple(layout.block_of(node) for node in results),
        torch.from_numpy(query_G),
        AnswerSets.joined([group.easy for group in groups]),
    )


@dataclass(eq=False)
class _Node:
    """A node of a tree, for all queries of a group."""

    operator: type[Operator]
    parts: tuple[_Node, ...]
    id_n: Ints
    code_n: Ints  # of what the set is, in each query: a hash that ignores the order of parts
    key_n: Ints
    level: int
    is_last: bool = False

    def mark_last(self) -> None:
        """Marks what an answer needs, down to the projections that come last."""
        self.is_last = True
        if self.operator is not Project:
            for part in self.parts:
                part.mark_last()

    @property
    def kind(self) -> tuple[int, str, int, bool]:
        """What nodes of one step have in common."""
        return self.level, self.operator.__name__, len(self.parts), self.from_anchor

    @property
    def from_anchor(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].operator is Anchor


class _Layout:
    def __init__(self, inverse_R: Ints) -> None:
        self.inverse_R = inverse_R
        self.nodes: list[_Node] = []
        self.blocks: dict[_Node, Block] = {}

    def place(
        self, tree: Operator, group: QueryGroup, first: int, placed: dict[Operator, _Node]
    ) -> _Node:
        """The tree's root, with all below it; a subtree that is there already is not repeated."""
        if tree in placed:
            return placed[tree]
        parts = tuple(self.place(part, group, first, placed) for part in _parts_of(tree))
        id_n = self.ids(tree, group)
        codes = [part.code_n for part in parts]
        key_n = (first + np.arange(len(group))) * KEYS_PER_QUERY + len(placed)
        level = 1 + max((part.level for part in parts), default=-1)
        node = _Node(type(tree), parts, id_n, _code(tree, id_n, codes), key_n, level)
        placed[tree] = node
        self.nodes.append(node)
        return node

    def ids(self, tree: Operator, group: QueryGroup) -> Ints:
        if isinstance(tree, Anchor):
            return filled(tree.entity, group, "entities").astype(np.int64)
        if not isinstance(tree, Project):
            return np.zeros(len(group), np.int64)
        directed = filled(tree.relation, group, "relations").astype(np.int64)
        relations = len(self.inverse_R)
        is_backwards = (directed >= relations) != tree.backwards
        row = directed % relations
        found: Ints = np.where(is_backwards, self.inverse_R[row], row)
        return found

    def steps(self) -> tuple[OperatorStep, ...]:
        by_kind: dict[tuple[int, str, int, bool], list[_Node]] = {}
        for node in self.nodes:
            by_kind.setdefault(node.kind, []).append(node)
        found = []
        for number, kind in enumerate(sorted(by_kind)):
            nodes, start = by_kind[kind], 0
            for node in nodes:
                self.blocks[node] = Block(number, start, start + len(node.id_n))
                start += len(node.id_n)
            found.append(self.step(nodes))
        return tuple(found)

    def step(self, nodes: list[_Node]) -> OperatorStep:
        arity = len(nodes[0].parts)
        code_kN = np.stack(
            [np.concatenate([node.parts[part].code_n for node in nodes]) for part in range(arity)]
            or [np.empty(0, np.int64)]
        )
        return OperatorStep(
            nodes[0].operator,
            tuple(
                tuple(self.block_of(node.parts[part]) for node in nodes) for part in range(arity)
            ),
            torch.from_numpy(np.concatenate([node.id_n for node in nodes])),
            torch.from_numpy(np.argsort(code_kN, 0, kind="stable")),
            torch.from_numpy(np.concatenate([node.key_n for node in nodes])),
            torch.from_numpy(np.repeat([n.is_last for n in nodes], [len(n.id_n) for n in nodes])),
            nodes[0].from_anchor,
        )

    def block_of(self, node: _Node) -> Block:
        return self.blocks[node]


_SALTS = {Anchor: 11, Project: 23, Intersect: 37, Unite: 53, Negate: 71}


def _code(tree: Operator, id_n: Ints, codes: list[Ints]) -> Ints:
    together = np.sum(codes, 0, dtype=np.int64) if codes else np.zeros(len(id_n), np.int64)
    return _mixed(_mixed(together + _SALTS[type(tree)]) + id_n)


def _mixed(word_n: Ints) -> Ints:
    """A hash of 64-bit numbers (after splitmix64)."""
    with np.errstate(over="ignore"):
        word = word_n.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word ^= word >> np.uint64(29)
        word *= np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(32)
    found: Ints = word.view(np.int64)
    return found
