"""W3C's test suites for SPARQL: manifests, data and expected results.

    python tests/w3c_suite.py FOLDER

counts the query tests in all manifests below a folder, and names those that are not right. Tests of
updates, protocols, federation and entailment regimes are left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyoxigraph as ox

from clmpt.errors import ClmptError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import read_graph
from clmpt.logic.rdf_terms import Blank, Iri, RdfTerm
from clmpt.logic.sparql_parser import read_sparql
from clmpt.sparql.answering import SparqlResult, answer_sparql
from clmpt.sparql.results import write_result

MANIFEST = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QUERY = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
RESULTS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
FORMATS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".n3": ox.RdfFormat.TURTLE,
}


@dataclass(frozen=True)
class SuiteTest:
    name: str
    kind: str
    query: Path
    data: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    result: Path | None = None


def suite_tests(manifest: Path) -> Iterator[SuiteTest]:
    """The tests of a manifest and of those that it includes."""
    graph = _Triples(manifest)
    for included in graph.objects(None, MANIFEST + "include"):
        for one in graph.listed(included):
            yield from suite_tests(_path(one))
    for entries in graph.objects(None, MANIFEST + "entries"):
        for entry in graph.listed(entries):
            yield from _tests_at(graph, entry, manifest.parent.name)


def _tests_at(graph: _Triples, entry: Any, folder: str) -> Iterator[SuiteTest]:
    kinds = [kind.value.rpartition("#")[2] for kind in graph.objects(entry, RDF + "type")]
    for action in graph.objects(entry, MANIFEST + "action"):
        query = next(iter(graph.objects(action, QUERY + "query")), action)
        results = graph.objects(entry, MANIFEST + "result")
        yield SuiteTest(
            f"{folder}/{entry.value.rpartition('#')[2]}",
            kinds[0] if kinds else "QueryEvaluationTest",
            _path(query),
            tuple(map(_path, graph.objects(action, QUERY + "data"))),
            tuple(map(_path, graph.objects(action, QUERY + "graphData"))),
            _path(results[0]) if results else None,
        )


class _Triples:
    def __init__(self, path: Path) -> None:
        form, base = FORMATS[path.suffix], path.as_uri()
        self.triples = [quad.triple for quad in ox.parse(path=path, format=form, base_iri=base)]

    def objects(self, subject: Any, predicate: str) -> list[Any]:
        """Of a subject, or of all."""
        return [
            triple.object
            for triple in self.triples
            if triple.predicate.value == predicate and subject in (None, triple.subject)
        ]

    def listed(self, node: Any) -> Iterator[Any]:
        while node.value != RDF + "nil":
            yield self.objects(node, RDF + "first")[0]
            (node,) = self.objects(node, RDF + "rest")


def _path(iri: Any) -> Path:
    return Path(unquote(urlsplit(iri.value).path))


# --- running --------------------------------------------------------------------------------------


def run(test: SuiteTest, folder: Path) -> SparqlResult:
    """Our result for an evaluation test, from a file with all its data."""
    text = test.query.read_text(encoding="utf-8")
    base = test.query.as_uri()
    query = read_sparql(text, base)
    files = [Path(unquote(urlsplit(iri.text).path)) for iri in query.default_graphs]
    files += [Path(unquote(urlsplit(iri.text).path)) for iri in query.named_graphs]
    quads = [quad for path in test.data for quad in _quads(path, ox.DefaultGraph())]
    for path in dict.fromkeys([*test.named, *files]):
        quads += _quads(path, ox.NamedNode(path.as_uri()))
    return answer_sparql(query, graph_of(quads, folder), base)


def graph_of(quads: list[ox.Quad], folder: Path) -> KnowledgeGraph:
    if not quads:  # no file of ours is empty
        return KnowledgeGraph.from_triples([("urn:x", "urn:x", "urn:x")])
    path = folder / "data.nq"
    path.write_bytes(ox.serialize(quads, format=ox.RdfFormat.N_QUADS))
    return read_graph([path])[0]


def _quads(path: Path, graph: Any) -> list[ox.Quad]:
    found = ox.parse(
        path=path, format=FORMATS[path.suffix], base_iri=path.as_uri(), rename_blank_nodes=True
    )
    return [ox.Quad(quad.subject, quad.predicate, quad.object, graph) for quad in found]


def is_right(test: SuiteTest, found: SparqlResult) -> bool:
    assert test.result is not None
    if test.result.suffix in (".srx", ".srj"):
        xml = test.result.suffix == ".srx"
        form = ox.QueryResultsFormat.XML if xml else ox.QueryResultsFormat.JSON
        expected = ox.parse_query_results(path=test.result, format=form)
        if isinstance(expected, ox.QueryBoolean):
            return found.holds == bool(expected)
        names = [variable.value for variable in expected.variables]
        return _same_rows(
            [{n: row[n] for n in names if row[n] is not None} for row in expected], found
        )
    graph = _Triples(test.result)
    for triple in graph.triples:
        if triple.object == ox.NamedNode(RESULTS + "ResultSet"):
            return _is_result_set(graph, triple.subject, found)
    triples = [ox.Triple(*map(as_oxigraph, triple)) for triple in found.triples]
    return _canonical(triples) == _canonical(graph.triples)


def _is_result_set(graph: _Triples, subject: Any, found: SparqlResult) -> bool:
    for truth in graph.objects(subject, RESULTS + "boolean"):
        return found.holds == (truth.value in ("true", "1"))
    rows = []
    for solution in graph.objects(subject, RESULTS + "solution"):
        place = [int(one.value) for one in graph.objects(solution, RESULTS + "index")]
        row = {}
        for binding in graph.objects(solution, RESULTS + "binding"):
            (name,) = graph.objects(binding, RESULTS + "variable")
            (row[name.value],) = graph.objects(binding, RESULTS + "value")
        rows.append((place, row))
    ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
    if rows and rows[0][0] and not any(_has_blank(row) for row in ordered):
        return ordered == _rows(found)
    return _same_rows(ordered, found)


def _rows(found: SparqlResult) -> list[dict[str, Any]]:
    return [
        {
            name: as_oxigraph(term)
            for name, term in zip(found.variables, row, strict=True)
            if term is not None
        }
        for row in found
    ]


def _has_blank(row: dict[str, Any]) -> bool:
    return any(isinstance(term, ox.BlankNode) for term in row.values())


def _same_rows(expected: list[dict[str, Any]], found: SparqlResult) -> bool:
    """Equal as bags, up to the names of blank nodes."""
    if found.solutions is None:
        return False
    return _canonical(_as_triples(expected)) == _canonical(_as_triples(_rows(found)))


def _as_triples(rows: list[dict[str, Any]]) -> list[ox.Triple]:
    triples = []
    for row, count in Counter(frozenset(row.items()) for row in rows).items():
        node = ox.BlankNode()
        triples.append(ox.Triple(node, ox.NamedNode("urn:count"), ox.Literal(str(count))))
        triples += [ox.Triple(node, ox.NamedNode(f"urn:{name}"), term) for name, term in row]
    return triples


def _canonical(triples: list[ox.Triple]) -> ox.Dataset:
    found = ox.Dataset(ox.Quad(one.subject, one.predicate, one.object) for one in triples)
    found.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return found


def as_oxigraph(term: RdfTerm) -> Any:
    if isinstance(term, Iri):
        return ox.NamedNode(term.text)
    if isinstance(term, Blank):
        return ox.BlankNode(term.label)
    if term.language:
        return ox.Literal(term.text, language=term.language)
    return ox.Literal(term.text, datatype=ox.NamedNode(term.datatype))


def is_accepted(test: SuiteTest) -> bool:
    try:
        read_sparql(test.query.read_text(encoding="utf-8"), test.query.as_uri())
    except ClmptError:
        return False
    return True


# --- by hand --------------------------------------------------------------------------------------

LEFT_OUT = ("entailment", "service", "syntax-fed")


def outcome(test: SuiteTest, folder: Path) -> str:
    if "Syntax" in test.kind:
        return "right" if is_accepted(test) != ("Negative" in test.kind) else "wrong"
    try:
        found = run(test, folder)
    except ClmptError as error:
        return f"refused: {error}"
    if test.result is not None and test.result.suffix in (".csv", ".tsv"):
        return "right" if _is_written_right(test, found) else "wrong"
    return "right" if is_right(test, found) else "wrong"


def _is_written_right(test: SuiteTest, found: SparqlResult) -> bool:
    """CSV and TSV, line by line, in any order; blank nodes by any name."""
    assert test.result is not None
    form = test.result.suffix.removeprefix(".")
    own = "".join(write_result(found, form)).splitlines()
    expected = test.result.read_text(encoding="utf-8").splitlines()
    if any("_:" in line for line in expected):
        return len(own) == len(expected)
    return own[:1] == expected[:1] and Counter(own) == Counter(expected)


def main() -> None:
    counts: Counter[str] = Counter()
    for manifest in sorted(Path(sys.argv[1]).resolve().rglob("manifest.ttl")):
        if manifest.parent.name in LEFT_OUT:
            continue
        for test in suite_tests(manifest):
            query = "Query" in test.kind or test.kind == "CSVResultFormatTest"
            syntax = "Syntax" in test.kind and "Update" not in test.kind
            if not (query or syntax) or "Update" in test.kind or not test.query.is_file():
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = outcome(test, Path(folder))
            counts[found.partition(":")[0]] += 1
            if found != "right":
                sys.stdout.write(f"{test.name}: {found}\n")
    sys.stdout.write(f"{dict(counts)}\n")


if __name__ == "__main__":
    main()
