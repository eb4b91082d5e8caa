"""Exact answering compared with pyoxigraph and DuckDB, on one graph, in one run.

    python benchmarks/solving.py [FOLDER]

FOLDER is a graph (default: the FB15k-237 folder next to the checkout). Each figure is the best of
three; pyoxigraph answers a sample of the queries one by one, scaled to all of them.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyoxigraph as ox

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.formula import Id, Query
from clmpt.logic.iris import iri_of
from clmpt.logic.shapes import shape
from clmpt.logic.sparql import sparql_text
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.queries.templates import instantiate
from clmpt.sampling.sampler import Protocol, sample
from clmpt.symbolic.solver import solve, solve_many

QUERIES, ASKED_ONE_BY_ONE, PYOXIGRAPH_SAMPLE = 10_000, 1_000, 300
DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "FB15k-237-betae"

SQL = {
    "2p": """SELECT DISTINCT q.id, b.t FROM q JOIN g a ON a.h = q.s1 AND a.r = q.r1
             JOIN g b ON b.h = a.t AND b.r = q.r2 ORDER BY 1, 2""",
    "3i": """SELECT DISTINCT q.id, a.t FROM q JOIN g a ON a.h = q.s1 AND a.r = q.r1
             JOIN g b ON b.h = q.s2 AND b.r = q.r2 AND b.t = a.t
             JOIN g c ON c.h = q.s3 AND c.r = q.r3 AND c.t = a.t ORDER BY 1, 2""",
    "inp": """SELECT DISTINCT q.id, b.t FROM q JOIN g a ON a.h = q.s1 AND a.r = q.r1
              ANTI JOIN g n ON n.h = q.s2 AND n.r = q.r2 AND n.t = a.t
              JOIN g b ON b.h = a.t AND b.r = q.r3 ORDER BY 1, 2""",
}


def best_of(times: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def questions(group: QueryGroup, graph: KnowledgeGraph) -> list[Query]:
    """The first queries of a group as new objects, so that nothing about them is cached."""
    return [
        instantiate(group.template, group.entities[n], group.relations[n], len(graph.relations))
        for n in range(ASKED_ONE_BY_ONE)
    ]


def median_milliseconds(queries: list[Query], graph: KnowledgeGraph) -> float:
    seconds = []
    for query in queries:
        start = time.perf_counter()
        solve(query, graph)
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def duckdb_seconds(graph: KnowledgeGraph, group: QueryGroup, sql: str, ours: AnswerSets) -> float:
    base = duckdb.connect()
    head, relation, tail = graph.triples().T.copy()
    columns = {"h": head, "r": relation, "t": tail}
    base.execute("CREATE TABLE g AS SELECT * FROM columns ORDER BY h, r, t")
    rows = {"id": np.arange(len(group))}
    rows |= {f"s{n + 1}": column.copy() for n, column in enumerate(group.entities.T)}
    rows |= {f"r{n + 1}": column.copy() for n, column in enumerate(group.relations.T)}
    base.execute("CREATE TABLE q AS SELECT * FROM rows")
    found = base.execute(sql.replace(" ORDER BY 1, 2", "")).fetchnumpy()
    assert len(found["id"]) == len(ours.entities), "DuckDB and the solver disagree"
    del columns, rows
    return best_of(3, lambda: base.execute(sql.replace(" ORDER BY 1, 2", "")).fetchnumpy())


def pyoxigraph_store(graph: KnowledgeGraph) -> ox.Store:
    entities = [ox.NamedNode(iri_of(Id(number))) for number in range(len(graph.entities))]
    relations = [ox.NamedNode(iri_of(Id(number))) for number in range(len(graph.relations))]
    store = ox.Store()
    store.bulk_extend(
        ox.Quad(entities[h], relations[r], entities[t]) for h, r, t in graph.triples().tolist()
    )
    return store


def pyoxigraph_seconds(store: ox.Store, queries: list[Query], ours: AnswerSets) -> float:
    texts = [sparql_text(query) for query in queries]
    start = time.perf_counter()
    counts = [sum(1 for _ in store.query(text)) for text in texts]
    seconds = time.perf_counter() - start
    assert counts == ours.counts[: len(counts)].tolist(), "pyoxigraph and the solver disagree"
    return seconds * QUERIES / len(queries)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    graph = open_graph(folder).view("train")
    store = pyoxigraph_store(graph)
    print(f"{folder.name}: {graph.index.triples:,} triples; {QUERIES:,} queries per shape")
    print("shape  at once s  one by one ms  pyoxigraph s   × faster  DuckDB s  × DuckDB's time")
    for name, sql in SQL.items():
        template = shape(name)
        group = sample(template, graph, Protocol(("train",), ("train",)), QUERIES, seed=0)
        run = lambda t=template, g=group: solve_many(t, graph, g.entities, g.relations)  # noqa: E731
        ours = run()
        at_once = best_of(3, run)
        single = min(median_milliseconds(questions(group, graph), graph) for _ in range(3))
        queries = questions(group, graph)
        oxigraph = pyoxigraph_seconds(store, queries[:PYOXIGRAPH_SAMPLE], ours)
        joined = duckdb_seconds(graph, group, sql, ours)
        print(
            f"{name:5}  {at_once:9.3f}  {single:13.3f}  {oxigraph:12.1f}  "
            f"{oxigraph / at_once:9.0f}  {joined:8.3f}  {at_once / joined:15.2f}"
        )


if __name__ == "__main__":
    main()
