"""Mutated requests to a running service: it answers each, never with an error of its own.

python tests/fuzzing_requests.py 100000
"""

from __future__ import annotations

import http.client
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote, urlencode

from clmpt.cli.main import main as clmpt
from service_process import RunningService, running_service
from small_fit import fit_words, write_facts

SLOWEST = 20.0  # seconds
QUESTIONS = [
    "?y : r0(e0, ?y)",
    "?x, ?y : r0(?x, ?y) & !r1(?y, e3)",
    "SELECT ?y ?probability { :e0 :r0 ?y FILTER(?y != :e1) } LIMIT 3",
    "ASK { :e0 :r0 :e1 }",
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
    "(0,(0,))",
]
PIECES = [
    "",
    " ",
    "\0",
    "%00",
    "é",
    "🜚",
    "\ud800",
    "'",
    '"',
    "<script>",
    "{",
    ")",
    "?",
    "&",
    "=",
    "..",
    "/",
    "\\",
    "#",
    ";q=",
    "\r\n",
    "1e999",
    "-1",
    "NaN",
    "null",
    "[]",
    "{}",
    "(" * 300,
]
PATHS = [
    "/sparql",
    "/likely/sparql",
    "/ask",
    "/ask/stream",
    "/explain",
    "/parse",
    "/draw",
    "/complete",
    "/graph/neighbours",
    "/models",
    "/models/graph/sparql",
    "/metrics",
    "/health",
    "/openapi.json",
    "/",
    "/page/main.js",
    "/nowhere",
]
POSTED = ["/sparql", "/likely/sparql", "/ask", "/models/graph/sparql"]
NAMES = [
    "query",
    "question",
    "entity",
    "text",
    "kind",
    "limit",
    "at_least",
    "at-least",
    "only",
    "evidence",
    "model",
    "reasoner",
    "format",
    "default-graph-uri",
    "named-graph-uri",
    "union",
]
TYPES = [
    "application/json",
    "application/sparql-query",
    "application/x-www-form-urlencoded",
    "application/sparql-update",
    "text/plain",
    "",
    "multipart/form-data",
    'a/b;c="d',
]
ACCEPT = ["*/*", "text/csv", "application/sparql-results+xml", "image/png", ";;,", "a/b;q=x", ""]


def mutated(chance: random.Random, text: str) -> str:
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(text) + 1)
        upto = at + chance.choice([0, 0, 1, 3])
        text = text[:at] + chance.choice(PIECES) + text[upto:]
    return text


def value(chance: random.Random) -> str:
    if chance.random() < 0.7:
        return mutated(chance, chance.choice(QUESTIONS))
    return chance.choice([*PIECES, "5", "0.5", "e0", "#3", "graph", "truth-values", "entity"])


def request(chance: random.Random) -> tuple[str, str, bytes | None, dict[str, str]]:
    pairs = [(chance.choice(NAMES), value(chance)) for _ in range(chance.randrange(5))]
    encoded = urlencode(pairs, errors="replace")
    path = chance.choice(PATHS)
    if chance.random() < 0.1:
        path = "/" + quote(mutated(chance, path[1:]), safe="/%.", errors="replace")
    headers = {"Accept": chance.choice(ACCEPT), "Content-Type": chance.choice(TYPES)}
    if chance.random() < 0.5:
        return "GET", f"{path}?{encoded}", None, headers
    body = chance.choice(
        [
            encoded.encode(),
            value(chance).encode("utf-8", "surrogatepass"),
            f'{{"question": "{value(chance)}", "limit": 3}}'.encode("utf-8", "replace"),
            f'{{"question": ["?y : r0(e0, ?y)"], "{chance.choice(NAMES)}": 1}}'.encode(),
            bytes(chance.randrange(256) for _ in range(chance.randrange(50))),
        ]
    )
    if chance.random() < 0.1:
        return chance.choice(["POST", "PUT", "DELETE", "OPTIONS", "HEAD"]), path, body, headers
    return "POST", chance.choice(POSTED), body, headers


def run(service: RunningService, count: int, seed: int) -> Counter[int]:
    chance, statuses = random.Random(seed), Counter[int]()
    private = re.compile(rb"Traceback|site-packages|/work|/home|/root|/tmp|\.py\b")
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60)
    for number in range(count):
        method, path, body, headers = request(chance)
        started = time.monotonic()
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            found, status = reply.read(), reply.status
        except http.client.HTTPException:  # the connection was closed after a refusal
            connection.close()
            continue
        statuses[status] += 1
        assert status < 500 or status == 503, (number, method, path, body, headers, found)
        leak = private.search(found) if path.partition("?")[0] != "/page/main.js" else None
        assert not leak, (number, method, path, body, found)
        assert time.monotonic() - started < SLOWEST, (number, method, path, body)
    return statuses


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_facts(folder)
        assert clmpt(fit_words(folder, "model")) == 0
        words = [str(folder / "model"), str(folder / "model" / "graph"), "--time-limit", "5"]
        with running_service(folder, *words) as service:
            statuses = run(service, count, seed)
            told = service.log.read_text(errors="replace")
            assert "Traceback" not in told, told[-3000:]
    sys.stdout.write(f"{count:,} requests: {dict(sorted(statuses.items()))}\n")


if __name__ == "__main__":
    main()
