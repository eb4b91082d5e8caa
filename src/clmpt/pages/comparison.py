"""Runs compared with published figures: results, costs, curves, settings, versions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clmpt.pages.charts import Cluster, draw_charts, draw_clusters
from clmpt.pages.cost_table import DASH, costs_table
from clmpt.pages.curves import is_number, training_charts
from clmpt.pages.entry import AVERAGES, Entry
from clmpt.pages.page import Block, Bullets, Heading, Page, Picture, Table, Text
from clmpt.pages.published import columns, measure_of, published, published_rows, title_of
from clmpt.pages.seeds import SeedGroup, seed_groups, with_deviation
from clmpt.pages.trials import CHOSEN_ON_VALIDATION, trials_table
from clmpt.storage.files import clear_unfinished, new_file, new_folder

_COMPARED = ("CQD-CO", "LMPNN", "CLMPT")  # published rows shown next to any run
MEASURES = {"mrr": "MRR", "hits_at_3": "Hits@3"}


def compare(entries: Sequence[Entry]) -> Page:
    """One page with all entries, grouped by benchmark."""
    benchmarks = list(dict.fromkeys(entry.benchmark for entry in entries))
    blocks: list[Block] = []
    for number, benchmark in enumerate(benchmarks):
        own = [entry for entry in entries if entry.benchmark == benchmark]
        if len(benchmarks) > 1:
            blocks.append(Heading(title_of(benchmark) or "Other reports"))
        blocks += _section(own, benchmark, f"{number + 1}-" if len(benchmarks) > 1 else "")
    titles = [title_of(name) for name in benchmarks if name]
    return Page("Results" + (f" on {' and '.join(titles)}" if titles else ""), blocks)


def save(page: Page, folder: str | Path) -> None:
    """Saves the page as Markdown and HTML, with its pictures, to a new folder, or one with the
    same."""
    with new_folder(Path(folder), repeatable=True) as scratch:
        renew(page, scratch)


def renew(page: Page, folder: str | Path) -> None:
    """Like `save`, but replaces an existing page; other files are left alone."""
    clear_unfinished(Path(folder))
    texts = {picture.name: picture.svg for picture in page.pictures}
    texts |= {"report.md": page.markdown(), "report.html": page.html()}
    for name, text in texts.items():
        with new_file(Path(folder) / name) as scratch:
            scratch.write_text(text, encoding="utf-8")


def main_table(
    entries: Sequence[Entry], benchmark: str, beside: Sequence[str] = _COMPARED
) -> Table:
    """What is published, times 100, in the paper's layout: our rows, then the published ones, those
    of the names `beside` and what our rows reproduce."""
    shown, known, measure = _columns(entries), published_rows(benchmark), measure_of(benchmark)
    names = [entry.published for entry in entries if entry.published in known]
    names = list(dict.fromkeys([*(n for n in beside if n in known), *names]))
    means = {group.entries[0].name: group for group in seed_groups(entries)}
    rows = []
    for entry in entries:
        if entry.name in means:
            group = means[entry.name]
            rows.append([group.name, *(_mean_cell(group, column, measure) for column in shown)])
        cells = (_hundredths(entry.figure(column, measure)) for column in shown)
        rows.append([entry.name, *cells])
    own = len(rows)
    rows += [
        [f"{name} (published)", *(_figure(known[name].get(column)) for column in shown)]
        for name in names
    ]
    noted = {row["shape"] for entry in entries for row in entry.report["shapes"] if row["notes"]}
    titles = [f"{column}*" if column in noted else column for column in shown]
    return Table([f"{MEASURES[measure]} × 100", *titles], rows, quiet_from=own)


def _mean_cell(group: SeedGroup, column: str, measure: str) -> str:
    found = group.mean_of(column, measure)
    return with_deviation(*found) if found else DASH


def _columns(entries: Sequence[Entry]) -> list[str]:
    """The shapes, then the averages."""
    averages = [
        name for name in AVERAGES if any(entry.figure(name) is not None for entry in entries)
    ]
    return [*_shapes(entries), *averages]


def _shapes(entries: Sequence[Entry]) -> list[str]:
    """The shapes in the paper's order, then any others."""
    there = list(
        dict.fromkeys(shape["shape"] for entry in entries for shape in entry.report["shapes"])
    )
    known = [name for name in columns() if name in there]
    return [*known, *(name for name in there if name not in known)]


