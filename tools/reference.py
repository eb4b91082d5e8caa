"""Writes from the code what documents say of it: docs/reference, and the picture of the layers.

Run `make reference` after a change to commands, settings, interface or layers; a test compares.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parent))

from leaderboard import leaderboard_page

import clmpt
from clmpt.cli.command_line import command_parser
from clmpt.experiments.recipes import Experiment, Fitting, Queries
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Training

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MADE = "<!-- Made by tools/reference.py from the code. -->\n\n"
SETTINGS = {
    "experiment": (Experiment, "`clmpt reproduce`"),
    "queries": (Queries, "`clmpt reproduce`"),
    "fitting": (Fitting, "`clmpt fit`"),
    "pretraining": (Pretraining, "`clmpt pretrain`, `clmpt fit`, `clmpt reproduce`"),
    **{
        f"reasoning.{name}": (
            REASONERS.find(name).Settings,
            f'`clmpt train`, `clmpt fit`, `clmpt reproduce`, if `reasoner = "{name}"` is chosen '
            "in `[reasoning]`",
        )
        for name in REASONERS.own
    },
    "training": (Training, "`clmpt train`, `clmpt fit`, `clmpt reproduce`"),
}


def main() -> None:
    (DOCS / "reference").mkdir(exist_ok=True)
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """What is written, by its path in docs."""
    return {
        "reference/commands.md": MADE + "".join(commands()),
        "reference/settings.md": MADE + "".join(settings()),
        "reference/interface.md": MADE + "".join(interface()),
        "pictures/architecture.svg": layers(),
        "leaderboard.md": MADE + leaderboard_page(DOCS),
    }


# --- commands -------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    parser = command_parser("clmpt")
    inner = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help or "" for choice in inner._choices_actions}
    yield "# Commands\n\n"
    yield (
        "`clmpt COMMAND --help` says the same. Every command also takes `--json`, for one JSON "
        "document in place of tables. The exit code is 0 when all went well, 1 when a check did "
        "not hold, 2 for bad input, with one line that says what to do, and 130 after Ctrl-C.\n\n"
    )
    yield table(("command", "what it does"), [(f"[`{n}`](#{n})", s) for n, s in summaries.items()])
    for name, found in inner.choices.items():
        yield f"\n## {name}\n\n{found.description}\n\n"
        example = str(found.epilog).removeprefix("example:\n").strip()
        yield f"```text\n{example}\n```\n\n"
        shown = [a for a in found._actions if not {"-h", "--json"} & {*a.option_strings}]
        yield table(("argument", "what it is"), [(_argument(a), _about(a)) for a in shown])


def _argument(action: argparse.Action) -> str:
    value = action.metavar or ("…" if action.choices else "VALUE")
    takes = "" if action.nargs == 0 else f" {value}"
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def _about(action: argparse.Action) -> str:
    choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
    needed = "needed" if action.required and action.option_strings else ""
    return "; ".join(part for part in (action.help or "", choices, needed) if part)


# --- settings -------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    yield "# Settings\n\n"
    yield (
        "Settings come from a recipe, a TOML file with a table for each stage, and from options of "
        "the same names with `-` for `_`; an option overrides the recipe, and both override the "
        "defaults. An unknown name or a value of the wrong type is refused. `clmpt fit` starts "
        "from defaults by the size of the graph, which it prints. `[reasoning]` has one setting, "
        "`reasoner`: `clmpt`, `lmpnn` or the path of a class of yours; each reasoner has a table "
        "below it.\n"
    )
    for name, (kind, used_by) in SETTINGS.items():
        yield f"\n## [{name}]\n\nUsed by {used_by}.\n\n"
        hints = get_type_hints(kind)
        rows = [
            (
                f"`{field.name}`",
                _kind(hints[field.name]),
                f"`{field.default}`",
                field.metadata["help"],
            )
            for field in fields(kind)
        ]
        yield table(("setting", "kind", "default", "what it is"), rows)


def _kind(hint: Any) -> str:
    choices = get_args(hint)
    return ", ".join(f"`{choice}`" for choice in choices) if choices else str(hint.__name__)


# --- the Python interface -------------------------------------------------------------------------


def interface() -> Iterator[str]:
    yield f"# Python interface\n\n```text\n{inspect.cleandoc(clmpt.__doc__ or '')}\n```\n"
    for name in clmpt.__all__:
        thing = getattr(clmpt, name)
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif callable(thing):
            yield f"\n## clmpt.{name}\n\n{_signature(name, thing)}\n{_prose(thing)}\n"


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    yield f"\n## clmpt.{name}\n\n{_prose(kind)}\n"
    if is_dataclass(kind):
        rows = [(f"`{field.name}`", f"`{field.type}`") for field in fields(kind)]
        yield "\n" + table(("field", "type"), rows)
    for member, thing in vars(kind).items():
        if member.startswith("_") or member in {field.name for field in _fields(kind)}:
            continue
        if isinstance(thing, property) and thing.__doc__:
            yield f"\n### {name}.{member}\n\n{_prose(thing)}\n"
        function = getattr(thing, "__func__", thing)
        if inspect.isfunction(function) and function.__doc__:
            yield f"\n### {name}.{member}\n\n{_signature(member, function)}\n{_prose(function)}\n"


def _fields(kind: type[Any]) -> tuple[Any, ...]:
    return fields(kind) if is_dataclass(kind) else ()


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    shown = [
        parameter.replace(default=inspect.Parameter.empty, annotation=parameter.annotation)
        if callable(parameter.default) and parameter.default is not inspect.Parameter.empty
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    texts = [re.sub(": '([^']*)'", r": \1", str(parameter)) for parameter in shown]
    by_name = [parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in shown]
    if True in by_name:
        texts.insert(by_name.index(True), "*")
    parts = ", ".join(texts)
    returns = str(signature.return_annotation).replace("'", "")
    return f"```text\n{name}({parts}) -> {returns}\n```\n"


def _prose(thing: Any) -> str:
    """A docstring, with its examples as blocks."""
    text = inspect.cleandoc(thing.__doc__ or "")
    return re.sub(r"(?ms)^(>>> .*?)(?=\n\n|\Z)", r"```text\n\1\n```", text)


# --- the layers -----------------------------------------------------------------------------------

WIDTH, HEIGHT, GAP, NAME_SIZE, TEXT_SIZE = 1180, 52, 12, 15, 12
WITH_TORCH, WITHOUT_TORCH = "#fdebd0", "#e1f0fa"


def layers() -> str:
    """The layers that import-linter holds the code to, the highest first, each with its purpose."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layered, without_torch, *_ = linter["importlinter"]["contracts"]
    rows = [re.split(" [|:] ", row) for row in layered["layers"]]
    light, parts = {*without_torch["source_modules"], "clmpt.errors"}, []
    for number, row in enumerate(rows):
        wide = (WIDTH - GAP * (len(row) + 1)) / len(row)
        for place, module in enumerate(row):
            left, top = GAP + place * (wide + GAP), GAP + number * (HEIGHT + GAP)
            colour = WITHOUT_TORCH if module in light else WITH_TORCH
            parts.append(_box(left, top, wide, module, colour))
    tall = GAP + len(rows) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{tall}" '
        f'viewBox="0 0 {WIDTH} {tall}" font-family="sans-serif">\n'
        "<title>Layers: imports point downwards</title>\n" + "".join(parts) + "</svg>\n"
    )


def _box(left: float, top: float, wide: float, module: str, colour: str) -> str:
    purpose = (inspect.getdoc(import_module(module)) or "").split("\n")[0].replace("`", "")
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{HEIGHT}" rx="6" '
        f'fill="{colour}" stroke="#8a96a3"/>\n'
        f'<text x="{left + 14:g}" y="{top + 21:g}" font-size="{NAME_SIZE}" '
        f'font-weight="bold">{escape(module)}</text>\n'
        f'<text x="{left + 14:g}" y="{top + 40:g}" font-size="{TEXT_SIZE}">'
        f"{escape(_cut(purpose, wide))}</text>\n"
    )


def _cut(text: str, wide: float) -> str:
    """As much of a text as fits into a box."""
    most = int((wide - 28) / 6.1)
    return text if len(text) <= most else text[: text.rfind(" ", 0, most)] + " …"


def table(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headers, tuple("---" for _ in headers), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join("| " + " | ".join(line) + " |\n" for line in cells)


if __name__ == "__main__":
    sys.exit(main())
