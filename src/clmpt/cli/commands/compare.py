"""compare."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from clmpt.cli.output import TerminalTable, say, show_table, tell, write_once
from clmpt.errors import SettingError
from clmpt.evaluation.comparing import ROWS, Comparison
from clmpt.experiments.compared_runs import compare_runs
from clmpt.pages.compared import (
    comparison_latex,
    comparison_page,
    differences_table,
    figures_table,
    notes_on,
    plain_comparison,
)
from clmpt.storage.files import refuse_existing

_BY_ENDING = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}


def compare_on_queries(options: argparse.Namespace) -> None:
    form = _form(options)
    out = Path(options.out) if options.out else None
    if out and not out.is_file():
        refuse_existing(out)
    figures = list(dict.fromkeys(options.figures))
    found = compare_runs(
        options.runs,
        baseline=options.baseline,
        figures=figures,
        resamples=options.resamples,
        seed=options.seed,
    )
    if form is None:
        _show(found)
    elif out:
        write_once(out, _WRITERS[form](found))
        tell(f"{out}: {', '.join(model.name for model in found.models)}")
    else:
        say(_WRITERS[form](found).rstrip("\n"))


def _form(options: argparse.Namespace) -> str | None:
    """How to write the tables; None on a terminal."""
    asked = [form for form in _WRITERS if getattr(options, form)]
    if len(asked) > 1:
        raise SettingError(f"--{asked[0]} and --{asked[1]} cannot be used together.")
    form = _BY_ENDING.get(Path(options.out).suffix) if options.out else None
    if asked and form not in (None, asked[0]):
        raise SettingError(f"'{options.out}' ends like {form}, and --{asked[0]} was asked for.")
    if options.out and not asked and form is None:
        raise SettingError(
            f"'{options.out}' does not say how to write it. Let it end in "
            f"{', '.join(_BY_ENDING)}, or add --markdown, --latex, --csv or --json."
        )
    return asked[0] if asked else form


def _show(found: Comparison) -> None:
    for figure in found.figures:
        for table in (figures_table(found, figure), differences_table(found, figure)):
            show_table(TerminalTable("", table.headers, table.rows))
    for note in notes_on(found):
        tell(note)


def _csv(found: Comparison) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ROWS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.rows)
    return text.getvalue()


def _json(found: Comparison) -> str:
    return json.dumps(plain_comparison(found), ensure_ascii=False, indent=2) + "\n"


_WRITERS: dict[str, Callable[[Comparison], str]] = {
    "json": _json,
    "markdown": lambda found: comparison_page(found).markdown(),
    "latex": comparison_latex,
    "csv": _csv,
}
