"""Rows, triples and terms as Python values: short at a prompt, sequences, tables."""

from __future__ import annotations

import pytest

import clmpt
from clmpt.answering.row_answers import LikelyCells, LikelyResult, LikelyRow, LikelyRows
from clmpt.errors import QueryError, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.parser import parse
from clmpt.logic.rdf_terms import XSD, Blank, Iri, Literal
from toy import films

DIRECTED = "SELECT ?who ?film { ?who :directed ?film } ORDER BY ?film"


# --- terms ----------------------------------------------------------------------------------------


def test_a_term_s_text_is_plain_and_its_representation_unambiguous() -> None:
    terms = [Iri("http://a/b"), Blank("b0"), Literal("x"), Literal("x", "", "en")]
    assert list(map(str, terms)) == ["http://a/b", "_:b0", "x", "x"]
    assert list(map(repr, terms)) == ["<http://a/b>", "_:b0", '"x"', '"x"@en']
    assert repr(Literal("1", XSD + "integer")) == f'"1"^^<{XSD}integer>'


# --- exact results --------------------------------------------------------------------------------


def test_exact_answers_can_be_indexed_in_their_order() -> None:
    found = films().solve("?x : won(?x, Lion)")
    assert (found[0], found[-1]) == ("Rashomon", "Ugetsu")
    assert repr(found[1:]) == "<2 answers: 'Sansho', 'Ugetsu'>"
    with pytest.raises(IndexError):
        found[3]


def test_several_variables_have_rows_as_exact_answers() -> None:
    graph = KnowledgeGraph.from_triples(
        [("q1", "r", "q2"), ("q1", "r", "q3")], {"q2": "Zeta", "q3": "Alpha"}
    )
    found = graph.solve("?x, ?y : r(?x, ?y)")
    assert repr(found) == "<2 rows of x, y: ('q1', 'Alpha'), ('q1', 'Zeta')>"
    assert list(found) == [("q1", "q3"), ("q1", "q2")]
    assert found[0] == ("q1", "q3")
    assert repr(found[1:]) == "<1 row of x, y: ('q1', 'Zeta')>"
    assert ("q1", "q2") in found
    frame = found.to_pandas()
    assert list(frame.columns) == ["x label", "x name", "x id", "y label", "y name", "y id"]
    assert frame["y label"].tolist() == ["Alpha", "Zeta"]
    assert "Zeta" in found._repr_html_()


def test_a_select_is_a_sequence_of_rows() -> None:
    found = films().sparql(DIRECTED)
    assert [str(term) for term in found[0]] == ["urn:clmpt:Mizoguchi", "urn:clmpt:Oharu"]
    assert found[-1] == list(found)[-1]
    assert list(found[:2]) == list(found)[:2]
    assert repr(found[:2]) == "<2 rows of who, film>"
    with pytest.raises(IndexError):
        found[4]


def test_tables_have_plain_names_and_nothing_where_there_is_no_value() -> None:
    graph = KnowledgeGraph.from_triples(
        [("Golden Lion", "given at", "Venice"), ("Oharu", "r", "x")]
    )
    found = graph.sparql("SELECT ?x ?y { ?x ?p ?z OPTIONAL { ?x :given%20at ?y } } ORDER BY ?y")
    frame = found.to_pandas()
    assert frame.x.tolist() == ["Oharu", "Golden Lion"]
    assert frame.y.isna().tolist() == [True, False]
    html = found._repr_html_()
    assert "Golden Lion" in html
    assert "urn:clmpt" not in html
    assert "None" not in html


def test_triples_are_a_sequence_and_a_table() -> None:
    found = films().sparql("CONSTRUCT { ?film :by ?who } { ?who :directed ?film }")
    assert len(list(found)) == len(found) == 4
    assert found[0] == found.triples[0]
    assert repr(found[:3]) == "<3 triples>"
    frame = found.to_pandas()
    assert list(frame.columns) == ["subject", "predicate", "object"]
    assert set(frame.predicate) == {"by"}


def test_a_truth_value_is_a_table_of_one_cell() -> None:
    frame = films().sparql("ASK { :Kyo :starred :Ugetsu }").to_pandas()
    assert frame.to_dict("list") == {"answer": [True]}


