"""The options of train."""

from __future__ import annotations

from dataclasses import fields

from clmpt.cli.options.option_types import (
    AddCommand,
    add_folder,
    add_processes,
    add_recipe,
    add_settings,
    add_track,
    add_trust,
)
from clmpt.registry import REASONERS
from clmpt.settings import Training


def reasoner_options(command: AddCommand, reasoner: str | None) -> None:
    train = command(
        "train",
        "train:train_reasoner",
        "train a reasoner on top of a link predictor; run it again to resume",
        "clmpt train films --predictor films-complex --queries train.queries --out films-clmpt",
    )
    add_folder(train)
    for name, metavar, summary in (
        ("queries", "SOURCE", "queries with answers, made by sample, or a benchmark folder"),
        ("out", "CHECKPOINT", "folder to create"),
    ):
        train.add_argument(f"--{name}", required=True, metavar=metavar, help=summary)
    train.add_argument(
        "--predictor", metavar="CHECKPOINT", help="the link predictor, made by pretrain or convert"
    )
    train.add_argument("--valid", metavar="SOURCE", help="validation queries (default: sampled)")
    train.add_argument(
        "--reasoner",
        default=reasoner,
        metavar="NAME",
        help=f"{', '.join(REASONERS.own)} or package.module:Class; each has its own options "
        "(default: clmpt)",
    )
    train.add_argument(
        "--start-from", metavar="CHECKPOINT", help="a trained reasoner whose weights to start with"
    )
    add_processes(train)
    add_trust(train)
    add_recipe(train)
    add_track(train)
    train.add_argument("--resume", action="store_true", help="fail if there is no run to resume")
    if reasoner:
        taken = {setting.name for setting in fields(Training)} | {a.dest for a in train._actions}
        add_settings(train, REASONERS.find(reasoner).Settings, taken)
    add_settings(train, Training)
