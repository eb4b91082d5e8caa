"""What the documents show is true: their commands, outputs, Python, links and pictures."""

from __future__ import annotations

import doctest
import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clmpt.logic.drawing import draw_svg
from clmpt.logic.parser import parse_formula

ROOT = Path(__file__).parents[1]
WITH_BLOCKS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
RUNS = sorted(path.name for path in (ROOT / "docs" / "runs").iterdir())
CURVES = "training.svg"
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command with its errors among its output, as a reader sees them."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )


def is_open(command: str) -> bool:
    """Whether a quotation mark in a command still waits for its partner."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    lines = block.splitlines()
    while lines:
        command = lines.pop(0).removeprefix("$ ")
        while is_open(command):
            command += "\n" + lines.pop(0)
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0) + "\n")
        yield command, "".join(shown)


def run_block(kind: str, block: str, folder: Path, names: dict[str, object]) -> None:
    if kind == "sh":
        found = shell(f"set -e\n{block}", folder)
        assert found.returncode == 0, found.stdout
    elif kind == "console":
        assert block.startswith("$ ")
        for command, shown in commands(block):
            found = shell(command, folder)
            assert found.stdout == shown if shown else found.returncode == 0, found.stdout
    elif ">>>" in block:
        test = doctest.DocTestParser().get_doctest(block, names, "block", None, 0)
        problems: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=problems.append, clear_globs=False)
        assert not problems, "".join(problems)
        names.update(test.globs)
    else:
        exec(compile(block, "block", "exec"), names)


@pytest.mark.parametrize("document", WITH_BLOCKS, ids=name_of)
def test_what_a_document_shows_is_what_happens(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for not_run, kind, block in BLOCK.findall(document.read_text(encoding="utf-8")):
        if kind in ("sh", "console", "python") and not not_run:
            run_block(kind, block, tmp_path, names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    )
    for link in links:
        target, _, heading = link.partition("#")
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, link


@pytest.mark.parametrize("picture", PICTURES, ids=name_of)
def test_pictures_are_what_draw_draws(picture: Path, tmp_path: Path) -> None:
    if picture.name == CURVES:
        shutil.copytree(ROOT / "docs" / "runs", tmp_path / "runs")
        found = shell(f"clmpt curve {' '.join(RUNS)} --svg c.svg", tmp_path / "runs")
        assert found.returncode == 0, found.stdout
        assert (tmp_path / "runs" / "c.svg").read_text() == picture.read_text(encoding="utf-8")
        return
    drawn = picture.read_text(encoding="utf-8")
    title = re.search("<title>(.*?)</title>", drawn)
    assert title
    assert draw_svg(parse_formula(html.unescape(title[1]))) == drawn


def test_the_film_example_runs_twice(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    first, second = (shell("sh examples/films.sh", tmp_path) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
    assert "Ayako Wakao\nKazuo Hasegawa\nKyoko Kagawa" in first.stdout
    assert "Reading" in first.stdout
    assert "Reading" not in second.stdout
