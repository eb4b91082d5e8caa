"""ask, for questions about several variables and for SPARQL: rows with probabilities."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.answering.answers import Status, in_percent
from clmpt.answering.row_answers import LikelyResult
from clmpt.answering.showing import WORDS
from clmpt.cli.output import TerminalTable, clean, say, show_csv, show_json, show_table, tell
from clmpt.errors import QueryError, SettingError
from clmpt.logic.algebra import SparqlQuery
from clmpt.logic.formula import Limits, Query
from clmpt.logic.parser import is_sparql
from clmpt.logic.rdf_terms import Iri, Literal, RdfTerm
from clmpt.logic.sparql import efo_query
from clmpt.logic.sparql_parser import read_sparql

_ROWS = 10  # by default
_SURE = ["probability", "status"]  # columns of CSV

ShowDocument = Callable[[Any], None]


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
    answerer: Answerer,
    text: str,
    asked: Query | SparqlQuery,
    options: argparse.Namespace,
    show_document: ShowDocument = show_json,
) -> None:
    """Answers and shows a question that has rows or a probability as its answer. `show_document`
    writes JSON."""
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
        _show(str(asked), list(rows.variables), shown, rows.notes, options, show_document)
        return
    question = " ".join(text.split())
    result = answerer.ask_sparql(asked, options.at_least, limits_of(options))
    if result.form == "ASK":
        _show_probability(question, result, options, show_document)
        return
    kept = [
        row
        for row in result.rows
        if not options.only or (row.status in ("known", "hidden")) == (options.only == "known")
    ]
    most = options.limit or asked.select.limit or _ROWS
    shown = [_shown(row.cells, row.ids, answerer, row) for row in kept[:most]]
    _show(question, list(result.variables), shown, result.notes, options, show_document)


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
            label = "" if cell is None else str(cell)
            data.append(None if cell is None else _term(cell))
        labels.append(label)
    return ShownRow(labels, data, row.probability, row.status)


def _entity(number: int, name: str, label: str) -> dict[str, Any]:
    return {"id": number, "name": name, "label": label}


def _term(term: RdfTerm) -> dict[str, Any]:
    if isinstance(term, Literal):
        found = {"value": term.text, "datatype": term.datatype}
        return found | ({"language": term.language} if term.language else {})
    return {"iri": term.text} if isinstance(term, Iri) else {"blank": term.label}


def _show(
    question: str,
    variables: list[str],
    rows: list[ShownRow],
    notes: tuple[str, ...],
    options: argparse.Namespace,
    show_document: ShowDocument,
) -> None:
    if options.json:
        plain = [
            dict(zip(variables, row.data, strict=True))
            | {"probability": _rounded(row.probability), "status": row.status}
            for row in rows
        ]
        show_document(
            {"query": question, "variables": variables, "rows": plain, "notes": list(notes)}
        )
        return
    ranked = not rows or any(row.status for row in rows)
    if options.csv:
        headers = [*variables, *(_SURE if ranked else [])]
        show_csv(headers, [[*row.labels, *(_sure(row) if ranked else [])] for row in rows])
    else:
        headers = [*variables, *(["probability", "in the graph"] if ranked else [])]
        cells = [[*map(clean, row.labels), *(_sure_text(row) if ranked else [])] for row in rows]
        show_table(TerminalTable(question, headers, cells))
    for note in notes:
        tell(f"Note: {note}")


def _sure(row: ShownRow | LikelyResult) -> list[object]:
    """The probability and the status, for programs."""
    probability = _rounded(row.probability)
    return ["" if probability is None else probability, row.status or ""]


def _sure_text(row: ShownRow) -> list[object]:
    return [
        "" if row.probability is None else f"{row.probability:.1%}",
        WORDS[row.status] if row.status else "",
    ]


def _rounded(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 6)


def _show_probability(
    question: str, found: LikelyResult, options: argparse.Namespace, show_document: ShowDocument
) -> None:
    assert found.probability is not None
    if options.json:
        probability, status = _sure(found)
        document = {"query": question, "probability": probability, "status": status}
        show_document(document | {"notes": list(found.notes)})
        return
    if options.csv:
        show_csv(_SURE, [_sure(found)])
    else:
        say("yes, known" if found.status == "known" else in_percent(found.probability))
    for note in found.notes:
        tell(f"Note: {note}")
