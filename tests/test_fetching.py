"""Fetching a benchmark from a server that cuts, stalls and lies, and from hostile archives."""

from __future__ import annotations

import hashlib
import ssl
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.experiments import benchmarks as fetching
from clmpt.experiments.benchmarks import BENCHMARKS, Benchmark, Download, check_md5, get
from clmpt.graph.benchmark_folders import open_graph
from stand_ins import make_stand_ins

CONTENT = bytes(range(256)) * 4000
Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers the first requests as the test says, the rest properly."""

    server: Server

    def do_GET(self) -> None:
        number = len(self.server.ranges)
        self.server.ranges.append(self.headers.get("Range"))
        answers = self.server.answers
        (answers[number] if number < len(answers) else proper)(self)

    def head(self, status: int, length: int, etag: str = '"one"', **more: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if etag:
            self.send_header("ETag", etag)
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.ranges: list[str | None] = []
        self.content = CONTENT
        self.stop = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.zip"


def proper(handler: Handler) -> None:
    content, span = handler.server.content, handler.headers.get("Range")
    if span and handler.headers.get("If-Range") == '"one"':
        start = int(span.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            handler.head(416, 0)
            return
        where = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.head(206, len(content) - start, Content_Range=where)
        handler.wfile.write(content[start:])
        return
    handler.head(200, len(content))
    handler.wfile.write(content)


def cut(handler: Handler) -> None:
    """Closes in the middle of what it promised."""
    handler.head(200, len(CONTENT))
    handler.wfile.write(CONTENT[:300_000])


def cut_again(handler: Handler) -> None:
    start = int(str(handler.headers["Range"]).removeprefix("bytes=").removesuffix("-"))
    where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    handler.head(206, len(CONTENT) - start, Content_Range=where)
    handler.wfile.write(CONTENT[start : start + 1000])


def cut_in_pieces(handler: Handler) -> None:
    """Promises no length, and closes before the last piece."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("ETag", '"one"')
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"186a0\r\n" + CONTENT[:100_000] + b"\r\n186a0\r\n")
    handler.wfile.write(CONTENT[100_000:100_005])
    handler.close_connection = True


def stall(handler: Handler) -> None:
    handler.head(200, len(CONTENT))
    handler.wfile.write(CONTENT[:5000])
    handler.server.stop.wait(20)


def silent(handler: Handler) -> None:
    handler.server.stop.wait(20)


def ignores_the_range(handler: Handler) -> None:
    handler.head(200, len(CONTENT))
    handler.wfile.write(CONTENT)


def another_part(handler: Handler) -> None:
    where = f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"
    handler.head(206, len(CONTENT), Content_Range=where)
    handler.wfile.write(CONTENT)


def another_length(handler: Handler) -> None:
    start = int(str(handler.headers["Range"]).removeprefix("bytes=").removesuffix("-"))
    handler.head(206, 10, Content_Range=f"bytes {start}-{start + 9}/{start + 10}")
    handler.wfile.write(b"0123456789")


def promises_less(handler: Handler) -> None:
    """Says nothing of the length in a way that can be believed: sends more, unframed."""
    start = 0
    handler.wfile.write(
        b'HTTP/1.0 206 Partial Content\r\nETag: "one"\r\n'
        + f"Content-Range: bytes {start}-9/10\r\n\r\n".encode()
        + CONTENT
    )


def busy(handler: Handler) -> None:
    handler.head(503, 0)


def gone(handler: Handler) -> None:
    handler.head(404, 0)


def huge(handler: Handler) -> None:
    handler.head(200, 10**13)


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    server = Server(answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        server.server_close()


def download(server: Server, folder: Path, attempts: int = 3) -> Download:
    path = folder / "data.zip"
    return Download(server.url, path, timeout=0.5, attempts=attempts, pause=0.0)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((), id="well"),
        pytest.param((cut,), id="cut"),
        pytest.param((cut, cut_again, cut_again), id="cut again and again"),
        pytest.param((cut_in_pieces,), id="cut in pieces"),
        pytest.param((stall,), id="stalled"),
        pytest.param((silent,), id="no answer"),
        pytest.param((busy, busy), id="busy"),
        pytest.param((cut, ignores_the_range), id="range ignored"),
        pytest.param((cut, another_part), id="another part"),
        pytest.param((cut, another_length), id="another length"),
        pytest.param((cut, busy, stall), id="all at once"),
    ],
)
def test_a_file_arrives_whole_in_spite_of_its_server(
    tmp_path: Path, answers: tuple[Answer, ...]
) -> None:
    with serving(*answers) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.zip"]


def test_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    with serving(cut) as server:
        download(server, tmp_path).run()
    assert server.ranges == [None, "bytes=300000-"]


