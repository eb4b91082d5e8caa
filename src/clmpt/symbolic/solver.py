"""Exact answers of any query, one at a time or many of one shape at once.

Negation is closed-world: an edge that the graph lacks counts as false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clmpt.graph.edges import AnyInts, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph, Vocabulary
from clmpt.logic.formula import Placeholder, Query, Symbol, Variable, atoms
from clmpt.symbolic.engine import Batch, Engine, Table
from clmpt.symbolic.plan import Plan, Skeleton, plan_for, skeleton_of

QUERIES_AT_ONCE = 4096


@dataclass(frozen=True)
class AnswerSets:
    """One sorted array of entities per query, laid end to end."""

    offsets: Ints
    entities: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> Ints:
        return self.entities[self.offsets[query] : self.offsets[query + 1]]

    def __iter__(self) -> Iterator[Ints]:
        return (self[query] for query in range(len(self)))

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def owners(self) -> Ints:
        """For every entity the number of the query it answers."""
        return np.repeat(np.arange(len(self)), self.counts)

    @classmethod
    def of(cls, owner: Ints, entity: Ints, queries: int) -> AnswerSets:
        """From pairs sorted by query and entity."""
        counts = np.bincount(owner, minlength=queries)
        return cls(np.concatenate([[0], np.cumsum(counts)]), entity)


@dataclass(frozen=True)
class Part:
    """One alternative of a query, ready to run, with the symbols that fill its slots."""

    skeleton: Skeleton
    plan: Plan
    free: Variable
    entities: tuple[Symbol, ...]
    relations: tuple[Symbol, ...]


@lru_cache(maxsize=4096)
def compiled(query: Query) -> tuple[Part, ...]:
    """The parts of a query; cached, since whoever asks once often asks again."""
    parts = []
    for pattern in query.patterns:
        skeleton, entities, relations = skeleton_of(pattern)
        plan = plan_for(skeleton, (query.free,))
        parts.append(Part(skeleton, plan, query.free, entities, relations))
    return tuple(parts)


def solve(query: Query, graph: KnowledgeGraph) -> frozenset[int]:
    """The entities that satisfy `query` using only the edges of `graph`.

    >>> from clmpt.logic.parser import parse_formula
    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Zamyatin", "wrote", "We")])
    >>> graph.labels(solve(parse_formula("?x : wrote(Orwell, ?x)"), graph))
    ['1984']
    """
    return solve_all([query], graph)[0]


def solve_all(queries: Sequence[Query], graph: KnowledgeGraph) -> list[frozenset[int]]:
    """The answers of many queries in their order; those of one shape are solved together."""
    groups: dict[tuple[Skeleton, ...], list[int]] = {}
    for number, query in enumerate(queries):
        key = tuple(part.skeleton for part in compiled(query))
        groups.setdefault(key, []).append(number)
    answers: list[frozenset[int]] = [frozenset()] * len(queries)
    for numbers in groups.values():
        parts = [compiled(queries[number]) for number in numbers]
        batches = [
            Batch(
                _ids([part.entities for part in column], graph.entities),
                _ids([part.relations for part in column], graph.relations),
            )
            for column in zip(*parts, strict=True)
        ]
        found = _solve_parts(parts[0], batches, graph)
        for number, entities in zip(numbers, found, strict=True):
            answers[number] = frozenset(entities.tolist())
    return answers


def _ids(rows: list[tuple[Symbol, ...]], vocabulary: Vocabulary) -> Ints:
    values = [[vocabulary.resolve(symbol) for symbol in row] for row in rows]
    return np.array(values, np.int64).reshape(len(rows), -1)


def placeholders(template: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a template's entity and relation placeholders, in order of appearance."""
    entities: dict[str, None] = {}
    relations: dict[str, None] = {}
    for atom in atoms(template.body):
        for term in (atom.head, atom.tail):
            if isinstance(term, Placeholder):
                entities[term.name] = None
        if isinstance(atom.relation, Placeholder):
            relations[atom.relation.name] = None
    return tuple(entities), tuple(relations)


def solve_many(
    template: Query, graph: KnowledgeGraph, entities: AnyInts, relations: AnyInts
) -> AnswerSets:
    """The answers of a template for many values of its placeholders, one row a query.

    Columns follow `placeholders(template)`. A relation id of R or more, R being the number of
    relations, stands for the inverse of the relation with R less.
    """
    batches = template_batches(template, graph, entities, relations)
    return _solve_parts(compiled(template), batches, graph)


def template_batches(
    template: Query, graph: KnowledgeGraph, entities: AnyInts, relations: AnyInts
) -> list[Batch]:
    """The slots of each alternative of a template, filled from its placeholders' values."""
    entity_names, relation_names = placeholders(template)
    return [
        Batch(
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
    parts: tuple[Part, ...], batches: list[Batch], graph: KnowledgeGraph
) -> AnswerSets:
    engine, queries = Engine(graph.index), len(batches[0])
    chunks: list[AnswerSets] = []
    for first in range(0, queries, QUERIES_AT_ONCE):
        rows = slice(first, first + QUERIES_AT_ONCE)
        some = [Batch(b.entities_BS[rows], b.relations_BR[rows]) for b in batches]
        tables = [engine.run(part.plan, batch) for part, batch in zip(parts, some, strict=True)]
        chunks.append(_union(parts, tables, len(some[0]), graph))
    if len(chunks) == 1:
        return chunks[0]
    counts = np.concatenate([chunk.counts for chunk in chunks] or [np.empty(0, np.int64)])
    entities = np.concatenate([chunk.entities for chunk in chunks] or [np.empty(0, np.int64)])
    return AnswerSets(np.concatenate([[0], np.cumsum(counts)]), entities)


def _union(
    parts: tuple[Part, ...], tables: list[Table], queries: int, graph: KnowledgeGraph
) -> AnswerSets:
    size = len(graph.entities)
    codes = [
        table.query_N * size + table.columns[part.free]
        for part, table in zip(parts, tables, strict=True)
    ]
    code = codes[0] if len(codes) == 1 else np.concatenate(codes)
    if len(codes) > 1 or (code[1:] <= code[:-1]).any():
        code = np.unique(code)
    owner = code // size
    return AnswerSets.of(owner, code - owner * size, queries)
