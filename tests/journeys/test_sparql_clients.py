"""The endpoint as SPARQL clients see it that we did not write."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdflib import Graph, URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import CSV, JSON, POST, POSTDIRECTLY, TURTLE, XML, SPARQLWrapper

from clmpt.cli.main import main
from service_process import RunningService, running_service

DATA = """@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Mizoguchi :directed :Ugetsu , :Oharu ; rdfs:label "Kenji Mizoguchi"@en .
:Ugetsu :year 1953 . :Oharu :year 1952 .
"""
PREFIX = "PREFIX : <http://e/> "
ROOT = Path(__file__).parents[2]
NODE_CLIENT = ROOT / ".venv" / "node"  # where `make clients` puts it


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("films")
    (folder / "films.ttl").write_text(DATA, encoding="utf-8")
    assert main(["import", str(folder / "films.ttl"), "--out", str(folder / "films")]) == 0
    with running_service(folder, str(folder / "films")) as running:
        yield running


@pytest.mark.parametrize("method", ["GET", POST])
@pytest.mark.parametrize("how", ["urlencoded", POSTDIRECTLY])
def test_sparqlwrapper_selects(service: RunningService, method: str, how: str) -> None:
    client = SPARQLWrapper(f"{service.url}/sparql")
    client.setMethod(method)
    client.setRequestMethod(how)
    client.setReturnFormat(JSON)
    client.setQuery(PREFIX + "SELECT ?f { :Mizoguchi :directed ?f } ORDER BY ?f")
    rows = client.query().convert()["results"]["bindings"]
    assert [row["f"]["value"] for row in rows] == ["http://e/Oharu", "http://e/Ugetsu"]


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph")
def test_sparqlwrapper_reads_every_format(service: RunningService) -> None:
    client = SPARQLWrapper(f"{service.url}/sparql")
    client.setQuery(PREFIX + "SELECT ?y { :Ugetsu :year ?y }")
    client.setReturnFormat(XML)
    assert "1953" in client.query().convert().toxml()
    client.setReturnFormat(CSV)
    assert client.query().convert() == b"y\r\n1953\r\n"
    client.setQuery("CONSTRUCT WHERE { ?s ?p ?o }")
    client.setReturnFormat(TURTLE)
    assert len(Graph().parse(data=client.query().convert(), format="turtle")) == 5
    client.setQuery("DESCRIBE <http://e/Ugetsu>")
    client.setReturnFormat(XML)
    assert len(client.query().convert()) == 1
    client.setQuery("ASK { ?s ?p ?o }")
    client.setReturnFormat(JSON)
    assert client.query().convert()["boolean"] is True


def test_rdflib_takes_it_for_a_store(service: RunningService) -> None:
    graph = Graph(SPARQLStore(f"{service.url}/sparql"))
    assert len(graph) == 5  # COUNT(*)
    directed = URIRef("http://e/directed")
    assert (URIRef("http://e/Mizoguchi"), directed, URIRef("http://e/Ugetsu")) in graph
    assert {str(o) for o in graph.objects(URIRef("http://e/Mizoguchi"), directed)} == {
        "http://e/Ugetsu",
        "http://e/Oharu",
    }
    (row,) = graph.query("SELECT ?l { ?s <http://www.w3.org/2000/01/rdf-schema#label> ?l }")
    assert (str(row[0]), row[0].language) == ("Kenji Mizoguchi", "en")


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_posts_a_query(service: RunningService) -> None:
    query = PREFIX + "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    words = ["curl", "--silent", "--fail", f"{service.url}/sparql", "-H", "Accept: text/csv"]
    found = subprocess.run(
        [*words, "--data-urlencode", f"query={query}"], capture_output=True, check=True
    )
    assert found.stdout == b"n\r\n5\r\n"


@pytest.mark.skipif(
    not (NODE_CLIENT / "node_modules").is_dir() or not shutil.which("node"),
    reason="sparql-http-client is not installed ('make clients' does)",
)
def test_a_javascript_client_streams_rows_and_triples(service: RunningService) -> None:
    program = """
      import SimpleClient from 'sparql-http-client/SimpleClient.js'
      import ParsingClient from 'sparql-http-client/ParsingClient.js'
      const endpointUrl = process.argv[2]
      const client = new ParsingClient({ endpointUrl })
      const rows = await client.query.select('SELECT ?y { ?f <http://e/year> ?y } ORDER BY ?y')
      const yes = await client.query.ask('ASK { ?s ?p ?o }')
      const graph = await client.query.construct('CONSTRUCT WHERE { ?s ?p ?o }')
      const plain = await new SimpleClient({ endpointUrl }).query.select('SELECT * { ?s ?p ?o }')
      console.log(JSON.stringify([rows.map(r => r.y.value), yes, graph.size, plain.status]))
    """
    path = NODE_CLIENT / "client-test.mjs"
    path.write_text(program, encoding="utf-8")
    found = subprocess.run(
        ["node", str(path), f"{service.url}/sparql"], capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout) == [["1952", "1953"], True, 5, 200]


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("document", ["README.md", "docs/how-to/serve.md"])
def test_the_requests_in_the_documents_are_answered(
    document: str, world_model: Path, tmp_path: Path
) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    requests = re.findall(r"^curl (?:.*\\\n)*.*", text, re.MULTILINE)
    assert requests
    with running_service(tmp_path, str(world_model)) as running:
        for request in requests:
            line = request.replace("\\\n", " ").replace("http://127.0.0.1:8000", running.url)
            words = shlex.split(line)
            found = subprocess.run([*words, "--silent", "--fail"], capture_output=True, check=True)
            assert len(found.stdout.splitlines()) > 5  # a header, and members of ASEAN