def test_another_process_goes_on_where_one_was_stopped(tmp_path: Path) -> None:
    with serving(cut, silent) as server:
        with pytest.raises(DataError, match=r"300,000 bytes are kept; the same command goes on"):
            download(server, tmp_path, attempts=1).run()
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=300000-"


def test_a_file_that_changed_meanwhile_is_fetched_anew(tmp_path: Path) -> None:
    def changed(handler: Handler) -> None:
        assert handler.headers.get("If-Range") == '"one"'
        handler.server.content = CONTENT[::-1]
        handler.head(200, len(CONTENT), '"two"')
        handler.wfile.write(CONTENT[::-1])

    with serving(cut, changed) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT[::-1]


def test_without_a_mark_of_its_version_a_file_is_fetched_anew(tmp_path: Path) -> None:
    def unmarked(handler: Handler) -> None:
        handler.head(200, len(CONTENT), "")
        handler.wfile.write(CONTENT[:1000])

    with serving(unmarked) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert server.ranges == [None, None]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (gone, "the server says 404"),
        (busy, "the server says 503"),
        (silent, "no answer for too long"),
        (huge, "is larger than 4 GB"),
    ],
)
def test_what_cannot_be_fetched_is_named(tmp_path: Path, answer: Answer, why: str) -> None:
    with serving(answer, answer, answer) as server, pytest.raises(DataError, match=why):
        download(server, tmp_path).run()
    assert not (tmp_path / "data.zip").exists()


def test_a_server_that_sends_more_than_it_promised_is_not_believed(tmp_path: Path) -> None:
    with serving(promises_less, promises_less, promises_less) as server:
        with pytest.raises(DataError, match="more than it promised"):
            download(server, tmp_path).run()
        assert not (tmp_path / "data.zip").exists()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data.zip", "http://[::1/x.zip", "http:///x"]
)
def test_only_the_web_is_fetched_from(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="http"):
        Download(url, tmp_path / "x").run()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/ü.zip", "http://x..y/a.zip", "http://127.0.0.1:x/a", "http://h/a b"]
)
def test_an_address_that_can_never_work_is_not_tried_again(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="is no address that can be fetched"):
        Download(url, tmp_path / "x", pause=60.0).run()


ADDRESSES = (
    ("http://h/data.zip", "is not a file"),
    ("http://x..y/..", "no address"),
    ("http://[::1/x.zip", "not an address"),
)


def test_an_archive_is_never_taken_for_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.zip").mkdir()
    for url, told in ADDRESSES:
        assert main(["data", "get", "nell995", "--out", str(tmp_path / "out"), "--url", url]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("broken", [OSError(113, "No route to host"), ssl.SSLError("bad record")])
def test_a_network_that_breaks_is_not_taken_for_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: OSError
) -> None:
    usual, failures = HTTPResponse.read1, iter([broken])

    def read1(self: HTTPResponse, size: int = -1) -> bytes:
        if (error := next(failures, None)) is not None:
            raise error
        return usual(self, size)

    monkeypatch.setattr(HTTPResponse, "read1", read1)
    with serving() as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT


def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(DataError, match="cannot be fetched"):
        Download(url, tmp_path / "x", timeout=0.5, attempts=1, pause=0.0).run()


def test_another_archive_than_the_published_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "KG_data.zip"
    path.write_bytes(CONTENT)
    check_md5(path, hashlib.md5(CONTENT, usedforsecurity=False).hexdigest())
    with pytest.raises(DataError, match="not the archive that was published"):
        check_md5(path, fetching.ARCHIVE_MD5)


# --- archives and folders -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_stand_ins(folder)
    return folder


@pytest.fixture(scope="module")
def small(home: Path) -> Benchmark:
    """The stand-in's measures, in place of the published ones."""
    graph = open_graph(home / "NELL-betae")
    train, valid, test = (len(graph.triples(name)) for name in ("train", "valid", "test"))
    measures = len(graph.entities), len(graph.relations), (train, valid, test)
    return Benchmark("NELL-betae", *measures, graph.checksum)


