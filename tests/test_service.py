"""The service over HTTP: the SPARQL protocol, the JSON interface, limits and refusals."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.printing import name_text
from clmpt.service.client import ServiceClient, ServiceError
from clmpt.service.served import Asking, Served
from clmpt.service.service_settings import ServedFolder
from service_process import RunningService, running_service

FILMS = """@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Mizoguchi :directed :Ugetsu , :Oharu ; rdfs:label "Kenji Mizoguchi" .
:Ugetsu :won :Lion ; :year 1953 ; rdfs:label "Ugetsu"@en , "雨月物語"@ja .
:Oharu :year 1952 .
"""
PREFIX = "PREFIX : <http://e/> "


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A plain RDF graph."""
    folder = tmp_path_factory.mktemp("films")
    (folder / "films.ttl").write_text(FILMS, encoding="utf-8")
    assert main(["import", str(folder / "films.ttl"), "--out", str(folder / "films")]) == 0
    with running_service(folder, str(folder / "films")) as service:
        yield service


@pytest.fixture(scope="module")
def model(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A fitted model, and its graph without the model."""
    folder = tmp_path_factory.mktemp("served")
    words = [str(fitted / "model"), str(fitted / "model" / "graph")]
    with running_service(folder, *words) as service:
        yield service


# --- the SPARQL protocol --------------------------------------------------------------------------

YEARS = PREFIX + "SELECT ?y { ?f :year ?y } ORDER BY ?y"


@pytest.mark.parametrize("way", ["get", "form", "direct"])
def test_a_query_comes_in_three_ways(films: RunningService, way: str) -> None:
    if way == "get":
        reply = films.get("/sparql", "text/csv", query=YEARS)
    elif way == "form":
        from urllib.parse import urlencode

        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/csv"}
        reply = films.request("POST", "/sparql", urlencode({"query": YEARS}).encode(), headers)
    else:
        headers = {"Content-Type": "application/sparql-query", "Accept": "text/csv"}
        reply = films.request("POST", "/sparql", YEARS.encode(), headers)
    assert (reply.status, reply.text) == (200, "y\r\n1952\r\n1953\r\n")


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", "application/sparql-results+json"),
        ("*/*", "application/sparql-results+json"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/html, application/xml;q=0.9, */*;q=0.8", "application/xml"),
        ("text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
        ("application/json;q=0.1, text/csv;q=0.2", "text/csv; charset=utf-8"),
    ],
)
def test_the_result_has_the_format_that_the_client_likes_best(
    films: RunningService, accept: str, media: str
) -> None:
    assert films.get("/sparql", accept, query=YEARS).headers["content-type"] == media


def test_triples_have_formats_of_their_own(films: RunningService) -> None:
    query = PREFIX + "CONSTRUCT { ?f :by ?d } { ?d :directed ?f }"
    turtle = films.get("/sparql", query=query)
    assert turtle.headers["content-type"] == "text/turtle; charset=utf-8"
    xml = films.get("/sparql", "application/rdf+xml", query=query)
    assert xml.status == 200
    assert b"rdf:RDF" in xml.body
    lines = films.get("/sparql", "application/n-triples", query=query).text.splitlines()
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("parameters", "status", "words"),
    [
        ({"query": "SELECT ?x {"}, 400, "at column"),
        ({"update": "DROP ALL"}, 400, "Nothing can be changed"),
        ({"query": "SELECT * { SERVICE <http://e/> { ?s ?p ?o } }"}, 400, "SERVICE"),
        ({"query": YEARS, "format": "turtle"}, 406, "Choose one of: json, xml, csv, tsv"),
        ({"query": YEARS, "model": "other"}, 404, "Available: films"),
    ],
)
def test_what_is_refused_gets_a_status_and_a_line(
    films: RunningService, parameters: dict[str, str], status: int, words: str
) -> None:
    reply = films.get("/sparql", **parameters)
    assert reply.status == status
    assert words in reply.json["error"]


def test_formats_and_bodies_that_nobody_knows_are_refused(films: RunningService) -> None:
    assert films.get("/sparql", "image/png", query=YEARS).status == 406
    reply = films.request("POST", "/sparql", b"x", {"Content-Type": "text/html"})
    assert reply.status == 415
    body = b"query=%ff%fe"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert films.request("POST", "/sparql", body, headers).status == 400
    assert films.request("GET", "/sparql?query=ASK%7B%7D&query=ASK%7B%7D").status == 400
    assert films.request("DELETE", "/sparql").status == 405


def test_without_a_query_the_service_describes_itself(films: RunningService) -> None:
    import pyoxigraph as ox

    reply = films.get("/sparql")
    endpoint = ox.NamedNode("http://www.w3.org/ns/sparql-service-description#endpoint")
    found = [
        quad.object
        for quad in ox.parse(reply.body, ox.RdfFormat.TURTLE)
        if quad.predicate == endpoint
    ]
    assert found == [ox.NamedNode(f"{films.url}/sparql")]


def test_a_dataset_of_the_protocol_goes_before_the_querys(films: RunningService) -> None:
    reply = films.get(
        "/sparql", query="SELECT * { ?s ?p ?o }", **{"default-graph-uri": "http://e/none"}
    )
    assert reply.json["results"]["bindings"] == []


def test_any_page_may_ask(films: RunningService) -> None:
    headers = {"Origin": "http://else.where", "Access-Control-Request-Method": "POST"}
    assert films.request("OPTIONS", "/sparql", headers=headers).status == 200
    reply = films.request("GET", "/health", headers={"Origin": "http://else.where"})
    assert reply.headers["access-control-allow-origin"] == "*"


def test_a_graph_without_a_model_has_nothing_likely(films: RunningService) -> None:
    reply = films.get("/likely/sparql", query=YEARS)
    assert reply.status == 400
    assert "without a model" in reply.json["error"]


# --- what is likely -------------------------------------------------------------------------------

LIKELY = "SELECT ?y ?probability ?status { :e0 :r0 ?y }"


def test_probability_and_status_are_there_for_those_who_name_them(model: RunningService) -> None:
    found = model.get("/likely/sparql", query=LIKELY, **{"at-least": 0}).json
    assert found["head"]["vars"] == ["y", "probability", "status"]
    rows = found["results"]["bindings"]
    chances = [float(row["probability"]["value"]) for row in rows]
    assert {row["status"]["value"] for row in rows} >= {"known", "predicted"}
    plain = model.get("/likely/sparql", query="SELECT * { :e0 :r0 ?y }", **{"at-least": 0}).json
    assert plain["head"]["vars"] == ["y"]
    likely = model.get("/likely/sparql", query=LIKELY, **{"at-least": 0.2}).json
    assert len(likely["results"]["bindings"]) == sum(chance >= 0.2 for chance in chances)
    few = model.get("/likely/sparql", query=LIKELY, **{"at-least": 0, "limit": 2}).json
    assert few["results"]["bindings"] == rows[:2]


def test_exact_answers_are_the_same_with_and_without_a_model(model: RunningService) -> None:
    query = "SELECT ?y { :e0 :r0 ?y } ORDER BY ?y"
    first = model.get("/sparql", query=query).json
    assert first["results"]["bindings"]
    assert model.get("/models/graph/sparql", query=query).json == first
    assert model.get("/sparql", query=query, model="graph").json == first


def test_yes_means_as_likely_as_asked(model: RunningService) -> None:
    (fact, *_) = model.get("/sparql", query="SELECT ?y { :e0 :r0 ?y }").json["results"]["bindings"]
    query = f"ASK {{ :e0 :r0 <{fact['y']['value']}> }}"
    reply = model.get("/likely/sparql", query=query)
    assert 0 <= float(reply.headers["clmpt-probability"]) <= 1
    assert model.get("/likely/sparql", query=query, **{"at-least": 0}).json["boolean"] is True


def test_bad_parameters_are_refused(model: RunningService) -> None:
    for name, value in {"at-least": "2", "limit": "x", "reasoner": "gqe"}.items():
        reply = model.get("/likely/sparql", query=LIKELY, **{name: value})
        assert reply.status == 400
        assert name in reply.json["error"] or "Available" in reply.json["error"]


# --- JSON -----------------------------------------------------------------------------------------


def test_a_question_has_answers_with_evidence(model: RunningService) -> None:
    question = "?y : r0(e0, ?x) & r1(?x, ?y)"
    found = model.get("/ask", question=question, limit=5, evidence="true").json
    assert found["query"] == question
    for answer in found["answers"]:
        assert answer["status"] in ("known", "hidden", "predicted")
        assert len(answer["evidence"]) in (0, 2)


def test_many_questions_are_answered_like_each_alone(model: RunningService) -> None:
    questions = [f"?y : r0(e{number}, ?y)" for number in range(5)]
    together = model.post("/ask", {"question": questions, "limit": 3}).json["results"]
    alone = [model.get("/ask", question=one, limit=3).json for one in questions]
    assert [one["query"] for one in together] == questions
    for left, right in zip(together, alone, strict=True):
        assert [one["name"] for one in left["answers"]] == [one["name"] for one in right["answers"]]


def test_rows_of_several_variables(model: RunningService) -> None:
    found = model.get("/ask", question="?x, ?y : r0(?x, ?y)", limit=3).json
    assert found["variables"] == ["x", "y"]
    assert [len(answer["row"]) for answer in found["answers"]] == [2, 2, 2]


def test_answers_come_before_their_evidence(model: RunningService) -> None:
    text = model.get("/ask/stream", question="?y : r0(e0, ?y)", limit=3).text
    events = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("event")]
    assert events == ["answers", "evidence", "evidence", "evidence", "done"]


def test_errors_have_a_place_and_what_may_be_meant(model: RunningService) -> None:
    reply = model.get("/ask", question="?y : r0(e00, ?y)")
    assert reply.status == 400
    assert reply.json["position"] == {"line": 1, "column": 9}
    assert "e0" in reply.json["near"]


def test_names_drawings_neighbours_and_models(model: RunningService) -> None:
    found = model.get("/complete", text="e1", kind="entity", limit=5).json["found"]
    assert found[0] == {
        "kind": "entity",
        "label": "e1",
        "name": "e1",
        "id": found[0]["id"],
        "formula": "e1",
        "sparql": "<urn:clmpt:e1>",
    }
    drawn = model.get("/draw", question="?y : r0(e0, ?y)")
    assert drawn.headers["content-type"] == "image/svg+xml"
    near = model.get("/graph/neighbours", entity="e0").json
    assert all("e0" in (one["head"]["name"], one["tail"]["name"]) for one in near["facts"])
    first, second = model.get("/models").json["models"]
    assert (first["name"], first["kind"]) == ("model", "model")
    assert (second["name"], second["kind"]) == ("graph", "graph")


def test_examples_are_questions_that_have_answers(model: RunningService) -> None:
    questions = model.get("/examples").json["questions"]
    assert len(questions) >= 3
    for question in questions:
        assert model.get("/ask", question=question, only="known").json["answers"]


def test_a_question_that_is_being_written_is_drawn_or_its_mistake_told(
    model: RunningService,
) -> None:
    asked = "?y : r0(e0, ?y) & !exists ?x (r1(?x, ?y) & r2(?x, e1))"
    (drawn,) = model.get("/parse", question=asked).json["alternatives"]
    kinds = {node["id"]: node["kind"] for node in drawn["nodes"]}
    assert kinds == {"e0": "entity", "?y": "answer", "?x": "variable", "e1": "entity"}
    assert [edge["group"] for edge in drawn["edges"]] == [0, 1, 1]
    wrong = model.get("/parse", question="?y : r0(e00, ?y)")
    assert (wrong.status, wrong.json["position"]["column"]) == (200, 9)
    assert not wrong.json["rows"]
    more = model.get("/parse", question="SELECT (COUNT(*) AS ?n) { ?s :r0 ?o }").json
    assert more["rows"]


def test_a_model_tells_its_figures_and_nothing_of_the_machine(model: RunningService) -> None:
    found = model.get("/models/model").json
    assert [shape["shape"] for shape in found["figures"][0]["shapes"]][:2] == ["1p", "2p"]
    assert found["reliability"][0]["name"] == "all"
    assert sum(one["count"] for one in found["reliability"][0]["bins"]) > 0
    told = json.dumps([found, model.get("/models").json])
    assert not re.search(r"python|torch|linux|x86|/tmp|\d+\.\d+\.\d+", told.lower())
    assert model.get("/models/nobody").status == 404


def test_a_model_answers_about_a_newer_graph(fitted: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    before = open_graph(fitted / "model" / "graph")
    head, relation, _ = before.triples()[0]
    known = before.entities.names[head], before.relations.names[relation]
    triples = [
        (before.entities.names[h], before.relations.names[r], before.entities.names[t])
        for h, r, t in before.triples()
    ]
    KnowledgeGraph.from_triples([*triples, (*known, "somebody new")]).save(newer)
    folder = ServedFolder("model", str(fitted / "model"), True, str(newer))
    served = Served.open(folder, "cpu", ())
    (found,) = served.ask([f"?x : {name_text(known[1])}({name_text(known[0])}, ?x)"], Asking())
    assert "known" in {one["status"] for one in found["answers"] if "somebody new" in str(one)}


def test_exact_answers_of_a_plain_graph_are_known(model: RunningService) -> None:
    found = model.get("/ask", question="?y : r0(e0, ?y)", model="graph").json
    assert {answer["status"] for answer in found["answers"]} == {"known"}


def test_the_interface_is_described_and_measured(model: RunningService) -> None:
    described = model.get("/openapi.json").json
    assert {"/ask", "/complete", "/sparql", "/likely/sparql"} <= described["paths"].keys()
    assert 'clmpt_requests_total{route="/ask",status="200"}' in model.get("/metrics").text


def test_equal_questions_at_once_are_computed_once(model: RunningService) -> None:
    replies: list[object] = []

    def ask() -> None:
        replies.append(model.get("/ask", question="?y : r0(e3, ?y) & r1(e4, ?y)").json)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 16
    assert all(reply == replies[0] for reply in replies)


def test_the_client_asks_as_the_page_does(model: RunningService) -> None:
    client = ServiceClient(model.url)
    question = "?y : r0(e0, ?y)"
    found = client.ask(question, limit=3)
    assert found["query"] == question
    assert client.ask([question, question], limit=3) == [found, found]
    assert client.sparql("ASK { :e0 :r0 ?y }") is True
    rows = client.sparql("SELECT ?y ?status { :e0 :r0 ?y }", likely=True, at_least=0, limit=1)
    assert isinstance(rows, list)
    assert rows[0]["status"] == "known"
    assert client.explain(question, found["answers"][0]["name"])[0]["atoms"]
    assert client.complete("e1")[0]["name"] == "e1"
    assert [one["name"] for one in client.models()] == ["model", "graph"]
    with pytest.raises(ServiceError, match="Did you mean") as caught:
        client.ask("?y : r0(e00, ?y)")
    assert caught.value.status == 400
