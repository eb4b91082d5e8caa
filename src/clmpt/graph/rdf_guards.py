"""Streams of RDF that end in an error before what they nest or expand exhausts the machine.

The parser is native code, which a deep enough nesting crashes, and Python with it.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from clmpt.errors import DataError

LARGEST_ENTITY = 2000  # characters of an XML entity
DEEPEST_XML = 1000
DEEPEST_JSON = 200  # 500 are too many for a stack of one megabyte
DEEPEST_TERM = 1000
_ROOM = 64 * 2**20  # bytes that XML entities may add to a file of any size
_PIECE = 65536  # bytes read at once
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def guarded(raw: IO[bytes], path: Path, form: str) -> GuardedStream:
    """A stream in one of the parser's formats with what it needs to be read safely."""
    kinds = {"RDF_XML": GuardedXml, "JSON_LD": GuardedJson}
    return kinds.get(form, GuardedTerms)(raw, path)


def without_mark(raw: GuardedStream) -> IO[bytes]:
    """The stream without a byte order mark."""
    buffered: Any = io.BufferedReader(raw, _PIECE)
    if buffered.peek(3).startswith(b"\xef\xbb\xbf"):
        buffered.read(3)
    return buffered  # type: ignore[no-any-return]


def statements_about_statements(path: Path) -> DataError:
    return DataError(
        f"'{path}' has statements about statements (RDF-star), which cannot be read. "
        "Leave them out, or use rdf:Statement."
    )


def directions_of_text(path: Path) -> DataError:
    return DataError(
        f"'{path}' has literals with a direction, like \"…\"@ar--rtl (RDF 1.2), which cannot be "
        "read. Leave the directions out."
    )


class GuardedStream(io.RawIOBase):
    """A stream whose pieces are checked before the parser sees them."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self.raw_, self.path = raw, path
        self.unfinished = 0  # terms opened since the parser last found a statement

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.raw_.read(min(len(buffer), _PIECE))
        self.check(chunk)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def check(self, chunk: bytes) -> None:
        """Raises a DataError if the stream must not be read on."""
        raise NotImplementedError

    def too_deep(self, most: int) -> DataError:
        return DataError(
            f"'{self.path}' is nested more than {most:,} levels deep. Convert it to N-Triples with "
            "another tool first."
        )


class GuardedTerms(GuardedStream):
    """Turtle and its relatives: only terms within terms (RDF-star) nest on the parser's stack."""

    def check(self, chunk: bytes) -> None:
        self.unfinished += chunk.count(b"<<(")
        if self.unfinished > DEEPEST_TERM:
            raise statements_about_statements(self.path)


class GuardedJson(GuardedStream):
    """JSON: the depth of its brackets outside strings."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        super().__init__(raw, path)
        self.depth, self.in_string, self.rest = 0, False, b""

    def check(self, chunk: bytes) -> None:
        chunk = self.rest + chunk
        backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
        self.rest = b"\\" * (backslashes % 2)  # escapes what comes next
        parts = re.sub(rb"\\.", b"", chunk, flags=re.DOTALL).split(b'"')
        brackets = b"".join(parts[self.in_string :: 2]).translate(None, _NO_BRACKETS)
        self.in_string ^= len(parts) % 2 == 0
        if not brackets:
            return
        steps = np.where(np.isin(np.frombuffer(brackets, np.uint8), list(b"[{")), 1, -1)
        depths = self.depth + np.cumsum(steps)
        if depths.max() > DEEPEST_JSON:
            raise self.too_deep(DEEPEST_JSON)
        self.depth = int(depths[-1])


class GuardedXml(GuardedStream):
    """XML: the text of its entities, and the depth of its elements."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        super().__init__(raw, path)
        self.lengths: dict[bytes, int] = {}  # of declared entities
        self.read_, self.added, self.depth = 0, 0, 0

    def check(self, chunk: bytes) -> None:
        self.read_ += len(chunk)
        for name, value in re.findall(rb"<!ENTITY\s+([^\s\"'%]+)\s+[\"']([^\"']*)", chunk):
            length = len(value) + sum(
                self.lengths.get(inner, 0) for inner in re.findall(rb"&([^\s;#]+);", value)
            )
            if length > LARGEST_ENTITY:
                raise DataError(
                    f"'{self.path}' declares an XML entity of more than {LARGEST_ENTITY:,} "
                    "characters. Expand its entities with another tool first."
                )
            self.lengths[name] = length
        if self.lengths:
            used = re.findall(rb"&([^\s;#&<]{1,200});", chunk)
            self.added += sum(self.lengths.get(name, 0) for name in used)
        if self.added > _ROOM + 20 * self.read_:
            raise DataError(f"The XML entities of '{self.path}' are too much text.")
        opened = len(re.findall(rb"<[A-Za-z_]", chunk))
        self.depth += opened - chunk.count(b"</") - chunk.count(b"/>")
        if self.depth > DEEPEST_XML:
            raise self.too_deep(DEEPEST_XML)
