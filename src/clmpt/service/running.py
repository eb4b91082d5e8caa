"""Runs the service: one process, or several that a parent replaces when they die."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from clmpt.errors import SettingError
from clmpt.service.service_settings import ServiceSettings
from clmpt.service.switchboard import Switchboard
from clmpt.service.web import SETTINGS, SHARED_METRICS, make_app

_SWITCH = 0.001  # seconds; a short question waits no longer for a thread that computes
_FINISH = 10  # seconds for what is under way when the service stops


class TimelyProtocol(H11Protocol):
    """Closes a connection whose request does not arrive in time; uvicorn would wait for ever."""

    waiting: asyncio.TimerHandle | None = None

    @cached_property
    def read_timeout(self) -> float:
        return ServiceSettings.of_text(os.environ[SETTINGS]).read_timeout

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
        if self._has_no_request():
            self.waiting = self.loop.call_later(self.read_timeout, self._give_up)

    def _has_no_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        if self._has_no_request():
            self.transport.close()


class Workers(Multiprocess):
    """Notices the death of a worker at once, also of one that is just being asked whether it lives:
    uvicorn holds the worker's end of their connection too, and would wait for its answer."""

    def keep_subprocess_alive(self) -> None:
        for worker in self.processes:
            worker.child_conn.close()
        super().keep_subprocess_alive()


def serve(
    settings: ServiceSettings, host: str, port: int, workers: int, ready: Callable[[], object]
) -> None:
    """Serves until it is stopped by a signal; what is under way is finished first."""
    sys.setswitchinterval(_SWITCH)
    board = Switchboard(settings)  # also if workers open their own: here errors are told clearly
    listening = listening_socket(host, port)
    os.environ[SETTINGS] = settings.as_text()
    common = {
        "http": TimelyProtocol,
        "access_log": False,
        "server_header": False,
        "log_level": "warning",
        "ws": "none",
        "timeout_graceful_shutdown": _FINISH,
    }
    if workers == 1:
        config = uvicorn.Config(make_app(settings, board), **common)  # type: ignore[arg-type]
        ready()
        uvicorn.Server(config).run(sockets=[listening])
        return
    board.close()
    with tempfile.TemporaryDirectory(prefix="clmpt-metrics-") as shared:
        os.environ[SHARED_METRICS] = shared
        config = uvicorn.Config(
            "clmpt.service.web:app_of_worker",
            factory=True,
            workers=workers,
            timeout_worker_healthcheck=60,  # a worker may be busy with one product of matrices
            **common,  # type: ignore[arg-type]
        )
        ready()
        Workers(config, sockets=[listening]).run()


def listening_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise SettingError(
            f"Port {port} of '{host}' cannot be listened on: {error.strerror or error}. "
            "Choose another with --port or --host."
        ) from None
    # asyncio does this for sockets that say they are TCP, which create_server's do not: without it
    # an answer's last packet waits 40 ms for the client's acknowledgement.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.set_inheritable(True)
    return found
