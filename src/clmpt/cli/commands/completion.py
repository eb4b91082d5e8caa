"""completion: the completion script for a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from clmpt.cli.command_line import command_parser
from clmpt.cli.output import say, show_json

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
    """The options of a command and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
