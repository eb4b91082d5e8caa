"""table."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from clmpt.cli.output import TerminalTable, say, show_json, show_table, tell
from clmpt.cli.progress_bars import stage_bars
from clmpt.compute.processors import available_processors
from clmpt.display.text import counted
from clmpt.experiments.model_table import (
    ModelTable,
    TableRow,
    perform_row,
    read_model_table,
)
from clmpt.experiments.reproduction import check_folder
from clmpt.experiments.table_records import TableRecord, read_record, record_file
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.pages.comparison import main_table, renew
from clmpt.pages.entry import Entry
from clmpt.pages.table_page import ranked, table_page

_RECORDS = "table"  # the folder of records in a run


def make_table(options: argparse.Namespace) -> None:
    whole = read_model_table(options.table, options.queries)
    chosen = whole.only(options.rows) if options.rows else whole
    graph, data, out = open_graph(options.data), Path(options.data), Path(options.out)
    records = Path(options.records) if options.records else out / _RECORDS
    check_folder(graph, out)
    left = [row for row in chosen.rows if not row.is_in(_recorded(row, graph, records))]
    done = len(chosen.rows) - len(left)
    tell(f"{whole.title}: {counted(len(chosen.rows), 'row')}, {done} done.")
    if options.plan:
        for row in chosen.rows:
            trials = f", {counted(len(row.study.sweep.points), 'trial')}" if row.study.sweep else ""
            state = "to do" if row in left else "done"
            say(f"  {row.name:<24}{state}{trials}")
        return
    workers = options.workers or available_processors()
    for number, row in enumerate(left, 1):
        tell(f"{row.name} ({number} of {len(left)})")
        try:
            with stage_bars() as show:
                known = _recorded(row, graph, records)
                made = perform_row(row, graph, data, out, workers, show, known)
        except KeyboardInterrupt:
            tell(f"Stopped. Run the same command again to resume '{out}'.")
            raise
        replace(made, command=_commands(whole, options)[row.name]).save(records)
        _renew_page(whole, graph, records, options)
    _show(whole, graph, records, options)


def _recorded(row: TableRow, graph: KnowledgeGraph, records: Path) -> TableRecord | None:
    path = record_file(records, row.name, row.key(graph))
    return read_record(path) if path.exists() else None


def _entries(whole: ModelTable, graph: KnowledgeGraph, records: Path) -> list[Entry]:
    """Of all rows that are recorded as they are asked for now."""
    found = (_recorded(row, graph, records) for row in whole.rows)
    return [entry for record in found if record for entry in record.entries]


def _renew_page(
    whole: ModelTable, graph: KnowledgeGraph, records: Path, options: argparse.Namespace
) -> None:
    commands = _commands(whole, options)
    renew(table_page(whole.title, _entries(whole, graph, records), commands), records)


def _commands(whole: ModelTable, options: argparse.Namespace) -> dict[str, str]:
    """What makes each row, without the folders of this machine."""
    apart = f" --queries {Path(options.queries).name}" if options.queries else ""
    data = f"--data {Path(options.data).name}{apart}"
    command = f"clmpt table {_portable(options.table)} {data} --out RUN --rows"
    return {row.name: f"{command} {shlex.quote(row.name)}" for row in whole.rows}


def _portable(path: str) -> str:
    return path if not Path(path).is_absolute() else Path(path).name


def _show(
    whole: ModelTable, graph: KnowledgeGraph, records: Path, options: argparse.Namespace
) -> None:
    entries = ranked(_entries(whole, graph, records))
    if options.json:
        show_json([{"name": one.name, **one.report, "costs": one.costs} for one in entries])
        return
    benchmark = entries[0].benchmark
    table = main_table(entries, benchmark)
    show_table(TerminalTable(benchmark, table.headers, table.rows))
    say(f"Page: {records / 'report.html'}")
