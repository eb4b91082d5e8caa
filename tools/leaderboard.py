"""Writes docs/leaderboard.md from what is kept in docs: records of `clmpt table`, pages of results
that are older than records, logs of pre-training, and the published figures.

`make reference` runs it, and a test compares. To add a model, keep its record:
`clmpt table … --records docs/results/NAME`, then `make reference`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from clmpt.errors import DataError
from clmpt.experiments.table_records import TableRecord, read_record
from clmpt.pages.cost_table import DASH, parameters
from clmpt.pages.curves import valid_mrr
from clmpt.pages.entry import AVERAGES, Entry
from clmpt.pages.published import (
    columns,
    measure_of,
    published,
    published_models,
    published_rows,
    title_of,
)
from clmpt.pages.seeds import SeedGroup
from clmpt.storage.run_folder import read_log

OFFICIAL = "official"
_NOTHING = ("0", "0.0 M")  # parameters, as pages write it
MEASURES = {"mrr": "MRR", "hits_at_3": "Hits@3"}
INDEX = "rows.toml"  # of rows whose figures are in pages
COSTS = ("parameters", "pretraining", "training", "answering")
KEYS = {"benchmark", "queries", "name", "page", "row", "command", *COSTS}
ABOUT = """\
Every row was measured with clmpt, on two cores without a GPU unless its page says otherwise, and
the command that made it is below its table. Figures marked as published are those of papers, for
models of far larger sizes that were trained on GPUs. Official and sampled queries have tables of
their own, since their figures cannot be compared.

