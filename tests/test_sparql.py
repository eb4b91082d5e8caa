"""SPARQL in and out, including its well-known pitfalls."""

from __future__ import annotations

import pytest

from clmpt.errors import QueryError, QuerySyntaxError, QueryTooLarge, UnsafeQuery, UnsupportedQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.parser import parse_formula
from clmpt.logic.sparql import parse_sparql, sparql_text
from toy import ask


@pytest.mark.parametrize(
    ("sparql", "formula"),
    [
        ("SELECT ?y { :a :r ?y }", "?y : r(a, ?y)"),
        ("SELECT ?y WHERE { ?x :s ?y . }", "?y : s(?x, ?y)"),
        ("PREFIX e: <http://e/> SELECT DISTINCT ?y { e:a e:r ?y }",
         "?y : <http://e/r>(<http://e/a>, ?y)"),
        ("SELECT ?y { :a :r/:s ?y }", "?y : exists ?_1 (r(a, ?_1) & s(?_1, ?y))"),
        ("SELECT ?y { :a ^:r ?y }", "?y : r(?y, a)"),
        ("SELECT ?y { :a :r|^:s ?y }", "?y : r(a, ?y) | s(?y, a)"),
        ("SELECT ?y { :a ^(:r/:s) ?y }", "?y : exists ?_1 (r(?y, ?_1) & s(?_1, a))"),
        ("SELECT ?y { :a :r ?y MINUS { ?y :s :b } }", "?y : r(a, ?y) & !s(?y, b)"),
        ("SELECT ?y { :a :r ?y FILTER NOT EXISTS { ?y :s ?z } }",
         "?y : r(a, ?y) & !exists ?z (s(?y, ?z))"),
        ("SELECT ?y { :a :r ?y FILTER(!EXISTS { ?y :s :b } || EXISTS { ?y :t :c }) }",
         "?y : r(a, ?y) & (!s(?y, b) | t(?y, c))"),
        ("SELECT * { :a :r ?y }", "?y : r(a, ?y)"),
        ("SELECT ?y { ?y a :Film }",
         "?y : <http://www.w3.org/1999/02/22-rdf-syntax-ns#type>(?y, Film)"),
        ("SELECT ?y { :a%20b :r ?y }", '?y : r("a b", ?y)'),
        ("SELECT ?y { ?y :year 1953 }",
         '?y : year(?y, "\\"1953\\"^^<http://www.w3.org/2001/XMLSchema#integer>")'),
        # A subquery hides what it does not select: its ?x is not the outer ?x.
        ("SELECT ?y { { SELECT ?y { :a :r ?x . ?x :s ?y } } ?y :t ?x }",
         "?y : exists ?x (r(a, ?x) & s(?x, ?y)) & t(?y, ?x)"),
    ],
)  # fmt: skip
def test_a_query_means_its_formula(sparql: str, formula: str) -> None:
    assert parse_sparql(sparql) == parse_formula(formula)


def test_filters_nested_in_exists_are_not_lost() -> None:
    query = parse_sparql(
        "SELECT ?y { :a :r ?y FILTER NOT EXISTS { ?y :s ?z FILTER NOT EXISTS { ?z :t :b } } }"
    )
    assert query == parse_formula("?y : r(a, ?y) & !exists ?z (s(?y, ?z) & !t(?z, b))")


def test_exists_around_a_union_alone() -> None:
    query = parse_sparql("SELECT ?y { :a :r ?y FILTER EXISTS { { ?y :s :b } UNION { ?y :t :b } } }")
    assert query == parse_formula("?y : r(a, ?y) & (s(?y, b) | t(?y, b))")


def test_minus_without_a_shared_variable_removes_nothing() -> None:
    assert parse_sparql("SELECT ?y { :a :r ?y MINUS { ?z :s :b } }") == parse_formula(
        "?y : r(a, ?y)"
    )


