"""SPARQL compared with pyoxigraph and rdflib: time and memory, on one graph, in one run.

    python benchmarks/sparql.py [FOLDER] [--rdflib]

FOLDER is a graph (default: the FB15k-237 folder next to the checkout). Each figure is the best of
three, in milliseconds; rdflib takes minutes, so it runs only if asked for.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.graph.writers import export_graph
from clmpt.logic.formula import Name
from clmpt.logic.iris import iri_of
from clmpt.sparql.answering import answer_sparql

DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "FB15k-237-betae"
A, R, S = "<{entity}>", "<{first}>", "<{second}>"
QUERIES = {
    "two hops": f"SELECT DISTINCT ?x {{ {A} {R} ?y . ?y {S} ?x }}",
    "not exists": f"SELECT DISTINCT ?x {{ ?x {R} ?y FILTER NOT EXISTS {{ ?x {S} ?z }} }}",
    "triangles": f"SELECT (COUNT(*) AS ?n) {{ ?x {R} ?y . ?y {R} ?z . ?z ^{R} ?x }}",
    "optional": f"SELECT ?x ?z {{ ?x {R} ?y OPTIONAL {{ ?y {S} ?z }} }}",
    "group and order": f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {R} ?y }} GROUP BY ?x ORDER BY DESC(?n)",
    "path": f"SELECT DISTINCT ?x {{ {A} ({R}|{S})+ ?x }}",
    "any relation": f"SELECT ?p ?o {{ {A} ?p ?o }}",
    "relations by size": "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n)",
    "filter by text": f"SELECT ?y {{ ?x {R} ?y FILTER(STRENDS(STR(?y), '7')) }}",
}


def best_of(times: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def memory() -> int:
    """Megabytes in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def texts(graph: KnowledgeGraph) -> dict[str, str]:
    """The queries about the two largest relations, and an entity that has both."""
    rows = graph.triples()
    counts = sorted(range(len(graph.relations)), key=lambda r: -int((rows[:, 1] == r).sum()))
    first, second = counts[:2]
    starts = set(rows[rows[:, 1] == first, 0].tolist())
    entity = next(h for h in rows[rows[:, 1] == second, 0].tolist() if h in starts)
    given = {
        "entity": iri_of(Name(graph.entities.names[entity])),
        "first": iri_of(Name(graph.relations.names[first])),
        "second": iri_of(Name(graph.relations.names[second])),
    }
    return {
        name: text.replace("{entity}", given["entity"])
        .replace("{first}", given["first"])
        .replace("{second}", given["second"])
        for name, text in QUERIES.items()
    }


def main() -> None:
    folders = [word for word in sys.argv[1:] if not word.startswith("--")]
    graph = open_graph(folders[0] if folders else DEFAULT)
    graph = replace(graph, entities=replace(graph.entities, labels=None))  # exports have them
    scratch = Path(f"/tmp/clmpt-sparql-{os.getpid()}.nt")
    export_graph(graph, scratch)
    answer_sparql("SELECT * { ?s ?p ?o } LIMIT 1", graph)
    print(f"clmpt, graph opened: {memory():,} MB in use")
    before, store = memory(), ox.Store()
    seconds = best_of(1, lambda: store.bulk_load(path=scratch, format=ox.RdfFormat.N_TRIPLES))
    print(f"pyoxigraph, in memory: loaded in {seconds:.1f} s, {memory() - before:,} MB more")
    other = None
    if "--rdflib" in sys.argv:
        import rdflib

        before, other = memory(), rdflib.Graph()
        seconds = best_of(1, lambda: other.parse(scratch, format="nt"))
        print(f"rdflib: loaded in {seconds:.1f} s, {memory() - before:,} MB more")
    scratch.unlink()
    print(f"{'query':20} {'rows':>8} {'clmpt':>9} {'pyoxigraph':>11} {'rdflib':>9}   (ms)")
    for name, text in texts(graph).items():
        rows = len(answer_sparql(text, graph))
        assert rows == len(list(store.query(text))), name
        own = best_of(3, lambda text=text: list(answer_sparql(text, graph)))  # type: ignore[misc]
        theirs = best_of(3, lambda text=text: list(store.query(text)))  # type: ignore[misc]
        slow = f"{'':9}"
        if other is not None:
            slow = f"{1000 * best_of(1, lambda text=text: list(other.query(text))):9,.1f}"  # type: ignore[misc]
        print(f"{name:20} {rows:8,} {1000 * own:9.1f} {1000 * theirs:11.1f} {slow}")


if __name__ == "__main__":
    main()
