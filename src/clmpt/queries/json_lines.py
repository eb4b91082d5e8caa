"""Answered queries as JSON lines, for people: one query a line, in names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.errors import ClmptError, DataError
from clmpt.graph.benchmark_folders import read_queries
from clmpt.graph.edges import AnyInts
from clmpt.graph.knowledge_graph import KnowledgeGraph, Vocabulary
from clmpt.logic.formula import (
    Atom,
    Formula,
    Id,
    Name,
    Placeholder,
    Query,
    Symbol,
    Term,
    atoms,
    map_atoms,
    placeholders,
)
from clmpt.logic.parser import parse
from clmpt.logic.shapes import name_of, shape
from clmpt.queries.store import AnswerSets, QueryGroup, QuerySet
from clmpt.storage.files import new_file

NEEDS_GRAPH = "JSON lines speak in names. Say which graph they belong to: --graph FOLDER"


def open_queries(source: Path, graph: KnowledgeGraph | None, split: str) -> QuerySet:
    """Answered queries from a query file, JSON lines or a benchmark folder (there of one split).

    With a graph, queries that were made from another one are refused.
    """
    if source.is_dir():
        found = QuerySet(tuple(read_queries(source, split)))
    elif source.suffix != ".jsonl":
        found = QuerySet.open(source)
    elif graph is None:
        raise DataError(NEEDS_GRAPH)
    else:
        found = read_json_lines(source, graph)
    if graph is not None:
        if found.about.get("graph") not in (None, graph.fingerprint):
            raise DataError(
                f"'{source}' was made from another graph: its ids mean other names there."
            )
        found = QuerySet(tuple(_bound(group, graph) for group in found.groups), found.about)
        for group in found.groups:
            group.check(len(graph.entities), 2 * len(graph.relations))
    return found


def _bound(group: QueryGroup, graph: KnowledgeGraph) -> QueryGroup:
    """A group whose template has ids in the place of names; placeholders stay."""

    def resolved(vocabulary: Vocabulary, symbol: Symbol) -> Symbol:
        return symbol if isinstance(symbol, Placeholder) else Id(vocabulary.resolve(symbol))

    template = group.template.replace(
        lambda symbol: resolved(graph.entities, symbol),
        lambda symbol: resolved(graph.relations, symbol),
    )
    return group if template == group.template else replace(group, template=template)


def instantiate(template: Query, entities: AnyInts, relations: AnyInts, inverse_from: int) -> Query:
    """A template with ids for its placeholders; relations from `inverse_from` on are inverses.

    >>> from clmpt.logic.shapes import shape
    >>> print(instantiate(shape("2p"), np.array([7]), np.array([1, 13]), 10))
    ?y : #1(#7, ?x1) & #3(?y, ?x1)
    """
    entity_names, relation_names = placeholders(template)
    entity_ids = dict(zip(entity_names, entities.tolist(), strict=True))
    relation_ids = dict(zip(relation_names, relations.tolist(), strict=True))

    def put(term: Any) -> Any:
        return Id(entity_ids[term.name]) if isinstance(term, Placeholder) else term

    def ground(atom: Atom) -> Formula:
        head, tail = put(atom.head), put(atom.tail)
        if not isinstance(atom.relation, Placeholder):
            return Atom(atom.relation, head, tail)
        number = relation_ids[atom.relation.name]
        if number < inverse_from:
            return Atom(Id(number), head, tail)
        return Atom(Id(number - inverse_from), tail, head)

    return Query(template.free, map_atoms(template.body, ground), None, template.limits)


def abstract(query: Query) -> tuple[Query, list[Symbol], list[Symbol]]:
    """A query's template, with the entities and relations that its placeholders stand for.

    >>> from clmpt.logic.parser import parse_formula
    >>> template, entities, relations = abstract(parse_formula("?y : r(a, ?y) & r(b, ?y)"))
    >>> print(template, [e.text for e in entities], [r.text for r in relations])
    ?y : $r1($s1, ?y) & $r2($s2, ?y) ['a', 'b'] ['r', 'r']
    """
    entities: list[Symbol] = []
    relations: list[Symbol] = []

    def noted(symbol: Symbol, seen: list[Symbol], letter: str) -> Symbol:
        seen.append(symbol)
        return Placeholder(f"{letter}{len(seen)}")

    template = query.replace(
        lambda symbol: noted(symbol, entities, "s"), lambda symbol: noted(symbol, relations, "r")
    )
    return template, entities, relations


def fitted(
    query: Query, shape_text: str | None, inverse_from: int
) -> tuple[Query, list[int], list[int]]:
    """A query over ids as a row of the shape it was written for, or of its own where none fits.

    A shape's atom may stand the other way round in the query: then its relation is an inverse.

    >>> from clmpt.logic.parser import parse_formula
    >>> template, entities, relations = fitted(parse_formula("?y : #3(?y, #7)"), "1p", 10)
    >>> print(template, entities, relations)
    ?y : $r1($s1, ?y) [7] [13]
    """
    try:
        template = shape(shape_text) if shape_text else None
    except ClmptError:
        template = None
    if template is not None and (found := _fit(template, query, inverse_from)):
        return template, *found
    own, entities, relations = abstract(query)
    return own, [_number(symbol) for symbol in entities], [_number(r) for r in relations]


def _number(symbol: Symbol) -> int:
    assert isinstance(symbol, Id), "names are resolved before"
    return symbol.number


def _fit(template: Query, query: Query, inverse_from: int) -> tuple[list[int], list[int]] | None:
    values: dict[tuple[str, str], int] = {}
    pairs = zip_longest(atoms(template.body), atoms(query.body))
    for form, atom in pairs:
        if form is None or atom is None:
            return None
        for head, tail, shift in (
            (atom.head, atom.tail, 0),
            (atom.tail, atom.head, inverse_from),
        ):
            relation = _number(atom.relation) + shift
            found = _ends(form, head, tail)
            if found is not None:
                new = {("s", name): value for name, value in found.items()}
                if isinstance(form.relation, Placeholder):
                    new["r", form.relation.name] = relation
                elif form.relation != atom.relation or shift:
                    continue
                if all(values.get(key, value) == value for key, value in new.items()):
                    values.update(new)
                    break
        else:
            return None
    entity_names, relation_names = placeholders(template)
    entities = [values["s", name] for name in entity_names]
    relations = [values["r", name] for name in relation_names]
    row = (np.array(entities), np.array(relations))
    return (entities, relations) if instantiate(template, *row, inverse_from) == query else None


def _ends(form: Atom, head: Term, tail: Term) -> dict[str, int] | None:
    """The placeholders' values if an atom's ends fit a template's."""
    found: dict[str, int] = {}
    for wanted, given in ((form.head, head), (form.tail, tail)):
        if isinstance(wanted, Placeholder) and isinstance(given, Id):
            found[wanted.name] = given.number
        elif wanted != given:
            return None
    return found


