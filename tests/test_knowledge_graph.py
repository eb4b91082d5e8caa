"""Graphs: names, labels, views, inverses, and stored folders, sound or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import AmbiguousName, DataError, UnknownName, UnknownSplit
from clmpt.graph import edges
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.logic.formula import Id, Name
from clmpt.logic.parser import parse_formula
from clmpt.storage.checksums import LISTED
from strategies import ENTITIES, RELATIONS, graphs
from tampering import without_checksums
from toy import films


def test_neighbours_in_both_directions() -> None:
    graph = films().view("train")
    mizoguchi, kyo = (graph.entities.names.find(name)[0] for name in ("Mizoguchi", "Kyo"))
    directed, starred = (graph.relations.names.find(name)[0] for name in ("directed", "starred"))
    assert set(graph.labels(graph.neighbours(mizoguchi, directed))) == {"Ugetsu", "Sansho", "Oharu"}
    ugetsu = graph.entities.names.find("Ugetsu")[0]
    assert graph.labels(graph.neighbours(ugetsu, directed, inverse=True)) == ["Mizoguchi"]
    assert kyo in graph.neighbours(ugetsu, starred, inverse=True)
    assert graph.neighbours(kyo, directed) == []


@given(graphs(splits=("train", "test")))
def test_the_index_holds_exactly_the_triples(graph: KnowledgeGraph) -> None:
    for view in (graph, graph.view("train"), graph.view("test")):
        rows = {tuple(row) for row in view.triples().tolist()}
        assert len(rows) == view.index.triples
        for head in range(len(ENTITIES)):
            for relation in range(len(RELATIONS)):
                tails = {t for h, r, t in rows if (h, r) == (head, relation)}
                heads = {h for h, r, t in rows if (t, r) == (head, relation)}
                assert set(view.neighbours(head, relation)) == tails
                assert set(view.neighbours(head, relation, inverse=True)) == heads


@given(graphs(), st.data())
def test_both_ways_to_find_an_edge_agree(graph: KnowledgeGraph, data: st.DataObject) -> None:
    index = graph.index
    count = data.draw(st.integers(2, 40))
    numbers = st.integers(0, 5)
    draw = lambda of: np.array(data.draw(st.lists(of, min_size=count, max_size=count)))  # noqa: E731
    start, stop = index.ranges(draw(numbers), draw(numbers))
    target = draw(numbers)
    edge, found = index.find(start, stop, target)
    other_edge, other_found = index.find_by_halving(start, stop, target)
    assert found.tolist() == other_found.tolist()
    assert edge[found].tolist() == other_edge[found].tolist()
    for one in range(count):
        inside = index.neighbours_X[start[one] : stop[one]].tolist()
        assert bool(found[one]) == (int(target[one]) in inside)


def test_a_triple_in_two_splits_is_one_triple() -> None:
    builder = GraphBuilder()
    builder.add("train", "a", "r", "b")
    builder.add("test", "a", "r", "b")
    builder.add("test", "b", "r", "c")
    graph = builder.build()
    assert graph.index.triples == 2
    assert [graph.view(name).index.triples for name in ("train", "test")] == [1, 2]


def test_an_unknown_split_raises_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownSplit, match=r"no split 'valid'.*train, test"):
        films().view("valid")


def test_a_view_of_a_view_starts_from_the_whole_graph() -> None:
    graph = films()
    assert graph.view("train").view("test").index.triples == 3
    assert graph.view("train").view("train", "test").index.triples == graph.index.triples


def test_inverse_relations_are_recognised() -> None:
    triples = [("a", "r", "b"), ("b", "r'", "a"), ("c", "r", "b"), ("b", "r'", "c")]
    pair = KnowledgeGraph.from_triples([*triples, ("a", "near", "c"), ("c", "near", "a")])
    assert pair.inverse_ids.tolist() == [1, 0, 2]
    assert pair.has_both_directions
    assert KnowledgeGraph.from_triples(triples[:3]).inverse_ids.tolist() == [-1, -1]
    assert not films().has_both_directions


def test_names_and_labels_resolve() -> None:
    labels = {"Q1": "Ugetsu", "Q2": "Kyo", "Q3": "Kyo", "r": "starred in"}
    graph = KnowledgeGraph.from_triples([("Q2", "r", "Q1"), ("Q3", "r", "Q1")], labels)
    assert graph.entities.resolve(Name("Q2")) == graph.entities.resolve(Id(0)) == 0
    assert graph.entities.resolve(Name("Ugetsu")) == 1
    assert graph.relations.resolve(Name("starred in")) == 0
    with pytest.raises(AmbiguousName, match=r"'Kyo': 2 entity names.*'Q2', 'Q3'"):
        graph.entities.resolve(Name("Kyo"))
    with pytest.raises(UnknownName, match="Did you mean 'Ugetsu'"):
        graph.entities.resolve(Name("Ugetso"))
    with pytest.raises(UnknownName, match=r"Unknown relation '#7'"):
        graph.relations.resolve(Id(7))


def test_binding_errors_point_into_the_text() -> None:
    with pytest.raises(UnknownName, match=r"'directd' at column 6\. Did you mean 'directed'\?"):
        films().bind(parse_formula("?f : directd(Mizoguchi, ?f)"))


def test_names_become_ids_and_back() -> None:
    graph, query = films(), parse_formula("?f : directed(Mizoguchi, ?f)")
    assert str(graph.bind(query)) == "?f : #0(#0, ?f)"
    assert graph.named(graph.bind(query)) == query


@given(st.lists(st.text(max_size=6), unique=True, max_size=30), st.text(max_size=3))
def test_name_tables_find_their_names(texts: list[str], prefix: str) -> None:
    texts = [text for text in texts if text.isprintable() or not text]
    table = NameTable.of(texts)
    assert list(table) == texts
    assert all(table.find(text) == [number] for number, text in enumerate(texts))
    if prefix.isprintable() and prefix not in texts:
        assert table.find(prefix) == []
    expected = sorted(t for t in texts if t.encode().startswith(prefix.encode("utf-8", "replace")))
    if prefix.isprintable():
        assert {table[n] for n in table.starting_with(prefix, 50)} == set(expected)


def test_a_stored_graph_opens_unchanged(tmp_path: Path) -> None:
    graph = films()
    graph.save(tmp_path / "films")
    again = KnowledgeGraph.open(tmp_path / "films")
    assert again.about == graph.about
    assert again.fingerprint == graph.fingerprint
    for split in ((), ("train",), ("test",)):
        assert again.triples(*split).tolist() == graph.triples(*split).tolist()
    with pytest.raises(ValueError, match="read-only"):
        again.index.neighbours_X[0] = 3


def test_a_graph_in_memory_cannot_be_changed_either() -> None:
    for graph in (films(), films().view("train")):
        with pytest.raises(ValueError, match="read-only"):
            graph.index.keys_K1[0] = 3


def test_saving_never_overwrites(tmp_path: Path) -> None:
    films().save(tmp_path / "films")
    with pytest.raises(DataError, match="already exists"):
        films().save(tmp_path / "films")
    assert [path.name for path in tmp_path.iterdir()] == ["films"], (
        "scratch folders were left behind"
    )


def test_opening_something_else_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no graph folder"):
        KnowledgeGraph.open(tmp_path / "nothing")
    with pytest.raises(DataError, match="clmpt import"):
        KnowledgeGraph.open(tmp_path)


@pytest.mark.parametrize("name", ["keys", "offsets", "neighbours", "splits", "entity_names_bytes"])
@pytest.mark.parametrize("damage", ["cut", "gone", "junk", "pickle", "short"])
def test_damaged_folders_are_rejected(tmp_path: Path, name: str, damage: str) -> None:
    films().save(tmp_path / "films")
    path = without_checksums(tmp_path / "films") / f"{name}.npy"
    whole = np.load(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-8])
    elif damage == "gone":
        path.unlink()
    elif damage == "junk":
        path.write_bytes(b"junk" * 100)
    elif damage == "pickle":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    else:
        np.save(path, whole[:-1])
    with pytest.raises(DataError, match=r"mport the graph again|do not fit"):
        KnowledgeGraph.open(tmp_path / "films")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("keys", 0, 10**15),
        ("keys", 1, -5),
        ("offsets", 1, 500),
        ("neighbours", 0, 99),
        ("neighbours", 0, -1),
        ("splits", 0, 0),
        ("entity_names_offsets", 1, 10**6),
        ("entity_names_order", 0, 10**6),
    ],
)
def test_invalid_numbers_are_noticed_when_a_graph_is_opened(
    tmp_path: Path, name: str, at: int, value: int
) -> None:
    films().save(tmp_path / "films")
    path = without_checksums(tmp_path / "films") / f"{name}.npy"
    array = np.load(path)
    array[at] = value
    np.save(path, array)
    with pytest.raises(DataError, match="do not fit together"):
        KnowledgeGraph.open(tmp_path / "films")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "other"}', '{"format": "clmpt graph 1"}']
)
def test_damaged_descriptions_are_rejected(tmp_path: Path, text: str) -> None:
    films().save(tmp_path / "films")
    (without_checksums(tmp_path / "films") / "graph.json").write_text(text)
    with pytest.raises(DataError):
        KnowledgeGraph.open(tmp_path / "films")


def test_about_matches_the_stored_file(tmp_path: Path) -> None:
    films().save(tmp_path / "films")
    assert json.loads((tmp_path / "films" / "graph.json").read_text()) == films().about | LISTED


def test_graphs_that_are_too_large_or_empty_are_rejected() -> None:
    builder = GraphBuilder()
    for number in range(9):
        builder.add(f"split{number}", "a", "r", "b")
    with pytest.raises(DataError, match="at most 8 splits"):
        builder.build()
    with pytest.raises(DataError, match="more than one index can hold"):
        edges.build_index(2**28, 2**10, [])
    with pytest.raises(DataError, match="no triples"):
        GraphBuilder().build()


def test_a_label_does_not_hide_the_end_of_an_iri() -> None:
    triples = [("http://a.org/g17", "in", "http://a.org/t"), ("http://b.org/t", "in", "x")]
    graph = KnowledgeGraph.from_triples(triples, {"http://a.org/g17": "group 17"})
    assert graph.entities.resolve(Name("g17")) == graph.entities.resolve(Name("group 17")) == 0
    with pytest.raises(AmbiguousName, match=r"http://a\.org/t.*http://b\.org/t"):
        graph.entities.resolve(Name("t"))
