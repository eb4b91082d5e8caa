"""evaluate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clmpt.answering.asked_model import BEAM_SEARCH, open_model
from clmpt.answering.model_folder import graph_of, predictor_in, weights_in
from clmpt.answering.probabilities import LISTED, by_hops, said_and_true
from clmpt.cli.following import memory_named
from clmpt.cli.output import TerminalTable, show_json, show_table, tell
from clmpt.cli.progress_bars import progress_bar
from clmpt.compute.devices import find_device
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.evaluation.measuring import evaluate
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.reliability import BINS, Reliability
from clmpt.evaluation.report import Report
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import FULL, OBSERVED, train_split
from clmpt.pages.reliability_diagram import reliability_svg
from clmpt.pages.report_folder import report_table, save_report
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.progress import part_of
from clmpt.queries.sources import open_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.exact import ExactReasoner
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import is_reasoner
from clmpt.storage.files import new_file, refuse_existing

EXACT = "exact"  # in place of a checkpoint


def evaluate_model(options: argparse.Namespace) -> None:
    if not options.links and not options.queries:
        raise SettingError("Choose what to evaluate on: --links, --queries SOURCE or both.")
    for path in filter(None, (options.report, options.svg)):
        refuse_existing(Path(path))
    if options.calibration and not options.queries:
        raise SettingError("--calibration is measured on queries: --queries SOURCE")
    if options.svg and not options.calibration:
        raise SettingError("--svg draws what --calibration measures. Add --calibration.")
    if options.checkpoint == EXACT and not options.graph:
        raise SettingError("Name the graph for the exact solver: --graph FOLDER")
    graph = open_graph(options.graph or graph_of(options.checkpoint))
    options.name = Path(options.checkpoint).resolve().name
    options.is_exact = options.checkpoint == EXACT
    options.predictor = predictor_in(options.checkpoint)
    options.checkpoint = str(weights_in(options.checkpoint))
    shown: dict[str, Any] = {}
    if options.links:
        links = _measure_links(options, graph)
        shown["links"] = [{"split": name, **found.as_plain()} for name, found in links]
    if options.calibration:
        _show_calibration(options, _measure_calibration(options, graph))
        return
    if options.queries:
        report = _measure_queries(options, graph)
        shown["queries"] = report.as_plain()
        if options.report:
            save_report(report, options.report)
    if options.json:
        show_json(shown)
        return
    if options.links:
        headers = ["links of", "MRR", "Hits@1", "Hits@3", "Hits@10", "over"]
        rows = [_row(name, figures) for name, figures in links]
        show_table(
            TerminalTable(f"{options.predictor}, filtered, ties at mean rank", headers, rows)
        )
    if options.queries:
        table = report_table(report)
        title = f"{report.model}: MRR and Hits × 100"
        show_table(TerminalTable(title, table.headers, table.rows))
        for note in report.notes:
            tell(note)
        if options.known:
            tell(f"Facts that the reasoner may use: {' + '.join(options.known)}.")


def _measure_calibration(options: argparse.Namespace, graph: KnowledgeGraph) -> list[Reliability]:
    if options.is_exact:
        raise SettingError("The exact solver has no probabilities to measure.")
    queries = open_queries(Path(options.queries), graph, options.split or "test")
    known = _known(options, graph)
    asked, _ = open_model(
        *(options.checkpoint, graph, find_device(options.device)),
        *(options.trust, options.reasoner, known),
    )
    with memory_named(), progress_bar() as show:
        said = said_and_true(asked, _chosen(queries, options), known, show)
    return by_hops(said)


def _show_calibration(options: argparse.Namespace, found: list[Reliability]) -> None:
    title = f"{options.name}: what is said to be likely, and what is true"
    if options.svg:
        with new_file(Path(options.svg)) as scratch:
            scratch.write_text(reliability_svg(title, found), encoding="utf-8")
    if options.json:
        show_json({"calibration": [one.as_plain() for one in found]})
        return
    rows = [(one.name, f"{one.error:.3f}", one.count) for one in found]
    show_table(TerminalTable(title, ["hops", "expected calibration error", "answers"], rows))
    bins = [
        (f"{b.least:.0%} to {b.least + 1 / BINS:.0%}", f"{b.said:.1%}", f"{b.true:.1%}", b.count)
        for b in found[0].bins
    ]
    show_table(TerminalTable("", ["probability", "said", "true", "answers"], bins))
    tell(
        f"The {LISTED} likeliest predictions of each query; true if they follow from the full "
        "graph."
    )


def _row(name: str, figures: Figures) -> tuple[object, ...]:
    hits = (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
    return name, f"{figures.mrr:.4f}", *(f"{value:.4f}" for value in hits), figures.count


def _measure_links(options: argparse.Namespace, graph: KnowledgeGraph) -> list[tuple[str, Figures]]:
    if options.is_exact or is_reasoner(options.predictor):
        raise SettingError("--links evaluates a predictor. Use --queries for anything else.")
    stored = open_predictor(options.predictor, find_device(options.device), options.trust)
    stored.names.check_graph(graph)
    usual = [name for name in ("valid", "test") if name in graph.splits]
    splits = (
        [options.split]
        if options.split
        else [name for name in usual if graph.view(name).index.triples]
    )
    if not splits:
        raise DataError(
            "The graph has no facts in 'valid' or 'test'. Choose another split: --split NAME"
        )
    found = []
    for name in splits:
        with progress_bar() as show:
            figures = evaluate_links(
                stored.predictor, graph, name, part_of(show, f"links of {name}", 0, None)
            )
        found.append((name, figures))
    return found


def _measure_queries(options: argparse.Namespace, graph: KnowledgeGraph) -> Report:
    source, split = Path(options.queries), options.split or "test"
    if options.split and not options.links and not source.is_dir():
        raise SettingError(f"--split is for benchmark folders; '{source}' is a single file.")
    queries = open_queries(source, graph, split)
    groups = _chosen(queries, options)
    if not any(len(group.hard.entities) for group in groups):
        raise DataError(
            f"'{options.queries}' has no hard answers to rank. Queries sampled for the splits "
            "'valid' and 'test' do."
        )
    observed, full = _splits(queries, graph, Path(options.queries), split)
    if options.is_exact and not observed:
        raise DataError(
            f"'{options.queries}' does not say which splits its easy answers follow from."
        )
    name, reasoner = _asked(options, graph, observed)
    whole = graph.view(*full) if full else None
    with memory_named(), progress_bar() as show:
        return evaluate(
            reasoner, groups, name, whole, observed or None, {"queries": source.name}, show
        )


def _asked(
    options: argparse.Namespace, graph: KnowledgeGraph, observed: tuple[str, ...]
) -> tuple[str, Reasoner]:
    """The reasoner to evaluate, and its name in the report."""
    if options.is_exact:
        exact = ExactReasoner(graph.view(*observed))
        return exact.name, exact
    device = find_device(options.device)
    is_own = is_reasoner(options.checkpoint)
    wanted = options.reasoner or (None if is_own else BEAM_SEARCH)
    known = _known(options, graph)
    found = open_model(options.checkpoint, graph, device, options.trust, wanted, known)[0].reasoner
    plain = is_own and not options.reasoner
    return options.name if plain else f"{options.name} ({found.name})", found


def _known(options: argparse.Namespace, graph: KnowledgeGraph) -> KnowledgeGraph:
    """The facts that a reasoner may use: those that it was trained on, unless chosen."""
    for name in options.known or ():
        if name not in graph.splits:
            raise SettingError(
                f"The graph has no split '{name}'. Available: {', '.join(graph.splits)}."
            )
    return graph.view(*(options.known or (train_split(graph),)))


def _chosen(queries: QuerySet, options: argparse.Namespace) -> list[QueryGroup]:
    shapes: list[str] | None = options.shapes
    if not shapes:
        return list(queries.groups)
    by_name = {group.name: group for group in queries.groups}
    for name in dict.fromkeys(shapes):
        if name not in by_name:
            raise DataError(
                f"There are no queries of shape {name}. Available shapes: {', '.join(by_name)}."
            )
    return [by_name[name] for name in dict.fromkeys(shapes)]


def _splits(
    queries: QuerySet, graph: KnowledgeGraph, source: Path, split: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that easy answers, and all answers, follow from; empty if unknown."""
    observed = queries.about.get("observed", OBSERVED.get(split, ()) if source.is_dir() else ())
    full = queries.about.get("full", FULL.get(split, ()) if source.is_dir() else ())
    lists = isinstance(observed, list | tuple) and isinstance(full, list | tuple)
    if not lists or not {*map(str, observed), *map(str, full)} <= set(graph.splits):
        return (), ()
    return tuple(map(str, observed)), tuple(map(str, full))
