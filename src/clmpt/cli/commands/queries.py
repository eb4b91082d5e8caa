"""sample, queries, verify, hardness."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from clmpt.cli.output import (
    TerminalTable,
    clean,
    say,
    show_json,
    show_table,
    tell,
    tell_finished,
    told_if_repeated,
)
from clmpt.cli.progress_bars import progress_bar
from clmpt.cli.together import share_of_command
from clmpt.compute.processors import available_processors
from clmpt.errors import DataError, SamplingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.logic.formula import Query
from clmpt.logic.shapes import SHAPES, shape
from clmpt.progress import Progress
from clmpt.queries.benchmark_files import query_splits, read_queries
from clmpt.queries.sources import NEEDS_GRAPH, open_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.queries.templates import instantiate
from clmpt.sampling.making import (
    make_queries,
    partial_folder,
    protocol_for,
    wanted_shape,
    write_queries,
)
from clmpt.symbolic.missing_links import hard_answer_counts
from clmpt.symbolic.verification import verify_group


def sample_queries(options: argparse.Namespace) -> None:
    started, out = time.perf_counter(), Path(options.out)
    is_repeated = out.exists()
    graph = open_graph(options.folder)
    protocol = protocol_for(graph, options.split, options.max_answers)
    named = [_name_and_shape(text) for text in options.shapes]
    names = {shape(formula): name for name, formula in named if name}
    wanted = [wanted_shape(formula, options.count) for _, formula in named]
    workers = options.workers or available_processors()
    try:
        with progress_bar() as show:
            chosen = (graph, wanted, protocol, out, options.seed, workers, show, names)
            made = make_queries(*chosen, share=share_of_command())
    except KeyboardInterrupt:
        tell(f"Stopped. The same command resumes; to start again remove '{partial_folder(out)}'.")
        raise
    if is_repeated:
        tell_finished(out)
    _show_groups(made, options, out, time.perf_counter() - started, wanted)


def _name_and_shape(text: str) -> tuple[str, str]:
    """The name that a formula is given, and the formula; any other text has no name.

    >>> _name_and_shape("twice=?y : $r($s, ?x) & $r(?x, ?y)")
    ('twice', '?y : $r($s, ?x) & $r(?x, ?y)')
    >>> _name_and_shape("2p=100")
    ('', '2p=100')
    """
    found = re.fullmatch(r"(?s)([\w.-]+)=\s*(\?.*)", text)
    if not found:
        return "", text
    if found[1] in SHAPES and shape(found[1]) != shape(found[2]):
        raise SamplingError(f"The name '{found[1]}' is taken by another shape. Choose another one.")
    return found[1], found[2]


def queries(options: argparse.Namespace) -> None:
    started, source = time.perf_counter(), Path(options.source)
    graph = open_graph(options.graph) if options.graph else None
    if graph is None and str(options.out or "").endswith(".jsonl"):
        raise DataError(NEEDS_GRAPH)
    found = open_queries(source, graph, options.split)
    if options.out:
        out = Path(options.out)
        if graph and "graph" not in found.about:
            found = QuerySet(found.groups, {**found.about, "graph": graph.fingerprint})
        with told_if_repeated(out):
            write_queries(found, graph, out)
    _show_groups(found, options, Path(options.out or source), time.perf_counter() - started)


def _show_groups(
    queries: QuerySet,
    options: argparse.Namespace,
    path: Path,
    seconds: float,
    wanted: list[tuple[Query, int]] | None = None,
) -> None:
    rows = [
        (group.name, len(group), len(group.easy.entities), len(group.hard.entities))
        for group in queries.groups
    ]
    headers = ["shape", "queries", "easy answers", "hard answers"]
    if options.json:
        listed = [dict(zip(headers, row, strict=True)) for row in rows]
        show_json(
            {"file": str(path), "shapes": listed, **queries.about, "seconds": round(seconds, 2)}
        )
    else:
        show_table(TerminalTable(f"{len(queries):,} queries in {path}", headers, rows))
    for group, (_, count) in zip(queries.groups, wanted or [], strict=False):
        if len(group) < count:
            found = f"{group.name}: found only {len(group):,} of {count:,}"
            tell(f"{found}; the rest are too rare or do not exist.")


def verify(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    folder, graph, splits = _benchmark(options)
    rows, wrong = [], 0
    for split in splits:
        groups = read_queries(folder, split)
        done, total = 0, sum(len(group) for group in groups)
        with progress_bar() as show:
            for group in groups:
                show(Progress(f"{split} {group.name}", done, total))
                found = verify_group(group, graph, split)
                done += len(group)
                wrong += not found.is_perfect
                if found.first_wrong is not None:
                    tell(f"{split} {group.name}: {_named(group, found.first_wrong, graph)} differs")
                rows.append(
                    (
                        split,
                        found.shape,
                        found.queries,
                        found.easy,
                        found.hard,
                        "✓" if found.is_perfect else "✗",
                    )
                )
    seconds = time.perf_counter() - started
    headers = ["split", "shape", "queries", "easy agree", "hard agree", ""]
    if options.json:
        listed = [dict(zip(headers[:5], row[:5], strict=True)) for row in rows]
        show_json(
            {
                "folder": str(folder),
                "shapes": listed,
                "all agree": not wrong,
                "seconds": round(seconds, 2),
            }
        )
    else:
        show_table(TerminalTable(f"Stored and recomputed answers, {folder}", headers, rows))
        total = sum(row[2] for row in rows)
        say(f"all {total:,} agree" if not wrong else f"{wrong} of {len(rows)} rows disagree")
    return int(wrong > 0)


def _named(group: QueryGroup, number: int, graph: KnowledgeGraph) -> str:
    row = (group.entities[number], group.relations[number])
    return clean(str(graph.named(instantiate(group.template, *row, len(graph.relations)))))


def show_hardness(options: argparse.Namespace) -> None:
    folder, graph, splits = _benchmark(options)
    rows: list[tuple[object, ...]] = []
    for split in splits:
        for group in read_queries(folder, split):
            if not len(group.hard.entities):
                continue
            group.check(len(graph.entities), len(graph.relations))
            full = graph.view(*FULL[split])
            counts, all_missing = hard_answer_counts(group, full, OBSERVED[split])
            total = max(int(counts.sum()), 1)
            shares = [f"{100 * count / total:.1f}%" for count in counts[1:].tolist()]
            rows.append((split, group.name, int(counts.sum()), all_missing, *shares))
    most = max((len(row) for row in rows), default=4)
    rows = [(*row, *[""] * (most - len(row))) for row in rows]
    headers = ["split", "shape", "hard answers", "all missing"]
    headers += [f"{number} missing" for number in range(1, most - 3)]
    if options.json:
        show_json(
            {
                "folder": str(folder),
                "shapes": [dict(zip(headers, row, strict=True)) for row in rows],
            }
        )
    else:
        show_table(TerminalTable(f"Links that hard answers are missing, {folder}", headers, rows))


def _benchmark(options: argparse.Namespace) -> tuple[Path, KnowledgeGraph, list[str]]:
    folder = Path(options.folder)
    if not folder.is_dir():
        raise DataError(f"There is no folder '{folder}'.")
    splits = query_splits(folder)
    if options.split:
        if options.split not in splits:
            there = ", ".join(splits) or "none"
            raise DataError(
                f"'{folder}' has no {options.split} queries with answers; it has: {there}."
            )
        splits = [options.split]
    if not splits:
        raise DataError(
            f"'{folder}' has no queries with answers (NAME-queries.pkl or NAME-qaa.json)."
        )
    return folder, open_graph(options.graph or folder), splits
