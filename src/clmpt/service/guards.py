"""What stands before every request: who may ask, how much may be sent, what is told to the log."""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clmpt.service.service_settings import ServiceSettings

# Nothing from elsewhere, no inline script or style, no frames.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_OPEN = ("/", "/health", "/ready")  # without a token; the page asks for one itself
_OPEN_FOLDER = "/page/"


class Metrics:
    """Counts of requests and the time they took, by route."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        labels = ("route", "status")
        self.requests = Counter("clmpt_requests", "Requests", labels, registry=registry)
        self.seconds = Histogram(
            "clmpt_request_seconds",
            "Time until the whole answer was sent",
            ("route",),
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=registry,
        )
        self.under_way = Gauge(
            "clmpt_requests_under_way",
            "Requests that are being answered",
            registry=registry,
            multiprocess_mode="livesum",
        )


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.tell: Callable[[str], object] = sys.stderr.write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 0, time.perf_counter()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
            await send(message)

        self.metrics.under_way.inc()
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send_guarded)
            else:
                await self.app(scope, self._bounded(receive), send_guarded)
        except _TooMuch as error:
            if not status:
                await JSONResponse({"error": str(error)}, error.status)(
                    scope, receive, send_guarded
                )
        finally:
            self.metrics.under_way.dec()
            self._note(scope, status or 499, time.perf_counter() - started)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.settings.body_limit:
            return JSONResponse({"error": self._too_large}, 413)
        is_open = path in _OPEN or path.startswith(_OPEN_FOLDER) or scope["method"] == "OPTIONS"
        if self.settings.token is None or is_open:
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode(), self.settings.token.encode()):
            return None
        told = "A token is needed. Send it in the header 'Authorization: Bearer TOKEN'."
        return JSONResponse({"error": told}, 401, {"WWW-Authenticate": "Bearer"})

    @property
    def _too_large(self) -> str:
        return f"The request is over {self.settings.body_limit:,} bytes. Send less at once."

    def _bounded(self, receive: Receive) -> Receive:
        """The body in time, and not more of it than is allowed."""
        size, complete = 0, False

        async def bounded() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()  # waits until the client leaves
            try:
                message = await asyncio.wait_for(receive(), self.settings.read_timeout)
            except (TimeoutError, asyncio.TimeoutError):
                raise _TooMuch("The request took too long. Send it faster.", 408) from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > self.settings.body_limit:
                raise _TooMuch(self._too_large, 413)
            return message

        return bounded

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self.metrics.requests.labels(route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        client = (scope.get("client") or ("-",))[0]
        if self.settings.json_logs:
            line: dict[str, Any] = {
                "time": moment,
                "client": client,
                "method": scope["method"],
                "path": scope["path"][:1000],
                "status": status,
                "milliseconds": round(1000 * seconds, 1),
            }
            self.tell(json.dumps(line) + "\n")
            return
        path = "".join(c if c.isprintable() else "?" for c in scope["path"][:200])
        self.tell(f"{moment} {client} {scope['method']} {path} {status} {1000 * seconds:.0f} ms\n")


class _TooMuch(Exception):
    def __init__(self, told: str, status: int) -> None:
        super().__init__(told)
        self.status = status
