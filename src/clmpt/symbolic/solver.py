"""Exact answers to any query, one at a time or many of one shape at once.

Negation is closed-world: an edge that the graph lacks counts as false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from clmpt.errors import UnsupportedQuery
from clmpt.graph.edges import AnyInts, Bools, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Placeholder, Query, Symbol, Variable, placeholders
from clmpt.logic.normal_form import Pattern
from clmpt.logic.parser import as_query
from clmpt.queries.store import AnswerSets
from clmpt.symbolic.engine import Engine, SlotValues
from clmpt.symbolic.plan import Plan, planned
from clmpt.symbolic.skeleton import Skeleton, signature_of
from clmpt.symbolic.tables import Bindings, sorted_distinct

QUERIES_AT_ONCE = 4096
EXACTLY = "graph.sparql answers it"


@dataclass(frozen=True)
class CompiledPattern:
    """One alternative of a query, ready to run, with the symbols that fill its slots."""

    skeleton: Skeleton
    plan: Plan
    frees: tuple[Variable, ...]
    entities: tuple[Symbol, ...]
    relations: tuple[Symbol, ...]

    @property
    def free(self) -> Variable:
        """The one variable that is asked for; see `Query.free`."""
        assert len(self.frees) == 1
        return self.frees[0]


def compiled(query: Query) -> tuple[CompiledPattern, ...]:
    """The compiled parts of a query, cached on the query itself since it is often asked again."""
    kept: tuple[CompiledPattern, ...] | None = vars(query).get("_parts")
    if kept is None:
        kept = vars(query)["_parts"] = tuple(
            _part(pattern, query.frees) for pattern in query.patterns
        )
    return kept


def _part(pattern: Pattern, frees: tuple[Variable, ...]) -> CompiledPattern:
    signature, entities, relations = signature_of(pattern)
    skeleton, plan = planned(signature, frees)
    return CompiledPattern(skeleton, plan, frees, tuple(entities), tuple(relations))


def solve(question: Query | str, graph: KnowledgeGraph) -> frozenset[int]:
    """The entities that satisfy a question using only the edges of `graph`.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Wells", "read", "We")])
    >>> graph.labels(solve("?x : wrote(Orwell, ?x)", graph))
    ['1984']
    """
    query = as_query(question, EXACTLY)
    if len(query.frees) > 1:
        raise UnsupportedQuery(
            "clmpt.solve gives the ids of one variable",
            "graph.solve gives rows, for several",
            query.frees[1].position,
        )
    free, engine = query.free, Engine(graph.index)
    found = [
        engine.run(part.plan, _batch([part], graph)).columns[free].tolist()
        for part in compiled(query)
    ]
    return frozenset(chain.from_iterable(found)) if len(found) > 1 else frozenset(found[0])


def solve_rows(question: Query | str, graph: KnowledgeGraph) -> Ints:
    """The answers to a question that may ask for several variables: a row for each, distinct.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Wells", "read", "We")])
    >>> [graph.labels(row) for row in solve_rows("?who, ?what : wrote(?who, ?what)", graph)]
    [['Orwell', '1984']]
    """
    query = as_query(question, EXACTLY)
    engine = Engine(graph.index)
    tables = [engine.run(part.plan, _batch([part], graph)).columns for part in compiled(query)]
    parts = [np.stack([columns[v] for v in query.frees], axis=1) for columns in tables]
    return np.unique(np.concatenate(parts), axis=0).astype(np.int64)


def solve_all(queries: Sequence[Query], graph: KnowledgeGraph) -> list[frozenset[int]]:
    """The answers to many queries, in order; queries of one shape are solved together."""
    groups: dict[tuple[Skeleton, ...], list[int]] = {}
    for number, query in enumerate(queries):
        key = tuple(part.skeleton for part in compiled(query))
        groups.setdefault(key, []).append(number)
    answers: list[frozenset[int]] = [frozenset()] * len(queries)
    for numbers in groups.values():
        parts = [compiled(queries[number]) for number in numbers]
        batches = [_batch(column, graph) for column in zip(*parts, strict=True)]
        found, _ = _solve_parts(parts[0], batches, graph)
        for number, entities in zip(numbers, found, strict=True):
            answers[number] = frozenset(entities.tolist())
    return answers


def _batch(parts: Sequence[CompiledPattern], graph: KnowledgeGraph) -> SlotValues:
    """The same alternative of several queries of one shape, with its names looked up."""
    entities = [[graph.entities.resolve(symbol) for symbol in part.entities] for part in parts]
    relations = [[graph.relations.resolve(symbol) for symbol in part.relations] for part in parts]
    return SlotValues(np.array(entities, np.int64), np.array(relations, np.int64))


def solve_many(
    template: Query,
    graph: KnowledgeGraph,
    entities: AnyInts,
    relations: AnyInts,
) -> AnswerSets:
    """The answers to a template for many values of its placeholders, one row per query.

    Columns follow `placeholders(template)`. The relation id r + R, R being the number of relations,
    stands for the inverse of the relation r.
    """
    return solve_within(template, graph, entities, relations, 0)[0]


def solve_within(
    template: Query,
    graph: KnowledgeGraph,
    entities: AnyInts,
    relations: AnyInts,
    most_bindings: int,
) -> tuple[AnswerSets, Bools]:
    """As `solve_many`, and which queries were given up: those that would take more than
    `most_bindings` rows of a table on the way. They have no answers; with 0 none is given up."""
    batches = template_batches(template, graph, entities, relations)
    return _solve_parts(compiled(template), batches, graph, most_bindings)


def template_batches(
    template: Query, graph: KnowledgeGraph, entities: AnyInts, relations: AnyInts
) -> list[SlotValues]:
    """The slots of each alternative of a template, filled from its placeholders' values."""
    entity_names, relation_names = placeholders(template)
    return [
        SlotValues(
            _slots(part.entities, entity_names, entities, graph.entities),
            _slots(part.relations, relation_names, relations, graph.relations),
        )
        for part in compiled(template)
    ]


