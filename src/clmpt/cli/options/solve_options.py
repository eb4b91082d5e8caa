"""The options of solve, draw, translate."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_csv,
    add_folder,
    add_limits,
    add_query,
    add_splits,
    count,
)


def asking_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    solve = command(
        "solve",
        "solve:solve_query",
        "answer a question exactly, from the graph's own edges",
        "clmpt solve films 'SELECT ?f { :Mizoguchi :directed ?f }' --limit 5",
    )
    add_folder(solve)
    add_query(solve)
    add_splits(solve)
    add_csv(solve)
    solve.add_argument("--limit", type=count, metavar="N", help="show at most N answers")
    solve.add_argument(
        "--format",
        choices=["json", "xml", "csv", "tsv", "turtle", "ntriples", "rdfxml"],
        help="the result of a SPARQL query in a format of W3C's",
    )
    solve.add_argument(
        "--union", action="store_true", help="SPARQL's default graph includes all named graphs"
    )
    add_limits(solve)

    draw = command(
        "draw",
        "solve:draw",
        "draw the query graph of a question or a named shape",
        "clmpt draw pni --svg pni.svg",
    )
    add_query(draw)
    draw.add_argument("--svg", metavar="FILE", help="write a picture instead of text")

    translate = command(
        "translate",
        "solve:translate",
        "translate a question to another query language",
        "clmpt translate '?x : wrote(Orwell, ?x)' --to sparql",
    )
    add_query(translate)
    translate.add_argument("--to", choices=["formula", "dnf", "sparql", "betae"], default="formula")
    translate.add_argument(
        "--graph", metavar="FOLDER", help="resolve names to the ids of this graph"
    )