def _section(entries: Sequence[Entry], benchmark: str, prefix: str) -> list[Block]:
    blocks: list[Block] = [main_table(entries, benchmark), *about_seeds(entries)]
    if published_rows(benchmark):
        blocks.append(
            Text(" ".join([f"Published rows: {published()['source']}.", *caveats(entries)]))
        )
    blocks += [_bars(entries, prefix), Heading("Standard errors", 3), errors_table(entries)]
    missing = _by_missing(entries)
    if missing:
        blocks += [Heading("By the number of missing links", 3), *missing]
    if any(entry.costs for entry in entries):
        blocks += [Heading("Cost", 3), costs_table(entries)]
        blocks.append(
            Text(
                "Memory is the peak of the process in that stage. Times are wall-clock times, "
                "including validation, except for the processor time, which all threads add to."
            )
        )
    blocks += [*_curves(entries, prefix), *_trials(entries)]
    if any(entry.settings for entry in entries):
        blocks += [Heading("Settings", 3), _settings(entries)]
    blocks += _made_by(entries)
    return [*blocks, Heading("How figures are computed", 3), Bullets(notes_of(entries))]


def notes_of(entries: Sequence[Entry]) -> list[str]:
    """The notes of all reports, each once, with the names of those that have it unless all do."""
    having: dict[str, list[str]] = {}
    for entry in entries:
        for note in entry.report.get("notes", ()):
            having.setdefault(note, []).append(entry.family or entry.name)
    return [_of(names, note, len(entries)) for note, names in having.items()]


def _of(names: Sequence[str], what: str, whole: int) -> str:
    """With the names of those it is true of, unless it is true of all."""
    return what if len(names) == whole else f"{', '.join(dict.fromkeys(names))}: {what}"


def caveats(entries: Sequence[Entry]) -> list[str]:
    """Why published figures are not directly comparable with ours, if there are any and they are
    not."""
    if not published_rows(entries[0].benchmark):
        return []
    found = []
    differ = next((entry.graph_differs for entry in entries if entry.graph_differs), [])
    if differ:
        title = title_of(entries[0].benchmark)
        found.append(f"They are for {title} as published. This graph differs: {'; '.join(differ)}.")
    if any(entry.settings.get("queries", {}).get("tested") == "valid" for entry in entries):
        used = (
            "on which weights were chosen, too"
            if any(
                entry.settings.get("training", {}).get("validation_queries") for entry in entries
            )
            else "on which no weights and no settings of these models were chosen"
        )
        found.append(
            f"They were measured on test queries; ours on those of the validation split, {used}. "
            "Predictors are kept from the epoch that predicts links of that split best, and truth "
            "values are calibrated on these links."
        )
    if not all(entry.is_official for entry in entries):
        found.append(
            "They were measured on the official queries; ours were sampled by the same protocol, "
            "wholly or in part."
        )
    return found


def _bars(entries: Sequence[Entry], prefix: str) -> Picture:
    shapes = _shapes(entries)
    clusters = [
        Cluster(shape, [_times_hundred(entry.figure(shape)) for entry in entries])
        for shape in shapes
    ]
    svg = draw_clusters("MRR × 100 by shape", [entry.name for entry in entries], clusters)
    return Picture(f"{prefix}mrr.svg", "MRR by shape", svg)


def _times_hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value


def errors_table(entries: Sequence[Entry]) -> Table:
    """Standard errors of the MRR over queries, of shapes and of the averages over them."""
    shapes, averages = _shapes(entries), _columns(entries)[len(_shapes(entries)) :]
    rows = []
    for entry in entries:
        found = {shape["shape"]: shape.get("standard_error") for shape in entry.report["shapes"]}
        found |= {
            name: _error_of_mean([found.get(each) for each in AVERAGES[name]]) for name in averages
        }
        rows.append(
            [entry.name, *(_hundredths(found.get(name), 2) for name in [*shapes, *averages])]
        )
    counts = [[*cells, *[""] * len(averages)] for cells in _counts(entries, shapes)]
    return Table(["± × 100", *shapes, *averages], [*rows, *counts])


def _error_of_mean(errors: Sequence[float | None]) -> float | None:
    """Of the mean of independent figures.

    >>> _error_of_mean([0.3, 0.4]), _error_of_mean([0.3, None])
    (0.25, None)
    """
    known = [error for error in errors if error is not None]
    return math.hypot(*known) / len(known) if len(known) == len(errors) else None


def _counts(entries: Sequence[Entry], shapes: Sequence[str]) -> list[list[str]]:
    """The number of queries: one row for all entries, though some leave shapes out; or if they were
    not asked the same, one for those that were."""
    having: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        found = {shape["shape"]: f"{shape['count']:,}" for shape in entry.report["shapes"]}
        cells = tuple(found.get(name, DASH) for name in shapes)
        having.setdefault(cells, []).append(entry.family or entry.name)
    each = [{count for count in column if count != DASH} for column in zip(*having, strict=True)]
    if all(len(counts) <= 1 for counts in each):
        return [["queries", *(next(iter(counts), DASH) for counts in each)]]
    return [
        [f"queries, {', '.join(dict.fromkeys(names))}", *cells] for cells, names in having.items()
    ]


