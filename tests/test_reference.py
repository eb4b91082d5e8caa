"""The reference matches the code."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from clmpt.cli.command_line import command_parser

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
assert SPEC
assert SPEC.loader
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)
PAGES: dict[str, str] = reference.pages()
COMMANDS = re.findall(r"^## (.+)$", PAGES["reference/commands.md"], re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run: make reference"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_that_parses(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command_parser("clmpt").parse_args([command, "--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    example = said.split("example:\n")[1].strip()
    assert example.startswith(f"clmpt {command}")
    command_parser("clmpt").parse_args(words_of(example))


def words_of(line: str) -> list[str]:
    """The arguments of a command, without a redirection."""
    return shlex.split(line.split(" > ")[0])[1:]


def test_every_setting_is_described() -> None:
    assert "| `rank` | int | `200` |" in PAGES["reference/settings.md"]
    assert "| `frozen` | bool | `False` |" in PAGES["reference/settings.md"]
