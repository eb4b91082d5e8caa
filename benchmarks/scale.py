"""A large graph: import, opening, memory and a two-hop question.

    python benchmarks/scale.py [TRIPLES [ENTITIES]]

Writes a TSV of random triples with skewed degrees (default: 10,000,000 triples, 1,000,000 entities,
200 relations), imports it with `clmpt import`, and asks 2p questions.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RELATIONS, QUESTIONS = 200, 2_000


def write_triples(path: Path, triples: int, entities: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for first in range(0, triples, 500_000):
            count = min(500_000, triples - first)
            # Every entity occurs at least once; few have many edges.
            heads = (rng.random(count) ** 2 * entities).astype(int)
            tails = (rng.random(count) ** 3 * entities).astype(int)
            every = np.arange(first, first + count)
            heads = np.where(every < entities, every, heads)
            relations = rng.integers(RELATIONS, size=count)
            file.writelines(
                f"entity/{h}\trelation_{r}\tentity/{t}\n"
                for h, r, t in zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
            )


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    triples = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    entities = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as scratch:
        source, folder = Path(scratch) / "facts.tsv", Path(scratch) / "graph"
        write_triples(source, triples, entities)
        command = [str(Path(sys.executable).with_name("clmpt")), "import", str(source)]
        start = time.perf_counter()
        subprocess.run([*command, "--out", str(folder)], check=True)
        print(f"import          {time.perf_counter() - start:8.1f} s")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"import, peak    {peak:8.0f} MB")

        from clmpt.graph.knowledge_graph import KnowledgeGraph
        from clmpt.logic.formula import Atom, Name, Query, Variable
        from clmpt.symbolic.solver import solve

        before, start = resident(), time.perf_counter()
        graph = KnowledgeGraph.open(folder)
        print(f"open            {time.perf_counter() - start:8.3f} s")
        stored = sum(file.stat().st_size for file in folder.iterdir())
        print(
            f"stored          {stored / triples:8.1f} bytes per triple, names and labels included"
        )

        rng = np.random.default_rng(1)
        rows = rng.integers(len(graph.index.neighbours_X) // 2, size=QUESTIONS)
        x, y = Variable("x"), Variable("y")
        keys = np.searchsorted(graph.index.offsets_K2, rows, "right") - 1
        seconds = []
        for key in graph.index.keys_K1[keys].tolist():
            head, relation = key % graph.index.entities, key // graph.index.entities
            first = Name(graph.relations.names[relation])
            second = Name(graph.relations.names[int(rng.integers(RELATIONS))])
            hop = Atom(first, Name(graph.entities.names[head]), x)
            query = Query(y, hop & Atom(second, x, y))
            start = time.perf_counter()
            solve(query, graph)
            seconds.append(time.perf_counter() - start)
        print(f"2p, median      {1000 * statistics.median(seconds):8.3f} ms")
        print(f"memory in use   {(resident() - before) / triples:8.1f} bytes per triple after that")


if __name__ == "__main__":
    main()
