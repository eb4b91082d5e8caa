"""The options of pretrain, convert, curve."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_folder,
    add_processes,
    add_recipe,
    add_settings,
    add_track,
)
from clmpt.settings import Pretraining


def predictor_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    train = command(
        "pretrain",
        "pretrain:pretrain_predictor",
        "train a link predictor on a graph; run it again to resume",
        "clmpt pretrain films --out films-complex --rank 100 --epochs 50",
    )
    add_folder(train)
    train.add_argument("--out", required=True, metavar="CHECKPOINT", help="folder to create")
    train.add_argument(
        "--start-from",
        metavar="CHECKPOINT",
        help="a predictor to start from, matched by name: the graph may have grown",
    )
    add_processes(train)
    add_recipe(train)
    add_track(train)
    add_settings(train, Pretraining)

    convert = command(
        "convert",
        "pretrain:convert",
        "convert a predictor trained elsewhere: a CQD .pt file, or arrays",
        "clmpt convert complex.pt --graph FB15k-237-betae --out fb-complex",
    )
    convert.add_argument("source", metavar="SOURCE", help="a CQD .pt file, .npz or .safetensors")
    convert.add_argument(
        "--graph", required=True, metavar="FOLDER", help="the graph it was trained on"
    )
    convert.add_argument("--out", required=True, metavar="CHECKPOINT", help="folder to create")
    convert.add_argument(
        "--model", metavar="NAME", help="scoring function of arrays; CQD's is always complex"
    )
    for what in ("entity", "relation"):
        convert.add_argument(
            f"--{what}-names", metavar="FILE", help="row names, one per line (default: graph order)"
        )

    picture = command(
        "curve",
        "pretrain:curve",
        "show training curves of one or more runs, as a table or a picture",
        "clmpt curve films-complex --svg curve.svg",
    )
    picture.add_argument("runs", nargs="+", metavar="RUN", help="made by pretrain or train")
    picture.add_argument("--svg", metavar="FILE", help="write a picture instead of a table")
