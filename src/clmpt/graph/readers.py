"""Files of triples to a KnowledgeGraph: delimited text and RDF, gzipped or not."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from clmpt.errors import DataError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.entailment import add_entailed
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_building import RdfBuild
from clmpt.graph.rdf_reading import (
    RDF_OPTIONS,
    RDF_SUFFIXES,
    RdfCollector,
    RdfOptions,
    refuse_unused,
)
from clmpt.progress import Progress, ReportProgress, silent

SPLIT_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "dev": "valid",
    "test": "test",
}
TEXT_SUFFIXES = {".tsv": "\t", ".csv": ",", ".txt": None, ".tab": "\t"}
LONGEST_LINE = 1_000_000
_SHOWN = 3  # unused labels that a message names

_HEADERS = (
    {"head", "h", "subject", "s", "source", "from", "subj"},
    {"relation", "r", "rel", "predicate", "p", "property", "edge", "label", "type", "pred"},
    {"tail", "t", "object", "o", "target", "to", "obj"},
)


@dataclass(frozen=True)
class TextOptions:
    """How delimited files are read; what is None is detected from the file."""

    delimiter: str | None = None
    header: bool | None = None
    columns: tuple[int, int, int] | None = None
    encoding: str = "utf-8-sig"


@dataclass
class ImportSummary:
    """What was read and what was left out."""

    files: list[dict[str, Any]] = field(default_factory=list)
    literals: int = 0  # left out of the triples; SPARQL sees them
    entailed: int = 0
    headers: list[str] = field(default_factory=list)
    unused_labels: int = 0  # in files of labels, for names that are not in the graph
    unused_names: list[str] = field(default_factory=list)  # the first few of them
    unused_languages: list[str] = field(default_factory=list)  # asked for, and no label has them

    def count_unused(self, name: str) -> None:
        self.unused_labels += 1
        if len(self.unused_names) < _SHOWN:
            self.unused_names.append(name)


@dataclass
class _Import:
    builder: GraphBuilder
    options: TextOptions
    rdf: RdfCollector
    progress: ReportProgress
    summary: ImportSummary = field(default_factory=ImportSummary)

    @property
    def rows(self) -> int:
        return _rows(self.builder) + len(self.rdf.rows) // 5


def read_graph(
    sources: Sequence[str | Path],
    labels: Sequence[str | Path] = (),
    options: TextOptions | None = None,
    rdf: RdfOptions | None = None,
    progress: ReportProgress = silent,
) -> tuple[KnowledgeGraph, ImportSummary]:
    """One graph from one or more files. `NAME=FILE` puts a file into the split of that name.

    A file called train, valid or test is that split; any other goes to the split "facts".
    """
    collector = RdfCollector(rdf or RdfOptions())
    job = _Import(GraphBuilder(), options or TextOptions(), collector, progress)
    for source in sources:
        split, path = split_and_path(str(source))
        before = job.rows
        _read_file(path, split, job)
        rows = job.rows - before
        job.summary.files.append({"file": str(path), "split": split, "triples": rows})
        if not rows:
            raise DataError(f"'{path}' has no triples.")
    if collector.options.entail and collector.rows:
        job.summary.entailed = add_entailed(collector, collector.options.entail)
    made = _rdf_build(collector)
    if made is not None:
        made.add_to(job.builder)
        job.summary.literals = made.left_out
        job.summary.unused_languages = made.unused_languages
    for table in labels:
        for name, label in read_labels(Path(table), job.options.encoding):
            job.builder.label(name, label)
            if not job.builder.knows(name):
                job.summary.count_unused(name)
    graph = job.builder.build()
    if made is not None and made.says_more:
        graph = replace(graph, rdf=made.statements(graph, job.builder))
    return graph, job.summary


def _rdf_build(collector: RdfCollector) -> RdfBuild | None:
    if collector.rows:
        refuse_unused(collector)
        return RdfBuild(collector)
    given, usual = collector.options, RdfOptions()
    for name, option in RDF_OPTIONS.items():
        if getattr(given, name) != getattr(usual, name):
            raise DataError(
                f"{option} is for RDF, and there is none here. Leave it out, or make RDF of the "
                "graph first with 'clmpt export'."
            )
    return None


def split_and_path(source: str) -> tuple[str, Path]:
    """
    >>> split_and_path("valid=more.tsv"), split_and_path("kg/train.txt.gz")
    (('valid', PosixPath('more.tsv')), ('train', PosixPath('kg/train.txt.gz')))
    """
    name, equals, rest = source.partition("=")
    if equals and re.fullmatch(r"[\w-]+", name) and not Path(source).exists():
        return name, Path(rest)
    path = Path(source)
    return SPLIT_NAMES.get(path.name.split(".")[0].lower(), "facts"), path


def read_labels(path: Path, encoding: str = "utf-8-sig") -> Iterator[tuple[str, str]]:
    """Pairs of name and label from a file of two tab-separated columns."""
    with open_binary(path) as raw, io.TextIOWrapper(raw, encoding, newline="") as text:
        for number, line in enumerate(_lines(text, path), 1):
            name, tab, label = line.rstrip("\r\n").partition("\t")
            if line.strip() and not (tab and name):
                raise DataError(f"'{path}', line {number}: expected a name, a tab and a label.")
            if tab and label:
                yield name, label


def open_binary(path: Path) -> IO[bytes]:
    try:
        with path.open("rb") as file:
            magic = file.read(2)
        if magic == b"\x1f\x8b":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        return path.open("rb")
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None


def _read_file(path: Path, split: str, job: _Import) -> None:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    with open_binary(path) as raw:
        if suffix in RDF_SUFFIXES:
            job.builder.label_of = local_name
            job.rdf.read(raw, path, RDF_SUFFIXES[suffix], split, job.progress)
        elif suffix in TEXT_SUFFIXES or job.options.delimiter:
            with io.TextIOWrapper(raw, job.options.encoding, newline="") as text:
                _read_text(text, path, TEXT_SUFFIXES.get(suffix), split, job)
        else:
            known = " ".join([*TEXT_SUFFIXES, *RDF_SUFFIXES])
            raise DataError(
                f"'{path}' has an unknown file extension. The known ones are {known}, each "
                "optionally followed by .gz. For other delimited files, use --delimiter."
            )


# --- delimited text -------------------------------------------------------------------------------


def _not_text(path: Path, encoding: str) -> DataError:
    """The error for a file that is not in the expected encoding, with what may help."""
    start, bad = b"", 1
    try:
        with open_binary(path) as file:
            start = file.read(4096)
            file.seek(0)
            bad = next((n for n, raw in enumerate(file, 1) if not _decodes(raw, encoding)), 1)
    except (EOFError, OSError, zlib.error):
        pass  # it is also cut: that it is not text is enough to know
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        way_out = "It looks like UTF-16: pass --encoding utf-16 to 'clmpt import' or 'clmpt fit'."
    elif any(byte < 9 for byte in start):
        way_out = "It does not look like text at all. A graph is text with three columns, or RDF."
    else:
        way_out = (
            "If it is text in another encoding, pass that to 'clmpt import' or 'clmpt fit', "
            "for example: --encoding latin-1"
        )
    return DataError(f"'{path}', line {bad} is not {encoding.removesuffix('-sig')} text. {way_out}")


def _decodes(raw: bytes, encoding: str) -> bool:
    try:
        raw.decode(encoding)
    except UnicodeError:
        return False
    return True


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    number = 0
    try:
        while line := text.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise DataError(
                    f"'{path}', line {number} is longer than {LONGEST_LINE:,} characters."
                )
            yield line
    except UnicodeError:
        raise _not_text(path, text.encoding) from None
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"'{path}' cannot be read to the end: {error}.") from None


def _read_text(
    text: io.TextIOWrapper, path: Path, usual: str | None, split: str, job: _Import
) -> None:
    lines = _lines(text, path)
    blank = 0
    first = ""
    for first in lines:
        if first.strip():
            break
        blank, first = blank + 1, ""
    if not first:
        raise DataError(f"'{path}' is empty.")
    if "\0" in first:
        raise DataError(f"'{path}' is not text.")
    delimiter = job.options.delimiter or usual
    if delimiter is None or (job.options.delimiter is None and delimiter not in first):
        delimiter = _guess_delimiter(first)
    rows = itertools.chain([first], lines)
    reader = (
        csv.reader(rows, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        if delimiter == "\t"
        else csv.reader(rows, delimiter=delimiter, strict=True)
    )
    columns = job.options.columns
    try:
        for number, row in enumerate(reader):
            if number == 0:
                named = None if job.options.header is False else _header_columns(row)
                columns = columns or named or (0, 1, 2)
                if job.options.header or named:
                    job.summary.headers.append(str(path))
                    continue
            if not row or row == [""]:
                continue
            job.builder.add(
                split, *_cells(row, columns, path, blank + reader.line_num, job.options)
            )
            if number % 100_000 == 0:
                job.progress(Progress("reading triples", job.rows))
    except csv.Error as error:
        raise DataError(f"'{path}', line {blank + reader.line_num}: {error}.") from None


def _cells(
    row: list[str],
    columns: tuple[int, int, int] | None,
    path: Path,
    line: int,
    options: TextOptions,
) -> tuple[str, str, str]:
    assert columns is not None
    if len(row) <= max(columns) or (len(row) != 3 and not options.columns):
        hint = (
            "Choose three of them with --columns, for example --columns 1,2,3."
            if len(row) > 3
            else "Expected head, relation and tail; set another delimiter with --delimiter."
        )
        raise DataError(f"'{path}', line {line}: {len(row)} column(s). {hint}")
    head, relation, tail = (row[column] for column in columns)
    if not (head and relation and tail):
        raise DataError(f"'{path}', line {line}: an empty name.")
    if "\0" in head or "\0" in relation or "\0" in tail:
        raise DataError(f"'{path}', line {line}: not text.")
    return head, relation, tail


def _header_columns(row: list[str]) -> tuple[int, int, int] | None:
    """Where head, relation and tail are, if the first row is a header that says so."""
    cells = [cell.strip().lower() for cell in row]
    found = [[at for at, cell in enumerate(cells) if cell in names] for names in _HEADERS]
    letters = sorted(cell for cell in cells if len(cell) == 1)
    if not all(found) or (letters and letters not in (["h", "r", "t"], ["o", "p", "s"])):
        return None  # single letters may well be names
    head, relation, tail = (at[0] for at in found)
    return (head, relation, tail) if len({head, relation, tail}) == 3 else None


def _guess_delimiter(line: str) -> str:
    for delimiter in "\t,;|":
        if line.count(delimiter) >= 2:
            return delimiter
    return " " if line.count(" ") == 2 else "\t"


def local_name(iri: str) -> str:
    """The readable end of an IRI.

    >>> local_name("http://example.org/film#Sansho%20the%20Bailiff"), local_name("plain")
    ('Sansho the Bailiff', '')
    """
    if "://" not in iri and not iri.startswith("urn:"):
        return ""
    return unquote(re.split(r"[/#:]", iri.rstrip("/#"))[-1])


def _rows(builder: GraphBuilder) -> int:
    return sum(len(rows) // 3 for rows in builder.rows.values())
