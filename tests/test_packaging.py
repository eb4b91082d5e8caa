"""The wheel and the source archive are complete and work without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = {
    "clmpt/world/world.tsv",
    "clmpt/world/PROVENANCE.md",
    "clmpt/pages/published.toml",
    "clmpt/py.typed",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def test_the_wheel_has_the_package_its_data_and_their_licences(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    recipes = {f"clmpt/{path.relative_to(ROOT)}" for path in (ROOT / "recipes").rglob("*.toml")}
    assert modules | DATA | recipes <= names
    assert not [name for name in names if not name.startswith("clmpt")]
    licences = {Path(name).name for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "PROVENANCE.md"}


def test_the_source_archive_has_the_sources_and_the_tests(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"src/{name}" for name in DATA} <= names
    assert {"pyproject.toml", "README.md", "Makefile", "constraints.txt", "tools/setup.py"} <= names
    assert {"tests/test_packaging.py", "examples/films.tsv", "docs/index.md"} <= names
    assert not [name for name in names if name.startswith((".ci", ".venv", "site/"))]


def test_the_wheel_works_without_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    program = (
        "import clmpt, clmpt.world, clmpt.cli.main as cli\n"
        "assert 'installed' in clmpt.__file__, clmpt.__file__\n"
        "question = '?c : borders(France, ?c) & official_language(?c, Luxembourgish)'\n"
        "cli.main(['solve', str(clmpt.world.FACTS), question])\n"
        "from clmpt.experiments.recipes import read_recipe\n"
        "print(read_recipe('recipes/laptop/nell995-lmpnn.toml')['pretraining']['rank'])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout == "Luxembourg\n128\n"
