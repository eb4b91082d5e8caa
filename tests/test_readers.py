"""Files of every kind, and the ways they can be wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_reading import RdfOptions
from clmpt.graph.readers import TextOptions, read_graph
from clmpt.graph.writers import export_graph
from toy import films

RDF = {
    "nt": "<http://e/Mizoguchi> <http://e/directed> <http://e/Ugetsu> .\n"
    '<http://e/Ugetsu> <http://www.w3.org/2000/01/rdf-schema#label> "雨月物語"@ja .\n'
    '<http://e/Ugetsu> <http://www.w3.org/2000/01/rdf-schema#label> "Ugetsu Monogatari"@en .\n'
    '<http://e/Ugetsu> <http://e/year> "1953" .\n',
    "ttl": "@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    ':Mizoguchi :directed :Ugetsu . :Ugetsu rdfs:label "Ugetsu Monogatari" ; :year 1953 .\n',
    "nq": "<http://e/Mizoguchi> <http://e/directed> <http://e/Ugetsu> <http://e/graph> .\n"
    '<http://e/Ugetsu> <http://www.w3.org/2000/01/rdf-schema#label> "Ugetsu Monogatari" .\n'
    '<http://e/Ugetsu> <http://e/year> "1953" <http://e/graph> .\n',
    "rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://e/" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">'
    '<rdf:Description rdf:about="http://e/Mizoguchi"><directed rdf:resource="http://e/Ugetsu"/>'
    '</rdf:Description><rdf:Description rdf:about="http://e/Ugetsu">'
    "<rdfs:label>Ugetsu Monogatari</rdfs:label><year>1953</year></rdf:Description></rdf:RDF>",
}


def names(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    entities, relations = list(graph.entities.names), list(graph.relations.names)
    return {(entities[h], relations[r], entities[t]) for h, r, t in graph.triples().tolist()}


@pytest.mark.parametrize("ending", RDF)
@pytest.mark.parametrize("gzipped", [False, True])
def test_every_rdf_format_can_be_read(tmp_path: Path, ending: str, gzipped: bool) -> None:
    path = tmp_path / (f"films.{ending}" + ".gz" * gzipped)
    data = RDF[ending].encode()
    path.write_bytes(gzip.compress(data) if gzipped else data)
    graph, summary = read_graph([path])
    assert names(graph) == {("http://e/Mizoguchi", "http://e/directed", "http://e/Ugetsu")}
    assert summary.literals == 1
    # Labels, English first; without one, the readable end of the IRI.
    assert graph.labels([0, 1]) == ["Mizoguchi", "Ugetsu Monogatari"]
    assert graph.relations.label(0) == "directed"


def test_literals_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "films.nt"
    path.write_text(RDF["nt"])
    graph, summary = read_graph([path], rdf=RdfOptions(literals=True))
    assert ("http://e/Ugetsu", "http://e/year", '"1953"') in names(graph)
    assert summary.literals == 0
    assert "1953" in graph.labels(range(len(graph.entities)))


def test_blank_nodes_are_numbered_the_same_way_every_time(tmp_path: Path) -> None:
    for name in ("one.ttl", "two.ttl"):
        (tmp_path / name).write_text("@prefix : <http://e/> . :a :r [ :s :b ] , [ :s :c ] .")
    paths = [tmp_path / "one.ttl", tmp_path / "two.ttl"]
    first, second = read_graph(paths)[0], read_graph(paths)[0]
    assert list(first.entities.names) == list(second.entities.names)
    # Four blank nodes: those of two files are never the same.
    assert sum(name.startswith("_:") for name in first.entities.names) == 4


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a\tr\tb\nb\tr\tc d\n", "x.tsv", None),
        ("a\tr\tb\r\nb\tr\tc d\r\n\r\n", "x.txt", None),
        ("a,r,b\nb,r,c d", "x.csv", None),
        ('"a","r","b"\nb,r,"c d"', "x.csv", None),
        ("a;r;b\nb;r;c d", "x.csv", None),
        ("a|r|b\nb|r|c d", "x.txt", None),
        ("a~r~b\nb~r~c d", "x.dat", TextOptions(delimiter="~")),
        ("head,relation,tail\na,r,b\nb,r,c d", "x.csv", None),
        ("Subject\tObject\tPredicate\na\tb\tr\nb\tc d\tr", "x.tsv", None),
        ("one,two,three\na,r,b\nb,r,c d", "x.csv", TextOptions(header=True)),
        ("0,a,b,r\n1,b,c d,r", "x.csv", TextOptions(columns=(1, 3, 2))),
        ("\ufeffa\tr\tb\nb\tr\tc d", "x.tsv", None),
    ],
)
def test_every_kind_of_delimited_text_can_be_read(
    tmp_path: Path, text: str, name: str, options: TextOptions | None
) -> None:
    (tmp_path / name).write_bytes(text.encode())
    graph, _ = read_graph([tmp_path / name], options=options)
    assert names(graph) == {("a", "r", "b"), ("b", "r", "c d")}


def test_a_first_row_of_single_letters_is_data_unless_it_is_a_known_header(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("s\tr\to\nx\tr\ty\n")
    assert read_graph([path])[0].index.triples == 2
    path.write_text("t\tr\th\nx\tr\ty\n")
    assert names(read_graph([path], options=TextOptions(header=False))[0]) == {
        ("t", "r", "h"),
        ("x", "r", "y"),
    }
    graph, summary = read_graph([path])
    assert names(graph) == {("y", "r", "x")}
    assert summary.headers == [str(path)]


def test_other_encodings_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes("é\tr\tß\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 1 is not utf-8 text.*--encoding latin-1"):
        read_graph([path])
    assert names(read_graph([path], options=TextOptions(encoding="latin-1"))[0]) == {
        ("é", "r", "ß")
    }


def test_files_become_splits_by_name_or_by_prefix(tmp_path: Path) -> None:
    for name in ("train.tsv", "valid.txt", "more.tsv"):
        (tmp_path / name).write_text(f"{name[0]}\tr\tb\n")
    sources = [
        str(tmp_path / "train.tsv"),
        str(tmp_path / "valid.txt"),
        f"test={tmp_path}/more.tsv",
    ]
    graph, summary = read_graph(sources)
    assert graph.splits == ("train", "valid", "test")
    assert [file["triples"] for file in summary.files] == [1, 1, 1]
    assert read_graph([tmp_path / "more.tsv"])[0].splits == ("facts",)


def test_labels_can_come_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Q1\tP1\tQ2\n")
    (tmp_path / "labels.tsv").write_text("Q1\tMizoguchi\nP1\tdirected\nQ9\tnobody\n")
    graph, _ = read_graph([tmp_path / "x.tsv"], [tmp_path / "labels.tsv"])
    assert graph.labels([0, 1]) == ["Mizoguchi", "Q2"]
    assert graph.relations.label(0) == "directed"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.tsv", b"", "is empty"),
        ("x.tsv", b"\n\n \n", "is empty"),
        ("x.tsv", b"a\tr\n", "line 1: 2 column"),
        ("x.tsv", b"a\tr\tb\nc\n", "line 2: 1 column"),
        ("x.tsv", b"a\tr\tb\tc\n", "--columns"),
        ("x.tsv", b"a\tr\tb\n\tr\tb\n", "line 2: an empty name"),
        ("x.tsv", b"\x00\x01\x02\x03\xff", "not utf-8|not text"),
        ("x.tsv", b"\x80\x81" * 100, "not utf-8"),
        ("x.csv", b'a,r,"' + b"x" * 200_000, "field"),
        ("x.csv", b'a,r,b\nc,r,"d\ne,r,f\n', "unexpected end of data"),
        ("x.tsv", b"\n\na\tr\tb\nc\n", "line 4: 1 column"),
        ("x.tsv.gz", gzip.compress(b"a\tr\tb\n", mtime=0)[:10] + b"\xff" * 40, "to the end"),
        ("x.tsv.gz", gzip.compress(b"a\tr\tb\n" * 1000, mtime=0)[:40], "cannot be read to the end"),
        ("x.bin", b"a\tr\tb", "unknown file extension"),
        # Cut, and not UTF-8 before that: the search for the bad line meets the end.
        ("x.tsv.gz", gzip.compress(b"\xff" * 100_000, mtime=0)[:-9], "not utf-8"),
        ("x.tsv.gz", gzip.compress(b"a\tr\t" + b"b" * 2_000_000, mtime=0), "line 1 is longer"),
        ("x.nt", b"<a> <b> nonsense", "line 1"),
        ("x.ttl", b"@prefix : <http://e/> . :a :b", "is not Turtle"),
        ("x.rdf", b"<rdf", "is not RDF/XML|cannot be read"),
        ("x.nt", b"# nothing", "has no triples"),
        ("x.nt.gz", gzip.compress(b"<a> <b> <c> .", mtime=0)[:10] + b"\xff" * 40, "to the end"),
    ],
)
def test_each_kind_of_bad_file_has_its_own_error(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_graph([tmp_path / name])
    assert name in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.tsv' cannot be read: No such file"):
        read_graph([tmp_path / "nothing.tsv"])


@pytest.mark.parametrize("ending", ["tsv", "nt", "tsv.gz", "nt.gz"])
def test_an_exported_graph_can_be_imported_again(tmp_path: Path, ending: str) -> None:
    graph = films()
    path = tmp_path / f"films.{ending}"
    assert export_graph(graph, path) == 14
    assert names(read_graph([path])[0]) == names(graph)
    assert export_graph(graph, path) == 14  # the same once more
    with pytest.raises(DataError, match="already exists"):
        export_graph(KnowledgeGraph.from_triples([("a", "r", "b")]), path)


@given(st.lists(st.tuples(*[st.text(min_size=1, max_size=5)] * 3), min_size=1, max_size=5))
def test_any_names_survive_n_triples(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    try:
        graph = KnowledgeGraph.from_triples(rows)
    except UnicodeEncodeError:
        return
    path = tmp_path_factory.mktemp("export") / "x.nt"
    export_graph(graph, path)
    assert names(read_graph([path], rdf=RdfOptions(literals=True))[0]) == names(graph)


def test_names_that_tsv_cannot_hold_are_rejected(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples([("a\tb", "r", "c")])
    with pytest.raises(DataError, match=r"Export to \.nt"):
        export_graph(graph, tmp_path / "x.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        '"quoted"',
        "http://exa[mple",
        "http://x/%zz",
        "http://ex.org:bad/",
        "http://x/#a#b",
        "http://x/\ue000\ufffe",
        "urn:clmpt:id:3",
        '"t"^^<x>',
    ],
)
@pytest.mark.parametrize("ending", ["nt", "ttl"])
def test_names_that_look_like_something_else_survive_rdf(
    tmp_path: Path, name: str, ending: str
) -> None:
    graph, path = KnowledgeGraph.from_triples([("a", "r", name), ("a", name, "b")]), tmp_path / "x"
    export_graph(graph, path.with_suffix(f".{ending}"))
    assert names(read_graph([path.with_suffix(f".{ending}")])[0]) == names(graph)


def test_columns_beyond_the_row_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    with pytest.raises(DataError, match="3 column"):
        read_graph([tmp_path / "x.tsv"], options=TextOptions(columns=(0, 1, 8)))


def test_labels_and_literals_survive_n_triples(tmp_path: Path) -> None:
    (tmp_path / "in.nt").write_text(RDF["nt"])
    graph, _ = read_graph([tmp_path / "in.nt"], rdf=RdfOptions(literals=True))
    export_graph(graph, tmp_path / "out.nt")
    again, _ = read_graph([tmp_path / "out.nt"], rdf=RdfOptions(literals=True))
    assert names(again) == names(graph)
    assert sorted(again.labels(range(3))) == sorted(graph.labels(range(3)))
