"""evaluate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clmpt.answering.model_folder import graph_of, reasoner_in, weights_in
from clmpt.cli.following import memory_named
from clmpt.cli.output import TerminalTable, show_json, show_table, tell
from clmpt.cli.progress_bars import progress_bar
from clmpt.compute.devices import find_device
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.evaluation.measuring import evaluate
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.pages.report_folder import report_table, save_report
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.progress import part_of
from clmpt.queries.sources import open_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.exact import ExactReasoner
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import is_reasoner
from clmpt.storage.files import refuse_existing

EXACT = "exact"  # in place of a checkpoint


def evaluate_model(options: argparse.Namespace) -> None:
    if not options.links and not options.queries:
        raise SettingError("Choose what to evaluate on: --links, --queries SOURCE or both.")
    if options.report:
        refuse_existing(Path(options.report))
    if options.checkpoint == EXACT and not options.graph:
        raise SettingError("Name the graph for the exact solver: --graph FOLDER")
    graph = open_graph(options.graph or graph_of(options.checkpoint))
    options.name = Path(options.checkpoint).resolve().name
    options.is_exact = options.checkpoint == EXACT
    options.checkpoint = str(weights_in(options.checkpoint))
    shown: dict[str, Any] = {}
    if options.links:
        links = _measure_links(options, graph)
        shown["links"] = [{"split": name, **found.as_plain()} for name, found in links]
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
            TerminalTable(f"{options.checkpoint}, filtered, ties at mean rank", headers, rows)
        )
    if options.queries:
        table = report_table(report)
        title = f"{report.model}: MRR and Hits × 100"
        show_table(TerminalTable(title, table.headers, table.rows))
        for note in report.notes:
            tell(note)


def _row(name: str, figures: Figures) -> tuple[object, ...]:
    hits = (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
    return name, f"{figures.mrr:.4f}", *(f"{value:.4f}" for value in hits), figures.count


def _measure_links(options: argparse.Namespace, graph: KnowledgeGraph) -> list[tuple[str, Figures]]:
    if options.is_exact or is_reasoner(options.checkpoint):
        raise SettingError("--links evaluates a predictor. Use --queries for anything else.")
    stored = open_predictor(options.checkpoint, find_device(options.device), options.trust)
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
    groups = _chosen(queries, options.shapes)
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
    found = reasoner_in(options.checkpoint, graph, device, options.trust)
    is_own = is_reasoner(options.checkpoint)
    return options.name if is_own else f"{options.name} ({found.name})", found


def _chosen(queries: QuerySet, shapes: list[str] | None) -> list[QueryGroup]:
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
