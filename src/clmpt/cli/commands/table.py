"""table."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from clmpt.cli.output import TerminalTable, say, show_json, show_table, tell
from clmpt.cli.progress_bars import stage_bars
from clmpt.compute.processors import available_processors
from clmpt.display.text import counted
from clmpt.errors import QueryError, SamplingError, TrainingError
from clmpt.experiments.model_table import (
    ModelTable,
    TableRow,
    perform_row,
    read_model_table,
)
from clmpt.experiments.reproduction import check_folder, slug
from clmpt.experiments.table_records import TableRecord, read_record, record_file
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.pages.comparison import main_table, renew
from clmpt.pages.entry import Entry
from clmpt.pages.table_page import ranked, table_page

_RECORDS = "tables"  # the folder of records in a run


def make_table(options: argparse.Namespace) -> None:
    whole = read_model_table(options.table, options.queries)
    chosen = whole.only(options.rows) if options.rows else whole
    graph, data, out = open_graph(options.data), Path(options.data), Path(options.out)
    own = out / _RECORDS / (slug(Path(options.table).stem) or "table")
    records = Path(options.records) if options.records else own
    check_folder(graph, out)
    found = _all_recorded(whole, graph, data, records)
    left = [row for row in chosen.rows if not row.is_in(found.get(row.name))]
    done = len(chosen.rows) - len(left)
    tell(f"{whole.title}: {counted(len(chosen.rows), 'row')}, {done} done.")
    if options.plan:
        for row in chosen.rows:
            trials = f", {counted(row.trials, 'trial')}" if row.trials else ""
            state = "to do" if row in left else "done"
            say(f"  {row.name:<24}{state}{trials}")
        return
    workers, failed = options.workers or available_processors(), []
    for number, row in enumerate(left, 1):
        known = _recorded(row, graph, data, records)
        if row.is_in(known):  # another process has made it meanwhile
            continue
        tell(f"{row.name} ({number} of {len(left)})")
        try:
            with stage_bars() as show:
                made = perform_row(row, graph, data, out, workers, show, known)
        except KeyboardInterrupt:
            tell(f"Stopped. Run the same command again to resume '{out}'.")
            raise
        except (QueryError, SamplingError, TrainingError) as error:
            tell(f"{row.name}: {error}")
            failed.append(row.name)
            continue
        replace(made, command=_commands(whole, options)[row.name]).save(records)
        _renew_page(whole, _all_recorded(whole, graph, data, records), records, options)
    found = _all_recorded(whole, graph, data, records)
    if found:
        _renew_page(whole, found, records, options)
        _show(found, records, options)
    if failed:
        raise TrainingError(f"Not made, for the reasons above: {', '.join(failed)}.")


def _recorded(
    row: TableRow, graph: KnowledgeGraph, data: Path, records: Path
) -> TableRecord | None:
    path = record_file(records, row.name, row.key(graph, data))
    return read_record(path) if path.exists() else None


def _all_recorded(
    whole: ModelTable, graph: KnowledgeGraph, data: Path, records: Path
) -> dict[str, TableRecord]:
    """All rows that are recorded as they are asked for now, by name."""
    found = {row.name: _recorded(row, graph, data, records) for row in whole.rows}
    return {name: record for name, record in found.items() if record}


def _entries(found: Mapping[str, TableRecord]) -> list[Entry]:
    return [entry for record in found.values() for entry in record.entries]


def _renew_page(
    whole: ModelTable,
    found: Mapping[str, TableRecord],
    records: Path,
    options: argparse.Namespace,
) -> None:
    missing = [row.name for row in whole.rows if row.name not in found]
    page = table_page(whole.title, _entries(found), _commands(whole, options), missing)
    renew(page, records)


def _commands(whole: ModelTable, options: argparse.Namespace) -> dict[str, str]:
    """What makes each row, without the folders of this machine."""
    apart = f" --queries {Path(options.queries).name}" if options.queries else ""
    data = f"--data {Path(options.data).name}{apart}"
    command = f"clmpt table {_portable(options.table)} {data} --out RUN --rows"
    return {row.name: f"{command} {shlex.quote(row.name)}" for row in whole.rows}


def _portable(path: str) -> str:
    return path if not Path(path).is_absolute() else Path(path).name


def _show(found: Mapping[str, TableRecord], records: Path, options: argparse.Namespace) -> None:
    entries = ranked(_entries(found))
    if options.json:
        show_json([{"name": one.name, **one.report, "costs": one.costs} for one in entries])
        return
    benchmark = entries[0].benchmark
    table = main_table(entries, benchmark)
    show_table(TerminalTable(benchmark, table.headers, table.rows))
    say(f"Page: {records / 'report.html'}")
