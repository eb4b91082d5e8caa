"""Published figures, for comparison."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from clmpt.errors import SettingError
from clmpt.storage.files import read_toml

_FILE = Path(__file__).with_name("published.toml")


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """Published figures by benchmark."""
    return read_toml(_FILE)


def columns(benchmark: str = "") -> list[str]:
    """Shapes and averages, in the order of the paper's tables."""
    return str((_published_on(benchmark) or {}).get("columns", published()["columns"])).split()


def measure_of(benchmark: str) -> str:
    """What is published on a benchmark, as reports name it.

    >>> measure_of("nell995"), measure_of("nell995-q2b")
    ('mrr', 'hits_at_3')
    """
    return str((_published_on(benchmark) or {}).get("measure", "mrr"))


def published_rows(benchmark: str) -> dict[str, dict[str, float]]:
    """Figures (times 100) by row and column, for one benchmark.

    >>> published_rows("nell995")["CLMPT"]["Avg_p"]
    31.3
    """
    known = _published_on(benchmark)
    if known is None:
        return {}
    rows = {
        name: dict(zip(columns(benchmark), map(float, cells.split()), strict=True))
        for name, cells in known["rows"].items()
    }
    for name, (positive, negated) in known.get("averages", {}).items():
        rows[name] = {"Avg_p": positive, "Avg_n": negated}
    return rows


def published_models(benchmark: str) -> list[str]:
    """The rows of a benchmark that are models as published, not variants of one."""
    rows = published_rows(benchmark)
    return [str(name) for name in published()["models"] if name in rows]


def _published_on(benchmark: str) -> dict[str, Any] | None:
    found = published().get(benchmark)
    return found if isinstance(found, dict) else None


def check_published(benchmark: str, row: str) -> None:
    """Rejects the name of a benchmark or row that looks misspelt.

    >>> check_published("my own", "")
    >>> check_published("nell-995", "")
    Traceback (most recent call last):
    clmpt.errors.SettingError: Nothing is published on 'nell-995'. Did you mean 'nell995'?
    """
    if _published_on(benchmark) is None:
        known = [name for name, table in published().items() if isinstance(table, dict)]
        near = get_close_matches(benchmark, known, 1, 0.8)
        if near:
            raise SettingError(f"Nothing is published on '{benchmark}'. Did you mean '{near[0]}'?")
    elif row and row not in published_rows(benchmark):
        rows = ", ".join(published_rows(benchmark))
        raise SettingError(f"There is no published row '{row}' for {benchmark}. Available: {rows}.")


def title_of(benchmark: str) -> str:
    known = _published_on(benchmark)
    return str(known["title"]) if known else benchmark