*Parameters* are those that training on queries changes, plus those of a frozen predictor.
*Pre-training* is that of the predictor. *Training* is processor time where it says so, otherwise
time by the clock, with validation and in part beside other work. *Answering* is the time of a
query, ranks included, or of all queries together. Rows whose pages do not have a number have a
dash.
"""
LINKS = """\
The validation MRR of the epoch that was kept, and how long the whole run took by the clock, in part
beside other work: from the logs in `docs/runs`. [Results](results.md#link-predictors) has figures
on test links.
"""


@dataclass(frozen=True)
class Row:
    """A model on a benchmark; `figures` are times 100, by shape and average."""

    name: str
    benchmark: str
    queries: str  # official, or how they were sampled
    figures: Mapping[str, float]
    deviations: Mapping[str, float] = field(default_factory=dict)  # over seeds
    notes: frozenset[str] = frozenset()  # shapes that are scored approximately
    parameters: str = DASH
    pretraining: str = DASH
    training: str = DASH
    answering: str = DASH
    commands: tuple[str, ...] = ()
    page: str = ""

    @property
    def is_published(self) -> bool:
        return not self.commands

    def cell(self, column: str) -> str:
        if column not in self.figures:
            return DASH
        spread = f" ± {self.deviations[column]:.1f}" if column in self.deviations else ""
        return f"{self.figures[column]:.1f}{spread}"


def leaderboard_page(docs: Path) -> str:
    rows = [*_recorded(docs / "results"), *_in_pages(docs)]
    parts = ["# Leaderboard\n", ABOUT]
    benchmarks = [name for name in published() if any(row.benchmark == name for row in rows)]
    for benchmark in dict.fromkeys([*benchmarks, *(row.benchmark for row in rows)]):
        parts.append(f"## {title_of(benchmark)}\n")
        own = [row for row in rows if row.benchmark == benchmark]
        for queries in sorted({row.queries for row in own}, key=lambda one: (one != OFFICIAL, one)):
            parts += _section(benchmark, queries, [row for row in own if row.queries == queries])
    return "\n".join([*parts, "## Link prediction\n", LINKS, _links(docs / "runs")])


def _section(benchmark: str, queries: str, own: Sequence[Row]) -> Iterator[str]:
    is_official = queries == OFFICIAL
    kind = "the official test queries" if is_official else f"queries {queries}"
    yield f"### {title_of(benchmark)}, {kind}\n"
    beside = _published(benchmark)
    shown = ranked([*own, *beside]) if is_official else [*ranked(own), *ranked(beside)]
    if beside and not is_official:
        yield "The published rows, below the others, are for the official test queries.\n"
    measure = MEASURES[measure_of(benchmark)]
    averages = [name for name in AVERAGES if any(name in row.figures for row in own)]
    headers = [f"{measure} × 100", *averages, "parameters", "pre-training", "training", "answering"]
    yield table(
        headers,
        [[_named(row), *map(row.cell, averages), *_costs(row)] for row in shown],
    )
    noted = frozenset[str]().union(*(row.notes for row in own))
    shapes = [name for name in columns(benchmark) if name not in AVERAGES]
    shapes = [name for name in shapes if any(name in row.figures for row in own)]
    yield table(
        [f"{measure} × 100", *shapes],
        [[_named(row), *(row.cell(s) + "\\*" * (s in row.notes) for s in shapes)] for row in shown],
    )
    if noted:
        told = (
            "scored by the paper's convention, see [concepts](concepts.md#what-can-be-asked-efo-1)"
        )
        yield f"\\* {told}. Published rows score it so, too.\n"
    yield f"Published: {published()['source']}.\n" if beside else ""
    yield table(["row", "made by"], [[_named(row), _listed(row)] for row in ranked(own)])


def ranked(rows: Sequence[Row]) -> list[Row]:
    """From the best first average to the worst; rows without it last."""
    averages = [*AVERAGES]
    return sorted(
        rows, key=lambda row: (*(-row.figures.get(name, -1.0) for name in averages), row.name)
    )


def _listed(row: Row) -> str:
    """The commands that made it, in order."""
    return "<br>".join(f"`{command}`" for command in row.commands)


def _named(row: Row) -> str:
    if row.is_published:
        return f"*{row.name} (published)*"
    return f"[{row.name}]({row.page})" if row.page else row.name


def _costs(row: Row) -> list[str]:
    return [row.parameters, row.pretraining, row.training, row.answering]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown: the first column to the left, the others to the right, but for code."""
    is_text = any(cell.startswith("`") for row in rows for cell in row)
    under = ["---", *(["---" if is_text else "---:"] * (len(headers) - 1))]
    lines = [headers, under, *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


# --- published ------------------------------------------------------------------------------------


def _published(benchmark: str) -> list[Row]:
    known = published_rows(benchmark)
    return [Row(name, benchmark, OFFICIAL, known[name]) for name in published_models(benchmark)]


# --- records --------------------------------------------------------------------------------------


def _recorded(results: Path) -> Iterator[Row]:
    """A row for each record of `clmpt table`; other JSON files are none of our business."""
    found: dict[tuple[Path, str], Path] = {}
    for path in sorted(results.rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and document.keys() >= {"format", "entries"}:
            page = path.with_name("report.md")
            link = page.relative_to(results.parent).as_posix() if page.exists() else ""
            record = read_record(path)
            other = found.setdefault((path.parent, record.name), path)
            if other != path:
                raise DataError(
                    f"'{other}' and '{path}' are records of one row with different settings. "
                    "Remove the one that does not count any more."
                )
            yield row_of(record, link)


def row_of(record: TableRecord, page: str = "") -> Row:
    """A record as a row; of several seeds, means and deviations."""
    group, first = SeedGroup(record.entries), record.entries[0]
    measure = measure_of(first.benchmark)
    names = [*(str(shape["shape"]) for shape in first.report["shapes"]), *AVERAGES]
    figures, deviations = {}, {}
    for name in names:
        if len(record.entries) > 1:
            if found := group.mean_of(name, measure):
                figures[name], deviations[name] = 100 * found[0], 100 * found[1]
        elif (value := first.figure(name, measure)) is not None:
            figures[name] = 100 * value
    if not record.command:
        raise DataError(f"The record of '{record.name}' does not say which command made it.")
    seeds = f", {len(record.entries)} seeds" if len(record.entries) > 1 else ""
    noted = frozenset(str(s["shape"]) for s in first.report["shapes"] if s.get("notes"))
    return Row(
        record.name + seeds,
        first.benchmark,
        _origin(first),
        figures,
        deviations,
        noted,
        **_recorded_costs(first.costs),
        commands=(record.command,),
        page=page,
    )


def _origin(entry: Entry) -> str:
    """Where the test queries are from: 'sampled, seed 0: 1p 5,000, …' says it up to its colon."""
    text = entry.queries.get("test", "")
    parts = [part.partition(":")[0] for part in text.split("; ") if part]
    return " and ".join(parts) or (OFFICIAL if entry.is_official else "sampled")


def _recorded_costs(costs: Mapping[str, float]) -> dict[str, str]:
    found = {"pretraining": _minutes(costs.get("pre-training"))}
    found["training"] = (
        f"{_minutes(costs['processor'])}, processor"
        if costs.get("processor")
        else _minutes(costs.get("training") or None)  # of a model that takes no steps
    )
    if "answering" in costs:
        found["answering"] = f"{1000 * costs['answering']:,.1f} ms, processor"
    elif "evaluation" in costs:
        found["answering"] = f"{_minutes(costs['evaluation'])} for all"
    if "trained" in costs:
        both = [costs["trained"], costs.get("frozen", 0)]
        found["parameters"] = " + ".join(parameters(count) for count in both if count) or DASH
    return found


def _minutes(seconds: float | None) -> str:
    return DASH if seconds is None else f"{seconds / 60:.1f} min"


# --- pages ----------------------------------------------------------------------------------------


def _in_pages(docs: Path) -> Iterator[Row]:
    """Rows that are in pages only: an index names them."""
    with (docs / "results" / INDEX).open("rb") as file:
        listed = tomllib.load(file)["row"]
    for given in listed:
        if not set(given) <= KEYS:
            raise DataError(f"{INDEX} has unknown keys: {', '.join(set(given) - KEYS)}.")
        text = (docs / given["page"]).read_text(encoding="utf-8")
        yield page_row(given, text)


def page_row(given: Mapping[str, Any], text: str) -> Row:
    """A row of the index, with the figures and costs that its page has."""
    label, tables = str(given["row"]), list(_tables(text))
    shown = next((t[label] for t in tables if label in t and "1p" in t[label]), None)
    if shown is None:
        raise DataError(f"'{given['page']}' has no figures of '{label}'.")
    figures, noted = {}, set[str]()
    for column, cell in shown.items():
        name, plain = column.rstrip("*"), cell.replace("**", "")  # what is bold
        if re.fullmatch(r"\d+\.\d\*?", plain):
            figures[name] = float(plain.rstrip("*"))
        if "*" in column + plain:
            noted.add(name)
    costs = next((t[label] for t in tables if label in t and "parameters: trained" in t[label]), {})
    return Row(
        str(given["name"]),
        str(given["benchmark"]),
        str(given["queries"]),
        figures,
        notes=frozenset(noted),
        commands=tuple(given["command"])
        if isinstance(given["command"], list)
        else (str(given["command"]),),
        page=str(given["page"]),
        **{**_page_costs(costs), **{n: str(given[n]) for n in COSTS if n in given}},
    )


def _page_costs(costs: Mapping[str, str]) -> dict[str, str]:
    if not costs:
        return {}
    both = [costs["parameters: trained"], costs["frozen"]]
    return {
        "pretraining": costs["pre-training"],
        "training": costs["training"],
        "answering": f"{costs['evaluation']} for all",
        "parameters": " + ".join(count for count in both if count not in _NOTHING) or DASH,
    }


def _tables(text: str) -> Iterator[dict[str, dict[str, str]]]:
    """The Markdown tables of a page: cells by the row's first cell and the column's header, of
    columns with the same header the first."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text.replace("\\", ""), re.MULTILINE):
        headers, _, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        found: dict[str, dict[str, str]] = {}
        for name, *cells in rows:
            row = found.setdefault(name, {})
            for header, cell in zip(headers[1:], cells, strict=False):
                row.setdefault(header, cell)
        yield found


# --- link prediction ------------------------------------------------------------------------------


def _links(runs: Path) -> str:
    rows = []
    for folder in sorted(runs.iterdir()):
        log = read_log(folder)
        best = max(filter(None, map(valid_mrr, log)))
        command = f"`clmpt pretrain FOLDER --out RUN --recipe recipes/links/{folder.name}.toml`"
        minutes = f"{log[-1]['seconds'] / 60:.0f} min"
        rows.append([folder.name, f"{best:.3f}", str(log[-1]["epoch"]), minutes, command])
    return table(["run", "validation MRR", "epochs", "time", "made by"], rows)
