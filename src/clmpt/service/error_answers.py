"""What a client gets when something is wrong: a status, and our line that says what to do."""

from __future__ import annotations

from typing import Any

from clmpt.errors import Cancelled, ClmptError, OutOfBudget, Overloaded, QueryError, UnknownName
from clmpt.service.sparql_protocol import NotAcceptable, WrongContent
from clmpt.service.switchboard import NoSuchModel

_STATUS: tuple[tuple[type[ClmptError], int], ...] = (
    (Overloaded, 503),
    (OutOfBudget, 422),
    (Cancelled, 499),  # nobody sees it
    (NoSuchModel, 404),
    (NotAcceptable, 406),
    (WrongContent, 415),
)


def status_of(error: ClmptError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def error_as_plain(error: ClmptError) -> dict[str, Any]:
    """`position` is the place in the question, and `near` what may have been meant."""
    found: dict[str, Any] = {"error": str(error)}
    if isinstance(error, QueryError) and error.position:
        found["position"] = {"line": error.position.line, "column": error.position.column}
    if isinstance(error, UnknownName):
        found["near"] = list(error.near)
    return found


def headers_of(error: ClmptError) -> dict[str, str]:
    return {"Retry-After": str(error.seconds)} if isinstance(error, Overloaded) else {}
