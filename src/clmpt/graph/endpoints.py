"""Graphs from a live SPARQL endpoint: page by page, and an interrupted import goes on where it
was."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from clmpt.errors import DataError
from clmpt.logic.rdf_terms import LANG_STRING, STRING, Blank, Iri, Literal, RdfTerm, rdf_text
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.storage.files import cannot_write, new_file, open_json, save_json

MOST = 10_000_000  # statements
PAGE = 10_000
_LARGEST_PAGE = 256 * 2**20  # bytes
_JSON = "application/sparql-results+json"


class _Again(Exception):
    """The server did not answer as it should; it may the next time."""


def is_address(source: str) -> bool:
    return bool(re.match(r"https?://", source, re.IGNORECASE))


def refuse_other_address(source: str) -> None:
    """Raises a DataError for an address that no endpoint has."""
    if re.match(r"[a-z][a-z0-9+.-]+://", source, re.IGNORECASE) and not is_address(source):
        raise DataError(
            f"'{source}' cannot be read: only SPARQL endpoints at http:// or https:// are. "
            "Download it, and give the file."
        )


@dataclass
class EndpointImport:
    """All statements of an endpoint's default graph, in order, in pages.

    What has arrived is kept in `folder`: a file of N-Triples, and how far it goes. Blank nodes keep
    the labels that the server gives them, so they are the same on two pages if it says so.
    """

    url: str
    folder: Path
    most: int = MOST
    page: int = PAGE
    progress: ReportProgress = silent
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 1.0

    @property
    def statements(self) -> Path:
        return self.folder / "statements.nt"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    def run(self) -> tuple[Path, bool]:
        """Fetches what is lacking. Returns the file, and whether it has all that the server has."""
        done, size = self._resumed()
        try:
            with self.statements.open("ab") as file:
                file.truncate(size)
                while done < self.most:
                    wanted = min(self.page, self.most - done)
                    lines = list(self._page(done, wanted))
                    file.write("".join(lines).encode())
                    file.flush()
                    os.fsync(file.fileno())
                    done += len(lines)
                    self._note(done, file.tell())
                    self.progress(Progress("reading triples", done))
                    if len(lines) < wanted:
                        return self.statements, True
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        return self.statements, False

    def _resumed(self) -> tuple[int, int]:
        """How many statements, and bytes, an earlier run has fetched."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        if not self.state.exists():
            return 0, 0
        found = open_json(self.state)
        try:
            if found["url"] != self.url:
                raise DataError(
                    f"'{self.folder}' has part of another endpoint, {found['url']}. Remove it, or "
                    "choose another name."
                )
            return int(found["statements"]), int(found["bytes"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"'{self.state}' is damaged. Remove '{self.folder}'.") from None

    def _note(self, done: int, size: int) -> None:
        with new_file(self.state) as scratch:
            save_json(scratch, {"url": self.url, "statements": done, "bytes": size})

    def _page(self, first: int, count: int) -> Iterator[str]:
        query = (
            f"SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }} ORDER BY ?s ?p ?o LIMIT {count} OFFSET {first}"
        )
        for row in self._rows(query):
            try:
                s, p, o = (rdf_text(_term(row[name])) for name in "spo")
            except (KeyError, TypeError, AttributeError):
                raise DataError(
                    f"The result of {self.url} is not what SPARQL prescribes."
                ) from None
            yield f"{s} {p} {o} .\n"

    def _rows(self, query: str) -> list[Any]:
        reason = ""
        for attempt in range(self.attempts):
            try:
                return self._fetched(query)
            except _Again as error:  # noqa: PERF203
                reason = str(error)
                time.sleep(self.pause * 2**attempt)
        raise DataError(f"{self.url} cannot be read: {reason}. The same command goes on.")

    def _fetched(self, query: str) -> list[Any]:
        request = Request(
            self.url,
            urlencode({"query": query}).encode(),
            {"Accept": _JSON, "Content-Type": "application/x-www-form-urlencoded"},
        )
        try:
            with urlopen(request, timeout=self.timeout) as answer:
                body = answer.read(_LARGEST_PAGE + 1)
            if len(body) > _LARGEST_PAGE:
                raise DataError(f"A page of {self.url} is too large. Choose a smaller --page.")
            rows: list[Any] = json.loads(body)["results"]["bindings"]
        except HTTPError as error:
            if error.code >= 500 or error.code == 429:
                raise _Again(f"it answers {error.code}") from None
            raise DataError(
                f"{self.url} answers {error.code} {error.reason}. Is it a SPARQL endpoint?"
            ) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            raise _Again(str(getattr(error, "reason", error))) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{self.url} does not answer in SPARQL's JSON format.") from None
        return rows


def _term(value: dict[str, str]) -> RdfTerm:
    """A term in SPARQL's JSON format."""
    text = value["value"]
    if value["type"] == "uri":
        return Iri(text)
    if value["type"] == "bnode":
        return Blank(re.sub(r"[^A-Za-z0-9]", "x", text))
    if "xml:lang" in value:
        return Literal(text, LANG_STRING, value["xml:lang"].lower())
    return Literal(text, value.get("datatype", STRING))
