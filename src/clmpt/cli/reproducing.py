"""reproduce, report."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from clmpt.cli.output import (
    Table,
    command_name,
    duration,
    say,
    show_json,
    show_table,
    stages,
    tell,
)
from clmpt.cli.predictors import memory_named
from clmpt.comparison import Entry, compare, entries_in, main_table, save
from clmpt.config import Tables, changed, read_recipe
from clmpt.graph.benchmarks import open_graph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.storage import refuse_existing
from clmpt.planning import idle_peak
from clmpt.reproduction import Recipe, Variant, begin, label, parts_of, reproduce, works_of

_PAGE = "report"


def reproduce_experiment(options: argparse.Namespace) -> None:
    recipe = Recipe.of(_tables(options))
    graph, data, out = open_graph(options.data), Path(options.data), Path(options.out)
    workers = options.workers or os.cpu_count() or 1
    if not (out / "run.json").exists():
        refuse_existing(out)
    if options.plan:
        _show_plan(recipe, graph, out, workers)
        return
    begin(graph, data, out)
    _show_plan(recipe, graph, out, workers, to_error=options.json)
    try:
        with memory_named(), stages() as show:
            made = reproduce(
                graph,
                data,
                recipe,
                out,
                workers,
                lambda now: show(now.name, now.done, now.total, now.line),
            )
    except KeyboardInterrupt:
        tell(f"Stopped. The same command goes on from here; '{out}' has all it needs.")
        raise
    entries = entries_in(out)
    _renew_page(entries, out / _PAGE)
    _show_result(made, entries, out, options)


def _tables(options: argparse.Namespace) -> Tables:
    """The recipe's settings with the changes that the command line asks for."""
    asked = list(options.set or [])
    tables = read_recipe(options.recipe)
    tables = {name: table for name, table in tables.items() if name != "fitting"}
    if options.reasoner:
        model = tables.setdefault("reasoning", {})
        if model.get("reasoner", "clmpt") != options.reasoner:
            model.pop("conditional", None)  # what is usual differs from reasoner to reasoner
        model["reasoner"] = options.reasoner
    tables = changed(tables, asked)
    about = tables.setdefault("experiment", {})
    if options.reasoner or asked:
        about["name"] = options.name or _name(tables, asked)
        about["published"] = ""
    elif options.name:
        about["name"] = options.name
    for table in ("pretraining", "training"):
        if options.device:
            tables.setdefault(table, {})["device"] = options.device
    return tables


def _name(tables: Tables, changes: list[str]) -> str:
    """A variant's name: the reasoner's, then the changes that it does not tell of."""
    told = ("reasoner", "conditional", "frozen", "name", "published")
    rest = [one for one in changes if one.partition("=")[0].rpartition(".")[2].strip() not in told]
    return ", ".join([label(Recipe.of(tables).reasoning), *rest])


def _show_plan(
    recipe: Recipe, graph: KnowledgeGraph, out: Path, workers: int, to_error: bool = False
) -> None:
    say_it = tell if to_error else say
    peak, left = idle_peak(), 0.0
    say_it(f"{recipe.name}, {len(graph.entities):,} entities, {graph.index.triples:,} facts")
    works = works_of(recipe, graph, workers)
    for part, work in zip(parts_of(recipe, out), works, strict=True):
        takes = work.seconds(peak)
        state = "done already" if part.is_done else f"about {duration(takes)}"
        left += 0 if part.is_done else takes
        say_it(f"  {part.name:<20}{state}")
    if left:
        say_it(f"About {duration(left)} in all on an idle processor, less where data is there.")


def _renew_page(entries: list[Entry], folder: Path) -> None:
    """The page about all that was done in a run; it takes the place of the one before."""
    page = compare(entries)
    shutil.rmtree(folder, ignore_errors=True)  # a kill here costs a page that is made anew
    save(page, folder)


def _show_result(
    made: Variant, entries: list[Entry], out: Path, options: argparse.Namespace
) -> None:
    own = [entry for entry in entries if entry.name == made.name]
    if options.json:
        show_json(
            {
                "name": made.name,
                "folder": str(out),
                "folders": {name: str(place) for name, place in made.folders.items()},
                "settings": made.settings,
                "report": own[-1].report if own else None,
            }
        )
        return
    _show_tables(entries)
    say(f"The page: {out / _PAGE / 'report.html'}")
    say(f"Next: {command_name()} ask {shlex.quote(str(made.folders['reasoner']))}")


def _show_tables(entries: list[Entry]) -> None:
    for benchmark in dict.fromkeys(entry.benchmark for entry in entries):
        own = [entry for entry in entries if entry.benchmark == benchmark]
        table = main_table(own, benchmark)
        show_table(Table(benchmark, table.headers, table.rows))


def report(options: argparse.Namespace) -> None:
    out = Path(options.out) if options.out else None
    if out:
        refuse_existing(out)
    found = [(folder, entry) for folder in options.runs for entry in entries_in(folder)]
    entries = [entry for _, entry in found]
    if len(options.runs) > 1 and len({entry.name for entry in entries}) < len(entries):
        entries = [_named(entry, folder) for folder, entry in found]
    if out:
        save(compare(entries), out)
        tell(f"{out / 'report.html'} and {out / 'report.md'}")
    if options.json:
        show_json([{"name": entry.name, **entry.report, "costs": entry.costs} for entry in entries])
    else:
        _show_tables(entries)


def _named(entry: Entry, folder: str) -> Entry:
    """Several runs have models of one name: the run's own goes before it."""
    return replace(entry, name=f"{Path(folder).resolve().name}: {entry.name}")
