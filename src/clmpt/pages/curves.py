"""Training curves from the logs of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from clmpt.pages.charts import Chart, Line

Log = list[dict[str, Any]]


def training_charts(
    logs: Mapping[str, Log], label: str, x: Callable[[dict[str, Any]], Any]
) -> list[Chart]:
    """Charts of loss and validation MRR by run; `x` picks the x value from a record."""

    def lines(value: Callable[[dict[str, Any]], Any]) -> list[Line]:
        found = {name: [(x(record), value(record)) for record in log] for name, log in logs.items()}
        return [
            Line(name, [(float(at), y) for at, y in points if is_number(at) and is_number(y)])
            for name, points in found.items()
        ]

    return [
        Chart("training loss", label, lines(lambda record: record.get("loss"))),
        Chart("validation MRR", label, lines(valid_mrr)),
    ]


def valid_mrr(record: dict[str, Any]) -> Any:
    valid = record.get("valid")
    return valid.get("mrr") if isinstance(valid, dict) else None


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value from a file is a finite number."""
    return isinstance(value, int | float) and abs(value) < 1e15
