"""A service under load: many clients, a mix of questions, for some minutes.

    clmpt serve MODEL &
    python benchmarks/serving.py URL GRAPH [--minutes 10] [--clients 64] [--rate 20] [--process PID]

Exact and likely questions are sent at a fixed rate together with completions, as when that many
people ask; the time counts from when a question was due, so waiting counts. Names are the graph's.
With the service's process number its memory is looked at each minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.formula import Name
from clmpt.logic.iris import iri_of
from clmpt.logic.printing import name_text

Make = Callable[[random.Random], str]


class Questions:
    """Paths of requests about facts of a graph, drawn at random."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.triples = graph, graph.triples()

    def fact(self, chance: random.Random) -> tuple[str, str, str]:
        head, relation, tail = self.triples[chance.randrange(len(self.triples))].tolist()
        entities, relations = self.graph.entities.names, self.graph.relations.names
        return entities[head], relations[relation], entities[tail]

    def exact(self, chance: random.Random) -> str:
        head, relation, tail = self.fact(chance)
        _, other, _ = self.fact(chance)
        h, r, t, o = (f"<{iri_of(Name(name))}>" for name in (head, relation, tail, other))
        query = chance.choice(
            [
                f"SELECT ?x {{ {h} {r} ?x }}",
                f"SELECT ?x {{ {h} {r} ?y . ?y {o} ?x }} LIMIT 100",
                f"SELECT ?x {{ ?x {r} {t} FILTER NOT EXISTS {{ ?x {o} ?z }} }} LIMIT 100",
                f"ASK {{ {h} ?p {t} }}",
                f"SELECT (COUNT(*) AS ?n) {{ {h} ?p ?o }}",
            ]
        )
        return f"/sparql?query={quote(query)}"

    def likely(self, chance: random.Random) -> str:
        head, relation, tail = map(name_text, self.fact(chance))
        _, other, _ = map(name_text, self.fact(chance))
        question = chance.choice(
            [
                f"?x : {relation}({head}, ?x)",
                f"?x : {relation}({head}, ?y) & {other}(?y, ?x)",
                f"?x : {relation}(?x, {tail}) & ^{other}({head}, ?x)",
                f"?x : {relation}(?x, {tail}) & !{other}(?x, {head})",
                f"?x : {relation}({head}, ?x) | {other}({head}, ?x)",
            ]
        )
        return f"/ask?{urlencode({'question': question, 'limit': 10})}"

    def completion(self, chance: random.Random) -> str:
        name = self.fact(chance)[0].rpartition("/")[2]
        return f"/complete?{urlencode({'text': name[: chance.randint(1, 8)]})}"


class Load:
    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname or "127.0.0.1", address.port or 80
        self.free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None]
        self.times: dict[str, list[float]] = defaultdict(list)
        self.statuses: dict[int, int] = defaultdict(int)

    async def get(self, path: str) -> int:
        connection = await self.free.get()
        try:
            if connection is None:
                connection = await asyncio.open_connection(self.host, self.port)
            reader, writer = connection
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            await _body(reader, head)
        except (OSError, asyncio.IncompleteReadError):  # closed while it was idle
            connection, status = None, 0
        self.free.put_nowait(connection)
        return status if status else await self.get(path)

    async def one(self, kind: str, path: str) -> None:
        due = time.perf_counter()
        status = await self.get(path)
        self.statuses[status] += 1
        self.times[kind].append(time.perf_counter() - due)

    async def run(self, clients: int, seconds: float, rates: dict[str, tuple[float, Make]]) -> None:
        self.free = asyncio.Queue()
        for _ in range(clients):
            self.free.put_nowait(None)
        tasks = [self.stream(kind, rate, make, seconds) for kind, (rate, make) in rates.items()]
        await asyncio.gather(*tasks)

    async def stream(self, kind: str, rate: float, make: Make, seconds: float) -> None:
        chance, started, sent = random.Random(kind), time.perf_counter(), list[asyncio.Task[None]]()
        number = 0
        while (due := number / rate) < seconds:
            await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
            sent.append(asyncio.create_task(self.one(kind, make(chance))))
            sent = [task for task in sent if not task.done()]
            number += 1
        await asyncio.gather(*sent)


async def _body(reader: asyncio.StreamReader, head: bytes) -> None:
    lower = head.lower()
    if b"content-length:" in lower:
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


async def watch_memory(process: int, minutes: int) -> list[int]:
    """Megabytes in memory at the end of each minute, of a process and its children."""
    found = []
    for _ in range(minutes):
        await asyncio.sleep(59.9)
        found.append(sum(map(_megabytes, _family(process))))
    return found


def _family(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in listed for one in _family(int(child)))]


def _megabytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def show(load: Load) -> None:
    print(f"{'what':12} {'asked':>7} {'p50, ms':>9} {'p95, ms':>9} {'p99, ms':>9} {'most, ms':>9}")
    for kind, found in load.times.items():
        p50, p95, p99 = (1000 * np.quantile(found, share) for share in (0.5, 0.95, 0.99))
        print(
            f"{kind:12} {len(found):7,} {p50:9.1f} {p95:9.1f} {p99:9.1f} {1000 * max(found):9.1f}"
        )
    print("statuses:", json.dumps(load.statuses))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("graph")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20, help="questions a second, of both kinds")
    parser.add_argument("--process", type=int, default=0)
    options = parser.parse_args()
    questions = Questions(open_graph(options.graph))
    half = options.rate / 2
    rates: dict[str, tuple[float, Make]] = {
        "exact": (half, questions.exact),
        "likely": (half, questions.likely),
        "completion": (half, questions.completion),
    }
    load = Load(options.url)

    async def everything() -> list[int]:
        watched = watch_memory(options.process, int(options.minutes) if options.process else 0)
        run = load.run(options.clients, 60 * options.minutes, rates)
        return (await asyncio.gather(watched, run))[0]

    memory = asyncio.run(everything())
    show(load)
    if memory:
        print("memory by minute, MB:", *memory)


if __name__ == "__main__":
    main()
