"""The application: all routes, their errors, and the page."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from clmpt import __version__
from clmpt.errors import ClmptError
from clmpt.service import json_interface
from clmpt.service.error_answers import error_as_plain, headers_of, status_of
from clmpt.service.guards import Guard, Metrics
from clmpt.service.service_settings import ServiceSettings
from clmpt.service.sparql_protocol import (
    LikelyTable,
    ProtocolRequest,
    description,
    negotiated,
)
from clmpt.service.switchboard import Switchboard
from clmpt.sparql.results import WrittenResult, write_result

SETTINGS = "CLMPT_SERVICE"  # the environment's variable that a worker reads
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
PAGE = Path(__file__).parent / "page"
_PIECE = 2**16  # characters sent at once

endpoints = APIRouter(tags=["SPARQL"])


@endpoints.api_route("/sparql", methods=["GET", "POST"], response_class=Response)
@endpoints.api_route("/models/{model}/sparql", methods=["GET", "POST"], response_class=Response)
async def sparql(request: Request, model: str | None = None) -> Response:
    """The SPARQL 1.1 protocol: exact answers. Without a query, a description of the service."""
    return await _answered(request, model, likely=False)


@endpoints.api_route("/likely/sparql", methods=["GET", "POST"], response_class=Response)
@endpoints.api_route(
    "/models/{model}/likely/sparql", methods=["GET", "POST"], response_class=Response
)
async def likely_sparql(request: Request, model: str | None = None) -> Response:
    """The same for what is likely: rows of at least the probability `at-least` (0.5). A query that
    selects `?probability` or `?status` gets them. `limit` and `reasoner` are further parameters."""
    return await _answered(request, model, likely=True)


async def _answered(request: Request, model: str | None, likely: bool) -> Response:
    board: Switchboard = request.app.state.board
    content = request.headers.get("content-type", "")
    asked = ProtocolRequest.of(request.method, request.url.query, content, await request.body())
    served = board.named(model or (asked.parameters.get("model") if asked else None))
    if asked is None:
        endpoint = str(request.url.replace(query=""))
        return Response(description(served, endpoint), media_type="text/turtle")
    form = asked.parsed("http://base/").form
    media, name = negotiated(request.headers.get("accept", ""), form, _format(asked))
    result: WrittenResult
    if likely:
        result = await board.likely_sparql(served, asked, request)
    else:
        result = await board.sparql(served, asked, request)
    headers = {"Vary": "Accept"}
    if isinstance(result, LikelyTable) and result.probability is not None:
        headers["Clmpt-Probability"] = f"{result.probability:.6f}"
    pieces = _in_pieces(write_result(result, name))
    charset = "; charset=utf-8" if media.startswith("text/") else ""
    return StreamingResponse(pieces, media_type=media + charset, headers=headers)


def _format(asked: ProtocolRequest) -> str | None:
    return asked.parameters.get("format") or asked.parameters.get("output")


def _in_pieces(texts: Iterator[str]) -> Iterator[bytes]:
    held, size = list[str](), 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(held).encode("utf-8", "replace")
            held, size = [], 0
    yield "".join(held).encode("utf-8", "replace")


def make_app(settings: ServiceSettings, board: Switchboard | None = None) -> FastAPI:
    """The application for a server such as uvicorn; it opens all models before it is ready."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.board = board or Switchboard(settings)
        app.state.board.look_for_examples()
        yield
        app.state.board.close()

    app = FastAPI(
        title="clmpt",
        version=__version__,
        description="Answers that follow from a knowledge graph, and those that are likely.",
        lifespan=lifespan,
        docs_url=None,  # it would fetch scripts from elsewhere
        redoc_url=None,
    )
    shared = SHARED_METRICS in os.environ
    metrics = Metrics(CollectorRegistry())
    app.include_router(endpoints)
    app.include_router(json_interface.router)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    async def figures() -> PlainTextResponse:
        """Counts and times of requests, for Prometheus."""
        registry = metrics.registry
        if shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return PlainTextResponse(generate_latest(registry), media_type="text/plain; version=0.0.4")

    app.add_exception_handler(ClmptError, _refused)
    app.add_exception_handler(RequestValidationError, _misused)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["GET", "POST", "OPTIONS"],
        allow_headers=["*"],
        expose_headers=["Clmpt-Probability", "Retry-After"],
    )
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


def app_of_worker() -> FastAPI:
    """The application of a worker process, whose settings are in its environment."""
    return make_app(ServiceSettings.of_text(os.environ[SETTINGS]))


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, ClmptError)
    return JSONResponse(error_as_plain(error), status_of(error), headers_of(error))


async def _misused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return JSONResponse({"error": f"'{where}': {first['msg']}."}, 400)
