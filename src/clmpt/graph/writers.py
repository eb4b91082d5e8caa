"""Graphs as files for other tools: TSV and N-Triples."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import LABEL, local_name
from clmpt.logic.formula import Name
from clmpt.logic.iris import iri_of
from clmpt.logic.printing import is_iri
from clmpt.storage.files import new_file, refuse_existing

_LITERAL = re.compile(
    r'"(?:[^"\\\n\r]|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4})*"'
    r"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^<([^<>]*)>)?"
)
_ROWS = 100_000


def export_graph(graph: KnowledgeGraph, path: Path) -> int:
    """Writes the triples of a graph (or of a view) and returns how many there are.

    The file extension sets the format: .tsv for tab-separated names, .nt for N-Triples; a final
    .gz compresses it.
    """
    plain = path.name.removesuffix(".gz")
    writers = {".tsv": _tsv, ".nt": _ntriples}
    writer = writers.get(Path(plain).suffix)
    if writer is None:
        raise DataError(f"'{path}' should end in .tsv or .nt, optionally followed by .gz.")
    refuse_existing(path)
    with new_file(path) as scratch:
        gzipped = plain != path.name
        with (
            gzip.open(scratch, "wt", encoding="utf-8", newline="")
            if gzipped
            else scratch.open("w", encoding="utf-8", newline="") as file
        ):
            writer(graph, file)
    return graph.index.triples


def _rows(graph: KnowledgeGraph) -> Iterator[list[list[int]]]:
    triples = graph.triples()
    for first in range(0, len(triples), _ROWS):
        yield triples[first : first + _ROWS].tolist()


def _tsv(graph: KnowledgeGraph, file: TextIO) -> None:
    entities, relations = list(graph.entities.names), list(graph.relations.names)
    for name in (*entities, *relations):
        if "\t" in name or "\n" in name or "\r" in name:
            raise DataError(
                f"The name {name!r} contains a tab or a line break, which TSV cannot hold. Export "
                "to .nt instead."
            )
    for rows in _rows(graph):
        file.writelines(f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in rows)


def _ntriples(graph: KnowledgeGraph, file: TextIO) -> None:
    subjects = np.zeros(len(graph.entities), np.bool_)
    subjects[graph.triples()[:, 0]] = True
    entities = [
        _term(name, not subjects[number] and graph.entities.label(number) != name)
        for number, name in enumerate(graph.entities.names)
    ]
    relations = [f"<{iri_of(Name(name))}>" for name in graph.relations.names]
    for rows in _rows(graph):
        file.writelines(f"{entities[h]} {relations[r]} {entities[t]} .\n" for h, r, t in rows)
    for vocabulary, terms in ((graph.entities, entities), (graph.relations, relations)):
        for number, label in enumerate(vocabulary.labels or ()):
            known = label and label != local_name(vocabulary.names[number])
            if known and terms[number].startswith("<"):
                file.write(f"{terms[number]} <{LABEL}> {_quoted(label)} .\n")


def _term(name: str, may_be_literal: bool) -> str:
    """An N-Triples term. Only a name that was imported as a literal has a label of its own."""
    if re.fullmatch(r"_:b\d+", name):
        return name
    literal = _LITERAL.fullmatch(name) if may_be_literal else None
    if literal and (literal[1] is None or is_iri(literal[1])):
        return name
    return f"<{iri_of(Name(name))}>"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
