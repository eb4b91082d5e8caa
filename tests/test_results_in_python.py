"""Rows, triples and terms as Python values: short at a prompt, sequences, tables."""

from __future__ import annotations

import pytest

import clmpt
from clmpt.errors import QueryError, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
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


def test_triples_are_a_sequence_and_a_table() -> None:
    found = films().sparql("CONSTRUCT { ?film :by ?who } { ?who :directed ?film }")
    assert len(list(found)) == len(found) == 4
    assert found[0] == found.triples[0]
    assert repr(found[:3]) == "<3 triples>"
    frame = found.to_pandas()
    assert list(frame.columns) == ["subject", "predicate", "object"]
    assert set(frame.predicate) == {"urn:clmpt:by"}


def test_a_truth_value_is_a_table_of_one_cell() -> None:
    frame = films().sparql("ASK { :Kyo :starred :Ugetsu }").to_pandas()
    assert frame.to_dict("list") == {"answer": [True]}


def test_no_rows_are_a_table_with_columns() -> None:
    frame = films().sparql("SELECT ?x ?y { ?x :nothing ?y }").to_pandas()
    assert (list(frame.columns), len(frame)) == (["x", "y"], 0)


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