def test_no_rows_are_a_table_with_columns() -> None:
    frame = films().sparql("SELECT ?x ?y { ?x :nothing ?y }").to_pandas()
    assert (list(frame.columns), len(frame)) == (["x", "y"], 0)


# --- likely results -------------------------------------------------------------------------------


def likely_rows() -> LikelyRows:
    rows = (
        LikelyRow((0, 1), ("m", "u"), ("Mizoguchi", "Ugetsu"), 1.0, "known", 1.0),
        LikelyRow((0, 2), ("m", "r"), ("Mizoguchi", "<b>"), 0.5, "predicted", 0.25),
    )
    return LikelyRows(parse("?x, ?y : directed(?x, ?y)"), rows, 1, ("It is late.",))


def test_likely_rows_are_short_at_a_prompt_and_a_sequence() -> None:
    found = likely_rows()
    assert repr(found[1]) == "<LikelyRow 'Mizoguchi', '<b>': predicted, 25%>"
    assert repr(found[:1]) == (
        "<1 row to '?x, ?y : directed(?x, ?y)': ('Mizoguchi', 'Ugetsu') (known)>"
    )


def test_likely_rows_are_tables() -> None:
    frame = likely_rows().to_pandas()
    assert frame.iloc[1].to_dict() == {
        "x label": "Mizoguchi",
        "x name": "m",
        "x id": 0,
        "y label": "<b>",
        "y name": "r",
        "y id": 2,
        "probability": 0.25,
        "score": 0.5,
        "status": "predicted",
    }
    html = likely_rows()._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    for part in ("25%", "1 row follows from the graph&#x27;s facts", "Note: It is late."):
        assert part in html


def likely_result() -> LikelyResult:
    rows = (
        LikelyCells((Iri("http://a/<b>"), Literal("3", XSD + "integer")), (0, -1), 1.0, "known"),
        LikelyCells((Iri("http://a/c"), None), (1, -1), 0.25, "predicted"),
    )
    return LikelyResult("SELECT", ("x", "n"), rows, None, ())


def test_a_likely_result_is_short_at_a_prompt_and_a_sequence() -> None:
    found = likely_result()
    assert repr(found) == "<2 rows of x, n>"
    assert repr(found[1]) == "<LikelyCells <http://a/c>, None: predicted, 25%>"
    assert repr(found[:1]) == "<1 row of x, n>"
    assert list(found) == list(found.rows)
    assert repr(LikelyResult("ASK", (), (), 0.25, ())) == "<ASK: predicted, 25%>"
    assert repr(LikelyResult("ASK", (), (), 1.0, ())) == "<ASK: known>"


def test_a_likely_result_is_a_table() -> None:
    frame = likely_result().to_pandas()
    assert frame.pop("n").isna().tolist() == [False, True]
    assert frame.to_dict("list") == {
        "x": ["http://a/<b>", "http://a/c"],
        "probability": [1.0, 0.25],
        "status": ["known", "predicted"],
    }
    truth = LikelyResult("ASK", (), (), 0.25, ())
    assert truth.to_pandas().to_dict("list") == {"probability": [0.25], "status": ["predicted"]}
    assert "http://a/&lt;b&gt;" in likely_result()._repr_html_()
    assert "25%" in truth._repr_html_()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["ASK { ?x :won ?y }", "SELECT ?x { ?x :won ?y FILTER(?y != :Lion) }"]
)
def test_exact_answers_point_to_what_answers_all_of_sparql(text: str) -> None:
    for refused in (films().solve, lambda text: clmpt.solve(text, films())):
        with pytest.raises(UnsupportedQuery, match=r"graph\.sparql answers it\.$"):
            refused(text)


def test_ids_are_for_one_variable() -> None:
    with pytest.raises(UnsupportedQuery, match=r"graph\.solve gives rows"):
        clmpt.solve("?x, ?y : won(?x, ?y)", films())


def test_what_is_no_question_is_named() -> None:
    with pytest.raises(QueryError, match="not NoneType"):
        films().solve(None)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="a text, not NoneType"):
        films().sparql(None)  # type: ignore[arg-type]
