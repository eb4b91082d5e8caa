"""Import from a live endpoint: a real Oxigraph server on this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.graph.endpoints import EndpointImport
from clmpt.graph.opening import open_graph
from clmpt.sparql.answering import answer_sparql

PROGRAM = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which(
    "oxigraph"
)
DATA = "".join(
    f"<http://e/{n}> <http://e/next> <http://e/{n + 1}> .\n"
    f'<http://e/{n}> <http://www.w3.org/2000/01/rdf-schema#label> "Number {n}"@en .\n'
    for n in range(60)
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if PROGRAM is None:
        pytest.skip("Oxigraph is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [PROGRAM, "serve", "--bind", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        store = Request(
            f"{address}/store?default",
            DATA.encode(),
            {"Content-Type": "application/n-triples"},
            method="PUT",
        )
        for _ in range(100):
            try:
                urlopen(store, timeout=5).close()
                break
            except (URLError, OSError):
                time.sleep(0.1)
        yield f"{address}/query"
    finally:
        server.kill()
        server.wait()


def test_all_statements_arrive_page_by_page(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "graph"
    assert main(["import", endpoint, "--page", "7", "--out", str(out)]) == 0
    graph = open_graph(out)
    assert graph.index.triples == 60
    result = answer_sparql('ASK { ?x rdfs:label "Number 59"@en }', graph)
    assert result.holds
    assert not Path(f"{out}.download").exists()
    assert main(["solve", str(out), '?x : next("Number 3", ?x)']) == 0
    assert "Number 4" in capsys.readouterr().out


def test_an_interrupted_import_goes_on_where_it_was(endpoint: str, tmp_path: Path) -> None:
    first = EndpointImport(endpoint, tmp_path / "x", most=50, page=20)
    path, complete = first.run()
    assert not complete
    with path.open("ab") as file:
        file.write(b"<half a line")  # a kill while a page was being written
    asked: list[int] = []
    again = EndpointImport(
        endpoint, tmp_path / "x", page=20, progress=lambda now: asked.append(now.done)
    )
    path, complete = again.run()
    assert complete
    assert asked[0] == 70
    assert sorted(path.read_text().splitlines()) == sorted(DATA.splitlines())


def test_what_is_no_endpoint_is_named(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="404"):
        EndpointImport(endpoint.replace("/query", "/nothing"), tmp_path / "a").run()
    nobody = EndpointImport("http://127.0.0.1:9/sparql", tmp_path / "b", attempts=2, pause=0.01)
    with pytest.raises(DataError, match="cannot be read"):
        nobody.run()
    EndpointImport(endpoint, tmp_path / "c", most=10).run()
    with pytest.raises(DataError, match="another endpoint"):
        EndpointImport("http://127.0.0.1:9/sparql", tmp_path / "c").run()


def test_fitting_needs_an_imported_graph(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "http://127.0.0.1:9/sparql"]) == 2
    assert "Import the endpoint first" in capsys.readouterr().err
