"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection
from dataclasses import Field, fields
from typing import Any, get_args, get_type_hints

# Adds a command: its name, what runs it, a summary and an example.
AddCommand = Callable[[str, str, str, str], argparse.ArgumentParser]

_MOST_PROCESSES = 1024


def add_settings(
    parser: argparse.ArgumentParser, kind: type[Any], taken: Collection[str] = ()
) -> None:
    """An option for every setting of a table; None if it is not given."""
    for setting in fields(kind):
        if setting.name in taken:
            continue
        _add_setting(parser, setting, get_type_hints(kind)[setting.name])


def _add_setting(parser: argparse.ArgumentParser, setting: Field[Any], kind: Any) -> None:
    option = f"--{setting.name.replace('_', '-')}"
    summary = f"{setting.metadata.get('help', '')} (default: {setting.default})".lstrip()
    summary = summary.replace("%", "%%")
    if kind is bool:
        parser.add_argument(option, action=argparse.BooleanOptionalAction, help=summary)
    elif choices := get_args(kind):
        parser.add_argument(option, choices=choices, help=summary)
    else:
        convert: Callable[[str], Any] = {int: whole_number, float: number}.get(kind, str)
        metavar = {int: "N", float: "X"}.get(kind, "NAME")
        parser.add_argument(option, type=convert, metavar=metavar, help=summary)


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Files of triples and how to read them."""
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file, SPLIT=FILE or a folder"
    )
    parser.add_argument(
        "--labels", action="append", default=[], metavar="FILE", help="lines of name, tab, label"
    )
    parser.add_argument("--delimiter", help="between columns (default: detected)")
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="the first row is a header"
    )
    parser.add_argument("--columns", metavar="H,R,T", help="which columns to read, counted from 1")
    parser.add_argument("--encoding", default="utf-8-sig", help="of text files (default: UTF-8)")
    add_rdf(parser)


def add_rdf(parser: argparse.ArgumentParser) -> None:
    """What becomes of RDF statements; names may have a well-known prefix."""
    parser.add_argument("--literals", action="store_true", help="keep RDF literals as entities")
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="IRI",
        help="a relation that models do not learn from, such as rdf:type",
    )
    parser.add_argument(
        "--label-property",
        action="append",
        default=[],
        metavar="IRI",
        help="another property whose values are labels",
    )
    parser.add_argument(
        "--language", default="en", metavar="A,B", help="of the labels to show (default: en)"
    )
    parser.add_argument("--base", default="", metavar="IRI", help="of relative IRIs")
    parser.add_argument(
        "--same-as", action="store_true", help="things that owl:sameAs connects are one"
    )
    parser.add_argument(
        "--entail",
        choices=["rdfs", "owl-rl"],
        default="",
        help="add what follows by the graph's own ontology",
    )


def add_folder(
    parser: argparse.ArgumentParser,
    what: str = "a stored graph, a data file such as facts.ttl, or a benchmark folder",
) -> None:
    parser.add_argument("folder", metavar="FOLDER", help=what)


def add_processes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--processes",
        type=process_count,
        metavar="N",
        help="share the work out over N processes, by torchrun; the result is the same",
    )


def add_track(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--track",
        choices=["tensorboard", "wandb", "mlflow"],
        default="",
        metavar="TRACKER",
        help="also send what training logs to tensorboard, wandb or mlflow (default: to none)",
    )


def add_query(parser: argparse.ArgumentParser, nargs: str | None = None, more: str = "") -> None:
    summary = f"formula, SPARQL or BetaE tuple; - reads standard input{more}"
    parser.add_argument("query", metavar="QUERY", nargs=nargs, help=summary)
    parser.add_argument(
        "--max-atoms", type=count, default=64, metavar="N", help="reject larger queries"
    )
    parser.add_argument(
        "--max-alternatives",
        type=count,
        default=128,
        metavar="N",
        help="reject queries with more 'or' branches",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit", type=number, metavar="SECONDS", help="give up a question after this long"
    )
    parser.add_argument(
        "--memory-limit", type=size, metavar="SIZE", help="… or if it takes more memory: 500M, 2G"
    )


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe",
        "--settings",
        metavar="FILE",
        help="a TOML file with settings; options take precedence",
    )


def add_device(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    parser.add_argument(
        "--device", default=default, help="cpu, cuda, …; auto prefers an accelerator (default)"
    )


def add_csv(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", action="store_true", help="print the answers as CSV")


def add_splits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split", metavar="A+B", help="use only these splits (default: all)")


def add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="CLASS",
        help="allow the folder to import this class: package.module:Class",
    )


def process_count(text: str) -> int:
    if count(text) > _MOST_PROCESSES:
        raise argparse.ArgumentTypeError(
            f"must be at most {_MOST_PROCESSES:,} on one machine, not '{text}'"
        )
    return int(text)


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not '{text}'")
    return int(text)


def number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not '{text}'")
    return found


def size(text: str) -> int:
    """
    >>> size("500M"), size("2G")
    (524288000, 2147483648)
    """
    found = re.fullmatch(r"([0-9]{1,9})([KMGT]?)i?B?", text, re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"must be a size such as 500M or 2G, not '{text}'")
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")


def whole_number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not '{text}'")
    return int(text)


def share(text: str) -> float:
    found = number(text)
    if found > 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not '{text}'")
    return found