def zipped(home: Path, path: Path, prefix: str = "KG_data/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("NELL-betae", "FB15k-237-betae"):
            for file in sorted((home / name).iterdir()):
                archive.write(file, f"{prefix}{name}/{file.name}")
    return path


@pytest.mark.parametrize("prefix", ["KG_data/", ""])
def test_a_benchmark_is_unpacked(home: Path, small: Benchmark, tmp_path: Path, prefix: str) -> None:
    graph = get(small, zipped(home, tmp_path / "a.zip", prefix), tmp_path / "out")
    assert graph.checksum == small.checksum
    for file in (home / "NELL-betae").iterdir():
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("inner", ["", "NELL-betae"])
def test_a_folder_is_taken_over(home: Path, small: Benchmark, tmp_path: Path, inner: str) -> None:
    (home / "NELL-betae" / "notes.exe").write_bytes(b"not ours")
    source = home / "NELL-betae" if not inner else home
    assert get(small, source, tmp_path / "out").checksum == small.checksum
    assert not (tmp_path / "out" / "notes.exe").exists()
    assert (home / "NELL-betae" / "train.txt").exists()


def test_paths_in_an_archive_lead_nowhere(home: Path, small: Benchmark, tmp_path: Path) -> None:
    path = zipped(home, tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        for name in (
            "../../escaped.txt",
            "/tmp/NELL-betae/../escaped.txt",
            "../NELL-betae/evil.txt",
            "NELL-betae/../../train.txt",
            "NELL-betae\\..\\train.txt",
        ):
            archive.writestr(name, "x")
    get(small, path, tmp_path / "inner" / "out")
    assert {path.name for path in tmp_path.rglob("*.txt")} == {"train.txt", "valid.txt", "test.txt"}


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NELL-betae/train.txt", bytes(10**7))


def liar(path: Path) -> None:
    """Its file is longer than its directory says."""
    bomb(path)
    content = bytearray(path.read_bytes())
    where = content.index(b"PK\x01\x02") + 24
    content[where : where + 4] = (10**6).to_bytes(4, "little")
    path.write_bytes(content)


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for prefix in ("a/", "b/"):
            archive.writestr(f"{prefix}NELL-betae/train.txt", "0\t0\t0\n")


def without(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/train.txt", "0\t0\t0\n")


def cut_short(path: Path) -> None:
    bomb(path)
    path.write_bytes(path.read_bytes()[:-30])


def a_web_page(path: Path) -> None:
    path.write_text("<html>Not found</html>")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (bomb, "would be too large"),
        (liar, "not a whole zip archive"),
        (twice, "twice"),
        (without, "has no folder NELL-betae"),
        (cut_short, "not a whole zip archive"),
        (a_web_page, "not a whole zip archive"),
    ],
)
def test_hostile_archives_are_refused(
    small: Benchmark,
    tmp_path: Path,
    spoil: Callable[[Path], None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "_LARGEST_FILE", 10**6)
    spoil(tmp_path / "a.zip")
    with pytest.raises(DataError, match=why):
        get(small, tmp_path / "a.zip", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_a_flipped_bit_is_noticed_or_does_not_matter(
    home: Path, small: Benchmark, tmp_path: Path
) -> None:
    path = zipped(home, tmp_path / "a.zip")
    whole = path.read_bytes()
    get(small, path, tmp_path / "right")
    right = {file.name: file.read_bytes() for file in (tmp_path / "right").iterdir()}
    refused = 0
    random = np.random.default_rng(0)
    for number, at in enumerate(random.integers(len(whole), size=150)):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1 << random.integers(8)
        path.write_bytes(spoilt)
        out = tmp_path / f"out{number}"
        try:
            get(small, path, out)
        except DataError:
            refused += 1
            assert not out.exists()
        else:
            # A name that is not ours any more leaves its file out; what is there is right.
            assert {file.name: file.read_bytes() for file in out.iterdir()}.items() <= right.items()
    assert refused > 40  # the archive has other folders too


def test_another_graph_is_not_taken_for_the_benchmark(
    home: Path, small: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["data", "get", "nell995", "--from", str(home), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert code == 2
    assert "is not the published NELL-betae: entities 40 instead of 63,361" in said
    assert not (tmp_path / "out").exists()
    others = Benchmark(small.folder, small.entities, small.relations, small.facts, 1)
    with pytest.raises(DataError, match="as many facts as there should be, but others"):
        get(others, home, tmp_path / "out")


def test_the_command_fetches_unpacks_and_says_what_is_next(
    home: Path,
    small: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(BENCHMARKS, "nell995", small)
    monkeypatch.chdir(tmp_path)
    with serving(cut) as server:
        server.content = zipped(home, tmp_path / "made.zip").read_bytes()
        # What came first is of another file, as its length shows: it is fetched anew.
        assert main(["data", "get", "nell995", "--url", server.url]) == 0
        asked = len(server.ranges)
        assert main(["data", "get", "nell995", "--url", server.url, "--out", "again"]) == 0
        assert len(server.ranges) == asked  # the archive was kept
    shown = capsys.readouterr().out
    assert "NELL-betae: 40 entities, 10 relations" in shown
    assert "Queries with answers: valid, test" in shown
    assert main(["data", "get", "nell995", "--url", server.url]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_recipe_to_begin_with_is_there() -> None:
    for name, benchmark in BENCHMARKS.items():
        text = (Path(__file__).parents[1] / benchmark.recipe).read_text(encoding="utf-8")
        assert f'benchmark = "{name}"' in text


def test_the_published_measures_are_those_of_the_data(benchmarks: Path) -> None:
    for name in ("fb15k-237", "nell995"):
        folder = benchmarks / BENCHMARKS[name].folder
        fetching.check(BENCHMARKS[name], folder, folder)
