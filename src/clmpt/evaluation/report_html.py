"""A report in a notebook: figures by shape."""

from __future__ import annotations

from clmpt.display.html import as_html, html_bar, html_block, html_notes, html_table
from clmpt.evaluation.report import Report


def report_html(report: Report) -> str:
    rows = []
    for shape in report.shapes:
        figures = shape.figures
        hits = (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
        error = "" if shape.standard_error is None else f" ± {100 * shape.standard_error:.1f}"
        rows.append(
            [
                as_html(shape.name + "*" * bool(shape.notes)),
                html_bar(figures.mrr, f"{100 * figures.mrr:.1f}{error}"),
                *(f"{100 * value:.1f}" for value in hits),
                f"{figures.count:,}",
            ]
        )
    for name, value in {**report.averages, "mean": report.mean}.items():
        rows.append([as_html(name), html_bar(value, f"{100 * value:.1f}"), "", "", "", ""])
    headers = ["shape", "MRR", "Hits@1", "Hits@3", "Hits@10", "queries"]
    title = f"{report.model}: MRR and Hits × 100"
    return html_block(title, html_table(headers, rows), html_notes(report.notes))
