"""SPARQL as pyoxigraph understands it and as we do: the same answers, or a refusal."""

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
triples = st.one_of(
    st.tuples(terms, relations, terms).map(" ".join),
    st.tuples(terms, paths, terms).map(" ".join),
    st.tuples(terms, relations).map(lambda pair: f"{pair[0]} {pair[1]} []"),
)


def elements(
    inner: st.SearchStrategy[str], plain: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """A filter sees its own group only, so says the standard; pyoxigraph lets one in a plain inner
    group or a UNION branch see the outer group as well. So those get groups without filters."""
    return st.one_of(
        triples,
        st.tuples(plain, plain).map(lambda pair: f"{{ {pair[0]} }} UNION {{ {pair[1]} }}"),
        plain.map(lambda group: f"{{ {group} }}"),
        inner.map(lambda group: f"MINUS {{ {group} }}"),
        inner.map(lambda group: f"FILTER NOT EXISTS {{ {group} }}"),
        inner.map(lambda group: f"FILTER EXISTS {{ {group} }}"),
        st.tuples(st.sampled_from(["?x", "?y", "?x ?z"]), inner).map(
            lambda pair: f"{{ SELECT {pair[0]} {{ {pair[1]} }} }}"
        ),
    )


@st.composite
def groups(draw: st.DrawFn, depth: int = 2, filters: bool = True) -> str:
    """A triple to hold on to, then anything; a full stop after each is always allowed."""
    further = triples
    if depth:
        further = elements(groups(depth - 1), groups(depth - 1, filters=False))
    parts = [draw(triples), *draw(st.lists(further, max_size=3))]
    if not filters:
        parts = [part for part in parts if not part.startswith("FILTER")]
    return " . ".join(draw(st.permutations(parts)) if depth < 2 else parts)


@settings(max_examples=600, deadline=None)
@given(graphs(), groups())
def test_sparql_means_what_a_sparql_engine_says(graph: KnowledgeGraph, group: str) -> None:
    text = f"{PREFIX}SELECT DISTINCT ?x {{ ?x :r0 ?y . {group} }}"
    try:
        query = parse_sparql(text)
    except (UnsafeQuery, QueryTooLarge):
        assume(False)
    assert names_of(graph, solve(query, graph)) == sparql_answers(graph, text, "x")
