"""A local stand-in for Hugging Face's hub: the few calls that push and pull make of it.

Large files go through git-lfs, others through the commit itself, as the hub does it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".npy")


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}  # of git-lfs, by checksum
        self.created: list[dict[str, Any]] = []
        self.fetched: list[str] = []
        self.claimed: dict[str, int] = {}  # sizes that are said to be others than they are
        self.lying: set[str] = set()  # files that arrive with another content
        self.commit = COMMIT

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path == "/api/repos/create":
            asked = json.loads(body)
            if not asked.get("organization"):
                self.give({"error": "no such user"}, 403)
                return
            self.server.created.append(asked)
            self.give({"url": f"{self.server.url}/{asked['organization']}/{asked['name']}"})
        elif path == "/api/validate-yaml":
            self.give({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            self.give({"files": [_mode(file) for file in json.loads(body)["files"]]})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = [self.action(one) for one in json.loads(body)["objects"]]
            self.give({"transfer": "basic", "objects": objects})
        elif "/commit/" in path:
            for line in body.splitlines():
                self.add(json.loads(line))
            address = f"{self.server.url}/someone/model/commit/{COMMIT}"
            self.give({"success": True, "commitOid": COMMIT, "commitUrl": address})
        else:
            self.give({"error": "not found"}, 404)

    def action(self, one: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.server.url}/lfs/{one['oid']}"}
        return {"oid": one["oid"], "size": one["size"], "actions": {"upload": upload}}

    def add(self, operation: dict[str, Any]) -> None:
        value = operation["value"]
        if operation["key"] == "file":
            self.server.files[value["path"]] = base64.b64decode(value["content"])
        elif operation["key"] == "lfsFile":
            self.server.files[value["path"]] = self.server.blobs[value["oid"]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = hashlib.sha256(body).hexdigest()
        assert self.path == f"/lfs/{digest}"
        self.server.blobs[digest] = body
        self.give({})

    def do_HEAD(self) -> None:
        self.file(with_content=False)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/api/models/nobody/"):
            self.give({"error": "Repository not found"}, 404)
        elif path.startswith("/api/models/"):
            names = sorted(self.server.files)
            self.give(
                {
                    "id": "someone/model",
                    "sha": self.server.commit,
                    "siblings": [self.sibling(name) for name in names],
                }
            )
        else:
            self.file(with_content=True)

    def sibling(self, name: str) -> dict[str, Any]:
        content = self.server.files[name]
        size = self.server.claimed.get(name, len(content))
        found = {"rfilename": name, "size": size, "blobId": _git_checksum(content)}
        if name.endswith(LARGE):
            found["lfs"] = {
                "size": size,
                "sha256": hashlib.sha256(content).hexdigest(),
                "pointerSize": 134,
            }
        return found

    def file(self, with_content: bool) -> None:
        name = unquote(urlsplit(self.path).path).partition("/resolve/")[2].partition("/")[2]
        if name not in self.server.files:
            self.give({"error": "not found"}, 404)
            return
        content = self.server.files[name]
        if name in self.server.lying:
            content = bytes(len(content))
        if with_content:
            self.server.fetched.append(name)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def give(self, document: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _mode(file: dict[str, Any]) -> dict[str, Any]:
    mode = "lfs" if file["path"].endswith(LARGE) else "regular"
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}


def _git_checksum(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def standing_in() -> Iterator[Hub]:
    hub = Hub()
    threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
