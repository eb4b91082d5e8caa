"""Downloads over an untrusted network.

Interrupted transfers resume, stalled ones are retried, and none grows beyond its limit.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from clmpt.errors import DataError
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.storage.files import cannot_write

_LARGEST = 4 * 2**30
_CHUNK = 2**18


class _Retry(Exception):
    """The transfer was interrupted; what has arrived is kept."""


@dataclass
class Download:
    """A file to fetch from a server; what has arrived so far is kept next to its final path."""

    url: str
    path: Path
    progress: ReportProgress = silent
    timeout: float = 30.0
    attempts: int = 5  # in a row without a single new byte
    pause: float = 1.0

    def run(self) -> Path:
        """Fetches the file; one that already exists is returned as it is."""
        if self.path.exists():
            return self.path
        if not _is_address(self.url):
            raise DataError(f"'{self.url}' is not an address that starts with http:// or https://.")
        failures, reason = 0, ""
        while failures < self.attempts:
            before = self.have
            try:
                self._transfer()
            except _Retry as error:
                failures = 0 if self.have > before else failures + 1
                reason = str(error)
                time.sleep(self.pause * failures)
                continue
            self.part.rename(self.path)
            self.note.unlink(missing_ok=True)
            return self.path
        kept = f" {self.have:,} bytes are kept; the same command resumes." if self.have else ""
        raise DataError(f"'{self.url}' cannot be fetched: {reason}.{kept}")

    @property
    def part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    @property
    def note(self) -> Path:
        return self.path.with_name(self.path.name + ".part.json")

    @property
    def have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _transfer(self) -> None:
        """One request. Raises _Retry if another one may help."""
        known = self._known()
        headers = {"Accept-Encoding": "identity", "User-Agent": "clmpt"}
        if self.have and known.get("mark"):
            headers |= {"Range": f"bytes={self.have}-", "If-Range": str(known["mark"])}
        elif self.have:
            self.part.unlink()  # there is no way to tell whether the rest would match
        try:
            with urlopen(Request(self.url, headers=headers), timeout=self.timeout) as answer:
                total = self._begin(answer, known)
                self._receive(answer, total)
        except HTTPError as error:
            if error.code == 416:  # we already have all of it, or more
                if known.get("total") == self.have:
                    return
                self.part.unlink(missing_ok=True)
                raise _Retry("the file on the server has changed") from None
            if error.code in (408, 429) or error.code >= 500:
                raise _Retry(f"the server says {error.code} {error.reason}") from None
            raise DataError(
                f"'{self.url}' cannot be fetched: the server says {error.code} {error.reason}."
            ) from None
        except (UnicodeError, http.client.InvalidURL) as error:
            raise DataError(f"{self.url!a} is not a valid address ({error}).") from None
        except (URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _Retry(_in_words(error)) from None
        except OSError as error:  # read errors are handled in _chunks, so this is a write error
            raise cannot_write(self.path, error) from None

    def _known(self) -> dict[str, Any]:
        """What the server said about the file when its first part arrived."""
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(self.note.read_text(encoding="utf-8"))
            if isinstance(found, dict) and found.get("url") == self.url:
                return found
        return {}

    def _begin(self, answer: http.client.HTTPResponse, known: dict[str, Any]) -> int | None:
        """Prepares to receive an answer; returns the size of the whole file, if it is given."""
        if answer.status == 206:
            span = re.fullmatch(
                r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "")
            )
            if not span or int(span[1]) != self.have:
                self.part.unlink(missing_ok=True)
                raise _Retry("the server sent a different part from the one requested")
            total = int(span[2]) if span[2] != "*" else None
            if known.get("total") not in (None, total):
                self.part.unlink(missing_ok=True)
                raise _Retry("the file on the server has changed")
        else:
            self.part.unlink(missing_ok=True)
            length = answer.headers.get("Content-Length", "")
            total = int(length) if re.fullmatch(r"[0-9]{1,15}", length) else None
        if total is not None and total > _LARGEST:
            raise DataError(f"'{self.url}' is larger than {_LARGEST // 2**30} GB.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(self.path.parent).free
        if total is not None and total - self.have > room:
            raise DataError(
                f"'{self.url}' needs {total - self.have:,} more bytes, but only {room:,} are free "
                f"in '{self.path.parent}'."
            )
        etag = answer.headers.get("ETag", "")
        mark = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified")
        self.note.write_text(
            json.dumps({"url": self.url, "mark": mark, "total": total}), encoding="utf-8"
        )
        return total

    def _receive(self, answer: http.client.HTTPResponse, total: int | None) -> None:
        with self.part.open("ab") as file:
            size = file.tell()
            for chunk in _chunks(answer):
                size += len(chunk)
                if size > (_LARGEST if total is None else total):
                    file.truncate(0)
                    raise _Retry("the server sent more than it promised")
                file.write(chunk)
                self.progress(Progress("downloading", size, total))
        if total is not None and size < total:
            raise _Retry(f"the connection was closed after {size:,} of {total:,} bytes")


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = answer.read1(_CHUNK)
        except http.client.IncompleteRead as error:
            yield error.partial
            raise _Retry("the connection was closed early") from None
        except OSError as error:
            raise _Retry(_in_words(error)) from None
        if not chunk:
            return
        yield chunk


def _in_words(error: Exception) -> str:
    why = getattr(error, "reason", None) or error
    return "the server took too long to answer" if isinstance(why, TimeoutError) else str(why)


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def check_md5(path: Path, wanted: str, progress: ReportProgress = silent) -> None:
    """Rejects an archive that is not the published one."""
    found, done = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            found.update(chunk)
            done += len(chunk)
            progress(Progress("checking", done))
    if found.hexdigest() != wanted:
        raise DataError(
            f"'{path}' is not the published archive: its MD5 is {found.hexdigest()}, not {wanted}. "
            "Remove it and fetch it again; or, if you trust it, use it with --from."
        )