def test_minus_applies_to_each_branch_separately() -> None:
    """Only the branch that binds ?z shares a variable with what is removed."""
    query = parse_sparql("SELECT ?y { { ?y :r ?z } UNION { ?y :s :a } MINUS { ?z :t :b } }")
    assert query == parse_formula("?y : r(?y, ?z) & !t(?z, b) | s(?y, a)")


@pytest.mark.parametrize(
    "group", ["MINUS { ?x :r0 [] } . ?x :r0 ?x", "?z :r0 ?z . MINUS { ?x :r0 [] }"]
)
def test_minus_inside_exists_needs_a_shared_variable_in_its_own_group(group: str) -> None:
    """That ?x is bound outside does not count, so the group matches and e0 is filtered out."""
    graph = KnowledgeGraph.from_triples([("e0", "r0", "e0")])
    assert ask(graph, f"SELECT ?x {{ ?x :r0 ?x . FILTER NOT EXISTS {{ {group} }} }}") == set()


def test_outer_variables_reach_a_minus_inside_exists() -> None:
    query = parse_sparql("SELECT ?x { ?x :r ?y FILTER NOT EXISTS { ?y :s ?z MINUS { ?z :t ?x } } }")
    assert query == parse_formula("?x : r(?x, ?y) & !exists ?z (s(?y, ?z) & !t(?z, ?x))")


def test_unselected_variables_of_a_subquery_are_local_even_inside_exists() -> None:
    query = parse_sparql(
        "SELECT ?x { ?x :r ?y FILTER NOT EXISTS { { SELECT ?y { ?y :s ?z "
        "FILTER NOT EXISTS { ?z :t ?x } } } } }"
    )
    (pattern,) = query.patterns
    (inner,) = pattern.absent[0].absent
    assert [variable.name for variable in inner.variables] == ["x_1"]


def test_a_filter_sees_only_its_own_group() -> None:
    """The ?x of the inner filter is not the outer ?x: the inner group does not bind it."""
    query = parse_sparql("SELECT ?x { ?x :r ?y { ?y :s ?w FILTER NOT EXISTS { ?x :t ?w } } }")
    assert query == parse_formula("?x : r(?x, ?y) & s(?y, ?w) & !exists ?x (t(?x, ?w))")


def test_star_selects_bound_variables_not_negated_ones() -> None:
    for absent in ("FILTER NOT EXISTS { ?x :s ?y }", "MINUS { ?x :s ?y }"):
        assert parse_sparql(f"SELECT * {{ ?x :r :a {absent} }}").free.name == "x"


def test_variables_and_prefixes_may_be_named_like_keywords() -> None:
    assert parse_sparql("SELECT ?from { :a :from ?from }").free.name == "from"
    assert (
        parse_sparql("PREFIX ask: <http://e/> SELECT ?load { ask:a ask:b ?load }").free.name
        == "load"
    )


def test_literals_keep_their_spelling() -> None:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert parse_sparql("SELECT ?x { ?x :r 042 }").body.tail.text == f'"042"^^<{integer}>'
    assert parse_sparql('SELECT ?x { ?x :r "a\\nb"@EN }').body.tail.text == '"a\\nb"@en'


def test_several_variables_can_be_asked_for() -> None:
    query = parse_sparql("SELECT * { ?x :r ?y }")
    assert query == parse_formula("?x, ?y : r(?x, ?y)")
    assert sparql_text(query).startswith("SELECT DISTINCT ?x ?y WHERE")
    with pytest.raises(UnsupportedQuery, match=r"2 variables at once \(\?x \?y\)"):
        _ = query.free


def test_limit_is_kept_but_is_not_part_of_the_question() -> None:
    query = parse_sparql("SELECT ?y { :a :r ?y } LIMIT 3")
    assert query.limit == 3
    assert query == parse_formula("?y : r(a, ?y)")
    assert sparql_text(query).endswith("LIMIT 3")


