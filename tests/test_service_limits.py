"""What a service bears: slow and hostile clients, slow questions, killed workers, wrong uses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clmpt.cli.main import main
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.service.running import listening_socket
from service_process import RunningService, running_service


def hub(spokes: int) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples([(f"a{number}", "r", "hub") for number in range(spokes)])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("small")
    hub(10).save(folder / "hub")
    with running_service(folder, str(folder / "hub")) as service:
        yield service


def test_no_packet_waits_for_an_acknowledgement() -> None:
    """Small answers would take 40 ms otherwise, by Nagle's algorithm and its like."""
    with (
        listening_socket("127.0.0.1", 0) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nothing_may_run_in_the_page_but_its_own_script(small: RunningService) -> None:
    policy = small.get("/").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    ["/page/../web.py", "/page/%2e%2e/web.py", "/page/..%2fweb.py", "/../etc/passwd", "/page//etc"],
)
def test_no_path_leads_out_of_the_page(small: RunningService, path: str) -> None:
    reply = small.request("GET", path)
    assert reply.status in (400, 404)
    assert b"import" not in reply.body


def test_large_bodies_are_refused_whatever_they_claim(small: RunningService) -> None:
    headers = {"Content-Type": "application/sparql-query"}
    large = b"ASK {}" + b" " * 2**21
    assert small.request("POST", "/sparql", large, headers).status == 413
    address = urlsplit(small.url)
    with socket.create_connection((address.hostname or "", address.port or 0), 30) as connection:
        connection.sendall(
            b"POST /sparql HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/sparql-query\r\n\r\n"
        )
        try:
            for _ in range(40):
                connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        except OSError:  # it is closed once the reply is there
            pass
        connection.settimeout(30)
        assert b" 413 " in connection.recv(100)


def test_a_token_is_asked_for_and_slow_clients_are_left(tmp_path: Path) -> None:
    KnowledgeGraph.from_triples([("a", "r", "b")]).save(tmp_path / "small")
    words = (str(tmp_path / "small"), "--read-timeout", "0.5")
    with running_service(tmp_path, *words, environment={"CLMPT_TOKEN": "secret"}) as service:
        assert service.get("/health").status == 200
        assert service.get("/models").status == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert service.request("GET", "/models", headers=wrong).status == 401
        right = {"Authorization": "Bearer secret"}
        assert service.request("GET", "/models", headers=right).status == 200
        address = urlsplit(service.url)
        for start in (b"", b"GET /heal"):
            with socket.create_connection((address.hostname or "", address.port or 0)) as slow:
                slow.settimeout(30)
                slow.sendall(start)
                assert slow.recv(10) == b""


SLOW = "SELECT (COUNT(*) AS ?n) { ?a :r ?b . ?c :r ?d . ?e :r ?f . ?g :r ?h }"  # 400⁴ rows


def test_one_slow_question_does_not_stop_others_and_too_many_are_turned_away(
    tmp_path: Path,
) -> None:
    hub(400).save(tmp_path / "hub")
    words = (str(tmp_path / "hub"), "--time-limit", "4", "--waiting", "2", "--memory-limit", "8G")
    with running_service(tmp_path, *words) as service, ThreadPoolExecutor(12) as pool:
        slow = [
            pool.submit(service.get, "/sparql", query=f"{SLOW} LIMIT {number + 1}")
            for number in range(8)
        ]
        assert service.get("/complete", text="hu").json["found"][0]["name"] == "hub"
        replies = [one.result() for one in slow]
        assert {reply.status for reply in replies} <= {422, 503}
        turned_away = [reply for reply in replies if reply.status == 503]
        assert turned_away
        assert turned_away[0].headers["retry-after"] == "1"
        assert "time limit" in next(r for r in replies if r.status == 422).json["error"]
        assert service.get("/sparql", query="ASK { :a1 :r :hub }").json["boolean"] is True


def test_what_nobody_waits_for_is_cancelled(tmp_path: Path) -> None:
    hub(400).save(tmp_path / "hub")
    words = (str(tmp_path / "hub"), "--time-limit", "60", "--memory-limit", "8G")
    with running_service(tmp_path, *words) as service:
        address = urlsplit(service.url)
        for number in range(2):  # as many as there are threads
            query = f"{SLOW} LIMIT {number + 1}".replace(" ", "%20")
            with socket.create_connection((address.hostname or "", address.port or 0)) as one:
                one.sendall(f"GET /sparql?query={query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                time.sleep(0.3)
        started = time.monotonic()
        assert service.get("/sparql", query="ASK { :a1 :r :hub }").json["boolean"] is True
        assert time.monotonic() - started < 30  # the two alone would take a minute each


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    hub(10).save(tmp_path / "hub")
    with running_service(tmp_path, str(tmp_path / "hub"), "--workers", "2") as service:
        listed = subprocess.run(
            ["ps", "--ppid", str(service.process.pid), "-ww", "-o", "pid=,args="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        workers = [int(line.split()[0]) for line in listed.splitlines() if "spawn_main" in line]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        for _ in range(20):
            assert service.get("/sparql", query="ASK { :a1 :r :hub }").json["boolean"] is True
        assert "clmpt_requests_total" in service.get("/metrics").text


def test_a_plain_graph_is_served_without_torch(tmp_path: Path) -> None:
    hub(3).save(tmp_path / "hub")
    program = f"""
import sys
from clmpt.service.served import Asking
from clmpt.service.service_settings import ServedFolder, ServiceSettings
from clmpt.service.web import make_app
from clmpt.service.switchboard import Switchboard
settings = ServiceSettings((ServedFolder("hub", {str(tmp_path / "hub")!r}, False),))
board = Switchboard(settings)
make_app(settings, board)
assert board.named(None).ask(["?x : r(?x, hub)"], Asking())[0]["known"] == 3
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["serve", "nowhere"], "no file or folder"),
        (["serve", "."], "not a folder with a graph"),
        (["serve", ".", "--graph", "."], "--graph is for a single model"),
    ],
)
def test_wrong_uses_of_serve(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub(3).save(tmp_path / "hub")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(tmp_path / "hub"), "--port", port]) == 2
    assert "Choose another with --port" in capsys.readouterr().err
