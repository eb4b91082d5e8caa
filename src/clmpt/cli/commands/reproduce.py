"""reproduce, report."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from clmpt.cli.output import (
    TerminalTable,
    command_name,
    duration,
    say,
    show_json,
    show_table,
    tell,
    tell_finished,
    told_if_repeated,
)
from clmpt.cli.progress_bars import stage_bars
from clmpt.compute import distributed
from clmpt.compute.devices import find_device
from clmpt.compute.processors import available_processors
from clmpt.errors import DataError
from clmpt.experiments.costs import idle_peak
from clmpt.experiments.entries import PAGE, entries_in, renew_report
from clmpt.experiments.reproduction import begin_experiments, check_folder, graph_differs
from clmpt.experiments.study import Studied, Study, perform_study, study_stages
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.pages.comparison import caveats, compare, main_table, save
from clmpt.pages.entry import Entry, distinct
from clmpt.pages.published import title_of
from clmpt.pages.report_folder import read_report
from clmpt.pages.seeds import seed_groups
from clmpt.pages.trials import trials_table
from clmpt.training.tracking import check_tracker


def reproduce_experiment(options: argparse.Namespace) -> None:
    study = Study(
        *(options.recipe, options.reasoner, tuple(options.set or ()), options.name),
        *(options.device, tuple(options.seeds), options.trials),
        queries=options.queries,
    )
    tried = list(study.sweep.recipes) if study.sweep else study.recipes()
    for device in {d for one in tried for d in (one.pretraining.device, one.training.device)}:
        find_device(device)  # fails now, not after hours
    check_tracker(options.track)
    graph, data, out = open_graph(options.data), Path(options.data), Path(options.out)
    workers = options.workers or available_processors()
    if options.plan:
        check_folder(graph, out)
        _show_plan(study, graph, data, out, workers)
        return
    begin_experiments(graph, data, out)
    if all(stage.is_done for stage in study_stages(study, graph, data, out, workers)):
        tell_finished(out)
    _show_plan(study, graph, data, out, workers, to_error=options.json)
    try:
        with stage_bars() as show:
            made = perform_study(study, graph, data, out, workers, show, options.track)
    except KeyboardInterrupt:
        tell(f"Stopped. Run the same command again to resume '{out}'.")
        raise
    entries = distributed.made_by_one(lambda: renew_report(out, _left_out))
    _show_result(made, entries, out, options)


def _show_plan(
    study: Study,
    graph: KnowledgeGraph,
    data: Path,
    out: Path,
    workers: int,
    to_error: bool = False,
) -> None:
    say_it = tell if to_error else say
    recipe = study.sweep.recipes[0] if study.sweep else study.recipe_of()
    name = study.sweep.title if study.sweep else recipe.name
    say_it(f"{name}, {len(graph.entities):,} entities, {graph.index.triples:,} facts")
    differ = graph_differs(recipe, graph)
    if differ:
        title = title_of(recipe.experiment.benchmark)
        tell(f"The recipe is for {title}, but this graph differs: {'; '.join(differ)}.")
    device = find_device(recipe.training.device)
    peak = idle_peak() if device.type == "cpu" else None
    left, memory = 0.0, 0.0
    stages = study_stages(study, graph, data, out, workers)
    width = max(20, 2 + max(len(stage.name) for stage in stages))
    for stage in stages:
        state = "done" if stage.is_done else "started" if stage.is_begun else "to do"
        if peak and not stage.is_done:
            left += stage.work.seconds(peak)
            memory = max(memory, stage.work.memory)
            takes = duration(stage.work.seconds(peak))
            state = f"started, about {takes} at most" if stage.is_begun else f"about {takes}"
        say_it(f"  {stage.name:<{width}}{state}")
    if left:
        say_it(f"About {duration(left)} in total on an idle processor, less with official queries.")
    if memory:
        say_it(f"About {memory / 2**30:.1f} GB of memory at most.")
    if not peak:
        say_it(f"No estimate for {device}; the progress bars show the time left.")


def _show_result(
    made: Studied, entries: list[Entry], out: Path, options: argparse.Namespace
) -> None:
    if options.json:
        show_json(_plain(made, entries, out, options.seeds))
        return
    if made.sweep:
        table = trials_table(made.sweep.trials)
        show_table(TerminalTable(made.sweep.name, table.headers, table.rows))
        tell(made.sweep.said)
    _show_tables(entries)
    say(f"Report: {out / PAGE / 'report.html'}")
    say(f"Next: {command_name()} ask {shlex.quote(str(made.variants[-1].folders['reasoner']))}")


def _plain(made: Studied, entries: list[Entry], out: Path, seeds: list[int]) -> dict[str, Any]:
    """The variant, or those of all seeds with their means; and the sweep that chose them."""
    found = [
        {
            "name": one.name,
            "folder": str(out),
            "folders": {name: str(place) for name, place in one.folders.items()},
            "settings": one.settings,
            "report": read_report(one.folders["report"]),
        }
        for one in made.variants
    ]
    sweep = {"sweep": made.sweep.as_plain()} if made.sweep else {}
    if not seeds:
        return {**found[0], **sweep}
    own = made.variants[0].without_seed
    groups = [g.as_plain() for g in seed_groups(entries) if g.entries[0].variant == own]
    return {"variants": found, "seeds": groups[0] if groups else None, **sweep}


def _show_tables(entries: list[Entry]) -> None:
    for benchmark in dict.fromkeys(entry.benchmark for entry in entries):
        own = [entry for entry in entries if entry.benchmark == benchmark]
        table = main_table(own, benchmark)
        show_table(TerminalTable(benchmark, table.headers, table.rows))
        found = caveats(own)
        if found:
            tell(f"Published rows: {' '.join(found)}")
        for name, note in _footnotes(own).items():
            tell(f"*{name}: {note}")


def _footnotes(entries: list[Entry]) -> dict[str, str]:
    rows = [row for entry in entries for row in entry.report["shapes"]]
    return {row["shape"]: " ".join(row["notes"]) for row in rows if row["notes"]}


def _left_out(error: DataError) -> None:
    tell(f"Left out: {error}")


def report(options: argparse.Namespace) -> None:
    out = Path(options.out) if options.out else None
    found = [(folder, entry) for folder in options.runs for entry in entries_in(folder, _left_out)]
    entries = [entry for _, entry in found]
    if len(options.runs) > 1 and len({entry.name for entry in entries}) < len(entries):
        entries = distinct([_named(entry, folder) for folder, entry in found])
    if out:
        with told_if_repeated(out):
            save(compare(entries), out)
        tell(f"{out / 'report.html'} and {out / 'report.md'}")
    if options.json:
        show_json([{"name": entry.name, **entry.report, "costs": entry.costs} for entry in entries])
    else:
        _show_tables(entries)


def _named(entry: Entry, folder: str) -> Entry:
    """The entry with its run's name in front, for models of the same name in several runs."""
    return replace(entry, name=f"{Path(folder).resolve().name}: {entry.name}")
