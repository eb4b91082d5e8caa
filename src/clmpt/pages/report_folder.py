"""The report of one model as a folder: Markdown, JSON, a picture, the figures of every query, and
the evaluation's cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.evaluation.query_figures import (
    QueryFigures,
    read_query_figures,
    save_query_figures,
)
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report
from clmpt.pages.charts import Bars, draw_bars
from clmpt.pages.curves import is_number
from clmpt.pages.page import Bullets, Page, Picture, Table
from clmpt.storage.checksums import is_there
from clmpt.storage.files import open_json
from clmpt.storage.sealing import sealed_folder

_REPORT, _MARKDOWN, _PICTURE, _COST = "report.json", "report.md", "report.svg", "cost.json"
_QUERIES = "queries.safetensors"


def report_table(report: Report) -> Table:
    """MRR and Hits times 100 by shape, then MRR by missing links."""
    most = max((number for shape in report.shapes for number in shape.by_missing), default=0)
    headers = ["shape", "MRR", "±", "Hits@1", "Hits@3", "Hits@10", "queries"]
    headers += [f"{n} missing" for n in range(1, most + 1)]
    rows = [
        [
            shape.name + "*" * bool(shape.notes),
            *_hundredths(shape.figures.mrr),
            *(_hundredths(shape.standard_error) if shape.standard_error is not None else [""]),
            *_hundredths(
                shape.figures.hits_at_1, shape.figures.hits_at_3, shape.figures.hits_at_10
            ),
            f"{shape.figures.count}",
            *(_by_missing(shape.by_missing.get(n)) for n in range(1, most + 1)),
        ]
        for shape in report.shapes
    ]
    for name, value in report.averages.items():
        rows.append([name, *_hundredths(value), *[""] * (len(headers) - 2)])
    return Table(headers, rows)


def report_page(report: Report) -> Page:
    """Figures, notes, and a chart of MRR by shape with standard errors."""
    bars = [
        Bars(shape.name, 100 * shape.figures.mrr, 100 * (shape.standard_error or 0))
        for shape in report.shapes
    ]
    svg = draw_bars(f"{report.model}: MRR × 100", bars)
    picture = Picture(_PICTURE, "MRR by shape", svg)
    return Page(report.model, [report_table(report), Bullets(report.notes), picture])


def save_report(report: Report, folder: str | Path, cost: dict[str, float] | None = None) -> None:
    """Saves the report as Markdown, JSON, a picture and the figures of every query to a new folder,
    or one with the same.

    The cost has a separate file, so that the others are reproducible.
    """
    page = report_page(report)
    texts = {_MARKDOWN: page.markdown(), _REPORT: _json(report.as_plain())}
    texts |= {picture.name: picture.svg for picture in page.pictures}
    texts |= {_COST: _json(cost)} if cost else {}
    with sealed_folder(Path(folder), repeatable=True) as scratch:
        for name, text in texts.items():
            (scratch / name).write_text(text, encoding="utf-8")
        if report.shapes and all(shape.rows_Q4 is not None for shape in report.shapes):
            save_query_figures(report.shapes, report.conditions, scratch / _QUERIES)


def is_report(folder: Path) -> bool:
    return (folder / _REPORT).exists()


def read_cost(folder: Path) -> dict[str, Any]:
    """Time and memory of the evaluation; empty if unknown."""
    found = open_json(folder / _COST) if is_there(folder / _COST) else {}
    if not isinstance(found, dict):
        raise DataError(f"'{folder / _COST}' is damaged.")
    return found


def by_query(folder: Path) -> QueryFigures | None:
    """The figures of every query; None in reports of earlier versions, which do not have them."""
    return read_query_figures(folder / _QUERIES) if is_there(folder / _QUERIES) else None


def read_report(folder: Path) -> dict[str, Any]:
    """A report's JSON document, after checking it."""
    if not folder.exists():
        raise DataError(f"'{folder}' is missing. Run the same command again.")
    try:
        found = open_json(folder / _REPORT)
        is_right = isinstance(found, dict) and _is_share(found["mean"]) and _texts(found["notes"])
        is_right = is_right and _texts([found["model"]]) and len(found["shapes"]) > 0
        is_right = is_right and all(_is_row(row) for row in found["shapes"])
    except (DataError, KeyError, TypeError, ValueError, AttributeError):
        is_right = False
    if not is_right:
        raise DataError(
            f"'{folder / _REPORT}' is damaged. Remove '{folder}' and run the command that made it "
            "again."
        )
    return dict(found)


def _is_row(row: dict[str, Any]) -> bool:
    by_missing = row.get("by_missing_links", {})
    return (
        isinstance(row["shape"], str)
        and _is_share(row["mrr"])
        and is_number(row["count"])
        and _texts(row["notes"])
        and all(is_number(int(key)) and _is_share(at["mrr"]) for key, at in by_missing.items())
    )


def _is_share(found: object) -> bool:
    return is_number(found) and 0 <= found <= 1


def _texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _hundredths(*values: float) -> list[str]:
    return [f"{100 * value:.1f}" for value in values]


def _by_missing(figures: Figures | None) -> str:
    return f"{100 * figures.mrr:.1f} ({figures.count})" if figures else ""
