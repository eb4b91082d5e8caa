"""The options of data, reproduce, report."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_device,
    add_processes,
    add_track,
    count,
    whole_number,
)
from clmpt.registry import REASONERS


def experiment_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    _data(command)
    _reproduce(command)
    _report(command)


def _data(command: AddCommand) -> None:
    data = command(
        "data",
        "data:data",
        "download a published benchmark, or copy it from an archive or folder, and check it",
        "clmpt data get nell995 --from KG_data.zip",
    )
    data.add_argument("action", choices=["get"], metavar="get")
    data.add_argument("benchmark", choices=["fb15k", "fb15k-237", "nell995"])
    data.add_argument("--out", metavar="FOLDER", help="folder to create (default: its name)")
    data.add_argument("--from", dest="origin", metavar="PATH", help="an archive or a folder")
    data.add_argument("--url", metavar="URL", help="download the archive from here instead")


def _reproduce(command: AddCommand) -> None:
    run = command(
        "reproduce",
        "reproduce:reproduce_experiment",
        "run an experiment from a recipe: sample, pre-train, train, evaluate, report",
        "clmpt reproduce recipes/laptop/nell995.toml --data NELL-betae --out nell",
    )
    run.add_argument("recipe", metavar="RECIPE", help="a TOML file of settings")
    run.add_argument("--data", required=True, metavar="FOLDER", help="the benchmark's folder")
    run.add_argument(
        "--queries", default="", metavar="FOLDER", help="of official queries, if apart from --data"
    )
    run.add_argument(
        "--out", required=True, metavar="RUN", help="folder; variants in it share stages"
    )
    run.add_argument(
        "--reasoner",
        metavar="NAME",
        help=f"overrides the recipe: {', '.join(REASONERS.own)} or a dotted path",
    )
    run.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="a setting: training.batch=64; of several values, with commas, validation chooses one",
    )
    run.add_argument(
        "--trials",
        type=count,
        metavar="N",
        help="try N combinations of several values, drawn at random (default: all)",
    )
    run.add_argument(
        "--seeds",
        nargs="+",
        type=whole_number,
        default=[],
        metavar="SEED",
        help="train with each of these seeds (training.seed); the rest is shared",
    )
    run.add_argument("--name", help="in reports (default: the reasoner and what differs)")
    run.add_argument(
        "--plan", action="store_true", help="show what would be done, with an estimate"
    )
    add_processes(run)
    add_track(run)
    run.add_argument("--workers", type=count, metavar="N", help="processes (default: all cores)")
    add_device(run)


def _report(command: AddCommand) -> None:
    page = command(
        "report",
        "reproduce:report",
        "compare runs with each other and with published figures, on one page",
        "clmpt report nell --out nell-report",
    )
    page.add_argument(
        "runs", nargs="+", metavar="RUN", help="made by reproduce, or by evaluate --report"
    )
    page.add_argument("--out", metavar="FOLDER", help="write the page, as Markdown and as HTML")
