"""What a service tells of a model: what it was trained on, its figures, how well its probabilities
hold. From its JSON files alone; nothing about the machine that made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from clmpt.errors import DataError
from clmpt.pages.model_facts import model_facts
from clmpt.storage.checksums import is_there
from clmpt.storage.files import open_json

_REPORTS, _RELIABILITY = "report*/report.json", "reliability.json"
_MACHINE = "made with"  # versions are for those who run the service
_DAY = "trained"
T = TypeVar("T")


def model_page(folder: Path) -> dict[str, Any]:
    """`figures` by shape, of each reasoner that was measured, and `reliability` in bins; both are
    empty where `fit` did not measure them."""
    rows = {name: value for name, value in model_facts(folder).rows() if name != _MACHINE}
    if _DAY in rows:
        rows[_DAY] = rows[_DAY].partition(",")[0]
    return {
        "about": [list(row) for row in rows.items()],
        "figures": [_read(path, _figures) for path in sorted(folder.glob(_REPORTS))],
        "reliability": _read(folder / _RELIABILITY, _reliability)
        if is_there(folder / _RELIABILITY)
        else [],
    }


def _read(path: Path, reading: Callable[[Any], T]) -> T:
    try:
        return reading(open_json(path))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"'{path}' is damaged. Remove it and run 'clmpt fit' again.") from None


def _figures(report: Any) -> dict[str, Any]:
    shapes = [
        {
            "shape": str(one["shape"]),
            "mrr": float(one["mrr"]),
            "hits_at_10": float(one["hits_at_10"]),
            "error": float(one.get("standard_error") or 0),
            "queries": int(one["count"]),
        }
        for one in report["shapes"]
    ]
    return {"reasoner": str(report["model"]), "mean": float(report["mean"]), "shapes": shapes}


def _reliability(found: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": str(one["name"]),
            "error": float(one["error"]),
            "count": int(one["count"]),
            "bins": [
                {name: float(b[name]) for name in ("said", "true", "count")} for b in one["bins"]
            ],
        }
        for one in found
    ]
