"""Graphs from what people have in Python: triples, tables, graphs of other libraries."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import networkx
import numpy as np
import pandas
import pyarrow
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph

FACTS = [("Kyo", "starred in", "Ugetsu"), ("Mizoguchi", "directed", "Ugetsu")]


def facts_of(graph: KnowledgeGraph) -> list[tuple[str, str, str]]:
    names, relations = graph.entities.names, graph.relations.names
    return sorted((names[h], relations[r], names[t]) for h, r, t in graph.triples().tolist())


def data_frame(columns: list[str]) -> pandas.DataFrame:
    return pandas.DataFrame(FACTS, columns=columns)


def arrow_table(columns: list[str]) -> pyarrow.Table:
    return pyarrow.table(dict(zip(columns, zip(*FACTS, strict=True), strict=True)))


@pytest.mark.parametrize("make", [data_frame, arrow_table])
@pytest.mark.parametrize(
    "columns",
    [["head", "relation", "tail"], ["Subject", "Predicate", "Object"], ["x", "y", "z"]],
)
def test_a_table_is_read_by_its_usual_columns_or_the_first_three(
    make: Any, columns: list[str]
) -> None:
    assert facts_of(KnowledgeGraph.from_triples(make(columns))) == FACTS


def test_columns_are_found_by_name_wherever_they_stand() -> None:
    frame = data_frame(["s", "p", "o"])[["o", "s", "p"]]
    frame.insert(0, "row", [1, 2])
    assert facts_of(KnowledgeGraph.from_triples(frame)) == FACTS


def test_whole_numbers_are_names_in_a_table() -> None:
    frame = pandas.DataFrame({"head": [1, 2], "relation": ["r", "r"], "tail": [2, 3]})
    assert facts_of(KnowledgeGraph.from_triples(frame)) == [("1", "r", "2"), ("2", "r", "3")]


def test_networkx_edges_name_their_relation_by_an_attribute_or_a_key() -> None:
    graph = networkx.MultiDiGraph()
    graph.add_edge("Kyo", "Ugetsu", key="starred in")
    graph.add_edge("Mizoguchi", "Ugetsu", relation="directed")
    assert facts_of(KnowledgeGraph.from_triples(graph)) == FACTS
    other = networkx.DiGraph()
    other.add_edge("Kyo", "Ugetsu", does="starred in")
    assert facts_of(KnowledgeGraph.from_triples(other, relation="does")) == FACTS[:1]


TURTLE = """
@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:kyo :starred :ugetsu . :kyo rdfs:label "Machiko Kyo" . :ugetsu :year 1953 .
"""


def test_an_rdflib_graph_is_read_as_an_rdf_file_is() -> None:
    found = KnowledgeGraph.from_triples(rdflib.Graph().parse(data=TURTLE, format="turtle"))
    names = [f"http://example.org/{name}" for name in ("kyo", "starred", "ugetsu")]
    assert facts_of(found) == [tuple(names)]  # the literal is left out, as from a file
    assert found.solve("?x : starred(?x, ugetsu)").labels == ("Machiko Kyo",)
    with pytest.raises(DataError, match="labels of its own"):
        KnowledgeGraph.from_triples(rdflib.Graph(), {"a": "b"})


def test_an_rdflib_dataset_is_read_with_all_its_graphs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's own
        dataset = rdflib.Dataset()
        dataset.parse(data="<x:a> <x:r> <x:b> <x:g1> .\n<x:b> <x:r> <x:c> .", format="nquads")
    assert KnowledgeGraph.from_triples(dataset).index.triples == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pandas.DataFrame({"head": ["a"], "x": ["b"], "tail": ["c"]}), "It has: 'head', 'x', 't"),
        (pandas.DataFrame({"a": ["x"], "b": ["y"]}), "needs the columns head, relation and tail"),
        (
            pandas.DataFrame({"h": ["a", None], "r": ["r", "r"], "t": ["b", "c"]}),
            "head of triple 2",
        ),
        (pandas.DataFrame({"a": ["x"], "b": ["r"], "c": [np.nan]}), "tail of triple 1 is missing"),
        (pandas.DataFrame({"a": ["x"], "b": ["r"], "c": [pandas.NA]}), "triple 1 is missing"),
        (pandas.DataFrame({"a": ["x"], "b": ["r"], "c": [1.5]}), "is 1.5, which is not a name"),
        (pyarrow.table({"s": ["a", None], "p": ["r", "r"], "o": ["b", "c"]}), "head of triple 2"),
        ("films.tsv", "opened with open_graph"),
        ({"a": "b"}, "opened with open_graph"),
        (7, "opened with open_graph"),
        ([("a", "r")], r"Triple 1 should be \(head, relation, tail\)"),
        ([("a", "r", "b"), "abc"], "Triple 2 should be"),
        ([("a", "r", "")], "tail of triple 1 is '', which is not a name"),
        (rdflib.Graph(), "^The rdflib graph has no triples"),
        ([("a", "r", True)], "is True, which is not a name"),
        ([("a", "r", ["x"] * 1000)], "…, which is not a name"),
        (networkx.Graph([("a", "b")]), "undirected"),
        (networkx.DiGraph([("a", "b")]), "no attribute 'relation'"),
        ([], "no triples"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_place(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        KnowledgeGraph.from_triples(source)


def test_an_edge_attribute_is_for_networkx_only() -> None:
    with pytest.raises(DataError, match="edge attribute"):
        KnowledgeGraph.from_triples(FACTS, relation="does")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=20))
def test_tables_and_triples_give_the_same_graph(rows: list[tuple[str, str, str]]) -> None:
    plain = KnowledgeGraph.from_triples(rows)
    frame = pandas.DataFrame(rows, columns=["head", "relation", "tail"])
    table = pyarrow.table(dict(zip(frame.columns, map(list, zip(*rows, strict=True)), strict=True)))
    for source in (frame, table):
        made = KnowledgeGraph.from_triples(source)
        assert made.identity == plain.identity


def test_no_other_library_is_imported_for_plain_triples() -> None:
    program = (
        "import sys, clmpt\n"
        "clmpt.KnowledgeGraph.from_triples([('a', 'r', 'b')]).solve('?x : r(a, ?x)')\n"
        "assert not {'pandas', 'pyarrow', 'networkx', 'rdflib', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
