"""import, export, info."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.cli.output import TerminalTable, say, show_json, show_table
from clmpt.cli.progress_bars import progress_bar
from clmpt.errors import DataError
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import has_graph, open_graph
from clmpt.graph.readers import ImportSummary, TextOptions, read_graph
from clmpt.graph.writers import export_graph
from clmpt.sharing.model_facts import is_model, model_facts
from clmpt.storage.files import refuse_existing


def import_graph(options: argparse.Namespace) -> None:
    started, out = time.perf_counter(), Path(options.out)
    refuse_existing(out)
    graph, summary = read_sources(options)
    graph.save(out)
    seconds = time.perf_counter() - started
    document = {**_counts(graph), "files": summary.files, "seconds": round(seconds, 2)}
    document |= {"labels": summary.labels, "literals left out": summary.literals}
    if summary.headers:
        document["header skipped in"] = ", ".join(summary.headers)
    if summary.quoted:
        document["statements about statements left out"] = summary.quoted
    if options.json:
        show_json({"folder": str(out), **document})
        return
    _show_counts(f"Stored in {out}", document)


def read_sources(options: argparse.Namespace) -> tuple[KnowledgeGraph, ImportSummary]:
    """The graph in the sources on the command line: files, or one folder."""
    folders = [source for source in options.sources if Path(source).is_dir()]
    if folders and len(options.sources) > 1:
        raise DataError(f"'{folders[0]}' is a folder; import it on its own.")
    if folders and (options.labels or options.columns or options.delimiter or options.literals):
        raise DataError(
            "--labels, --columns, --delimiter and --literals are for files, not folders."
        )
    if folders:
        graph, summary = open_graph(folders[0]), ImportSummary()
        summary.labels = _count_labels(graph)
        return graph, summary
    with progress_bar(lambda now: f"{now.done:,} triples read") as show:
        return read_graph(
            options.sources,
            options.labels,
            _text_options(options),
            options.literals,
            show,
        )


def _text_options(options: argparse.Namespace) -> TextOptions:
    columns = None
    if options.columns:
        try:
            head, relation, tail = (int(number) - 1 for number in options.columns.split(","))
        except ValueError:
            raise DataError(
                f"--columns takes three numbers such as 1,2,3, not '{options.columns}'."
            ) from None
        columns = (head, relation, tail)
        if min(columns) < 0:
            raise DataError("--columns counts from 1.")
    delimiter = options.delimiter and options.delimiter.replace("\\t", "\t")
    if delimiter and len(delimiter) != 1:
        raise DataError(f"--delimiter takes one character, not '{options.delimiter}'.")
    try:
        "".encode(options.encoding)
    except LookupError:
        raise DataError(f"There is no encoding '{options.encoding}'.") from None
    return TextOptions(delimiter, options.header, columns, options.encoding)


def export(options: argparse.Namespace) -> None:
    graph = chosen_view(open_graph(options.folder), options.split)
    count = export_graph(graph, Path(options.out))
    if options.json:
        show_json({"file": options.out, "triples": count})
    else:
        say(f"{count:,} triples written to {options.out}")


def chosen_view(graph: KnowledgeGraph, splits: str | None) -> KnowledgeGraph:
    return graph.view(*splits.replace(",", "+").split("+")) if splits else graph


def info(options: argparse.Namespace) -> None:
    model = _about_model(options)
    if model and not has_graph(options.folder):
        if options.json:
            show_json(model)
        return
    graph = open_graph(options.folder)
    rows = graph.triples()
    per_relation = np.bincount(rows[:, 1], minlength=len(graph.relations))
    biggest = np.argsort(-per_relation, kind="stable")[: max(options.top, 0)].tolist()
    degree = np.bincount(rows[:, [0, 2]].reshape(-1), minlength=len(graph.entities))
    document = _counts(graph) | {
        "labels": _count_labels(graph),
        "both directions present": graph.has_both_directions,
        "index bytes per triple": round(_index_bytes(graph) / max(graph.index.triples, 1), 1),
    }
    relations = [(graph.relations.label(r), int(per_relation[r])) for r in biggest]
    histogram = _degree_histogram(degree)
    if options.json:
        names = [{"relation": name, "triples": count} for name, count in relations]
        degrees = [{"degree": name, "entities": count} for name, count in histogram]
        show_json({**model, **document, "biggest relations": names, "degrees": degrees})
        return
    _show_counts(str(options.folder), document)
    show_table(TerminalTable("Biggest relations", ["relation", "triples"], relations))
    most = max((count for _, count in histogram), default=1)
    bars = [
        (name, count, "█" * max(round(40 * count / most), count > 0)) for name, count in histogram
    ]
    show_table(TerminalTable("Degrees", ["edges", "entities", ""], bars))


def _about_model(options: argparse.Namespace) -> dict[str, Any]:
    """What the folder says of a model, if it has one; shown, unless as JSON."""
    if not is_model(options.folder):
        return {}
    facts = model_facts(options.folder)
    if not options.json:
        show_table(TerminalTable(str(options.folder), ["what", "value"], facts.rows()))
    return {"model": {**dict(facts.rows()), "versions": dict(facts.versions)}}


def _degree_histogram(degree: Ints) -> list[tuple[str, int]]:
    """Entities by their number of edges, in doubling steps."""
    if not len(degree):
        return []
    step = np.where(degree > 0, np.frexp(degree)[1], 0)
    counts = np.bincount(step)
    names = ["0", "1", *(f"{2**n}-{2 ** (n + 1) - 1}" for n in range(1, len(counts)))]
    return [(names[n], int(count)) for n, count in enumerate(counts)]


def _counts(graph: KnowledgeGraph) -> dict[str, Any]:
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": graph.index.triples,
        "splits": {name: graph.view(name).index.triples for name in graph.splits},
    }


def _count_labels(graph: KnowledgeGraph) -> int:
    tables = (graph.entities.labels, graph.relations.labels)
    return sum(int((np.diff(table.offsets) > 0).sum()) for table in tables if table)


def _index_bytes(graph: KnowledgeGraph) -> int:
    index = graph.index
    arrays = (index.keys_K1, index.offsets_K2, index.neighbours_X, index.splits_X)
    return sum(array.nbytes for array in arrays)


def _show_counts(title: str, document: dict[str, Any]) -> None:
    rows: list[tuple[str, object]] = []
    for name, value in document.items():
        if name == "splits":
            rows += [(f"split {split}", count) for split, count in value.items()]
        elif name == "files":
            rows += [
                (f"file {file['file']}", f"{file['triples']:,} → {file['split']}") for file in value
            ]
        else:
            rows.append((name, value))
    show_table(TerminalTable(title, ["what", "value"], rows))
