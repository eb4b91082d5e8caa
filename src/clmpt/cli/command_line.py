"""Parses the command line. The option `run` names the function that runs the command."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from clmpt import __version__
from clmpt.cli.options import COMMAND_GROUPS

_DESCRIPTION = """\
Answer complex queries on incomplete knowledge graphs: and, or, not, exists.

  clmpt demo                                        try it on a graph of the world
  clmpt fit facts.tsv --out mine                    train a model on your own facts
  clmpt ask mine                                    ask it questions
  clmpt solve facts.tsv '?x : wrote(Orwell, ?x)'    exact answers, no model needed
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message = f"There is no command '{wrong[1]}'"
            message += f". Did you mean '{near[0]}'?" if near else ""
        stop = "" if message.endswith("?") else "."
        self.exit(2, f"{self.prog}: {message}{stop} See '{self.prog} --help'.\n")

    def options_of(self, command: str) -> list[str]:
        """The options that a command takes, such as '--json'."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and command in action.choices:
                return list(action.choices[command]._option_string_actions)
        return []


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options; no arguments print the help. Options may come before a question."""
    reasoner = _chosen_reasoner(arguments)
    parser = command_parser(reasoner)
    if not arguments:
        parser.print_help()
        parser.exit(0)
    options, rest = parser.parse_known_args(arguments)
    if rest and vars(options).get("query", "") is None and not rest[0].startswith("-"):
        options.query = rest.pop(0)  # argparse gives up an optional argument at the first option
    if rest:
        told = _unknown(rest[0], parser.options_of(arguments[0]), options)
        with_its_options = "" if reasoner in (None, "clmpt") else f" --reasoner {reasoner}"
        parser.exit(2, f"clmpt: {told} See 'clmpt {arguments[0]}{with_its_options} --help'.\n")
    if vars(options).get("csv") and options.json:
        parser.exit(2, "clmpt: --json and --csv cannot be used together.\n")
    return options


def _unknown(word: str, names: Sequence[str], options: argparse.Namespace) -> str:
    name = word.partition("=")[0].removeprefix("--")
    if word.startswith("--") and name in vars(options) and f"--{name}" not in names:
        return f"Unexpected argument '{word}'. Give the {name} by itself, without '--{name}'."
    near = get_close_matches(name, [one[2:] for one in names if one.startswith("--")], 1)
    hint = f" Did you mean '--{near[0]}'?" if near else ""
    return f"Unexpected argument '{word}'.{hint}"


def command_parser(reasoner: str | None = None) -> _Parser:
    """All commands. With a reasoner, `train` takes its settings as options and loads its class."""
    parser = _Parser(
        "clmpt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"clmpt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: str, summary: str, example: str) -> argparse.ArgumentParser:
        found = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        found.set_defaults(run=run)
        found.add_argument("--json", action="store_true", help="print one JSON document")
        return found

    for add_commands in COMMAND_GROUPS:
        add_commands(command, reasoner)
    return parser


def _chosen_reasoner(arguments: Sequence[str]) -> str | None:
    """The reasoner that `train` will train; None for other commands, which need no model class."""
    if not arguments or arguments[0] != "train":
        return None
    peek = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    peek.add_argument("--reasoner")
    peek.add_argument("--recipe", "--settings")
    try:
        found, _ = peek.parse_known_args(arguments[1:])
    except argparse.ArgumentError:
        return "clmpt"  # the real parser reports the error
    if found.reasoner or not found.recipe:
        return found.reasoner or "clmpt"
    from clmpt.experiments.recipes import chosen_reasoner, read_recipe

    return chosen_reasoner(read_recipe(found.recipe))
