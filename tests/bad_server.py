"""A local server that truncates, stalls and lies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from clmpt.storage.download import Download

CONTENT = bytes(range(256)) * 4000
Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Misbehaves on the first requests as the test specifies, then answers properly."""

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
    """Closes the connection before the promised end."""
    handler.head(200, len(CONTENT))
    handler.wfile.write(CONTENT[:300_000])


def cut_again(handler: Handler) -> None:
    start = int(str(handler.headers["Range"]).removeprefix("bytes=").removesuffix("-"))
    where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    handler.head(206, len(CONTENT) - start, Content_Range=where)
    handler.wfile.write(CONTENT[start : start + 1000])


def cut_in_pieces(handler: Handler) -> None:
    """Sends chunks without a length, and closes before the last one."""
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
    """Declares a shorter range than it sends, without a Content-Length."""
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