@pytest.mark.parametrize(
    ("sparql", "kind", "column", "words"),
    [
        ("SELECT ?y { :a :r ?y OPTIONAL { ?y :s ?z } }", UnsupportedQuery, 22, "OPTIONAL"),
        ("SELECT ?y { :a :r* ?y }", UnsupportedQuery, 18, "'*'"),
        ("SELECT ?y { :a <http://e/r>+ ?y }", UnsupportedQuery, 28, "'+'"),
        ("SELECT ?y { :a :r? ?y }", UnsupportedQuery, 18, "'?'"),
        ("SELECT ?y { :a !:r ?y }", UnsupportedQuery, 16, "'!' path"),
        ("SELECT ?y { :a :r ?y FILTER(?y > 3) }", UnsupportedQuery, 32, "FILTER by value"),
        ("SELECT (COUNT(?y) AS ?n) { :a :r ?y }", UnsupportedQuery, 9, "expression"),
        ("SELECT ?y { :a :r ?y } GROUP BY ?y", UnsupportedQuery, 34, "GROUP BY"),
        ("SELECT ?y { :a :r ?y } ORDER BY ?y", UnsupportedQuery, 34, "ORDER BY"),
        ("SELECT ?y { :a :r ?y } OFFSET 2", UnsupportedQuery, 1, "OFFSET"),
        ("SELECT ?y { :a :r ?y BIND(:b AS ?z) }", UnsupportedQuery, 22, "BIND"),
        ("SELECT ?y { VALUES ?y { :a } ?y :r :b }", UnsupportedQuery, 13, "VALUES"),
        ("SELECT ?y { ?y :r :b VALUES ?y { } }", UnsupportedQuery, 22, "VALUES"),
        ("SELECT ?y { GRAPH :g { :a :r ?y } }", UnsupportedQuery, 13, "GRAPH"),
        ("SELECT ?y { SERVICE :g { :a :r ?y } }", UnsupportedQuery, 13, "SERVICE"),
        ("SELECT ?y FROM <http://g> { :a :r ?y }", UnsupportedQuery, 16, "FROM"),
        ("ASK { :a :r :b }", UnsupportedQuery, 1, "ASK"),
        ("CONSTRUCT { ?x :r ?y } WHERE { ?x :s ?y }", UnsupportedQuery, 1, "CONSTRUCT"),
        ("SELECT ?y { ?y ?p :b }", UnsupportedQuery, 17, "variable"),
        ("SELECT ?y { :a :r ?x }", UnsafeQuery, 9, "does not occur"),
        ("SELECT ?y { }", UnsafeQuery, None, "without any triple"),
        ("SELECT ?y { :a :r ?y", QuerySyntaxError, None, "not SPARQL"),
        ("SELECT ?y { e:a :r ?y }", QuerySyntaxError, None, "prefix"),
    ],
)
def test_errors_name_what_is_unsupported_and_where(
    sparql: str, kind: type[QueryError], column: int | None, words: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_sparql(sparql)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    if column is not None:
        assert caught.value.position is not None
        assert caught.value.position.column == column


def test_words_inside_strings_and_comments_are_not_keywords() -> None:
    query = parse_sparql('# FROM nowhere\nSELECT ?y { ?y :r "OPTIONAL FROM x" }')
    assert "OPTIONAL FROM x" in str(query)


def test_deep_or_long_queries_are_rejected_at_once() -> None:
    with pytest.raises(QueryTooLarge, match="deep"):
        parse_sparql("SELECT ?y { " + "{" * 5000 + " :a :r ?y " + "}" * 5000 + " }")
    with pytest.raises(QueryTooLarge, match="longer"):
        parse_sparql("SELECT ?y { " + ":a :r ?y . " * 100_000 + " }")
    unions = " UNION ".join(["{ :a :r ?y }"] * 3)
    with pytest.raises(QueryTooLarge, match="alternatives"):
        parse_sparql("SELECT ?y { " + " . ".join([unions] * 5) + " }")


def test_placeholders_cannot_be_written_in_sparql() -> None:
    with pytest.raises(UnsupportedQuery, match=r"\$s1"):
        sparql_text(parse_formula("?y : r($s1, ?y)"))
