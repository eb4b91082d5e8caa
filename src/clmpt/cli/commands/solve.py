"""solve, draw, translate."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from clmpt.cli.output import TerminalTable, clean, say, show_csv, show_json, show_table
from clmpt.cli.questions import chosen_budget, read_query


def solve_query(options: argparse.Namespace) -> None:
    from clmpt.cli.commands.graphs import chosen_view
    from clmpt.graph.opening import open_graph
    from clmpt.symbolic.solver import solve

    query = read_query(options)
    graph = chosen_view(open_graph(options.folder), options.split)
    started = time.perf_counter()
    with chosen_budget(options):
        found = solve(query, graph)
    seconds = time.perf_counter() - started
    rows = sorted(
        (graph.entities.label(entity), graph.entities.names[entity], entity) for entity in found
    )
    limit = options.limit or query.limit
    shown = rows if limit is None else rows[:limit]
    if options.json:
        answers = [{"id": e, "name": name, "label": label} for label, name, e in shown]
        show_json(
            {
                "query": str(query),
                "splits": list(graph.observed),
                "count": len(found),
                "answers": answers,
                "seconds": round(seconds, 6),
            }
        )
        return
    if options.csv:
        show_csv(["label", "name", "id"], shown)
        return
    if not sys.stdout.isatty():
        for label, name, _ in shown:
            say(clean(label) if label == name else f"{clean(label)}\t{clean(name)}")
        return
    labelled = any(label != name for label, name, _ in shown)
    headers = ["answer", "name"] if labelled else ["answer"]
    show_table(TerminalTable(str(query), headers, [row[: len(headers)] for row in shown]))
    rest = f", {len(shown):,} shown" if len(shown) < len(found) else ""
    where = " + ".join(graph.observed)
    noun = "answer" if len(found) == 1 else "answers"
    say(f"{len(found):,} {noun}{rest}, in {1000 * seconds:.1f} ms, from {where}")


def draw(options: argparse.Namespace) -> None:
    from clmpt.logic.drawing import draw_svg, draw_text

    query = read_query(options)
    if options.svg:
        from clmpt.storage.files import new_file, refuse_existing

        refuse_existing(Path(options.svg))
        with new_file(Path(options.svg)) as scratch:
            scratch.write_text(draw_svg(query), encoding="utf-8")
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
