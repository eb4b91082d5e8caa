"""card, push, pull."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from clmpt.cli.output import command_name, say, show_json, tell, told_if_repeated
from clmpt.sharing.hub import pull, push
from clmpt.sharing.model_card import write_card
from clmpt.sharing.shared_files import CARD

_UNKNOWN = "unknown"


def card(options: argparse.Namespace) -> None:
    with told_if_repeated(Path(options.folder) / CARD):
        path = write_card(options.folder, options.name, options.license, options.dataset)
    _mention_licence(options)
    if options.json:
        show_json({"card": str(path)})
    else:
        say(f"{path} is written. Edit it as you like; 'push' uploads it as it is.")


def push_model(options: argparse.Namespace) -> None:
    address = push(
        options.folder,
        options.name,
        public=options.public,
        licence=options.license,
        datasets=options.dataset,
        message=options.message,
    )
    _mention_licence(options)
    if options.json:
        show_json({"address": address})
    else:
        say(address)


def pull_model(options: argparse.Namespace) -> None:
    try:
        with told_if_repeated(Path(options.out)):
            out = pull(options.name, options.out, revision=options.revision)
    except KeyboardInterrupt:
        tell("Stopped. Run the same command again to resume.")
        raise
    if options.json:
        show_json({"folder": str(out)})
    else:
        say(f"The model is in {out}. Next: {command_name()} ask {shlex.quote(str(out))}")


def _mention_licence(options: argparse.Namespace) -> None:
    if options.license == _UNKNOWN:
        tell("A new card says that the licence is unknown; --license ID names it.")
