"""The JSON interface: questions, completion, drawings and the graph, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from clmpt.errors import ClmptError, UnknownName
from clmpt.logic.drawing import draw_svg
from clmpt.logic.parser import is_sparql, parse
from clmpt.logic.sparql import sparql_text
from clmpt.logic.sparql_parser import read_sparql
from clmpt.service.drawn_questions import drawn_question
from clmpt.service.error_answers import error_as_plain
from clmpt.service.served import Asking, Served
from clmpt.service.switchboard import Switchboard

router = APIRouter()

Model = Annotated[str | None, Query(description="which model or graph; by default the first")]
Text = Annotated[
    str,
    Query(
        max_length=100_000,
        description="in the query language, in SPARQL, or as one of BetaE's tuples",
        examples=["?c : borders(?c, France)"],
    ),
]
Limit = Annotated[int, Query(ge=0, le=10_000)]
Only = Literal["known", "predicted"]


class AskBody(BaseModel):
    """One question, or several that are computed together."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"question": "?c : borders(?c, France)", "limit": 5, "evidence": True},
                {"question": ["?c : borders(?c, France)", "?c : borders(?c, Spain)"]},
            ]
        },
    )

    question: str | Annotated[list[str], Field(max_length=1000)]
    model: str | None = None
    limit: int = Field(20, ge=0, le=10_000)
    at_least: float = Field(0.0, ge=0, le=1, description="the least probability of an answer")
    only: Only | None = None
    evidence: bool = Field(False, description="also the facts behind each answer")
    reasoner: str | None = None

    @property
    def how(self) -> Asking:
        return Asking(self.limit, self.at_least, self.only, self.evidence, self.reasoner)


def board(request: Request) -> Switchboard:
    found: Switchboard = request.app.state.board
    return found


@router.get("/ask", tags=["questions"])
async def ask(
    request: Request,
    question: Text,
    model: Model = None,
    limit: Limit = 20,
    at_least: Annotated[float, Query(ge=0, le=1)] = 0.0,
    only: Only | None = None,
    evidence: bool = False,
    reasoner: str | None = None,
) -> dict[str, Any]:
    """The answers to a question: those that follow from facts, then what is likely."""
    served = board(request).named(model)
    how = Asking(limit, at_least, only, evidence, reasoner)
    (found,) = await board(request).ask(served, (question,), how, request)
    return found


@router.post("/ask", tags=["questions"])
async def ask_by_post(request: Request, body: AskBody) -> dict[str, Any]:
    """The same for one question, or for many, whose answers are under `results`."""
    served = board(request).named(body.model)
    several = not isinstance(body.question, str)
    questions = (body.question,) if isinstance(body.question, str) else tuple(body.question)
    found = await board(request).ask(served, questions, body.how, request) if questions else []
    return {"results": found} if several else found[0]


@router.get("/ask/stream", tags=["questions"], response_class=StreamingResponse)
async def ask_and_explain(
    request: Request,
    question: Text,
    model: Model = None,
    limit: Annotated[int, Query(ge=0, le=200)] = 20,
    at_least: Annotated[float, Query(ge=0, le=1)] = 0.0,
    reasoner: str | None = None,
) -> StreamingResponse:
    """Server-sent events: `answers` at once, then `evidence` for each of them, then `done`."""
    served = board(request).named(model)
    how = Asking(limit, at_least, None, False, reasoner)
    (found,) = await board(request).ask(served, (question,), how, request)

    async def events() -> AsyncIterator[str]:
        yield _event("answers", found)
        try:
            if served.models and len(found["variables"]) == 1:
                for answer in found["answers"]:
                    entity = f"#{answer['id']}"
                    why = await board(request).explain(served, question, entity, reasoner, request)
                    yield _event("evidence", {"id": answer["id"], "derivations": why})
        except ClmptError as error:
            yield _event("error", error_as_plain(error))
        yield _event("done", {})

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


