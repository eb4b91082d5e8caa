"""Downloads from a server that drops connections, stalls and lies."""

from __future__ import annotations

import hashlib
import ssl
from http.client import HTTPResponse
from pathlib import Path

import pytest

from bad_server import (
    CONTENT,
    Answer,
    Handler,
    another_length,
    another_part,
    busy,
    cut,
    cut_again,
    cut_in_pieces,
    download,
    gone,
    huge,
    ignores_the_range,
    promises_less,
    serving,
    silent,
    stall,
)
from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.experiments import benchmarks as fetching
from clmpt.storage.download import Download, check_md5


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((), id="no trouble"),
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
def test_a_file_arrives_whole_despite_a_bad_server(
    tmp_path: Path, answers: tuple[Answer, ...]
) -> None:
    with serving(*answers) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.zip"]


def test_only_the_missing_part_is_requested(tmp_path: Path) -> None:
    with serving(cut) as server:
        download(server, tmp_path).run()
    assert server.ranges == [None, "bytes=300000-"]


def test_another_process_resumes_a_stopped_download(tmp_path: Path) -> None:
    with serving(cut, silent) as server:
        with pytest.raises(DataError, match=r"300,000 bytes are kept; the same command resumes"):
            download(server, tmp_path, attempts=1).run()
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=300000-"


def test_a_file_that_changed_meanwhile_is_fetched_again(tmp_path: Path) -> None:
    def changed(handler: Handler) -> None:
        assert handler.headers.get("If-Range") == '"one"'
        handler.server.content = CONTENT[::-1]
        handler.head(200, len(CONTENT), '"two"')
        handler.wfile.write(CONTENT[::-1])

    with serving(cut, changed) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT[::-1]


def test_a_file_without_an_etag_is_fetched_again(tmp_path: Path) -> None:
    def without_etag(handler: Handler) -> None:
        handler.head(200, len(CONTENT), "")
        handler.wfile.write(CONTENT[:1000])

    with serving(without_etag) as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT
    assert server.ranges == [None, None]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (gone, "the server says 404"),
        (busy, "the server says 503"),
        (silent, "the server took too long to answer"),
        (huge, "is larger than 4 GB"),
    ],
)
def test_errors_say_why_a_file_cannot_be_fetched(tmp_path: Path, answer: Answer, why: str) -> None:
    with serving(answer, answer, answer) as server, pytest.raises(DataError, match=why):
        download(server, tmp_path).run()
    assert not (tmp_path / "data.zip").exists()


def test_a_server_that_sends_more_than_it_promised_is_not_trusted(tmp_path: Path) -> None:
    with serving(promises_less, promises_less, promises_less) as server:
        with pytest.raises(DataError, match="more than it promised"):
            download(server, tmp_path).run()
        assert not (tmp_path / "data.zip").exists()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data.zip", "http://[::1/x.zip", "http:///x"]
)
def test_only_http_addresses_are_fetched(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="http"):
        Download(url, tmp_path / "x").run()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/ü.zip", "http://x..y/a.zip", "http://127.0.0.1:x/a", "http://h/a b"]
)
def test_an_invalid_address_is_not_retried(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="is not a valid address"):
        Download(url, tmp_path / "x", pause=60.0).run()


ADDRESSES = (
    ("http://h/data.zip", "is not a file"),
    ("http://x..y/..", "not a valid address"),
    ("http://[::1/x.zip", "not an address"),
)


def test_bad_addresses_get_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.zip").mkdir()
    for url, message in ADDRESSES:
        assert main(["data", "get", "nell995", "--out", str(tmp_path / "out"), "--url", url]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("broken", [OSError(113, "No route to host"), ssl.SSLError("bad record")])
def test_a_network_error_is_not_mistaken_for_a_disk_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: OSError
) -> None:
    original, failures = HTTPResponse.read1, iter([broken])

    def read1(self: HTTPResponse, size: int = -1) -> bytes:
        if (error := next(failures, None)) is not None:
            raise error
        return original(self, size)

    monkeypatch.setattr(HTTPResponse, "read1", read1)
    with serving() as server:
        assert download(server, tmp_path).run().read_bytes() == CONTENT


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(DataError, match="cannot be fetched"):
        Download(url, tmp_path / "x", timeout=0.5, attempts=1, pause=0.0).run()


def test_an_archive_other_than_the_published_one_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "KG_data.zip"
    path.write_bytes(CONTENT)
    check_md5(path, hashlib.md5(CONTENT, usedforsecurity=False).hexdigest())
    with pytest.raises(DataError, match="not the published archive"):
        check_md5(path, fetching.ARCHIVE_MD5)
