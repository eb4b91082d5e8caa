"""The figures of every query of a report, in one file: what paired tests need.

A safetensors file, so other tools can read it and it cannot run code: for each shape a table with
a row for each query that has hard answers and a column for each of `FIGURES`. Its header has the
checksum of each shape's queries and the conditions of the measurement, so that nothing is paired
that was not measured on the same queries in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from clmpt.errors import DataError
from clmpt.evaluation.report import ShapeResult
from clmpt.storage.checksums import verify_file

# Shapes: Q queries of a shape; 4 figures

FIGURES = ("mrr", "hits_at_1", "hits_at_3", "hits_at_10")
_FORMAT = "clmpt query figures 1"

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class QueryFigures:
    """The figures of every query by shape; `checksums` are of a shape's queries and answers."""

    rows: dict[str, Rows] = field(repr=False)
    checksums: dict[str, int]
    conditions: dict[str, Any]

    def figure(self, shape: str, name: str) -> npt.NDArray[np.float64]:
        """One of `FIGURES` for each query of a shape."""
        return self.rows[shape][:, FIGURES.index(name)].astype(np.float64)

    def is_same(self, other: QueryFigures) -> bool:
        """Whether every query has the same figures in both."""
        return (self.checksums, self.conditions) == (other.checksums, other.conditions) and all(
            np.array_equal(rows, other.rows[shape]) for shape, rows in self.rows.items()
        )


def save_query_figures(
    shapes: Sequence[ShapeResult], conditions: dict[str, Any], path: Path
) -> None:
    """Writes the rows that the results have; they must have some."""
    listed = [{"shape": shape.name, "checksum": f"{shape.checksum:08x}"} for shape in shapes]
    header = {"format": _FORMAT, "figures": FIGURES, "shapes": listed, "conditions": conditions}
    rows = {
        str(number): np.ascontiguousarray(shape.rows_Q4, np.float32)
        for number, shape in enumerate(shapes)
    }
    path.write_bytes(save(rows, {"clmpt": json.dumps(header, sort_keys=True)}))


def read_query_figures(path: Path) -> QueryFigures:
    way_out = "Remove the report and measure again."
    verify_file(path, way_out)
    try:
        with safe_open(path, "np") as file:
            header = json.loads((file.metadata() or {})["clmpt"])
            if header["format"] != _FORMAT:
                raise ValueError(f"its format is {header['format']!r}")
            names = [str(one["shape"]) for one in header["shapes"]]
            rows = {name: file.get_tensor(str(at)) for at, name in enumerate(names)}
            sums = {str(one["shape"]): int(one["checksum"], 16) for one in header["shapes"]}
        if not all(_is_table(table) for table in rows.values()):
            raise ValueError("its tables are not figures of queries")
        return QueryFigures(rows, sums, dict(header["conditions"]))
    except (
        *(OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError),
        RecursionError,
    ) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}). {way_out}") from None


def _is_table(rows_Q4: Any) -> bool:
    is_right = rows_Q4.dtype == np.float32 and rows_Q4.ndim == 2 and len(rows_Q4) > 0
    is_right = is_right and rows_Q4.shape[1] == len(FIGURES)
    return bool(is_right and (rows_Q4 >= 0).all() and (rows_Q4 <= 1).all())  # also no NaN
