"""A service as users run it: the command in a process of its own, asked over loopback."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

SLOWEST = 60.0  # seconds until it is ready, even on a busy machine


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class RunningService:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            reply = connection.getresponse()
            named = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, named, reply.read())
        finally:
            connection.close()

    def get(self, path: str, accept: str = "", **parameters: object) -> Reply:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self.request("GET", path + query, headers={"Accept": accept} if accept else {})

    def post(self, path: str, value: object) -> Reply:
        body, headers = json.dumps(value).encode(), {"Content-Type": "application/json"}
        return self.request("POST", path, body, headers)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running_service(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> Iterator[RunningService]:
    """`clmpt serve WORDS` on a free port; its log goes to a file in the folder."""
    port, log = free_port(), folder / f"serve-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "clmpt", "serve", *words, "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(environment or {})}
        )
    service = RunningService(f"http://127.0.0.1:{port}", process, log)
    try:
        _wait_until_ready(service)
        yield service
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait_until_ready(service: RunningService) -> None:
    deadline = time.monotonic() + SLOWEST
    while time.monotonic() < deadline:
        assert service.process.poll() is None, service.log.read_text()
        try:
            if service.get("/ready").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"It was not ready in time:\n{service.log.read_text()}")