def _slots(
    symbols: tuple[Symbol, ...], names: tuple[str, ...], values: AnyInts, vocabulary: Vocabulary
) -> Ints:
    filled = np.empty((len(values), len(symbols)), np.int64)
    for slot, symbol in enumerate(symbols):
        if isinstance(symbol, Placeholder):
            filled[:, slot] = values[:, names.index(symbol.name)]
        else:
            filled[:, slot] = vocabulary.resolve(symbol)
    return filled


def _solve_parts(
    parts: tuple[CompiledPattern, ...],
    batches: list[SlotValues],
    graph: KnowledgeGraph,
    most_bindings: int = 0,
) -> tuple[AnswerSets, Bools]:
    engine, queries = Engine(graph.index, most_rows=most_bindings), len(batches[0])
    chunks: list[AnswerSets] = []
    given_up = [np.empty(0, np.bool_)]
    for first in range(0, queries, QUERIES_AT_ONCE):
        rows = slice(first, first + QUERIES_AT_ONCE)
        some = [SlotValues(b.entities_BS[rows], b.relations_BR[rows]) for b in batches]
        found = [
            engine.run_within(part.plan, batch) for part, batch in zip(parts, some, strict=True)
        ]
        given_up_B = np.logical_or.reduce([broad_B for _, broad_B in found])
        given_up.append(given_up_B)
        tables = [table for table, _ in found]
        if given_up_B.any():
            tables = [table.take(~given_up_B[table.query_N]) for table in tables]
        chunks.append(_union(parts, tables, len(some[0]), graph))
    answers = chunks[0] if len(chunks) == 1 else AnswerSets.joined(chunks)
    return answers, np.concatenate(given_up)


def _union(
    parts: tuple[CompiledPattern, ...], tables: list[Bindings], queries: int, graph: KnowledgeGraph
) -> AnswerSets:
    size = len(graph.entities)
    codes = [
        table.query_N * size + table.columns[part.free]
        for part, table in zip(parts, tables, strict=True)
    ]
    code = codes[0] if len(codes) == 1 else np.concatenate(codes)
    if len(codes) > 1 or (code[1:] <= code[:-1]).any():
        code = sorted_distinct(code, queries * size)
    owner = code // size
    return AnswerSets.of(owner, code - owner * size, queries)
