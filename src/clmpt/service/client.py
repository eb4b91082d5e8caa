"""A client for a running service, with nothing but Python's own library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, overload
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from clmpt.errors import ClmptError


class ServiceError(ClmptError):
    """What a service refused, in its own words; `status` is 0 if it could not be reached."""

    def __init__(self, told: str, status: int = 0) -> None:
        self.status = status
        super().__init__(told)


class ServiceClient:
    """Asks a service that `clmpt serve` started.

    >>> client = ServiceClient("http://127.0.0.1:9")
    >>> client.models()
    Traceback (most recent call last):
    clmpt.service.client.ServiceError: http://127.0.0.1:9 does not answer: [Errno 111] Connection \
refused. Start it with 'clmpt serve'.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    @overload
    def ask(self, question: str, **options: Any) -> dict[str, Any]: ...
    @overload
    def ask(self, question: Sequence[str], **options: Any) -> list[dict[str, Any]]: ...

    def ask(self, question: str | Sequence[str], **options: Any) -> Any:
        """Answers as the service gives them. Options: model, limit, at_least, only, evidence,
        reasoner. Several questions are computed together."""
        one = isinstance(question, str)
        body = {"question": question if one else list(question), **options}
        found = self._json("/ask", body=json.dumps(body).encode())
        return found if one else found["results"]

    def sparql(
        self, query: str, likely: bool = False, **parameters: Any
    ) -> bool | list[dict[str, str]]:
        """The rows of a SELECT, as texts by variable, or the truth of an ASK; of what is likely, if
        asked for. Parameters: at_least, limit, reasoner, model."""
        named = {name.replace("_", "-"): value for name, value in parameters.items()}
        found = self._json("/likely/sparql" if likely else "/sparql", {"query": query, **named})
        if "boolean" in found:
            return bool(found["boolean"])
        rows = found["results"]["bindings"]
        return [{name: term["value"] for name, term in row.items()} for row in rows]

    def explain(self, question: str, entity: str, **options: Any) -> list[dict[str, Any]]:
        """The best derivations of one answer."""
        found = self._json("/explain", {"question": question, "entity": entity, **options})
        derivations: list[dict[str, Any]] = found["derivations"]
        return derivations

    def complete(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """Names whose words begin with a text, or that are similar to it."""
        found: list[dict[str, Any]] = self._json("/complete", {"text": text, **options})["found"]
        return found

    def models(self) -> list[dict[str, Any]]:
        """What can be asked there."""
        found: list[dict[str, Any]] = self._json("/models")["models"]
        return found

    def _json(
        self, path: str, parameters: Mapping[str, Any] | None = None, body: bytes | None = None
    ) -> Any:
        query = f"?{urlencode(parameters)}" if parameters else ""
        headers = {**self.headers, "Accept": "application/sparql-results+json, application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = Request(self.url + path + query, body, headers)
        try:
            with urlopen(request, timeout=self.timeout) as reply:
                return json.load(reply)
        except HTTPError as error:
            raise ServiceError(_told(error), error.code) from None
        except (URLError, TimeoutError) as error:
            reason = getattr(error, "reason", error)
            raise ServiceError(
                f"{self.url} does not answer: {reason}. Start it with 'clmpt serve'."
            ) from None
        except ValueError:
            raise ServiceError(f"{self.url} is not a service of clmpt's.") from None


def _told(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
