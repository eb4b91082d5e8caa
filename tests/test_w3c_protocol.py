"""The requests of the queries among W3C's tests of the SPARQL 1.1 protocol, by their names.

Updates are refused. The datasets are files on the web there, and imported named graphs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from clmpt.cli.main import main
from service_process import Reply, RunningService, running_service

AT = "http://data.example/"
DATA = "".join(f"<{AT}data{n}> {{ <{AT}data{n}> a <{AT}Document> }}\n" for n in range(1, 4))
FORM, DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"
ONE = f"{{ <{AT}data1> a ?type }}"
TWO = f"{{ <{AT}data2> a ?type }}"
BOTH = f"ASK {{ <{AT}data1> a ?type . <{AT}data2> a ?type }}"
NAMED = f"GRAPH ?g1 {ONE} GRAPH ?g2 {TWO} FILTER(?g1 != ?g2)"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("protocol")
    (folder / "data.trig").write_text(DATA, encoding="utf-8")
    assert main(["import", str(folder / "data.trig"), "--out", str(folder / "data")]) == 0
    with running_service(folder, str(folder / "data")) as running:
        yield running


def graphs(kind: str, *numbers: int) -> list[tuple[str, str]]:
    return [(f"{kind}-graph-uri", f"{AT}data{number}") for number in numbers]


def ask(service: RunningService, query: str, dataset: list[tuple[str, str]], method: str) -> Reply:
    words = urlencode([("query", query), *dataset])
    if method == "GET":
        return service.request("GET", f"/sparql?{words}")
    if method == "form":
        return service.request("POST", "/sparql", words.encode(), {"Content-Type": FORM})
    path = f"/sparql?{urlencode(dataset)}" if dataset else "/sparql"
    return service.request("POST", path, query.encode(), {"Content-Type": DIRECT})


@pytest.mark.parametrize("method", ["GET", "form", "direct"])
@pytest.mark.parametrize(
    ("name", "query", "dataset"),
    [
        ("query", "ASK {}", []),
        ("query_dataset_default_graph", f"ASK {ONE}", graphs("default", 1)),
        ("query_dataset_default_graphs", BOTH, graphs("default", 1, 2)),
        ("query_dataset_named_graphs", f"ASK {{ {NAMED} }}", graphs("named", 1, 2)),
        (
            "query_dataset_full",
            f"ASK {{ <{AT}data3> a ?type {NAMED} }}",
            [*graphs("default", 3), *graphs("named", 1, 2)],
        ),
        (
            "query_multiple_dataset",  # the protocol's dataset, not the query's
            f"ASK FROM <{AT}data3> {ONE}",
            graphs("default", 1),
        ),
    ],
)
def test_a_query_over_its_dataset_holds(
    service: RunningService, name: str, query: str, dataset: list[tuple[str, str]], method: str
) -> None:
    reply = ask(service, query, dataset, method)
    assert (name, reply.status, reply.json["boolean"]) == (name, 200, True)


def test_the_querys_own_dataset_is_not_used_beside_the_protocols(service: RunningService) -> None:
    query = f"ASK FROM <{AT}data1> {ONE}"
    assert ask(service, query, [], "GET").json["boolean"] is True
    assert ask(service, query, graphs("default", 2), "GET").json["boolean"] is False


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("SELECT (1 AS ?v) {}", ("sparql-results+xml", "sparql-results+json", "csv")),
        ("ASK {}", ("sparql-results+xml", "sparql-results+json")),
        (f"DESCRIBE <{AT}data1>", ("turtle", "rdf+xml", "n-triples")),
        (f"CONSTRUCT {{ <{AT}s> <{AT}p> 1 }} {{}}", ("turtle", "rdf+xml", "n-triples")),
    ],
)
def test_query_content_type(service: RunningService, query: str, types: tuple[str, ...]) -> None:
    for media in types:
        family = "text" if media in ("csv", "turtle") else "application"
        found = service.get("/sparql", f"{family}/{media}", query=query)
        assert found.status == 200
        assert found.headers["content-type"].partition(";")[0] == f"{family}/{media}"


@pytest.mark.parametrize(
    ("name", "method", "path", "body", "kind"),
    [
        ("bad_query_method", "PUT", "/sparql?query=ASK%20%7B%7D", b"", None),
        ("bad_multiple_queries", "GET", "/sparql?query=ASK%20%7B%7D&query=SELECT%20%2A%20%7B%7D",
         b"", None),
        ("bad_query_wrong_media_type", "POST", "/sparql", b"ASK {}", "text/plain"),
        ("bad_query_missing_form_type", "POST", "/sparql", b"query=ASK%20%7B%7D", None),
        ("bad_query_missing_direct_type", "POST", "/sparql", b"ASK {}", None),
        ("bad_query_non_utf8", "POST", "/sparql", "ASK {}".encode("utf-16"), DIRECT),
        ("bad_query_syntax", "GET", "/sparql?query=ASK%20%7B", b"", None),
        ("update_post_direct", "POST", "/sparql", b"CLEAR NAMED", "application/sparql-update"),
        ("update_post_form", "POST", "/sparql", b"update=CLEAR%20NAMED", FORM),
    ],
)  # fmt: skip
def test_a_bad_request_is_the_clients_fault(
    service: RunningService, name: str, method: str, path: str, body: bytes, kind: str | None
) -> None:
    reply = service.request(method, path, body, {"Content-Type": kind} if kind else {})
    assert (name, reply.status // 100) == (name, 4)
