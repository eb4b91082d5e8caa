"""The options of index."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand, add_trust, number, whole_number


def index_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    index = command(
        "index",
        "index:make_index",
        "make an index for a model of many entities, and measure what it finds and how fast",
        "clmpt index films-model --recall 0.98",
    )
    index.add_argument("folder", metavar="MODEL", help="made by fit, train, pretrain or convert")
    index.add_argument(
        "--recall",
        type=number,
        default=0.95,
        metavar="SHARE",
        help="of a question's 100 best entities to be found (default: 0.95)",
    )
    index.add_argument("--seed", type=whole_number, default=0, metavar="N", help="(default: 0)")
    index.add_argument("--graph", metavar="FOLDER", help="if the graph has moved since training")
    add_trust(index)
