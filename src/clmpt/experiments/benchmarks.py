"""Published benchmarks from the archive of BetaE's authors, or from a file or folder at hand.

Neither the network nor an archive is trusted: what is cut off goes on, what stalls is asked again,
and nothing is unpacked but files of known names, each up to the size that it promises.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from clmpt.errors import DataError
from clmpt.graph.benchmark_folders import SPLITS, open_graph
from clmpt.graph.builder import no_progress
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.storage.files import cannot_write, new_folder

ARCHIVE = "https://snap.stanford.edu/betae/KG_data.zip"
ARCHIVE_MD5 = "d54f92e2e6a64d7f525b8fe366ab3f50"  # as users of the archive have recorded it
_LARGEST_ARCHIVE = 4 * 2**30
_LARGEST_FILE = 3 * 2**30
_LARGEST_BENCHMARK = 6 * 2**30
_DENSEST = 1000  # times that a file may grow when it is unpacked; deflate itself ends there
_CHUNK = 2**18
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)
_WANTED = re.compile(
    r"(train|valid|test)(\.txt|-queries\.pkl|(-easy|-hard)?-answers\.pkl)"
    r"|(id2|ind2)(ent|rel)\.(pkl|tsv)|(ent|rel)2id\.pkl|stats\.txt|entity2label\.tsv"
)


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark is called in the archive, and how its right copy is told from others."""

    folder: str
    entities: int
    relations: int
    facts: tuple[int, int, int]  # in train, valid and test
    checksum: int | None = None  # of all of them, where one was at hand to take it from
    recipe: str = ""  # to begin with


BENCHMARKS = {
    "fb15k": Benchmark(
        "FB15k-betae",
        14_951,
        2_690,
        (966_284, 100_000, 118_142),
        recipe="recipes/paper/clmpt-fb15k.toml",
    ),
    "fb15k-237": Benchmark(
        "FB15k-237-betae",
        14_505,
        474,
        (544_230, 35_052, 40_876),
        1_587_618_919,
        "recipes/laptop/fb15k-237.toml",
    ),
    "nell995": Benchmark(
        "NELL-betae",
        63_361,
        400,
        (228_426, 28_648, 28_534),
        3_788_196_355,
        "recipes/laptop/nell995.toml",
    ),
}


def get(
    benchmark: Benchmark,
    source: Path,
    out: Path,
    progress: Callable[[int], None] = no_progress,
) -> KnowledgeGraph:
    """The benchmark as the new folder `out`, from an archive or a folder; counts bytes."""
    with new_folder(out) as scratch:
        if source.is_dir():
            _copy(benchmark, source, scratch, progress)
        else:
            _unpack(benchmark, source, scratch, progress)
        check(benchmark, scratch, source)
    return open_graph(out)


def check(benchmark: Benchmark, folder: Path, source: Path) -> None:
    """Refuses a folder that is not the published benchmark."""
    wrong = differences(benchmark, open_graph(folder))
    if wrong:
        raise DataError(f"'{source}' is not the published {benchmark.folder}: {', '.join(wrong)}.")


def differences(benchmark: Benchmark, graph: KnowledgeGraph) -> list[str]:
    """In what a graph differs from the published one; empty where it is the same."""
    facts = tuple(len(graph.triples(name)) if name in graph.splits else 0 for name in SPLITS)
    found = (len(graph.entities), len(graph.relations), *facts)
    wanted = (benchmark.entities, benchmark.relations, *benchmark.facts)
    names = ("entities", "relations", "train", "valid", "test")
    wrong = [
        f"{name} {is_there:,} instead of {should:,}"
        for name, is_there, should in zip(names, found, wanted, strict=True)
        if is_there != should
    ]
    if not wrong and benchmark.checksum not in (None, graph.checksum):
        return ["as many facts as there should be, but others"]
    return wrong


# --- from a folder --------------------------------------------------------------------------------


