"""What all tests share: the benchmark data beside the checkout, where it is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

BENCHMARKS = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture(scope="session")
def benchmarks() -> Path:
    """The folder of real benchmarks; tests that need it are skipped, visibly, without it."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the real benchmark data is not beside this checkout")
    return BENCHMARKS
