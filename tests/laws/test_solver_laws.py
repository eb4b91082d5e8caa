"""The solver compared with an independent engine, on random graphs and random queries."""

from __future__ import annotations

import numpy as np
import pyoxigraph
from hypothesis import given, settings
from hypothesis import strategies as st

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Limits, Name, Query
from clmpt.logic.iris import iri_of, symbol_of
from clmpt.logic.parser import parse_formula
from clmpt.logic.sparql import parse_sparql, sparql_text
from clmpt.symbolic.engine import Engine, SlotValues
from clmpt.symbolic.solver import compiled, solve, solve_all
from strategies import graphs, queries


def sparql_answers(graph: KnowledgeGraph, text: str, free: str) -> set[str]:
    """The answers of pyoxigraph, as names."""
    store = pyoxigraph.Store()
    for head, relation, tail in graph.triples().tolist():
        names = (graph.entities.names[head], graph.relations.names[relation])
        terms = [
            pyoxigraph.NamedNode(iri_of(Name(n))) for n in (*names, graph.entities.names[tail])
        ]
        store.add(pyoxigraph.Quad(*terms))
    return {symbol_of(solution[free].value).text for solution in store.query(text)}


def names_of(graph: KnowledgeGraph, answers: frozenset[int]) -> set[str]:
    return {graph.entities.names[answer] for answer in answers}


@settings(max_examples=1000, deadline=None)
@given(graphs(), queries())
def test_answers_equal_those_of_a_sparql_engine(graph: KnowledgeGraph, query: Query) -> None:
    expected = sparql_answers(graph, sparql_text(query), "y")
    assert names_of(graph, solve(query, graph)) == expected


@settings(max_examples=300, deadline=None)
@given(graphs(), queries())
def test_answers_are_the_union_over_the_disjuncts(graph: KnowledgeGraph, query: Query) -> None:
    parts = [solve(disjunct, graph) for disjunct in query.disjuncts()]
    assert solve(query, graph) == frozenset().union(*parts)


@settings(max_examples=300, deadline=None)
@given(queries())
def test_printing_parses_back_to_an_equal_query(query: Query) -> None:
    assert parse_formula(str(query)) == query


@settings(max_examples=150, deadline=None)
@given(graphs(), queries())
def test_sparql_printing_parses_back_to_the_same_answers(
    graph: KnowledgeGraph, query: Query
) -> None:
    limits = Limits(atoms=10_000, disjuncts=10_000)  # normal forms repeat atoms
    assert solve(parse_sparql(sparql_text(query), limits), graph) == solve(query, graph)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.lists(queries(), min_size=2, max_size=6))
def test_solving_many_at_once_changes_nothing(graph: KnowledgeGraph, several: list[Query]) -> None:
    several = several + several[:2]
    assert solve_all(several, graph) == [solve(query, graph) for query in several]


@settings(max_examples=200, deadline=None)
@given(graphs(), queries(), st.integers(1, 6))
def test_running_in_small_parts_changes_nothing(
    graph: KnowledgeGraph, query: Query, rows: int
) -> None:
    for part in compiled(query):
        entities = np.array([[graph.entities.resolve(s) for s in part.entities]] * 3)
        relations = np.array([[graph.relations.resolve(s) for s in part.relations]] * 3)
        batch = SlotValues(entities.reshape(3, -1).astype(np.int64), relations.astype(np.int64))
        whole = Engine(graph.index).run(part.plan, batch)
        parts = Engine(graph.index, rows_at_once=rows).run(part.plan, batch)
        pairs = [
            set(zip(table.query_N.tolist(), table.columns[part.free].tolist(), strict=True))
            for table in (whole, parts)
        ]
        assert pairs[0] == pairs[1]
        assert len(parts) == len(pairs[1])
