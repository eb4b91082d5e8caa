"""ask, for questions about several variables and for SPARQL: rows with probabilities."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.answering.answers import Status, in_percent
from clmpt.answering.showing import WORDS
from clmpt.cli.output import TerminalTable, clean, say, show_csv, show_json, show_table, tell
from clmpt.errors import QueryError, SettingError
from clmpt.logic.algebra import SparqlQuery
from clmpt.logic.formula import Limits, Query
from clmpt.logic.parser import is_sparql
from clmpt.logic.rdf_terms import Blank, Iri, Literal, RdfTerm
from clmpt.logic.sparql import efo_query
from clmpt.logic.sparql_parser import read_sparql

_ROWS = 10  # by default


@dataclass(frozen=True)
class ShownRow:
    """Labels to show, and the same as data."""

    labels: list[str]
    data: list[dict[str, Any] | None]
    probability: float | None
    status: Status | None


def read_question(text: str, limits: Limits, base: str = "") -> Query | SparqlQuery | None:
    """A SPARQL query, as a question about one variable if it is one; None for other texts."""
    if not is_sparql(text):
        return None
    query = read_sparql(text, base)
    try:
        found = efo_query(query, limits)
    except QueryError:
        return query  # some of it may have a meaning all the same, or its error is said later
    return found if len(found.frees) == 1 else query


def answer_rows(
    answerer: Answerer, asked: Query | SparqlQuery, options: argparse.Namespace
) -> None:
    """Answers and shows a question that has rows as answers."""
    if options.svg or options.explain or options.refuted:
        raise SettingError(
            "--explain, --svg and --refuted are for questions about one variable, without filters."
        )
    if isinstance(asked, Query):
        rows = answerer.ask_rows(asked, options.limit, options.only, options.at_least)
        shown = [
            ShownRow(
                list(one.labels),
                [
                    _entity(*three)
                    for three in zip(one.entities, one.names, one.labels, strict=True)
                ],
                one.probability,
                one.status,
            )
            for one in rows
        ]
        variables = [variable.name for variable in asked.frees]
        _show(str(asked), variables, shown, rows.notes, options)
        return
    result = answerer.ask_sparql(asked, options.at_least, limits_of(options))
    if result.form == "ASK":
        assert result.probability is not None
        _show_probability(result.probability, result.notes, options)
        return
    kept = [
        row
        for row in result.rows
        if not options.only or (row.status in ("known", "hidden")) == (options.only == "known")
    ]
    most = options.limit or asked.select.limit or _ROWS
    shown = [_shown(row.cells, row.ids, answerer, row) for row in kept[:most]]
    _show("", list(result.variables), shown, result.notes, options)


def limits_of(options: argparse.Namespace) -> Limits:
    return Limits(atoms=options.max_atoms, disjuncts=options.max_alternatives)


def _shown(
    cells: tuple[RdfTerm | None, ...], ids: tuple[int, ...], answerer: Answerer, row: Any
) -> ShownRow:
    labels: list[str] = []
    data: list[dict[str, Any] | None] = []
    entities = answerer.graph.entities
    for cell, number in zip(cells, ids, strict=True):
        if number >= 0:
            label = entities.label(number)
            data.append(_entity(number, entities.names[number], label))
        else:
            label = "" if cell is None else _plain(cell)
            data.append(None if cell is None else _term(cell))
        labels.append(label)
    return ShownRow(labels, data, row.probability, row.status)


def _plain(term: RdfTerm) -> str:
    return f"_:{term.label}" if isinstance(term, Blank) else term.text


def _entity(number: int, name: str, label: str) -> dict[str, Any]:
    return {"id": number, "name": name, "label": label}


def _term(term: RdfTerm) -> dict[str, Any]:
    if isinstance(term, Literal):
        found = {"value": term.text, "datatype": term.datatype}
        return found | ({"language": term.language} if term.language else {})
    return {"iri": term.text} if isinstance(term, Iri) else {"blank": term.label}


def _show(
    title: str,
    variables: list[str],
    rows: list[ShownRow],
    notes: tuple[str, ...],
    options: argparse.Namespace,
) -> None:
    if options.json:
        plain = [
            dict(zip(variables, row.data, strict=True))
            | {"probability": row.probability, "status": row.status}
            for row in rows
        ]
        document = {"variables": variables, "rows": plain, "notes": list(notes)}
        say(json.dumps(document, ensure_ascii=False)) if not options.query else show_json(document)
        return
    ranked = any(row.status for row in rows)
    headers = [*variables, *(["probability", "in the graph"] if ranked else [])]
    cells: list[list[object]] = []
    for row in rows:
        sure = [
            "" if row.probability is None else f"{row.probability:.1%}",
            WORDS[row.status] if row.status else "",
        ]
        cells.append([*map(clean, row.labels), *(sure if ranked else [])])
    if options.csv:
        show_csv(headers, cells)
        return
    show_table(TerminalTable(title, headers, cells))
    for note in notes:
        tell(f"Note: {note}")


def _show_probability(
    probability: float, notes: tuple[str, ...], options: argparse.Namespace
) -> None:
    if options.json:
        show_json({"probability": round(probability, 6), "notes": list(notes)})
        return
    say("yes, known" if probability == 1 else in_percent(probability))
    for note in notes:
        tell(f"Note: {note}")