@router.get("/explain", tags=["questions"])
async def explain(
    request: Request,
    question: Text,
    entity: Annotated[str, Query(max_length=10_000, description="a name, a label, or #id")],
    model: Model = None,
    reasoner: str | None = None,
) -> dict[str, Any]:
    """The best derivations of one answer: known facts, and predicted ones with probabilities."""
    served = board(request).named(model)
    found = await board(request).explain(served, question, entity, reasoner, request)
    return {"entity": served.described(served.entity(entity)), "derivations": found}


@router.get("/parse", tags=["questions"])
async def read_question(request: Request, question: Text, model: Model = None) -> dict[str, Any]:
    """A question in each language, and its graph. One that cannot be read has `error`, `position`
    and `near` instead, with status 200: a page asks this while a question is being written. `rows`
    says that it is SPARQL all the same, for the endpoints."""
    served = board(request).named(model)
    try:
        query = served.read(question)
    except ClmptError as error:
        return {**error_as_plain(error), "rows": _has_rows(question, error)}
    return {
        "query": str(query),
        "sparql": sparql_text(served.graph.named(served.graph.bind(query))),
        "variables": [variable.name for variable in query.frees],
        "alternatives": drawn_question(query, served.graph),
    }


def _has_rows(question: str, error: ClmptError) -> bool:
    """Whether the endpoints answer what cannot be read as a question: SPARQL that says more."""
    if isinstance(error, UnknownName) or not is_sparql(question):
        return False
    try:
        return read_sparql(question).form in ("SELECT", "ASK")
    except ClmptError:
        return False


@router.get("/draw", tags=["questions"], response_class=Response)
async def draw(question: Text) -> Response:
    """A question as a drawing, SVG. Names need not be those of any graph."""
    return Response(draw_svg(parse(question)), media_type="image/svg+xml")


@router.get("/complete", tags=["graph"])
async def complete(
    request: Request,
    text: Annotated[str, Query(max_length=1000)] = "",
    kind: Literal["entity", "relation"] | None = None,
    model: Model = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> dict[str, Any]:
    """Names whose words begin with a text, or that are similar to it."""
    return {"found": board(request).named(model).complete(text, kind, limit)}


@router.get("/graph/neighbours", tags=["graph"])
async def neighbours(
    request: Request,
    entity: Annotated[str, Query(max_length=10_000, description="a name, a label, or #id")],
    model: Model = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """The facts about an entity, in both directions."""
    served = board(request).named(model)
    return await board(request).exactly(
        ("neighbours", served.name, entity, limit),
        lambda: served.neighbours(entity, limit),
        request,
    )


@router.get("/examples", tags=["graph"])
async def examples(request: Request, model: Model = None) -> dict[str, Any]:
    """Questions that fit the graph."""
    served = board(request).named(model)
    work = lambda: served.examples  # noqa: E731
    return {"questions": await board(request).exactly(("examples", served.name), work, request)}


@router.get("/models", tags=["service"])
async def models(request: Request) -> dict[str, Any]:
    """What can be asked here."""
    return {"models": [about(served) for served in board(request).served.values()]}


@router.get("/models/{model}", tags=["service"])
async def one_model(request: Request, model: str) -> dict[str, Any]:
    """A model's figures by shape, and how well its probabilities hold."""
    served = board(request).named(model)
    return {**about(served), **served.page}


def about(served: Served) -> dict[str, Any]:
    graph = served.graph
    return {
        "name": served.name,
        "kind": "model" if served.models else "graph",
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "facts": graph.index.triples,
        "splits": {name: graph.view(name).index.triples for name in graph.splits},
        "reasoner": served.model().asked.name if served.models else None,
    }


@router.get("/health", tags=["service"])
async def health() -> dict[str, str]:
    """Whether the process answers at all."""
    return {"status": "ok"}


@router.get("/ready", tags=["service"])
async def ready(request: Request) -> dict[str, Any]:
    """Whether questions can be asked: all models are open before the service listens."""
    return {"status": "ready", "models": list(board(request).served)}
