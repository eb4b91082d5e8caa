"""import, export."""

from __future__ import annotations

import argparse
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.cli.output import (
    TerminalTable,
    counted,
    say,
    show_json,
    show_table,
    tell,
    tell_finished,
    told_if_repeated,
)
from clmpt.cli.progress_bars import progress_bar
from clmpt.errors import DataError, cut
from clmpt.graph.endpoints import EndpointImport, is_address, refuse_other_address
from clmpt.graph.knowledge_graph import KnowledgeGraph, is_stored_graph
from clmpt.graph.opening import open_graph, split_files
from clmpt.graph.rdf_reading import LABEL_PROPERTIES, RdfOptions, expanded_iri
from clmpt.graph.readers import ImportSummary, TextOptions, read_graph
from clmpt.graph.writers import export_graph
from clmpt.logic.printing import IRI_BODY
from clmpt.storage.files import refuse_existing
from clmpt.storage.locks import lock_beside


def import_graph(options: argparse.Namespace) -> None:
    started, out = time.perf_counter(), Path(options.out)
    if not is_stored_graph(out):
        refuse_existing(out)
    with lock_beside(out):
        graph, summary = read_sources(options)
        if is_stored_graph(out) and KnowledgeGraph.open(out).equals(graph):
            tell_finished(out)
        else:
            graph.save(out)
        shutil.rmtree(f"{out}.download", ignore_errors=True)
    seconds = time.perf_counter() - started
    document = {**counts_of(graph), "files": summary.files, "seconds": round(seconds, 2)}
    document |= {"labels": count_labels(graph), "literals left out": summary.literals}
    if summary.unused_labels:
        document["unused labels"] = summary.unused_labels
    if summary.headers:
        document["header skipped in"] = ", ".join(summary.headers)
    if summary.entailed:
        document["statements that follow"] = summary.entailed
    if summary.unused_labels:
        named = ", ".join(f"'{cut(name)}'" for name in summary.unused_names)
        tell(f"Labels that name nothing in the graph: {summary.unused_labels:,}, such as {named}.")
    if options.json:
        show_json({"folder": str(out), **document})
        return
    show_counts(f"Stored in {out}", document)


def read_sources(options: argparse.Namespace) -> tuple[KnowledgeGraph, ImportSummary]:
    """The graph in the sources on the command line: files, or one folder."""
    for source in options.sources:
        refuse_other_address(source)
    addresses = [source for source in options.sources if is_address(source)]
    if addresses and len(options.sources) > 1:
        raise DataError(f"'{addresses[0]}' is an endpoint; import it on its own.")
    if addresses and not hasattr(options, "most"):
        raise DataError(f"Import the endpoint first: clmpt import {addresses[0]} --out GRAPH")
    if addresses:
        return _from_endpoint(addresses[0], options)
    folders = [source for source in options.sources if Path(source).is_dir()]
    if folders and len(options.sources) > 1:
        raise DataError(f"'{folders[0]}' is a folder; import it on its own.")
    files = split_files(Path(folders[0])) if folders else options.sources
    rdf = _rdf_options(options)
    special = options.labels or options.columns or options.delimiter or rdf != RdfOptions()
    if folders and not files and special:
        raise DataError(
            f"--labels, --columns, --delimiter and the options for RDF are for files of triples, "
            f"and '{folders[0]}' is a folder in another layout. Leave them out."
        )
    if not files:
        return open_graph(folders[0]), ImportSummary()
    with progress_bar(lambda now: f"{now.done:,} triples read") as show:
        return _noted(read_graph(files, options.labels, _text_options(options), rdf, show))


def _noted(found: tuple[KnowledgeGraph, ImportSummary]) -> tuple[KnowledgeGraph, ImportSummary]:
    unused = found[1].unused_languages
    if unused:
        tell(f"Note: no label is in the language {' or '.join(unused)}.")
    return found


def _from_endpoint(url: str, options: argparse.Namespace) -> tuple[KnowledgeGraph, ImportSummary]:
    """The graph behind a SPARQL endpoint; what has arrived is kept beside the graph until then."""
    folder = Path(f"{options.out}.download")
    with progress_bar(lambda now: f"{now.done:,} statements read") as show:
        path, complete = EndpointImport(
            url, folder, options.most, options.page, show, timeout=options.timeout
        ).run()
        found = read_graph([path], options.labels, None, _rdf_options(options), show)
    if not complete:
        tell(f"Note: only {options.most:,} statements were read. Read more with --most.")
    return _noted(found)


def _rdf_options(options: argparse.Namespace) -> RdfOptions:
    languages = tuple(tag.strip().lower() for tag in options.language.split(","))
    if not all(re.fullmatch(r"[a-z]{1,8}(-[a-z0-9]{1,8})*", tag) for tag in languages):
        raise DataError(f"--language takes tags such as en or de,en, not '{options.language}'.")
    if options.base and not re.fullmatch(IRI_BODY, options.base):
        raise DataError(f"--base takes an IRI such as http://example.org/, not '{options.base}'.")
    further = tuple(map(expanded_iri, options.label_property))
    return RdfOptions(
        options.literals,
        languages,
        (*LABEL_PROPERTIES, *further),
        frozenset(map(expanded_iri, options.leave_out)),
        options.same_as,
        options.entail,
        options.base,
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
    with told_if_repeated(Path(options.out)):
        count = export_graph(graph, Path(options.out))
    if options.json:
        show_json({"file": options.out, "triples": count})
    else:
        say(f"{counted(count, 'triple')} written to {options.out}")


def chosen_view(graph: KnowledgeGraph, splits: str | None) -> KnowledgeGraph:
    return graph.view(*splits.replace(",", "+").split("+")) if splits else graph


def counts_of(graph: KnowledgeGraph) -> dict[str, Any]:
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": graph.index.triples,
        "splits": {name: graph.view(name).index.triples for name in graph.splits},
    }


def count_labels(graph: KnowledgeGraph) -> int:
    tables = (graph.entities.labels, graph.relations.labels)
    return sum(int((np.diff(table.offsets) > 0).sum()) for table in tables if table)


def show_counts(title: str, document: dict[str, Any]) -> None:
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
