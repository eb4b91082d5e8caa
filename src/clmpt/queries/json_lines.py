"""Answered queries as JSON lines, for people to read: one query per line, with names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.errors import ClmptError, DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import (
    Name,
    Query,
    placeholders,
)
from clmpt.logic.parser import parse
from clmpt.logic.shapes import name_of
from clmpt.queries.store import AnswerSets, QueryGroup, QuerySet
from clmpt.queries.templates import fitted, instantiate
from clmpt.storage.files import new_file


def json_lines(queries: QuerySet, graph: KnowledgeGraph) -> Iterator[str]:
    """One JSON object per query: its shape, its formula and its answers, with names."""
    for group in queries.groups:
        for number in range(len(group)):
            query = instantiate(
                group.template,
                group.entities[number],
                group.relations[number],
                len(graph.relations),
            )
            document: dict[str, Any] = {"shape": group.name, "query": str(graph.named(query))}
            if group.name != name_of(group.template):
                document["formula"] = str(group.template)  # of a shape with a name of its own
            for kind, sets in (("easy", group.easy), ("hard", group.hard)):
                document[kind] = [graph.entities.names[entity] for entity in sets[number].tolist()]
            yield json.dumps(document, ensure_ascii=False)


def write_json_lines(queries: QuerySet, graph: KnowledgeGraph, path: Path) -> None:
    with new_file(path, replaces=False) as scratch, scratch.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in json_lines(queries, graph))


def read_json_lines(path: Path, graph: KnowledgeGraph) -> QuerySet:
    """The queries in a JSON lines file, grouped by shape; errors name the line."""
    found: dict[Query, list[tuple[list[int], list[int], list[int], list[int]]]] = {}
    names: dict[Query, str] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _read_line(line, f"'{path}', line {number}", graph, found, names)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{path}' cannot be read: {error}.") from None
    groups = (_group(template, rows, names) for template, rows in found.items())
    return QuerySet(tuple(groups))


def _read_line(
    line: str,
    place: str,
    graph: KnowledgeGraph,
    found: dict[Query, list[tuple[list[int], list[int], list[int], list[int]]]],
    names: dict[Query, str],
) -> None:
    try:
        document = json.loads(line)
        query = graph.bind(parse(document["query"]))
        formula = document.get("formula") or document.get("shape")
        template, entities, relations = fitted(query, formula, len(graph.relations))
        if document.get("formula") == str(template):
            names[template] = str(document["shape"])
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
    template: Query,
    rows: list[tuple[list[int], list[int], list[int], list[int]]],
    names: dict[Query, str],
) -> QueryGroup:
    def sets(column: int) -> AnswerSets:
        answers = [row[column] for row in rows]
        owners = np.repeat(np.arange(len(rows)), [len(answer) for answer in answers])
        entities = np.array([entity for answer in answers for entity in answer], np.int64)
        return AnswerSets.of(owners, entities, len(rows))

    entities, relations = placeholders(template)
    return QueryGroup(
        names.get(template) or name_of(template),
        template,
        np.array([row[0] for row in rows], np.int32).reshape(len(rows), len(entities)),
        np.array([row[1] for row in rows], np.int32).reshape(len(rows), len(relations)),
        sets(2),
        sets(3),
    )
