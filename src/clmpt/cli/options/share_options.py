"""The options of card, push, pull."""

from __future__ import annotations

import argparse

from clmpt.cli.options.option_types import AddCommand


def sharing_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    card = command(
        "card",
        "share:card",
        "write a model card: figures, graph, settings, versions, how to load it",
        "clmpt card films-model --license cc-by-4.0",
    )
    card.add_argument("folder", metavar="MODEL", help="made by fit")
    card.add_argument(
        "--name", default="", metavar="USER/NAME", help="what it is called on the hub"
    )
    _add_about(card)

    push = command(
        "push",
        "share:push_model",
        "upload a model to Hugging Face's hub, with a card; private unless --public",
        "clmpt push films-model user/films --license cc-by-4.0",
    )
    push.add_argument("folder", metavar="MODEL", help="made by fit")
    push.add_argument("name", metavar="USER/NAME", help="the repository, made if it is new")
    push.add_argument("--public", action="store_true", help="everybody may see a new repository")
    push.add_argument("--message", default="", metavar="TEXT", help="of the commit")
    _add_about(push)

    pull = command(
        "pull",
        "share:pull_model",
        "fetch a model from Hugging Face's hub; run it again to resume",
        "clmpt pull user/films --out films-model",
    )
    pull.add_argument("name", metavar="USER/NAME", help="the repository")
    pull.add_argument("--out", required=True, metavar="FOLDER", help="folder to create")
    pull.add_argument("--revision", metavar="NAME", help="a branch, a tag or a commit")


def _add_about(parser: argparse.ArgumentParser) -> None:
    """What a new card cannot know by itself."""
    parser.add_argument(
        "--license",
        default="unknown",
        metavar="ID",
        help="of the model and its facts: cc-by-4.0, …",
    )
    parser.add_argument(
        "--dataset", action="append", default=[], metavar="NAME", help="a data set of the hub"
    )
