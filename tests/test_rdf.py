"""RDF in and out: nothing is lost, and what a model learns from is the user's choice."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmpt.errors import AmbiguousName, DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_reading import RdfOptions, expanded_iri
from clmpt.graph.readers import read_graph
from clmpt.graph.splitting import hold_out
from clmpt.graph.writers import export_graph
from clmpt.sparql.answering import answer_sparql
from clmpt.symbolic.solver import solve
from toy import films

PREFIXES = """
@prefix : <http://e/> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""
iris = st.sampled_from(
    [
        *(ox.NamedNode(f"http://e/{name}") for name in "abc"),
        ox.NamedNode("mailto:a@b.example"),
        ox.NamedNode("urn:clmpt:Plain%20name"),
        ox.NamedNode("http://e/ünï/漢#x"),
        ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label"),
    ]
)
blanks = st.sampled_from([ox.BlankNode(f"n{number}") for number in range(3)])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
literals = st.one_of(
    texts.map(ox.Literal),
    st.builds(
        lambda text, tag: ox.Literal(text, language=tag), texts, st.sampled_from(["en", "de-at"])
    ),
    st.builds(
        lambda text, kind: ox.Literal(text, datatype=kind),
        st.sampled_from(["1", "01", "+1.50", "x", ""]),
        st.sampled_from(
            [ox.NamedNode("http://www.w3.org/2001/XMLSchema#integer"), ox.NamedNode("http://e/t")]
        ),
    ),
)
predicates = st.one_of(iris, st.just(ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")))
graphs = st.one_of(st.just(ox.DefaultGraph()), iris, blanks)
quads = st.lists(
    st.builds(
        ox.Quad, st.one_of(iris, blanks), predicates, st.one_of(iris, blanks, literals), graphs
    ),
    min_size=1,
    max_size=12,
)


def canonical(found: list[ox.Quad]) -> set[str]:
    dataset = ox.Dataset(found)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return {str(quad) for quad in dataset}


@settings(max_examples=200, deadline=None)
@given(quads, st.sampled_from([".nq", ".trig"]), st.booleans())
def test_what_is_imported_can_be_exported_without_loss(
    tmp_path_factory: pytest.TempPathFactory, found: list[ox.Quad], ending: str, stored: bool
) -> None:
    folder = tmp_path_factory.mktemp("rdf")
    (folder / "in.nq").write_bytes(ox.serialize(found, format=ox.RdfFormat.N_QUADS))
    graph, _ = read_graph([folder / "in.nq"])
    if stored:
        graph.save(folder / "graph")
        graph = KnowledgeGraph.open(folder / "graph")
    export_graph(graph, folder / f"out{ending}")
    form = {".nq": ox.RdfFormat.N_QUADS, ".trig": ox.RdfFormat.TRIG}[ending]
    assert canonical(list(ox.parse(path=folder / f"out{ending}", format=form))) == canonical(found)


def read(tmp_path: Path, text: str, options: RdfOptions | None = None) -> KnowledgeGraph:
    path = tmp_path / "in.ttl"
    path.write_text(PREFIXES + text, encoding="utf-8")
    return read_graph([path], rdf=options)[0]


def names(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    own, relations = graph.entities.names, graph.relations.names
    return {
        tuple(name.removeprefix("http://e/") for name in (own[h], relations[r], own[t]))  # type: ignore[misc]
        for h, r, t in graph.triples()
    }


LABELLED = """
:a rdfs:label "Vienna"@en , "Wien"@de , "Vindobona" ; :in :b .
:b skos:prefLabel "Österreich"@de , "Austria"@en-gb .
"""


def test_any_label_names_a_thing_and_the_language_is_a_choice(tmp_path: Path) -> None:
    graph = read(tmp_path, LABELLED)
    assert graph.labels([0, 1]) == ["Vienna", "Austria"]
    for name in ("Vienna", "Wien", "Vindobona", "a"):
        assert solve(f'?x : in("{name}", ?x)', graph) == {1}
    german = read(tmp_path, LABELLED, RdfOptions(languages=("de", "en")))
    assert german.labels([0, 1]) == ["Wien", "Österreich"]
    german.save(tmp_path / "stored")
    again = KnowledgeGraph.open(tmp_path / "stored")
    assert solve('?x : in("Vienna", ?x)', again) == {1}


def test_a_property_of_ones_own_can_hold_labels(tmp_path: Path) -> None:
    options = RdfOptions(label_properties=("http://e/title",))
    graph = read(tmp_path, ':a :title "Sansho" ; :by :m . :m rdfs:label "no label now" .', options)
    assert graph.labels([0]) == ["Sansho"]


def test_labels_and_literals_can_be_asked_in_sparql(tmp_path: Path) -> None:
    graph = read(tmp_path, LABELLED + ":a :people 1900000 .")
    result = answer_sparql(
        'SELECT ?x { ?x rdfs:label "Wien"@de ; :people ?n FILTER(?n > 5) }', graph
    )
    assert [row[0].text for row in result if row[0]] == ["http://e/a"]


def test_relations_can_be_left_out_of_the_model_and_still_be_asked(tmp_path: Path) -> None:
    text = ":a a :City ; :in :b ."
    graph = read(tmp_path, text, RdfOptions(leave_out=frozenset({expanded_iri("rdf:type")})))
    assert names(graph) == {("a", "in", "b")}
    assert answer_sparql("ASK { ?x a <http://e/City> }", graph).holds


def test_things_that_are_the_same_become_one(tmp_path: Path) -> None:
    text = ":a :r :b . :b owl:sameAs :c . :d owl:sameAs :c . :d :r :e . :c rdfs:label 'See' ."
    graph = read(tmp_path, text, RdfOptions(same_as=True))
    assert names(graph) == {("a", "r", "b"), ("b", "r", "e")}
    assert solve("?x : r(<http://e/d>, ?x)", graph) == solve("?x : r(See, ?x)", graph) != set()
    assert answer_sparql("ASK { <http://e/d> <http://e/r> <http://e/e> }", graph).holds


CITIES = """
@prefix a: <http://a/> . @prefix b: <http://b/> .
:river :flows a:Vienna . a:Vienna owl:sameAs b:Wien . b:Wien :on :danube ; :people 1900000 ;
    rdfs:label "Wien Stadt" . :danube :passes b:Wien .
GRAPH b:Wien { b:Wien :twinned :Tokyo }
"""


def cities(tmp_path: Path, text: str = CITIES) -> KnowledgeGraph:
    (tmp_path / "in.trig").write_text(PREFIXES + text)
    read_graph([tmp_path / "in.trig"], rdf=RdfOptions(same_as=True))[0].save(tmp_path / "stored")
    return KnowledgeGraph.open(tmp_path / "stored")


@pytest.mark.parametrize(
    "name", ["<http://a/Vienna>", "<http://b/Wien>", "Vienna", "Wien", '"Wien Stadt"']
)
def test_formulas_know_the_same_thing_by_the_ends_of_all_its_names(
    tmp_path: Path, name: str
) -> None:
    graph = cities(tmp_path)
    assert graph.labels(solve(f"?x : on({name}, ?x)", graph)) == ["danube"]


@pytest.mark.parametrize("name", ["<http://a/Vienna>", "<http://b/Wien>", ":Wien%20Stadt", ":Wien"])
@pytest.mark.parametrize(
    "pattern",
    [
        "{} <http://e/on> ?x",
        "<http://e/river> <http://e/flows> {}",
        "<http://e/danube> ?p {} . {} <http://e/people> ?x",
        "?x <http://e/people> 1900000 FILTER(?x = {})",
        "VALUES ?x {{ {} }} ?x <http://e/on> ?y",
        "<http://e/river> <http://e/flows>/<http://e/on> ?y . {} <http://e/on> ?y",
        "GRAPH {} {{ {} <http://e/twinned> ?x }}",
    ],
)
def test_sparql_knows_the_same_thing_by_all_its_names(
    tmp_path: Path, name: str, pattern: str
) -> None:
    query = "ASK { " + pattern.replace("{}", name).replace("{{", "{").replace("}}", "}") + " }"
    assert answer_sparql(query, cities(tmp_path)).holds


def test_what_was_merged_is_exported_as_it_was_written(tmp_path: Path) -> None:
    graph = cities(tmp_path)
    assert answer_sparql("ASK { <http://b/Wien> ?p ?o }", graph).holds
    export_graph(graph, tmp_path / "out.nq")
    found, written = (
        canonical(list(ox.parse(path=tmp_path / name, format=form)))
        for name, form in (("out.nq", ox.RdfFormat.N_QUADS), ("in.trig", ox.RdfFormat.TRIG))
    )
    assert found == written


def test_an_end_that_two_things_share_is_ambiguous(tmp_path: Path) -> None:
    other = "<http://c/Wien> rdfs:label 'another one' ; :on :danube ."
    with pytest.raises(AmbiguousName):
        solve("?x : on(Wien, ?x)", cities(tmp_path, CITIES + other))


def test_a_held_out_fact_of_a_merged_thing_is_not_seen_in_training(tmp_path: Path) -> None:
    facts = [
        f"a:{n} owl:sameAs b:{n} . b:{n} :r b:{(n * 7 + k) % 30} ."
        for n in range(30)
        for k in (1, 2, 3)
    ]
    prefixes = "@prefix a: <http://a/> . @prefix b: <http://b/> ."
    divided = hold_out(cities(tmp_path, prefixes + "".join(facts)), 0.2, 0)
    assert len(divided.triples("valid")) > 0
    found = answer_sparql("SELECT * { ?x <http://e/r> ?y }", divided.view("train"))
    assert len(found) == len(divided.triples("train"))


def test_the_graphs_own_ontology_can_be_applied(tmp_path: Path) -> None:
    text = (
        ":Dog rdfs:subClassOf :Animal . :rex a :Dog . :owns rdfs:domain :Person . :ann :owns :rex ."
    )
    plain = read(tmp_path, text)
    assert ("rex", expanded_iri("rdf:type"), "Animal") not in names(plain)
    graph = read(tmp_path, text, RdfOptions(entail="rdfs"))
    assert {
        ("rex", expanded_iri("rdf:type"), "Animal"),
        ("ann", expanded_iri("rdf:type"), "Person"),
    } <= names(graph)
    learned = {tail for _, _, tail in names(graph)}
    assert not any(tail.startswith("http://www.w3.org/") for tail in learned)
    symmetric = ":near a owl:SymmetricProperty . :a :near :b ."
    assert ("b", "near", "a") in names(read(tmp_path, symmetric, RdfOptions(entail="owl-rl")))


def test_statements_about_names_of_a_table_are_about_these(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text('http://e/a\thttp://e/r\tb\n_:b0\thttp://e/r\t"A"\n')
    (tmp_path / "more.ttl").write_text(
        PREFIXES + ':a rdfs:label "A" ; :r 3 . <urn:clmpt:b> :n 4 . [] :n 5 .'
    )
    graph, _ = read_graph([tmp_path / "facts.tsv", tmp_path / "more.ttl"])
    query = 'ASK { ?x rdfs:label "A" ; <http://e/r> ?y , 3 . ?y <http://e/n> 4 }'
    assert answer_sparql(query, graph).holds
    # Names in a table are no literals and no blank nodes, whatever they look like.
    assert not answer_sparql('ASK { ?x <http://e/r> "A" }', graph).holds


def test_relative_iris_and_byte_order_marks(tmp_path: Path) -> None:
    path = tmp_path / "x.ttl"
    path.write_bytes(b"\xef\xbb\xbf<#me> <knows> <#you> .")
    graph, _ = read_graph([path])
    assert graph.entities.names[0] == f"{path.as_uri()}#me"
    assert answer_sparql("ASK { <#me> <knows> <#you> }", graph).holds
    based, _ = read_graph([path], rdf=RdfOptions(base="http://e/doc"))
    assert graph.labels([0]) == based.labels([0]) == ["me"]
    assert based.relations.names[0] == "http://e/knows"


def test_json_ld_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonld"
    path.write_text('{"@id": "http://e/a", "http://e/r": {"@id": "http://e/b"}}')
    assert names(read_graph([path])[0]) == {("a", "r", "b")}


def test_statements_about_statements_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.ttl"
    path.write_text(PREFIXES + ":a :says <<( :b :r :c )>> .")
    with pytest.raises(DataError, match="statements about statements"):
        read_graph([path])


def test_directions_of_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.nt"
    path.write_text('<http://e/a> <http://e/says> "x"@ar--rtl .')
    with pytest.raises(DataError, match="literals with a direction"):
        read_graph([path])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RdfOptions(leave_out=frozenset({"http://e/nothing"})), "nothing to leave out: no state"),
        (RdfOptions(leave_out=frozenset({"http://e/a"})), "nothing to leave out: no statement"),
        (RdfOptions(leave_out=frozenset({"ex:r"})), "'ex:' is not a well-known prefix"),
        (RdfOptions(label_properties=("ex:title",)), "'ex:' is not a well-known prefix"),
        (RdfOptions(label_properties=("http://e/r",)), "no such labels: no statement has the text"),
    ],
)
def test_properties_that_no_statement_has_are_mistakes(
    tmp_path: Path, options: RdfOptions, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        read(tmp_path, ":a :r :b .", options)


def test_a_plain_name_is_left_out_of_what_export_wrote(tmp_path: Path) -> None:
    export_graph(films(), tmp_path / "films.nt")
    options = RdfOptions(leave_out=frozenset({expanded_iri("won")}))
    graph, _ = read_graph([tmp_path / "films.nt"], rdf=options)
    assert "won" not in list(graph.relations.names)
    assert answer_sparql("ASK { ?x :won ?y }", graph).holds


def test_types_are_a_relation_unless_they_are_left_out(tmp_path: Path) -> None:
    text = ':a a :City ; rdfs:label "A-town" ; :in :b .'
    kind = expanded_iri("rdf:type")
    assert names(read(tmp_path, text)) == {("a", kind, "City"), ("a", "in", "b")}
    graph = read(tmp_path, text, RdfOptions(leave_out=frozenset({kind})))
    assert list(graph.entities.names) == ["http://e/a", "http://e/b"]
    assert graph.labels([0]) == ["A-town"]
    assert answer_sparql("ASK { :A-town a :City }", graph).holds


def test_a_split_is_exported_without_labels_of_others(tmp_path: Path) -> None:
    (tmp_path / "train.ttl").write_text(PREFIXES + ':a rdfs:label "Alpha"@en ; :r :b .')
    (tmp_path / "valid.ttl").write_text(PREFIXES + ":b :r :a .")
    graph, _ = read_graph([tmp_path / "train.ttl", tmp_path / "valid.ttl"])
    export_graph(graph.view("valid"), tmp_path / "out.nt")
    assert (tmp_path / "out.nt").read_text() == "<http://e/b> <http://e/r> <http://e/a> .\n"