def json_lines(queries: QuerySet, graph: KnowledgeGraph) -> Iterator[str]:
    """One JSON object a query: its shape, its formula in names, its answers in names."""
    for group in queries.groups:
        for number in range(len(group)):
            query = instantiate(
                group.template,
                group.entities[number],
                group.relations[number],
                len(graph.relations),
            )
            document: dict[str, Any] = {"shape": group.name, "query": str(graph.named(query))}
            for kind, sets in (("easy", group.easy), ("hard", group.hard)):
                document[kind] = [graph.entities.names[entity] for entity in sets[number].tolist()]
            yield json.dumps(document, ensure_ascii=False)


def write_json_lines(queries: QuerySet, graph: KnowledgeGraph, path: Path) -> None:
    with new_file(path) as scratch, scratch.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in json_lines(queries, graph))


def read_json_lines(path: Path, graph: KnowledgeGraph) -> QuerySet:
    """The queries of such a file, grouped by shape; an error names its line."""
    found: dict[Query, list[tuple[list[int], list[int], list[int], list[int]]]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _read_line(line, f"'{path}', line {number}", graph, found)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{path}' cannot be read: {error}.") from None
    return QuerySet(tuple(_group(template, rows) for template, rows in found.items()))


def _read_line(
    line: str,
    place: str,
    graph: KnowledgeGraph,
    found: dict[Query, list[tuple[list[int], list[int], list[int], list[int]]]],
) -> None:
    try:
        document = json.loads(line)
        query = graph.bind(parse(document["query"]))
        template, entities, relations = fitted(query, document.get("shape"), len(graph.relations))
        row = (
            entities,
            relations,
            *(
                sorted({graph.entities.resolve(Name(name)) for name in document.get(kind, [])})
                for kind in ("easy", "hard")
            ),
        )
    except ClmptError as error:
        raise DataError(f"{place}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{place}: expected an object with 'query' and 'easy' ({error!r})."
        ) from None
    found.setdefault(template, []).append(row)  # type: ignore[arg-type]


def _group(
    template: Query, rows: list[tuple[list[int], list[int], list[int], list[int]]]
) -> QueryGroup:
    def sets(column: int) -> AnswerSets:
        answers = [row[column] for row in rows]
        owners = np.repeat(np.arange(len(rows)), [len(answer) for answer in answers])
        entities = np.array([entity for answer in answers for entity in answer], np.int64)
        return AnswerSets.of(owners, entities, len(rows))

    entities, relations = placeholders(template)
    return QueryGroup(
        name_of(template),
        template,
        np.array([row[0] for row in rows], np.int32).reshape(len(rows), len(entities)),
        np.array([row[1] for row in rows], np.int32).reshape(len(rows), len(relations)),
        sets(2),
        sets(3),
    )
