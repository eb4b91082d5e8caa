"""Graphs as files for other tools: TSV, and RDF with all that the source said."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_dataset import RdfDataset
from clmpt.graph.rdf_reading import LABEL, LABEL_PROPERTIES
from clmpt.graph.readers import local_name
from clmpt.logic.prefixes import PREFIXES
from clmpt.logic.rdf_terms import Iri, Literal, rdf_text
from clmpt.storage.files import new_file

_ROWS = 100_000
RDF_FORMATS = {".nt": "N_TRIPLES", ".nq": "N_QUADS", ".ttl": "TURTLE", ".trig": "TRIG"}
_WITHOUT_GRAPHS = {".nt": ".nq", ".ttl": ".trig"}  # and what to use instead


def export_graph(graph: KnowledgeGraph, path: Path) -> int:
    """Writes the triples of a graph (or of a view) and returns how many there are.

    The file extension sets the format: .tsv for tab-separated names; .nt, .nq, .ttl or .trig for
    RDF, with all literals, labels and named graphs. A final .gz compresses it. A file that exists
    must be the same, and stays.
    """
    plain = path.name.removesuffix(".gz")
    suffix = Path(plain).suffix
    if suffix != ".tsv" and suffix not in RDF_FORMATS:
        known = " ".join([".tsv", *RDF_FORMATS])
        raise DataError(f"'{path}' should end in one of {known}, optionally followed by .gz.")
    if suffix in _WITHOUT_GRAPHS and graph.rdf is not None and len(graph.rdf.named_M5):
        raise DataError(
            f"The graph has named graphs, which {suffix} cannot hold. Export to "
            f"{_WITHOUT_GRAPHS[suffix]} instead."
        )
    with new_file(path, replaces=False) as scratch, scratch.open("wb") as opened:
        packed = plain != path.name  # without name and time, so that the same graph gives the same
        file: Any = gzip.GzipFile("", "wb", fileobj=opened, mtime=0) if packed else opened
        with file:
            return _tsv(graph, file) if suffix == ".tsv" else _rdf(graph, file, suffix)


def _rows(graph: KnowledgeGraph) -> Iterator[list[list[int]]]:
    triples = graph.triples()
    for first in range(0, len(triples), _ROWS):
        yield triples[first : first + _ROWS].tolist()


def _tsv(graph: KnowledgeGraph, file: IO[bytes]) -> int:
    entities, relations = list(graph.entities.names), list(graph.relations.names)
    for name in (*entities, *relations):
        if "\t" in name or "\n" in name or "\r" in name:
            raise DataError(
                f"The name {name!r} contains a tab or a line break, which TSV cannot hold. Export "
                "to .nt instead."
            )
    for rows in _rows(graph):
        lines = (f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in rows)
        file.write("".join(lines).encode())
    return graph.index.triples


# --- RDF ------------------------------------------------------------------------------------------


def _rdf(graph: KnowledgeGraph, file: IO[bytes], suffix: str) -> int:
    writer = _RdfWriter(graph)
    if suffix in (".nt", ".nq"):
        for lines in writer.lines():
            file.write("".join(lines).encode())
        return writer.written
    import pyoxigraph as ox

    each = (line for block in writer.lines() for line in block)
    quads = (quad for line in each for quad in ox.parse(line, format=ox.RdfFormat.N_QUADS))
    prefixes = {name: iri for name, iri in PREFIXES.items() if name in ("rdf", "rdfs", "xsd")}
    ox.serialize(quads, file, format=getattr(ox.RdfFormat, RDF_FORMATS[suffix]), prefixes=prefixes)
    return writer.written


class _RdfWriter:
    """All statements of a graph as lines of N-Quads."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.written = graph, 0
        self.dataset = RdfDataset(graph, as_written=True)
        self.terms = [rdf_text(self.dataset.terms[at]) for at in range(len(self.dataset.terms))]
        self.predicates = [f"<{iri}>" for iri in self.dataset.predicate_names]

    def lines(self) -> Iterator[list[str]]:
        terms, predicates = self.terms, self.predicates
        for rows in _blocks(self.dataset.default.forward_triples()):
            self.written += len(rows)
            yield [f"{terms[s]} {predicates[p]} {terms[o]} .\n" for s, p, o in rows]
        if self.graph.rdf is not None:
            named = self.graph.rdf.named_M5
            for rows in _blocks(named[(named[:, 4] & self.dataset.bits) != 0][:, :4]):
                self.written += len(rows)
                yield [
                    f"{terms[s]} {predicates[p]} {terms[o]} {terms[g]} .\n" for g, s, p, o in rows
                ]
        yield list(self.labels())

    def labels(self) -> Iterator[str]:
        """Labels that no statement gives: those of plain graphs, and those from label files."""
        labelled = self._labelled()
        for vocabulary in (self.graph.entities, self.graph.relations):
            for number, label in enumerate(vocabulary.labels or ()):
                name = vocabulary.names[number]
                text = (
                    self.terms[number]
                    if vocabulary is self.graph.entities
                    else self.predicates[number]
                )
                new = label and label != local_name(name) and text not in labelled
                if new and text.startswith("<"):
                    yield f"{text} <{LABEL}> {rdf_text(Literal(label))} .\n"

    def _labelled(self) -> set[str]:
        found: set[str] = set()
        if self.graph.rdf is None:
            return found
        same_T = self.graph.rdf.same_T
        numbers = [self.dataset.predicate(Iri(iri)) for iri in LABEL_PROPERTIES]
        rows = self.graph.rdf.index.forward_triples()  # of all splits: a label is not written twice
        named = self.graph.rdf.named_M5[:, 1:4]
        for part in (rows, named):
            owners = np.unique(part[np.isin(part[:, 1], numbers), 0])
            found |= {self.terms[number] for number in owners.tolist()}
            if same_T is not None:
                found |= {self.terms[number] for number in same_T[owners].tolist()}
        return found


def _blocks(rows: npt.NDArray[np.int32]) -> Iterator[list[list[int]]]:
    for first in range(0, len(rows), _ROWS):
        yield rows[first : first + _ROWS].tolist()
