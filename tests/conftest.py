"""What all tests share: the benchmark data beside the checkout, where it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# Tensors here are tiny and tests run side by side: more threads each would only wait for another.
os.environ["OMP_NUM_THREADS"] = "1"

sys.path.insert(0, str(Path(__file__).parent))

# Each run looks at new examples, but a build is the same each time; a law that breaks at home
# is a bug found, one that breaks in a build of someone else's change is only in the way.
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("build", settings.get_profile("explore"), derandomize=True)
settings.load_profile("build" if os.environ.get("CI") else "explore")

BENCHMARKS = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture(scope="session")
def benchmarks() -> Path:
    """The folder of real benchmarks; tests that need it are skipped, visibly, without it."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the real benchmark data is not beside this checkout")
    return BENCHMARKS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of the largest model come last: otherwise both halves begin with some, and one
    process waits while the other trains it."""
    items.sort(key=lambda item: "world_model" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def world_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `clmpt demo` leaves behind, made once however many processes run the tests; its output
    lies beside it."""
    together = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        together = together.parent
    model = together / "clmpt-world"
    with FileLock(together / "clmpt-world.lock"):
        if not (together / "clmpt-world.txt").exists():
            command = [sys.executable, "-m", "clmpt", "demo", "--out", str(model)]
            found = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=600
            )
            assert found.returncode == 0, found.stdout + found.stderr
            (together / "clmpt-world.txt").write_text(found.stdout + found.stderr)
    return model


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small benchmarks, and a recipe for an experiment of seconds."""
    from small_experiment import RECIPE
    from stand_ins import make_stand_ins

    folder = tmp_path_factory.mktemp("home")
    make_stand_ins(folder)
    (folder / "tiny.toml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="session")
def run(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment, and a variant. To be looked at, not changed."""
    from clmpt.cli.main import main
    from small_experiment import arguments

    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(arguments(home, out)) == 0
    assert main(arguments(home, out, "--reasoner", "lmpnn", "--set", "training.batch=8")) == 0
    return out


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of facts, a quick recipe, and the model that `clmpt fit` made of them."""
    from clmpt.cli.main import main
    from small_fit import fit_words, write_facts

    folder = tmp_path_factory.mktemp("fitted")
    write_facts(folder)
    assert main(fit_words(folder, "model")) == 0
    return folder
