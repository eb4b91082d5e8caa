"""Project rules that no linter checks: sizes, names, packages, layers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from clmpt.registry import PREDICTORS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "clmpt"
SOURCES = sorted(PACKAGE.rglob("*.py"))
FILES = [
    path
    for folder in ("src", "tests", "benchmarks", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
IN_ROOT = {"__init__", "__main__", "budget", "errors", "progress", "registry", "settings"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_is_longer_than_400_lines_and_no_function_than_50(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= 50, f"{node.name} has {lines}"


def test_public_names_are_unique() -> None:
    homes = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name_of(path))
    assert len(homes) > 300
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_module_names_are_unique() -> None:
    homes = defaultdict(list)
    for path in SOURCES:
        if path.stem != "__init__":
            homes[path.stem].append(name_of(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_every_module_is_in_a_room() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == IN_ROOT
    assert len(ROOMS) >= 15


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_has_a_docstring(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert said
    assert len(said.splitlines()[0]) > 20


def test_there_are_at_most_ten_layers_and_every_room_is_in_one() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = linter["importlinter"]["contracts"][0]["layers"]
    assert len(layers) <= 10
    named = {name for layer in layers for name in re.split(" [|:] ", layer)}
    rooms = {f"clmpt.{room.name}" for room in ROOMS if room.name != "world"}
    assert rooms <= named


# Where model names may appear: the registry, the packages of models, and data.
MODELS_ROOM = ("reasoners", "predictors")
OUR_OWN_NAME = "output"  # the module that handles the name of the command `clmpt`


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_code_depends_on_the_model(path: Path) -> None:
    rooms = set(path.relative_to(PACKAGE).parts)
    if rooms & set(MODELS_ROOM) or path.stem == OUR_OWN_NAME:
        return
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
            names = {value.value for value in compared if isinstance(value, ast.Constant)}
            assert not names & {"clmpt", "lmpnn", *PREDICTORS.own}
    if path.stem != "registry":
        assert "import CLMPT" not in text
        assert "message_passing" not in text


def test_no_command_loads_what_only_several_processes_or_a_compiler_need() -> None:
    """They take one to two seconds to load, at every start."""
    heavy = "{'torch._dynamo', 'torch.distributed.checkpoint', 'torch.distributed.tensor'}"
    modules = ", ".join(f"clmpt.cli.commands.{name}" for name in ("fit", "ask", "reproduce"))
    check = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stdout + found.stderr
