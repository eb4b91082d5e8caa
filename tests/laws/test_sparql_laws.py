"""SPARQL as pyoxigraph understands it and as we do: the same answers, or an error."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clmpt.errors import QueryTooLarge, UnsafeQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.sparql import parse_sparql
from clmpt.symbolic.solver import solve
from laws.test_solver_laws import names_of, sparql_answers
from strategies import ENTITIES, RELATIONS, graphs

PREFIX = "PREFIX : <urn:clmpt:> "
terms = st.sampled_from(["?x", "?x", "?y", "?z", "?w", *(f":{entity}" for entity in ENTITIES[:3])])
relations = st.sampled_from([f":{relation}" for relation in RELATIONS])
paths = st.recursive(
    relations,
    lambda inner: st.one_of(
        inner.map(lambda path: f"^({path})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}/{pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
    ),
    max_leaves=3,
)
triples_of_x = st.tuples(st.just("?x"), relations, terms).map(" ".join)
triples = st.one_of(
    st.tuples(terms, relations, terms).map(" ".join),
    st.tuples(terms, paths, terms).map(" ".join),
    st.tuples(terms, relations).map(lambda pair: f"{pair[0]} {pair[1]} []"),
)


def elements(depth: int, in_exists: bool) -> st.SearchStrategy[str]:
    # By the standard a filter sees only its own group; in pyoxigraph, one in a plain inner group or
    # a UNION branch sees the outer group as well. So those get groups without filters.
    plain = groups(depth, filters=False, in_exists=in_exists)
    inner, tested = groups(depth, in_exists=in_exists), groups(depth, in_exists=True)
    return st.one_of(
        triples,
        st.tuples(plain, plain).map(lambda pair: f"{{ {pair[0]} }} UNION {{ {pair[1]} }}"),
        plain.map(lambda group: f"{{ {group} }}"),
        st.tuples(triples_of_x, inner).map(lambda pair: f"MINUS {{ {pair[0]} . {pair[1]} }}")
        if in_exists
        else inner.map(lambda group: f"MINUS {{ {group} }}"),
        tested.map(lambda group: f"FILTER NOT EXISTS {{ {group} }}"),
        tested.map(lambda group: f"FILTER EXISTS {{ {group} }}"),
        st.tuples(st.sampled_from(["?x", "?y", "?x ?z"]), inner).map(
            lambda pair: f"{{ SELECT {pair[0]} {{ {pair[1]} }} }}"
        ),
    )


@st.composite
def groups(draw: st.DrawFn, depth: int = 2, filters: bool = True, in_exists: bool = False) -> str:
    """At least one triple, then anything; a full stop after each part is always allowed."""
    further = elements(depth - 1, in_exists) if depth else triples
    parts = [draw(triples), *draw(st.lists(further, max_size=3))]
    if not filters:
        parts = [part for part in parts if not part.startswith("FILTER")]
    if depth < 2:
        parts = draw(st.permutations(parts))
    # By the standard a MINUS removes nothing unless it shares a variable with what precedes it in
    # its own group; in pyoxigraph, sharing one with the outside of an EXISTS is enough. So there
    # both sides have ?x.
    if in_exists and any(part.startswith("MINUS") for part in parts):
        parts = [draw(triples_of_x), *parts]
    return " . ".join(parts)


@settings(max_examples=600, deadline=None)
@given(graphs(), groups())
def test_answers_equal_those_of_a_sparql_engine(graph: KnowledgeGraph, group: str) -> None:
    text = f"{PREFIX}SELECT DISTINCT ?x {{ ?x :r0 ?y . {group} }}"
    try:
        query = parse_sparql(text)
    except (UnsafeQuery, QueryTooLarge):
        assume(False)
    assert names_of(graph, solve(query, graph)) == sparql_answers(graph, text, "x")