def _by_missing(entries: Sequence[Entry]) -> list[Block]:
    """A table for each number of missing links that occurs."""
    shapes = _shapes(entries)
    tables: dict[str, list[list[str]]] = {}
    for entry in entries:
        by_shape = {
            shape["shape"]: shape.get("by_missing_links", {}) for shape in entry.report["shapes"]
        }
        for number in sorted({key for found in by_shape.values() for key in found}, key=int):
            cells = [by_shape.get(name, {}).get(number, {}).get("mrr") for name in shapes]
            row = [entry.name, *(_hundredths(cell) for cell in cells)]
            tables.setdefault(number, []).append(row)
    return [
        Table([f"{number} missing", *shapes], rows)
        for number, rows in sorted(tables.items(), key=lambda item: int(item[0]))
    ]


def _curves(entries: Sequence[Entry], prefix: str) -> list[Block]:
    trained = {entry.name: entry.training_log for entry in entries if entry.training_log}
    if not trained:
        return []
    charts = training_charts(trained, "minutes", _minutes_in)
    picture = Picture(f"{prefix}training.svg", "Training", draw_charts(charts))
    return [Heading("Training", 3), picture]


def _minutes_in(record: dict[str, Any]) -> float | None:
    seconds = record.get("seconds")
    return seconds / 60 if is_number(seconds) else None


def about_seeds(entries: Sequence[Entry]) -> list[Block]:
    return [
        Text(
            f"{group.name}: mean ± standard deviation over training.seed "
            f"{', '.join(map(str, group.seeds))}; nothing else differs."
        )
        for group in seed_groups(entries)
    ]


def _trials(entries: Sequence[Entry]) -> list[Block]:
    """What was tried before the settings of an entry were chosen."""
    blocks: list[Block] = []
    shown: list[object] = []
    for entry in entries:
        if entry.trials and entry.trials not in shown:  # seeds share theirs
            shown.append(entry.trials)
            title = f"Trials for {entry.family or entry.name}"
            blocks += [Heading(title, 3), trials_table(entry.trials), Text(CHOSEN_ON_VALIDATION)]
    return blocks


def _settings(entries: Sequence[Entry]) -> Table:
    """Every setting, one column per run; a value that all share is shown once."""
    with_settings = [entry for entry in entries if entry.settings]
    flat = [
        {
            f"{table}.{name}": _shown(value)
            for table, content in entry.settings.items()
            for name, value in content.items()
        }
        for entry in with_settings
    ]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    differing = [name for name in names if len({s.get(name, DASH) for s in flat}) > 1]
    shared = [name for name in names if name not in differing]
    headers = ["setting", *(entry.name for entry in with_settings)]
    rows = [[name, *(s.get(name, DASH) for s in flat)] for name in differing]
    rows += [[name, flat[0][name], *[""] * (len(flat) - 1)] for name in shared]
    return Table(headers, rows, quiet_from=len(differing) if differing else None, is_text=True)


def _made_by(entries: Sequence[Entry]) -> list[Block]:
    """The origin of the queries, and the date and environment of each stage.

    What all stages share is shown once.
    """
    origins: dict[str, list[str]] = {}
    stages: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        for split, origin in entry.queries.items():
            if origin:
                line = f"{_QUERIES[split]} queries: {origin}."
                origins.setdefault(line, []).append(entry.name)
        for stage, about in entry.provenance.items():
            row = (stage, *(write(about) for write in _ABOUT.values()))
            stages.setdefault(row, []).append(entry.name)
    if not origins and not stages:
        return []
    made = sum(bool(entry.queries or entry.provenance) for entry in entries)
    lines = [_of(names, line, made) for line, names in origins.items()]
    rows = [[_of(names, stage, made), *cells] for (stage, *cells), names in stages.items()]
    shared, table = _parted(Table(["stage", *_ABOUT], rows, is_text=True), keep=2)
    return [Heading("Made with", 3), Bullets([*lines, *shared]), *([table] if rows else [])]


def _parted(table: Table, keep: int) -> tuple[list[str], Table]:
    """The columns with the same value in all rows, as lines, and the table of the others.

    The first `keep` columns stay in the table.
    """
    columns = list(zip(table.headers, *table.rows, strict=True))
    alike = [column for column in columns[keep:] if len(set(column[1:])) == 1]
    headers, *rows = zip(*(column for column in columns if column not in alike), strict=True)
    lines = [f"{name.capitalize()}: {value}." for name, value, *_ in alike]
    return lines, replace(table, headers=headers, rows=rows)


def _versions(about: dict[str, Any]) -> str:
    found = about.get("versions")
    return ", ".join(f"{k} {v}" for k, v in found.items()) if isinstance(found, dict) else DASH


_ABOUT: dict[str, Callable[[dict[str, Any]], str]] = {
    "started": lambda about: str(about.get("started")),
    "commit": lambda about: str(about.get("commit") or DASH),
    "versions": _versions,
    "machine": lambda about: f"{about.get('platform')}, {about.get('threads')} threads",
}
_QUERIES = {"train": "Training", "valid": "Validation", "test": "Test"}


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _figure(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}"


def _hundredths(value: object, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}" if is_number(value) else DASH
