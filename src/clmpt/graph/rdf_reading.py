"""RDF files to statements: every term and every graph is kept, whatever a model learns from."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.rdf_guards import (
    GuardedStream,
    directions_of_text,
    guarded,
    statements_about_statements,
    without_mark,
)
from clmpt.graph.rdf_statements import BLANK, IRI, LITERAL
from clmpt.logic.formula import Name
from clmpt.logic.iris import BASE, iri_of, symbol_of
from clmpt.logic.prefixes import PREFIXES
from clmpt.progress import Progress, ReportProgress, silent

# Shapes: S statements, T terms

RDF_SUFFIXES = {
    ".nt": "N_TRIPLES",
    ".ttl": "TURTLE",
    ".nq": "N_QUADS",
    ".trig": "TRIG",
    ".rdf": "RDF_XML",
    ".xml": "RDF_XML",
    ".owl": "RDF_XML",
    ".jsonld": "JSON_LD",
}
_SPELT = {
    "N_TRIPLES": "N-Triples",
    "TURTLE": "Turtle",
    "N_QUADS": "N-Quads",
    "TRIG": "TriG",
    "RDF_XML": "RDF/XML",
    "JSON_LD": "JSON-LD",
}
LABEL = PREFIXES["rdfs"] + "label"
LABEL_PROPERTIES = (
    LABEL,
    PREFIXES["skos"] + "prefLabel",
    PREFIXES["schema"] + "name",
    "https://schema.org/name",
    PREFIXES["foaf"] + "name",
)
LONGEST_TERM = 2**24  # bytes
_NO_GRAPH = -1
SAME_AS = PREFIXES["owl"] + "sameAs"


@dataclass(frozen=True)
class RdfOptions:
    """What becomes of RDF statements. Whatever is left out of the model can still be queried."""

    literals: bool = False  # as entities
    languages: tuple[str, ...] = ("en",)  # of the labels to show, the best first
    label_properties: tuple[str, ...] = LABEL_PROPERTIES
    leave_out: frozenset[str] = frozenset()  # relations that a model does not learn from
    same_as: bool = False  # things that owl:sameAs connects are one entity
    entail: str = ""  # rdfs or owl-rl: statements that follow by the graph's own ontology
    base: str = ""  # for relative IRIs; by default the file's own address


RDF_OPTIONS = {  # and how they are written in commands
    "literals": "--literals",
    "languages": "--language",
    "label_properties": "--label-property",
    "leave_out": "--leave-out",
    "same_as": "--same-as",
    "entail": "--entail",
    "base": "--base",
}


@dataclass
class RdfCollector:
    """Statements of one or more files, with their terms numbered in order of appearance.

    A row has graph (-1 for the default graph), subject, predicate, object and split.
    """

    options: RdfOptions
    ids: dict[str, int] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("i"))
    splits: list[str] = field(default_factory=list)
    blank_nodes: int = 0
    base: str = ""
    unlearned: set[int] = field(default_factory=set)  # rows that no model learns from

    def add_entailed(self, subject: str, predicate: str, object_: str, learned: bool) -> None:
        """Adds a statement of the first split's default graph that follows from others."""
        if not learned:
            self.unlearned.add(len(self.rows) // 5)
        ids = self.ids
        for text in (subject, predicate, object_):
            ids.setdefault(text, len(ids))
        self.rows.extend([_NO_GRAPH, ids[subject], ids[predicate], ids[object_], 0])

    def read(
        self, raw: IO[bytes], path: Path, form: str, split: str, progress: ReportProgress = silent
    ) -> None:
        import pyoxigraph as ox

        base = self.options.base or path.resolve().as_uri()
        self.base = self.base or base
        if split not in self.splits:
            self.splits.append(split)
        try:
            source, syntax = guarded(raw, path, form), getattr(ox.RdfFormat, form)
            quads = ox.parse(without_mark(source), format=syntax, base_iri=base)
            self._add(quads, self.splits.index(split), source, progress)
        except SyntaxError as error:
            raise _not_rdf(path, form, error) from None
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise DataError(f"'{path}' cannot be read to the end: {error}.") from None
        except MemoryError as error:
            if "buffer" not in str(error):  # the parser's own, which no term may exceed
                raise
            raise _too_long(path) from None

    def _add(
        self, quads: Iterable[Any], split: int, source: GuardedStream, progress: ReportProgress
    ) -> None:
        import pyoxigraph as ox

        ids, append, path = self.ids, self.rows.append, source.path
        blank: dict[str, str] = {}  # those of two files are never the same

        def number(term: Any) -> int:
            if isinstance(term, ox.NamedNode):
                text = term.value
            elif isinstance(term, ox.BlankNode):
                # The parser makes up new labels on every run; numbers make imports reproducible.
                text = blank.setdefault(term.value, f"_:b{self.blank_nodes + len(blank)}")
            elif isinstance(term, ox.Literal):
                if getattr(term, "direction", None):
                    raise directions_of_text(path)
                text = str(term)
            else:
                raise statements_about_statements(path)
            if len(text) > LONGEST_TERM:
                raise _too_long(path)
            return ids.setdefault(text, len(ids))

        for count, quad in enumerate(quads):
            source.unfinished = 0
            graph = quad.graph_name
            append(_NO_GRAPH if isinstance(graph, ox.DefaultGraph) else number(graph))
            append(number(quad.subject))
            append(number(quad.predicate))
            append(number(quad.object))
            append(split)
            if count % 100_000 == 0:
                progress(Progress("reading triples", len(self.rows) // 5))
        self.blank_nodes += len(blank)

    @property
    def rows_S5(self) -> npt.NDArray[np.int32]:
        return np.frombuffer(self.rows, np.int32).reshape(-1, 5)

    def kinds_T(self) -> npt.NDArray[np.uint8]:
        starts = {'"': LITERAL, "_": BLANK}
        return np.fromiter((starts.get(text[0], IRI) for text in self.ids), np.uint8)

    def numbers(self, iris: Iterable[str]) -> list[int]:
        return [self.ids[iri] for iri in iris if iri in self.ids]


def _not_rdf(path: Path, form: str, error: SyntaxError) -> DataError:
    if "remote context" in error.msg:
        return DataError(
            f"'{path}' has a JSON-LD context at another address, and none is fetched. Put the "
            "context into the file."
        )
    where = f", line {error.lineno}" if error.lineno else ""
    return DataError(f"'{path}'{where} is not {_SPELT[form]}: {error.msg.rstrip('.')}.")


def _too_long(path: Path) -> DataError:
    return DataError(
        f"'{path}' has a term of more than {LONGEST_TERM:,} bytes, or a string without an end. "
        "Shorten it, or leave it out."
    )


def name_of_iri(iri: str) -> str:
    """The name that an IRI stands for: itself, unless our export made it from a plain name."""
    if not iri.startswith(BASE):
        return iri
    symbol = symbol_of(iri)
    return symbol.text if isinstance(symbol, Name) and iri_of(symbol) == iri else iri


def expanded_iri(text: str) -> str:
    """An IRI, given in full, with a well-known prefix, or as the plain name that our export wrote.

    >>> expanded_iri("rdf:type"), expanded_iri("http://e/x"), expanded_iri("won")
    ('http://www.w3.org/1999/02/22-rdf-syntax-ns#type', 'http://e/x', 'urn:clmpt:won')
    """
    prefix, colon, local = text.strip("<>").partition(":")
    if not colon:
        return iri_of(Name(text))
    if prefix in PREFIXES and not local.startswith("//"):
        return PREFIXES[prefix] + local
    return text.strip("<>")


def refuse_unused(collector: RdfCollector) -> None:
    """Rejects properties in the options that no statement has: they are mistakes."""
    options, rows_S5 = collector.options, collector.rows_S5

    def objects(iri: str) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = rows_S5[rows_S5[:, 2] == collector.ids.get(iri, -1), 3]
        return found

    for iri in sorted(options.leave_out):
        if not len(objects(iri)):
            raise DataError(f"There is nothing to leave out: {_no_statement('relation', iri)}")
    for iri in sorted(set(options.label_properties) - set(LABEL_PROPERTIES)):
        if not (collector.kinds_T()[objects(iri)] == LITERAL).any():
            raise DataError(f"There are no such labels: {_no_statement('text property', iri)}")


def _no_statement(kind: str, iri: str) -> str:
    prefix, _, local = iri.partition(":")
    if prefix == "urn" or local.startswith("//"):
        return f"no statement has the {kind} '{name_of_iri(iri)}'. Check its spelling."
    return (
        f"no statement has the {kind} '{iri}', and '{prefix}:' is not a well-known prefix. Give "
        "the IRI in full."
    )
