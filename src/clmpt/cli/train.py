"""train, evaluate."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import graph_of, model_of, reasoner_of
from clmpt.cli.output import Table, progress, show_json, show_table, tell
from clmpt.cli.pretrain import given_settings, memory_named, run_to_the_end
from clmpt.compute.devices import find_device
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.ranks import Figures, evaluate_links
from clmpt.evaluation.report import Report
from clmpt.evaluation.report import evaluate as evaluate_queries
from clmpt.graph.benchmark_folders import FULL, OBSERVED, open_graph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.json_lines import open_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.exact import ExactReasoner
from clmpt.settings import Reasoning, Training, reasoning, training
from clmpt.storage.files import refuse_existing
from clmpt.training.checkpoint import is_reasoner, open_checkpoint
from clmpt.training.runs import has_facts, train

EXACT = "exact"  # in the place of a checkpoint


def train_reasoner(options: argparse.Namespace) -> None:
    model_settings = reasoning(given_settings(options, Reasoning, "reasoning", "training"))
    settings = training(given_settings(options, Training, "training", "reasoning"))
    out = Path(options.out)
    if options.resume and not (out / "run.json").exists():
        raise DataError(f"There is no run in '{out}' to go on with.")
    graph = open_graph(options.folder)
    checkpoint = open_checkpoint(options.predictor)
    checkpoint.check_graph(graph)
    queries = open_queries(Path(options.queries), graph, "train")
    valid = open_queries(Path(options.valid), graph, "valid") if options.valid else None
    if valid is None and not (has_facts(graph, "valid") and has_facts(graph, "train")):
        tell("There are no facts in 'valid': all steps are trained and the last weights are kept.")
    source = str(Path(options.folder).resolve())
    steps = train(
        graph, checkpoint.predictor, queries, model_settings, settings, out, source, valid
    )
    hint = f"clmpt ask {out} 'QUESTION', or clmpt evaluate {out} --queries SOURCE"
    run_to_the_end(steps, out / "reasoner.json", hint, options.json)


# --- evaluate -------------------------------------------------------------------------------------


def evaluate(options: argparse.Namespace) -> None:
    if not options.links and not options.queries:
        raise SettingError("Say what to measure: --links, --queries SOURCE or both.")
    if options.report:
        refuse_existing(Path(options.report))
    if options.checkpoint == EXACT and not options.graph:
        raise SettingError("Say which graph the exact solver shall look at: --graph FOLDER")
    graph = open_graph(options.graph or graph_of(options.checkpoint))
    options.name = Path(options.checkpoint).resolve().name
    options.checkpoint = str(model_of(options.checkpoint))
    shown: dict[str, Any] = {}
    if options.links:
        links = _measure_links(options, graph)
        shown["links"] = [{"split": name, **found.as_plain()} for name, found in links]
    if options.queries:
        report = _measure_queries(options, graph)
        shown["queries"] = report.as_plain()
        if options.report:
            report.save(options.report)
    if options.json:
        show_json(shown)
        return
    if options.links:
        headers = ["links of", "MRR", "Hits@1", "Hits@3", "Hits@10", "over"]
        rows = [_row(name, figures) for name, figures in links]
        show_table(Table(f"{options.checkpoint}, filtered, ties at mean rank", headers, rows))
    if options.queries:
        headers, cells = report.table()
        show_table(Table(f"{report.model}: MRR and Hits × 100", headers, cells))
        for note in report.notes:
            tell(note)


def _row(name: str, figures: Figures) -> tuple[object, ...]:
    hits = (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
    return name, f"{figures.mrr:.4f}", *(f"{value:.4f}" for value in hits), figures.count


def _measure_links(options: argparse.Namespace, graph: KnowledgeGraph) -> list[tuple[str, Figures]]:
    if options.checkpoint == EXACT or is_reasoner(options.checkpoint):
        raise SettingError("--links measures a predictor. Use --queries for anything else.")
    checkpoint = open_checkpoint(options.checkpoint, find_device(options.device))
    checkpoint.check_graph(graph)
    usual = [name for name in ("valid", "test") if name in graph.splits]
    splits = (
        [options.split]
        if options.split
        else [name for name in usual if graph.view(name).index.triples]
    )
    if not splits:
        raise DataError(
            "The graph has no facts in 'valid' or 'test'. Say which to measure with: --split NAME"
        )
    found = []
    for name in splits:
        with progress(None) as show:
            figures = evaluate_links(checkpoint.predictor, graph, name, partial(show, name))
        found.append((name, figures))
    return found


def _measure_queries(options: argparse.Namespace, graph: KnowledgeGraph) -> Report:
    source, split = Path(options.queries), options.split or "test"
    if options.split and not options.links and not source.is_dir():
        raise SettingError(
            f"--split chooses among a benchmark folder's queries; '{source}' is one file."
        )
    queries = open_queries(source, graph, split)
    groups = _chosen(queries, options.shapes)
    if not any(len(group.hard.entities) for group in groups):
        raise DataError(
            f"'{options.queries}' has no hard answers to rank. Queries of the splits valid and "
            "test have them."
        )
    observed, full = _splits(queries, graph, Path(options.queries), split)
    if options.checkpoint == EXACT and not observed:
        raise DataError(
            f"It is not known which splits the easy answers of '{options.queries}' follow from."
        )
    if options.checkpoint == EXACT:
        name, reasoner = "exact solver", ExactReasoner(graph.view(*observed))
    else:
        name = options.name
        reasoner = reasoner_of(options.checkpoint, graph, find_device(options.device))  # type: ignore[assignment]
        if not is_reasoner(options.checkpoint):
            name += " (predictor, hop by hop)"
    whole = graph.view(*full) if full else None
    with memory_named(), progress(sum(map(len, groups))) as show:
        return evaluate_queries(
            reasoner, groups, name, whole, observed or None, {"queries": source.name}, show
        )


def _chosen(queries: QuerySet, shapes: list[str] | None) -> list[QueryGroup]:
    if not shapes:
        return list(queries.groups)
    by_name = {group.name: group for group in queries.groups}
    for name in dict.fromkeys(shapes):
        if name not in by_name:
            raise DataError(
                f"There are no queries of shape {name}. There are: {', '.join(by_name)}."
            )
    return [by_name[name] for name in dict.fromkeys(shapes)]


def _splits(
    queries: QuerySet, graph: KnowledgeGraph, source: Path, split: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the queries' easy answers follow from, and all their answers; nothing if unknown."""
    observed = queries.about.get("observed", OBSERVED.get(split, ()) if source.is_dir() else ())
    full = queries.about.get("full", FULL.get(split, ()) if source.is_dir() else ())
    lists = isinstance(observed, list | tuple) and isinstance(full, list | tuple)
    if not lists or not {*map(str, observed), *map(str, full)} <= set(graph.splits):
        return (), ()
    return tuple(map(str, observed)), tuple(map(str, full))
