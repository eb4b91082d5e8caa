"""The options of sample, queries, verify, hardness."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_folder,
    add_processes,
    count,
    whole_number,
)


def sampling_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    sample = command(
        "sample",
        "queries:sample_queries",
        "sample benchmark queries with all their answers",
        "clmpt sample films --shapes 2p '?y : $r($s, ?x) & $r(?x, ?y)' --count 100 --out q.queries",
    )
    add_folder(sample)
    sample.add_argument(
        "--shapes",
        nargs="+",
        required=True,
        metavar="SHAPE",
        help="a name, NAME=COUNT, a formula, or NAME=FORMULA",
    )
    sample.add_argument("--count", type=count, default=1000, metavar="N", help="queries per shape")
    sample.add_argument(
        "--seed", type=whole_number, default=0, metavar="S", help="same seed, same queries"
    )
    sample.add_argument(
        "--out", required=True, metavar="FILE", help="ends in .jsonl for JSON lines"
    )
    sample.add_argument(
        "--split", metavar="NAME", help="train, valid or test (default: the first split)"
    )
    sample.add_argument(
        "--max-answers", type=count, metavar="N", help="at most N hard answers per query"
    )
    add_processes(sample)
    sample.add_argument("--workers", type=count, metavar="N", help="processes (default: all cores)")


def stored_query_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    queries = command(
        "queries",
        "queries:queries",
        "summarise a file or folder of answered queries, or convert it",
        "clmpt queries train.queries --graph films --out train.jsonl",
    )
    queries.add_argument(
        "source", metavar="SOURCE", help="a query file, .jsonl or benchmark folder"
    )
    queries.add_argument("--graph", metavar="FOLDER", help="the graph with its ids or names")
    queries.add_argument("--split", default="test", metavar="NAME", help="of a benchmark folder")
    queries.add_argument("--out", metavar="FILE", help="ends in .jsonl for JSON lines")

    for name, run, summary in (
        ("verify", "queries:verify", "recompute every stored answer of a benchmark and compare"),
        ("hardness", "queries:show_hardness", "count the links that hard answers are missing"),
    ):
        found = command(name, run, summary, f"clmpt {name} NELL-betae --split test")
        add_folder(found, "a benchmark folder")
        found.add_argument(
            "--split", metavar="NAME", help="valid or test (default: all with answers)"
        )
        found.add_argument("--graph", metavar="FOLDER", help="the graph, if it is elsewhere")
