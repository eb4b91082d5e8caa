"""solve, draw, translate."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmpt.cli.output import (
    TerminalTable,
    clean,
    say,
    show_csv,
    show_json,
    show_table,
    tell,
    write_once,
)
from clmpt.cli.questions import chosen_budget, question_text, read_query
from clmpt.errors import SettingError
from clmpt.logic.parser import is_sparql

if TYPE_CHECKING:
    from clmpt.graph.knowledge_graph import KnowledgeGraph
    from clmpt.sparql.answering import SparqlResult


def solve_query(options: argparse.Namespace) -> None:
    from clmpt.cli.commands.graphs import chosen_view
    from clmpt.graph.opening import open_graph

    text = question_text(options)
    graph = chosen_view(open_graph(options.folder), options.split)
    if is_sparql(text):
        _solve_sparql(text, graph, options)
        return
    if options.format:
        raise SettingError("--format is for SPARQL. For other questions, use --json or --csv.")
    _solve_formula(text, graph, options)


# --- formulas -------------------------------------------------------------------------------------


def _solve_formula(text: str, graph: KnowledgeGraph, options: argparse.Namespace) -> None:
    from clmpt.cli.questions import parse_query
    from clmpt.symbolic.solver import solve_rows

    query = parse_query(text, options)
    started = time.perf_counter()
    with chosen_budget(options):
        found = solve_rows(query, graph).tolist()
    seconds = time.perf_counter() - started
    label, names = graph.entities.label, graph.entities.names
    rows = sorted([(label(e), names[e], e) for e in row] for row in found)
    limit = options.limit or query.limit
    shown = rows if limit is None else rows[:limit]
    variables = [variable.name for variable in query.frees]
    if options.json or options.csv:
        _show_data(str(query), shown, len(found), variables, seconds, graph, options)
        return
    _show_rows(shown, variables, str(query))
    if sys.stdout.isatty():
        _sum_up(len(found), len(shown), seconds, graph)


def _show_data(
    question: str,
    rows: list[list[tuple[str, str, int]]],
    found: int,
    variables: list[str],
    seconds: float,
    graph: KnowledgeGraph,
    options: argparse.Namespace,
) -> None:
    """The rows as JSON or CSV of our own, with ids and labels."""
    if options.json:
        show_json(
            {
                "query": question,
                "splits": list(graph.observed),
                "count": found,
                "answers": [_as_plain(row, variables) for row in rows],
                "seconds": round(seconds, 6),
            }
        )
        return
    several = len(variables) > 1
    headers = [
        f"{variable} {part}" if several else part
        for variable in variables
        for part in ("label", "name", "id")
    ]
    show_csv(headers, [[cell for one in row for cell in one] for row in rows])


def _as_plain(row: list[tuple[str, str, int]], variables: list[str]) -> dict[str, Any]:
    found = [{"id": number, "name": name, "label": label} for label, name, number in row]
    return found[0] if len(found) == 1 else dict(zip(variables, found, strict=True))


def _show_rows(
    rows: Sequence[Sequence[tuple[str, str, object]]], variables: Sequence[str], title: str
) -> None:
    """Labels and, for a variable where some differ, names: a table on a terminal, else
    tab-separated lines."""
    headers: list[str] = []
    lines: list[list[object]] = [[] for _ in rows]
    for place, variable in enumerate(variables):
        labelled = any(row[place][0] != row[place][1] for row in rows)
        headers += [variable, "name"] if labelled else [variable]
        for row, line in zip(rows, lines, strict=True):
            line.extend(row[place][:2] if labelled else row[place][:1])
    if not sys.stdout.isatty():
        for line in lines:
            say("\t".join(clean(str(cell)) for cell in line))
        return
    if len(variables) == 1:
        headers[0] = "answer"
    show_table(TerminalTable(title, headers, lines))


def _sum_up(found: int, shown: int, seconds: float, graph: KnowledgeGraph) -> None:
    rest = f", {shown:,} shown" if shown < found else ""
    noun = "answer" if found == 1 else "answers"
    where = " + ".join(graph.observed)
    say(f"{found:,} {noun}{rest}, in {1000 * seconds:.1f} ms, from {where}")


# --- SPARQL ---------------------------------------------------------------------------------------


def _solve_sparql(text: str, graph: KnowledgeGraph, options: argparse.Namespace) -> None:
    from clmpt.logic.sparql_parser import read_sparql
    from clmpt.sparql.answering import answer_sparql
    from clmpt.sparql.results import write_result

    started = time.perf_counter()
    query = read_sparql(text, graph.rdf.base if graph.rdf else "")
    limit, select = options.limit, query.select
    if not options.format and not select.order and not select.offset and query.form == "SELECT":
        # Any of the solutions will do, so people see the first by alphabet, and how many there are.
        limit = min((n for n in (limit, select.limit) if n is not None), default=None)
        query = replace(query, select=replace(select, limit=None))
    if options.format and limit is not None:
        most = limit if select.limit is None else min(limit, select.limit)
        query = replace(query, select=replace(select, limit=most))
    with chosen_budget(options):
        result = answer_sparql(query, graph, union=options.union)
    seconds = time.perf_counter() - started
    for note in result.notes:
        tell(f"Note: {note}")
    triples = result.form in ("CONSTRUCT", "DESCRIBE")
    if options.format or triples:
        for piece in write_result(result, options.format or "turtle"):
            sys.stdout.write(piece)
        return
    if result.form == "ASK":
        _show_truth(bool(result), options)
        return
    rows = _listed(result, graph)
    if not select.order:
        rows.sort()
    shown = rows if limit is None else rows[:limit]
    if options.json or options.csv:
        _show_data(
            " ".join(text.split()),
            shown,
            len(rows),
            list(result.variables),
            seconds,
            graph,
            options,
        )
        return
    _show_rows(shown, result.variables, " ".join(text.split()))
    if sys.stdout.isatty():
        _sum_up(len(rows), len(shown), seconds, graph)


def _show_truth(holds: bool, options: argparse.Namespace) -> None:
    if options.json:
        show_json({"answer": holds})
    elif options.csv:
        show_csv(["answer"], [["true" if holds else "false"]])
    else:
        say("yes" if holds else "no")


def _listed(result: SparqlResult, graph: KnowledgeGraph) -> list[list[tuple[str, str, int]]]:
    """The rows for people: each once, things by their labels, literals by their text."""
    assert result.terms is not None
    terms, rows = result.terms, list[list[tuple[str, str, int]]]()
    for numbers in dict.fromkeys(map(tuple, result.rows_NC.tolist())):
        row = []
        for number in numbers:
            if number < 0:
                row.append(("", "", number))
            elif number < len(graph.entities):
                row.append((graph.entities.label(number), graph.entities.names[number], number))
            else:
                text = str(terms.term(number))
                row.append((text, text, number))
        rows.append(row)
    return rows


# --- draw, translate ------------------------------------------------------------------------------


def draw(options: argparse.Namespace) -> None:
    from clmpt.logic.drawing import draw_svg, draw_text

    query = read_query(options)
    if options.svg:
        write_once(Path(options.svg), draw_svg(query))
    if options.json:
        show_json({"query": str(query), "text": draw_text(query), "svg": options.svg})
    elif options.svg:
        say(f"{query}\ndrawn in {options.svg}")
    else:
        say(draw_text(query))


def translate(options: argparse.Namespace) -> None:
    from clmpt.logic.betae import to_betae
    from clmpt.logic.sparql import sparql_text

    query, inverse = read_query(options), None
    if options.graph:
        from clmpt.graph.opening import open_graph

        graph = open_graph(options.graph)
        known = graph.inverse_ids
        bound = graph.bind(query)
        query = bound if options.to == "betae" else graph.named(bound)
        if graph.has_both_directions:
            inverse = lambda relation: int(known[relation])  # noqa: E731
    text = {
        "formula": lambda: str(query),
        "dnf": lambda: "\n".join(str(disjunct) for disjunct in query.disjuncts()),
        "sparql": lambda: sparql_text(query),
        "betae": lambda: repr(to_betae(query, inverse)),
    }[options.to]()
    if options.json:
        show_json({"query": str(query), options.to: text})
    else:
        say(text)
