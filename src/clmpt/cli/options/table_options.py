"""The options of table."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand, count


def model_table_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    table = command(
        "table",
        "table:make_table",
        "train and measure many models with the same budget, on one page; run it again to resume",
        "clmpt table recipes/tables/nell995.toml --data NELL-betae --out nell --records records",
    )
    table.add_argument("table", metavar="TABLE", help="a TOML file of rows, each with a recipe")
    table.add_argument("--data", required=True, metavar="FOLDER", help="the benchmark's folder")
    table.add_argument(
        "--queries", default="", metavar="FOLDER", help="of official queries, if apart from --data"
    )
    table.add_argument("--out", required=True, metavar="RUN", help="folder; rows share stages")
    table.add_argument(
        "--records",
        metavar="FOLDER",
        help="a record of each row, and the page (default: in RUN); what is recorded is not "
        "repeated",
    )
    table.add_argument("--rows", nargs="+", metavar="NAME", help="only these, by name")
    table.add_argument("--plan", action="store_true", help="show the rows and what is done")
    table.add_argument("--workers", type=count, metavar="N", help="processes (default: all cores)")
