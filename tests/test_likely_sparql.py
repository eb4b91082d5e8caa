"""SPARQL over likely rows, with rows whose probabilities are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clmpt.answering.likely_rows import RankedRows
from clmpt.answering.likely_sparql import LikelyResult, likely_sparql
from clmpt.errors import UnknownName, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import read_graph
from clmpt.logic.formula import Query
from clmpt.logic.sparql_parser import read_sparql

ROWS = {  # of ?x, ?y
    ("a", "b"): 1.0,
    ("a", "c"): 0.5,
    ("b", "c"): 0.25,
    ("c", "c"): 0.125,
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path: Path = tmp_path_factory.mktemp("likely") / "x.ttl"
    path.write_text(
        "@prefix : <http://e/> . :a :r :b . :b :r :b . :c :r :a . :a :size 3 . :b :size 1 ."
    )
    return read_graph([path])[0]


def result(text: str, graph: KnowledgeGraph, at_least: float = 0.0) -> LikelyResult:
    """The result, with the rows above for whatever is asked."""

    def rows(query: Query) -> tuple[RankedRows, tuple[str, ...]]:
        number = {name: graph.entities.names.find(f"http://e/{name}")[0] for name in "abc"}
        columns = [0 if variable.name == "x" else 1 for variable in query.frees]
        best: dict[tuple[int, ...], float] = {}
        for row, chance in ROWS.items():
            key = tuple(number[row[at]] for at in columns)
            best[key] = max(best.get(key, 0.0), chance)
        values = np.array(list(best.values()))
        status = ["known" if value == 1 else "predicted" for value in best.values()]
        found = np.array(list(best), np.int64)
        return RankedRows(found, values.astype(np.float32), values, status, 1), ()

    prefix = "PREFIX : <http://e/> "
    return likely_sparql(read_sparql(prefix + text), graph, rows, at_least)


def shown(found: LikelyResult) -> list[tuple[object, ...]]:
    def text(cell: object) -> str:
        return str(getattr(cell, "text", "")).removeprefix("http://e/")

    return [(*map(text, row.cells), row.probability) for row in found.rows]


def test_filters_values_and_bindings_apply_to_rows(graph: KnowledgeGraph) -> None:
    found = shown(result("SELECT * { ?x :r ?y FILTER(?x != ?y && ?y != :b) }", graph))
    assert found == [("a", "c", 0.5), ("b", "c", 0.25)]
    found = shown(result("SELECT ?x { ?x :r ?y VALUES ?y { :c } }", graph))
    assert found == [("a", 0.5), ("b", 0.25), ("c", 0.125)]
    found = shown(result("SELECT ?x ?t { ?x :r ?y BIND(STRLEN(STR(?x)) AS ?t) } LIMIT 1", graph))
    assert found == [("a", "10", 1.0)]


def test_a_row_that_is_shown_twice_counts_by_its_best(graph: KnowledgeGraph) -> None:
    assert shown(result("SELECT ?y { ?x :r ?y FILTER(?x != :zz) }", graph)) == [
        ("b", 1.0),
        ("c", 0.5),
    ]


def test_optional_adds_known_facts_and_order_by_sorts(graph: KnowledgeGraph) -> None:
    text = "SELECT ?x ?n { ?x :r ?y OPTIONAL { ?x :size ?n } } ORDER BY DESC(?n)"
    assert shown(result(text, graph)) == [("a", "3", 1.0), ("b", "1", 0.25), ("c", "", 0.125)]


def test_count_is_the_expected_number(graph: KnowledgeGraph) -> None:
    """1 + 0.5 + 0.25 + 0.125 rows; of distinct ?y, b with 1 and c with at best 0.5."""
    text = "SELECT (COUNT(*) AS ?n) { ?x :r ?y FILTER(BOUND(?x) && BOUND(?y)) }"
    assert shown(result(text, graph)) == [("1.875", None)]
    text = "SELECT ?x (COUNT(?y) AS ?n) { ?x :r ?y } GROUP BY ?x ORDER BY DESC(?n)"
    assert shown(result(text, graph)) == [
        ("a", "1.500", None),
        ("b", "0.250", None),
        ("c", "0.125", None),
    ]
    text = "SELECT (COUNT(DISTINCT ?y) AS ?n) { ?x :r ?y FILTER(BOUND(?x)) }"
    assert shown(result(text, graph)) == [("1.500", None)]


def test_ask_is_the_probability_of_the_likeliest_row(graph: KnowledgeGraph) -> None:
    assert result("ASK { ?x :r ?y }", graph).probability == 1
    assert result("ASK { ?x :r ?y FILTER(?y = :c) }", graph).probability == 0.5
    assert result("ASK { ?x :r ?y FILTER(?x = ?y) }", graph).probability == 0.125
    assert result("ASK { ?x :r ?y FILTER(?y = :nobody) }", graph).probability == 0


def test_unlikely_rows_can_be_left_out(graph: KnowledgeGraph) -> None:
    assert len(result("SELECT ?x ?y { ?x :r ?y }", graph, at_least=0.3)) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT (AVG(?n) AS ?m) { ?x :r ?n }", "AVG has no meaning"),
        ("CONSTRUCT { ?x :s ?y } { ?x :r ?y }", "CONSTRUCT has no likely answers"),
        ("SELECT ?x FROM :g { ?x :r ?y }", "FROM has no likely answers"),
        ("SELECT ?x { GRAPH :g { ?x :r ?y } }", "GRAPH"),
        ("SELECT ?x { ?x ?p ?y }", "is a variable"),
    ],
)
def test_what_has_no_meaning_is_refused(graph: KnowledgeGraph, text: str, words: str) -> None:
    with pytest.raises(UnsupportedQuery, match=words):
        result(text, graph)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?y { BIND(:a AS ?x) ?x :r ?y }",
        "SELECT ?x { ?x :r ?y OPTIONAL { ?y :size ?z } ?z :r ?x }",
        "SELECT ?x { ?x :r ?y { ?z :r ?z FILTER(?x = :a) } }",
    ],
)
def test_what_would_come_too_late_is_refused(graph: KnowledgeGraph, text: str) -> None:
    with pytest.raises(UnsupportedQuery, match="before it"):
        result(text, graph)


def test_count_asks_for_all_variables(graph: KnowledgeGraph) -> None:
    """Four rows, although only ?x is mentioned."""
    text = "SELECT ?x (COUNT(*) AS ?n) { ?x :r ?y } GROUP BY ?x"
    assert shown(result(text, graph))[0] == ("a", "1.500", None)


def test_order_by_leaves_out_what_is_hardly_likely(graph: KnowledgeGraph) -> None:
    """Of probabilities 1, 0.5, 0.25 and 0.125 all are sorted in; the note says where it ends."""
    found = result("SELECT ?x ?y { ?x :r ?y } ORDER BY ?x", graph)
    assert len(found) == 4
    assert "below 5%" in found.notes[0]


def test_constants_with_conditions_are_refused_clearly(graph: KnowledgeGraph) -> None:
    with pytest.raises(UnsupportedQuery, match="no variable that a triple binds"):
        result("ASK { :a :r :b FILTER(1 = 2) }", graph)


def test_an_unknown_name_is_refused_in_a_triple_and_noted_in_values(graph: KnowledgeGraph) -> None:
    with pytest.raises(UnknownName, match="Unknown entity 'http://e/nobody'"):
        result("ASK { :a :r :nobody }", graph)
    found = result("SELECT ?x { ?x :r ?y VALUES ?x { <urn:clmpt:nobody> } }", graph)
    assert len(found) == 0
    assert "Unknown entity 'nobody'" in found.notes[0]
