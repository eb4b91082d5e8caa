"""completion: what a shell needs to know of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from clmpt.cli.output import say, show_json
from clmpt.cli.parser import command_parser

_FOLDERS = ("FOLDER", "CHECKPOINT", "MODEL", "RUN")
_FILES = ("FILE", "SOURCE")


def completion(options: argparse.Namespace) -> None:
    parser = command_parser()
    for action in _actions(parser):
        if action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, options.shell)
    if options.json:
        show_json({"shell": options.shell, "script": script})
    else:
        say(script)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a command and of the commands under it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
