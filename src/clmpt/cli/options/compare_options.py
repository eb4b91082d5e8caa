"""The options of compare."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand, count, whole_number

_FIGURES = ["mrr", "hits_at_1", "hits_at_3", "hits_at_10"]


def comparing_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    compare = command(
        "compare",
        "compare:compare_on_queries",
        "compare runs query by query: paired tests, intervals, p-values",
        "clmpt compare nell --baseline 'beam search' --latex --out table.tex",
    )
    compare.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a folder of evaluate --report, reproduce or fit; NAME=FOLDER names it, the same NAME "
        "again is another seed",
    )
    compare.add_argument("--baseline", metavar="NAME", help="compared with (default: the first)")
    compare.add_argument(
        "--figures", nargs="+", choices=_FIGURES, default=["mrr"], help="(default: mrr)"
    )
    compare.add_argument(
        "--resamples", type=count, default=10_000, metavar="N", help="(default: 10,000)"
    )
    compare.add_argument(
        "--seed", type=whole_number, default=0, metavar="N", help="of the resamples (default: 0)"
    )
    for form, summary in (
        ("markdown", "print tables as Markdown"),
        ("latex", "print tables for LaTeX, with booktabs"),
        ("csv", "print every difference as CSV, unrounded"),
    ):
        compare.add_argument(f"--{form}", action="store_true", help=summary)
    compare.add_argument(
        "--out", metavar="FILE", help="write that to a file; by its ending: .md, .tex, .csv, .json"
    )
