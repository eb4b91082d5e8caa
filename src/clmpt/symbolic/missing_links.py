"""How many links an answer is missing: the difference between lookup and multi-hop inference.

An observed edge costs nothing and a missing one costs one; a match costs the sum over its atoms, an
answer the least over its matches and alternatives. Negated parts must fail on the full graph and
cost nothing. The engine keeps the least cost through every step, so this works for any query, not
only for trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clmpt.graph.edges import AnyInts, Bools, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.symbolic.engine import Engine, SlotValues
from clmpt.symbolic.solver import QUERIES_AT_ONCE, CompiledPattern, compiled, template_batches


@dataclass(frozen=True)
class Hardness:
    """For every answer on the full graph, the least number of missing links it needs.

    `all_missing` marks the answers whose every match consists of missing links only.
    """

    answers: AnswerSets
    missing: Ints
    all_missing: Bools


def hardness(
    template: Query,
    graph: KnowledgeGraph,
    observed: tuple[str, ...],
    entities: AnyInts,
    relations: AnyInts,
) -> Hardness:
    """The missing links of every answer to a template, for each row of values.

    `graph` is the full graph; edges outside the `observed` splits are the missing ones.

    >>> from clmpt.graph.builder import GraphBuilder
    >>> from clmpt.logic.shapes import shape
    >>> builder = GraphBuilder()
    >>> builder.add("train", "a", "r", "b")
    >>> builder.add("test", "b", "r", "c")
    >>> entities, relations = np.array([[0]]), np.array([[0, 0]])
    >>> found = hardness(shape("2p"), builder.build(), ("train",), entities, relations)
    >>> found.answers.entities.tolist(), found.missing.tolist(), found.all_missing.tolist()
    ([2], [1], [False])
    """
    bits = np.uint8(sum(1 << graph.splits.index(name) for name in observed))
    engine = Engine(graph.index, (graph.index.splits_X & bits) == 0)
    parts, batches = compiled(template), template_batches(template, graph, entities, relations)
    chunks = []
    for first in range(0, len(entities), QUERIES_AT_ONCE):
        rows = slice(first, first + QUERIES_AT_ONCE)
        some = [SlotValues(b.entities_BS[rows], b.relations_BR[rows]) for b in batches]
        chunks.append(_chunk(engine, parts, some, len(graph.entities)))
    return Hardness(
        AnswerSets.joined([chunk.answers for chunk in chunks]),
        np.concatenate([np.empty(0, np.int64), *(chunk.missing for chunk in chunks)]),
        np.concatenate([np.empty(0, np.bool_), *(chunk.all_missing for chunk in chunks)]),
    )


def _chunk(
    engine: Engine, parts: Sequence[CompiledPattern], batches: Sequence[SlotValues], size: int
) -> Hardness:
    """The hardness of as many queries as fit in one run; `size` is the number of entities."""
    codes, costs, fewer = [], [], []
    for part, batch in zip(parts, batches, strict=True):
        table = engine.run(part.plan, batch)
        assert table.cost_N is not None
        codes.append(table.query_N * size + table.columns[part.free])
        costs.append(table.cost_N)
        fewer.append(table.cost_N < len(part.skeleton.edges))
    order = np.lexsort((np.concatenate(costs), np.concatenate(codes)))
    code, cost = np.concatenate(codes)[order], np.concatenate(costs)[order]
    some_observed = np.concatenate(fewer)[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    owner = code[starts] // size
    sets = AnswerSets.of(owner, code[starts] - owner * size, len(batches[0]))
    none_observed = ~np.logical_or.reduceat(some_observed, starts) if len(starts) else starts > 0
    return Hardness(sets, cost[starts], none_observed)


def hard_answer_counts(
    group: QueryGroup, graph: KnowledgeGraph, observed: tuple[str, ...]
) -> tuple[Ints, int]:
    """How many of a group's hard answers miss 0, 1, 2, … links, and how many miss all of them."""
    found, at = _of_hard_answers(group, graph, observed)
    found_at = at[at >= 0]
    longest = max(len(part.skeleton.edges) for part in compiled(group.template))
    counts = np.bincount(found.missing[found_at], minlength=longest + 1)
    return counts, int(found.all_missing[found_at].sum())


def missing_links(group: QueryGroup, graph: KnowledgeGraph, observed: tuple[str, ...]) -> Ints:
    """How many links each hard answer of a group misses; -1 if it is not an answer here."""
    found, at = _of_hard_answers(group, graph, observed)
    return np.where(at >= 0, np.append(found.missing, -1)[at], -1)


def _of_hard_answers(
    group: QueryGroup, graph: KnowledgeGraph, observed: tuple[str, ...]
) -> tuple[Hardness, Ints]:
    """All answers, and which of them each hard answer of the group is, or -1."""
    found = hardness(group.template, graph, observed, group.entities, group.relations)
    size = len(graph.entities)
    codes = found.answers.owners * size + found.answers.entities
    wanted = group.hard.owners * size + group.hard.entities
    at = np.searchsorted(codes, wanted)
    return found, np.where(np.append(codes, -1)[at] == wanted, at, -1)
