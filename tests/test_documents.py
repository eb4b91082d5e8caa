"""The documents are correct: their commands, outputs, Python, links and pictures."""

from __future__ import annotations

import contextlib
import doctest
import html
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clmpt.cli.command_line import parse_arguments
from clmpt.cli.commands.demo import QUESTIONS
from clmpt.cli.main import main
from clmpt.graph.opening import open_graph
from clmpt.logic.drawing import draw_svg
from clmpt.logic.parser import parse_formula
from clmpt.symbolic.solver import solve
from clmpt.world import FACTS
from stand_ins import make_stand_ins

ROOT = Path(__file__).parents[1]
OTHER_PROGRAMS = ("pip", "uv", "curl", "schemathesis", "tensorboard", "torchrun")
WITH_BLOCKS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LAYERS = "architecture.svg"  # tests/test_reference.py compares it
PICTURES = sorted(
    path for path in (ROOT / "docs" / "pictures").glob("*.svg") if path.name != LAYERS
)
RUNS = sorted(path.name for path in (ROOT / "docs" / "runs").iterdir())
CURVES = "training.svg"
ANSWERS = "answers.svg"
EVIDENCE = "evidence.svg"
MEASURED = ("reliability.svg", "steps.svg")  # the commands stand beside them
WORLD = "clmpt-world"
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command with standard error in its output, as on a terminal."""
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


def run(command: str, folder: Path) -> tuple[int, str]:
    """The exit code and output of a command; `clmpt` runs in this process to save time."""
    command = command.replace("\\\n", " ")
    words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    if words[0] != "clmpt" or any(set(word) <= set("();<>|&") for word in words):
        found = shell(command, folder)
        return found.returncode, found.stdout
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(shlex.split(command)[1:])
    return code, said.getvalue()


def is_open(command: str) -> bool:
    """Whether a command has an unclosed quotation mark."""
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
        lines = re.sub(r"\\\n", " ", block).splitlines()
        ours = all(line.startswith("clmpt ") for line in lines)
        for command in lines if ours else [f"set -e\n{block}"]:
            code, said = run(command, folder)
            assert code == 0, said
    elif kind == "console":
        assert block.startswith("$ ")
        for command, shown in commands(block):
            code, said = run(command, folder)
            assert said == shown if shown else code == 0, said
    elif ">>>" in block:
        test = doctest.DocTestParser().get_doctest(block, names, "block", None, 0)
        problems: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=problems.append, clear_globs=False)
        assert not problems, "".join(problems)
        names.update(test.globs)
    else:
        exec(compile(block, "block", "exec"), names)


def check_block(kind: str, block: str) -> None:
    """Blocks that take hours are not run, but must at least parse."""
    if kind == "python":
        compile(block, "block", "exec")
        return
    for line in re.sub(r"\\\n", " ", block).splitlines():
        words = shlex.split(line.split(" > ")[0], comments=True)
        if words[:1] == ["clmpt"]:
            parse_arguments(words[1:])
            recipes = [word for word in words if word.endswith(".toml")]
            assert all((ROOT / recipe).exists() for recipe in recipes), line
        elif words[:1] == ["make"]:
            assert {*words[1:]} <= {*TARGETS}, line
        elif words[:1] == ["python"]:
            assert (ROOT / words[1]).exists(), line
        else:
            assert not words or words[0] in OTHER_PROGRAMS, line


@pytest.mark.parametrize("document", WITH_BLOCKS, ids=name_of)
def test_document_examples_run_as_shown(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    text = document.read_text(encoding="utf-8")
    make_stand_ins(tmp_path)
    for name in ("examples", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name)
    if f"<!-- with: {WORLD} -->" in text:
        shutil.copytree(request.getfixturevalue("world_model"), tmp_path / WORLD)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for not_run, kind, block in BLOCK.findall(text):
        if kind in ("sh", "console", "python"):
            check_block(kind, block) if not_run else run_block(kind, block, tmp_path, names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_are_not_broken(document: Path) -> None:
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
def test_pictures_are_up_to_date(picture: Path, tmp_path: Path) -> None:
    if picture.name == CURVES:
        shutil.copytree(ROOT / "docs" / "runs", tmp_path / "runs")
        found = shell(f"clmpt curve {' '.join(RUNS)} --svg c.svg", tmp_path / "runs")
        assert found.returncode == 0, found.stdout
        assert (tmp_path / "runs" / "c.svg").read_text() == picture.read_text(encoding="utf-8")
        return
    drawn = picture.read_text(encoding="utf-8")
    if picture.name in MEASURED:
        return
    if picture.name == EVIDENCE:
        check_evidence(drawn)
        return
    if picture.name == ANSWERS:
        check_answers(drawn)
        return
    title = re.search("<title>(.*?)</title>", drawn)
    assert title
    assert draw_svg(parse_formula(html.unescape(title[1]))) == drawn


def check_evidence(drawn: str) -> None:
    """What is drawn as certain follows from the facts; every known fact is drawn solid."""
    graph = open_graph(FACTS)
    found = graph.labels(solve(QUESTIONS[0][1], graph))
    headings = re.findall('class="or"[^>]*>([^<]+)<', drawn)
    assert headings
    for heading in headings:
        label, status = heading.split(": ")
        assert (label in found) == (status.startswith("known") or "hidden" in status)


def check_answers(drawn: str) -> None:
    """The terminal picture has the right status for known and hidden answers."""
    graph = open_graph(FACTS)
    found = graph.labels(solve(QUESTIONS[0][1], graph))
    texts = re.findall(">([^<>]+)</text>", drawn)
    cells = [html.unescape(text).replace("\xa0", " ").strip() for text in texts]
    scores = [number for number, cell in enumerate(cells) if re.fullmatch(r"\d+\.\d%", cell)]
    rows = [(cells[number - 1], cells[number + 2]) for number in scores]
    assert len(rows) == 10
    for name, status in rows:
        assert (name in found) == (status != "predicted"), name
    assert any("hidden" in status for _, status in rows)


def test_the_film_example_runs_twice(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    first, second = (shell("sh examples/films.sh", tmp_path) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
    assert "Ayako Wakao\nKazuo Hasegawa\nKyoko Kagawa" in first.stdout
    assert "Reading" in first.stdout
    assert "Reading" not in second.stdout