def _copy(benchmark: Benchmark, source: Path, out: Path, progress: Callable[[int], None]) -> None:
    inner = source / benchmark.folder
    folder = inner if inner.is_dir() else source
    done = 0
    for path in sorted(folder.iterdir()):
        if _WANTED.fullmatch(path.name) and path.is_file():
            shutil.copyfile(path, out / path.name)
            done += path.stat().st_size
            progress(done)
    if not (out / "train.txt").exists():
        raise DataError(f"'{source}' has no {benchmark.folder}: there is no train.txt in it.")


# --- from an archive ------------------------------------------------------------------------------


def _unpack(
    benchmark: Benchmark, archive: Path, out: Path, progress: Callable[[int], None]
) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            done = 0
            for member, name in _members(opened, benchmark, archive):
                done = _write(opened, member, out / name, done, progress)
    except FileNotFoundError:
        raise DataError(f"There is no file or folder '{archive}'.") from None
    except _BROKEN as error:
        raise DataError(f"'{archive}' is not a whole zip archive ({error}).") from None


def _members(
    opened: zipfile.ZipFile, benchmark: Benchmark, archive: Path
) -> list[tuple[zipfile.ZipInfo, str]]:
    """The files of a benchmark by their plain names; paths in the archive are only compared."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in opened.infolist():
        *folders, name = member.filename.split("/")
        if not folders or folders[-1] != benchmark.folder or not _WANTED.fullmatch(name):
            continue
        if name in found:
            raise DataError(f"'{archive}' has '{name}' of {benchmark.folder} twice.")
        too_dense = member.file_size > _DENSEST * max(member.compress_size, 1) + _CHUNK
        if member.file_size > _LARGEST_FILE or too_dense:
            raise DataError(f"'{archive}': '{member.filename}' would be too large.")
        if member.flag_bits & 1:
            raise DataError(f"'{archive}': '{member.filename}' is encrypted.")
        if member.compress_type not in _PACKED:
            raise DataError(f"'{archive}': '{member.filename}' is packed in an unusual way.")
        found[name] = member
    if sum(member.file_size for member in found.values()) > _LARGEST_BENCHMARK:
        raise DataError(f"'{archive}': {benchmark.folder} would be too large.")
    if "train.txt" not in found:
        raise DataError(f"'{archive}' has no folder {benchmark.folder} with a train.txt.")
    return [(member, name) for name, member in sorted(found.items())]


def _write(
    opened: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    path: Path,
    done: int,
    progress: Callable[[int], None],
) -> int:
    left = member.file_size
    with opened.open(member) as source, path.open("xb") as file:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise zipfile.BadZipFile(f"'{member.filename}' is longer than it says")
            file.write(chunk)
            done += len(chunk)
            progress(done)
    return done


# --- from the network -----------------------------------------------------------------------------


class _Again(Exception):
    """The transfer broke off; what came is kept."""


@dataclass
class Download:
    """A file on its way from a server, with what came so far beside its final place."""

    url: str
    path: Path
    progress: Callable[[int, int], None] = lambda _done, _total: None
    timeout: float = 30.0
    attempts: int = 5  # in a row without a single new byte
    pause: float = 1.0

    def run(self) -> Path:
        """Fetches the file; one that is there already is returned as it is."""
        if self.path.exists():
            return self.path
        if not _is_address(self.url):
            raise DataError(f"'{self.url}' is not an address that starts with http:// or https://.")
        failures, reason = 0, ""
        while failures < self.attempts:
            before = self.have
            try:
                self._transfer()
            except _Again as error:
                failures = 0 if self.have > before else failures + 1
                reason = str(error)
                time.sleep(self.pause * failures)
                continue
            self.part.rename(self.path)
            self.note.unlink(missing_ok=True)
            return self.path
        kept = f" {self.have:,} bytes are kept; the same command goes on." if self.have else ""
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
        """One request. Raises _Again where another may help."""
        known = self._known()
        headers = {"Accept-Encoding": "identity", "User-Agent": "clmpt"}
        if self.have and known.get("mark"):
            headers |= {"Range": f"bytes={self.have}-", "If-Range": str(known["mark"])}
        elif self.have:
            self.part.unlink()  # nothing tells whether the rest would belong to it
        try:
            with urlopen(Request(self.url, headers=headers), timeout=self.timeout) as answer:
                total = self._begin(answer, known)
                self._receive(answer, total)
        except HTTPError as error:
            if error.code == 416:  # we have more than there is, or all of it
                if known.get("total") == self.have:
                    return
                self.part.unlink(missing_ok=True)
                raise _Again("the server has another file now") from None
            if error.code in (408, 429) or error.code >= 500:
                raise _Again(f"the server says {error.code} {error.reason}") from None
            raise DataError(
                f"'{self.url}' cannot be fetched: the server says {error.code} {error.reason}."
            ) from None
        except (UnicodeError, http.client.InvalidURL) as error:
            raise DataError(f"{self.url!a} is no address that can be fetched ({error}).") from None
        except (URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _Again(_in_words(error)) from None
        except OSError as error:  # those of reading are told apart where it is read
            raise cannot_write(self.path, error) from None

    def _known(self) -> dict[str, Any]:
        """What the server said of the file when its first part came."""
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(self.note.read_text(encoding="utf-8"))
            if isinstance(found, dict) and found.get("url") == self.url:
                return found
        return {}

    def _begin(self, answer: http.client.HTTPResponse, known: dict[str, Any]) -> int | None:
        """Makes ready for what the answer brings; how long the whole file is, if it says so."""
        if answer.status == 206:
            span = re.fullmatch(
                r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "")
            )
            if not span or int(span[1]) != self.have:
                self.part.unlink(missing_ok=True)
                raise _Again("the server sent another part than it was asked for")
            total = int(span[2]) if span[2] != "*" else None
            if known.get("total") not in (None, total):
                self.part.unlink(missing_ok=True)
                raise _Again("the server has another file now")
        else:
            self.part.unlink(missing_ok=True)
            length = answer.headers.get("Content-Length", "")
            total = int(length) if re.fullmatch(r"[0-9]{1,15}", length) else None
        if total is not None and total > _LARGEST_ARCHIVE:
            raise DataError(f"'{self.url}' is larger than {_LARGEST_ARCHIVE // 2**30} GB.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(self.path.parent).free
        if total is not None and total - self.have > room:
            raise DataError(
                f"'{self.url}' needs {total - self.have:,} more bytes, and there is room for "
                f"{room:,} in '{self.path.parent}'."
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
                if size > (_LARGEST_ARCHIVE if total is None else total):
                    file.truncate(0)
                    raise _Again("the server sent more than it promised")
                file.write(chunk)
                self.progress(size, total or 0)
        if total is not None and size < total:
            raise _Again(f"the connection was closed after {size:,} of {total:,} bytes")


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = answer.read1(_CHUNK)
        except http.client.IncompleteRead as error:
            yield error.partial
            raise _Again("the connection was closed in the middle") from None
        except OSError as error:
            raise _Again(_in_words(error)) from None
        if not chunk:
            return
        yield chunk


def _in_words(error: Exception) -> str:
    why = getattr(error, "reason", None) or error
    return "no answer for too long" if isinstance(why, TimeoutError) else str(why)


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def check_md5(path: Path, wanted: str, progress: Callable[[int], None] = no_progress) -> None:
    """Refuses an archive that is not the one that others have fetched from the same place."""
    found, done = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            found.update(chunk)
            done += len(chunk)
            progress(done)
    if found.hexdigest() != wanted:
        raise DataError(
            f"'{path}' is not the archive that was published: its MD5 is {found.hexdigest()}, not "
            f"{wanted}. Remove it and fetch it again; or, if you trust it, take it with --from."
        )
