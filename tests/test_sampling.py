"""Sampled queries follow the protocol, for the named shapes and for any other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clmpt.errors import SamplingError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Id, Query, Variable, conjunction
from clmpt.logic.parser import parse_formula
from clmpt.logic.shapes import EPFO, NEGATION, SHAPES, shape
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import instantiate
from clmpt.sampling.sampler import Protocol, sample
from clmpt.symbolic.solver import solve, solve_many
from strategies import graphs
from toy import random_graph

TRAIN = Protocol(("train",), ("train",))
TEST = Protocol(("train",), ("train", "test"))


def queries_of(group: QueryGroup, graph: KnowledgeGraph) -> list[Query]:
    return [
        instantiate(group.template, group.entities[n], group.relations[n], len(graph.relations))
        for n in range(len(group))
    ]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("both_directions", [False, True])
def test_every_shape_follows_the_protocol(name: str, both_directions: bool) -> None:
    graph = random_graph(both_directions)
    group = sample(shape(name), graph, TEST, 60, seed=1)
    assert len(group) == 60
    asked = queries_of(group, graph)
    assert len({str(query) for query in asked}) == 60, "a query was sampled twice"
    for number, query in enumerate(asked):
        easy, full = solve(query, graph.view("train")), solve(query, graph)
        assert set(group.easy[number].tolist()) == easy
        assert set(group.hard[number].tolist()) == full - easy
        assert full - easy, "no hard answer"


@pytest.mark.parametrize("name", [*EPFO, *NEGATION])
def test_training_queries_have_answers_and_no_hard_ones(name: str) -> None:
    graph = random_graph(both_directions=True)
    group = sample(shape(name), graph, TRAIN, 40, seed=1)
    assert len(group) == 40
    assert (group.easy.counts > 0).all()
    assert group.hard.counts.sum() == 0
    if graph.has_both_directions:
        assert (group.relations < len(graph.relations)).all()


@pytest.mark.parametrize("name", NEGATION)
def test_each_negation_removes_something(name: str) -> None:
    graph = random_graph(both_directions=False)
    for query in queries_of(sample(shape(name), graph, TRAIN, 40, seed=2), graph):
        (pattern,) = query.patterns
        without = Query(query.free, conjunction(list(pattern.atoms)))
        assert pattern.absent
        assert solve(query, graph.view("train")) < solve(without, graph.view("train"))


def test_chains_never_go_back_along_the_relation_they_came_by() -> None:
    for both_directions in (False, True):
        graph = random_graph(both_directions)
        half = len(graph.relations)
        group = sample(shape("3p"), graph, TRAIN, 500, seed=3)
        for row in group.relations.tolist():
            for first, second in ((row[0], row[1]), (row[1], row[2])):
                if both_directions:
                    assert graph.inverse_ids[first] != second
                else:
                    assert (first + half) % (2 * half) != second


def test_negated_chains_do_not_go_back_either() -> None:
    graph = random_graph(both_directions=False)
    half = len(graph.relations)
    for first, second, _ in sample(shape("pni"), graph, TRAIN, 300, seed=3).relations.tolist():
        assert (first + half) % (2 * half) != second


def test_a_shape_may_use_one_relation_there_and_back() -> None:
    graph = random_graph(both_directions=False)
    siblings = sample(shape("?y : $r($s, ?x) & $r(?y, ?x)"), graph, TRAIN, 50, seed=3)
    assert len(siblings) == 50
    # The answers are not just the entity we started from.
    answers = zip(siblings.entities[:, 0].tolist(), siblings.easy, strict=True)
    assert all(set(found.tolist()) - {start} for start, found in answers)


def test_no_branch_is_intersected_with_itself() -> None:
    graph = random_graph(both_directions=False)
    twice = "?y : $r1($s1, ?a) & $r2(?a, ?y) & $r3($s2, ?b) & $r4(?b, ?y)"
    group = sample(shape(twice), graph, TRAIN, 2000, seed=4)
    for entities, relations in zip(group.entities.tolist(), group.relations.tolist(), strict=True):
        assert (entities[0], relations[:2]) != (entities[1], relations[2:])


def test_a_symmetric_relation_is_not_asked_twice() -> None:
    pairs = [("a", "b"), ("c", "d"), ("e", "f")]
    triples = [(x, "married", y) for pair in pairs for x, y in (pair, pair[::-1])]
    graph = KnowledgeGraph.from_triples([*triples, ("a", "knows", "c")])
    group = sample(shape("1p"), graph, Protocol(("facts",), ("facts",)), 100, seed=0)
    asked = {str(query) for query in queries_of(group, graph)}
    # Six people are married to someone; a knows c, and c is known by a.
    assert len(asked) == len(group) == 8


def test_a_cycle_read_backwards_is_the_same_query() -> None:
    graph = random_graph(both_directions=False)
    triangle = "?y : $r1(?y, ?a) & $r2(?a, ?b) & $r3(?b, ?y)"
    group = sample(shape(triangle), graph, TRAIN, 300, seed=5)
    half = len(graph.relations)
    rows = [tuple(row) for row in group.relations.tolist()]
    for row in rows:
        backwards = tuple((relation + half) % (2 * half) for relation in reversed(row))
        assert backwards == row or backwards not in rows
    loops = sample(shape("?y : $r(?y, ?y)"), graph, TRAIN, 100, seed=5)
    assert len({str(query) for query in queries_of(loops, graph)}) == len(loops)


def test_atoms_are_not_repeated_and_their_order_does_not_matter() -> None:
    graph = random_graph(both_directions=False)
    group = sample(shape("2i"), graph, TRAIN, 3000, seed=4)
    pairs = list(zip(group.entities.tolist(), group.relations.tolist(), strict=True))
    atoms = [tuple(zip(entities, relations, strict=True)) for entities, relations in pairs]
    assert all(one != other for one, other in atoms)
    assert len({frozenset(both) for both in atoms}) == len(atoms)


def test_the_groundings_of_a_single_atom_are_all_enumerated() -> None:
    graph = random_graph(both_directions=True).view("train")
    keys = {(h, r) for h, r, _ in graph.triples().tolist()}
    group = sample(shape("1p"), graph, TRAIN, 10**6, seed=0)
    found = set(zip(group.entities[:, 0].tolist(), group.relations[:, 0].tolist(), strict=True))
    assert found == keys


def test_fewer_are_returned_if_there_are_no_more() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    facts = Protocol(("facts",), ("facts",))
    group = sample(shape("2p"), graph, facts, 100, seed=0)
    # r(a, x) & r(x, y) gives c, and the same backwards gives a; there is nothing else.
    assert len(group) == 2
    assert len(sample(shape("3i"), graph, facts, 100, seed=0)) == 0


def test_the_cap_limits_the_answers() -> None:
    graph = random_graph(both_directions=False)
    capped = sample(shape("2p"), graph, Protocol(("train",), ("train", "test"), 2), 50, seed=5)
    assert capped.hard.counts.max() <= 2
    capped = sample(shape("2p"), graph, Protocol(("train",), ("train",), 3), 50, seed=5)
    assert capped.easy.counts.max() <= 3


def test_the_result_depends_on_the_seed_alone() -> None:
    graph = random_graph(both_directions=False)
    one = sample(shape("pin"), graph, TEST, 700, seed=7)
    same = sample(shape("pin"), graph, TEST, 700, seed=7, workers=2)
    other = sample(shape("pin"), graph, TEST, 700, seed=8)
    assert np.array_equal(one.entities, same.entities)
    assert np.array_equal(one.relations, same.relations)
    assert np.array_equal(one.hard.entities, same.hard.entities)
    assert not np.array_equal(one.entities, other.entities)


@pytest.mark.parametrize(
    "text",
    [
        "?y : $r1($s1, ?x) & $r2(?x, ?y) & $r3($s1, ?y)",  # a cycle through a constant
        "?y : $r(?x, ?y) & $r(?y, ?x) & $q($s, ?x)",  # the same relation twice
        "?y : r0($s1, ?x) & $r(?x, ?y)",  # a fixed relation
        "?y : $r(e3, ?x) & $q(?x, ?y) & !$p(?y, $s)",  # a fixed entity
        "?y : $r($s, ?y) & $q($t, ?x)",  # a disconnected part
        "?y : $r($s, ?y) & !exists ?x ($q(?x, ?y) & $p($t, ?x)) & !$o(?y, $u)",
        "?y : $r($s, ?y) & $q($s, ?y)",  # the same entity twice
        "?y : ($r($s, ?y) | $q($t, ?y)) & !$p(?y, $u)",  # one negation for two alternatives
    ],
)
def test_any_formula_can_be_a_shape(text: str) -> None:
    graph = random_graph(both_directions=False)
    group = sample(shape(text), graph, TRAIN, 30, seed=9)
    assert len(group) == 30
    for number, query in enumerate(queries_of(group, graph)):
        bound = graph.bind(query)
        assert set(group.easy[number].tolist()) == solve(bound, graph.view("train"))


def test_shapes_without_placeholders_are_rejected() -> None:
    with pytest.raises(SamplingError, match="no placeholders"):
        sample(shape("?y : r(a, ?y)"), random_graph(False), TRAIN, 1, seed=0)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(splits=("train", "test")), st.sampled_from([*SHAPES]), st.integers(0, 5))
def test_any_graph_can_be_sampled_from(graph: KnowledgeGraph, name: str, seed: int) -> None:
    group = sample(shape(name), graph, TEST, 5, seed)
    assert (group.hard.counts > 0).all()


def test_instantiate_swaps_the_ends_of_inverse_relations() -> None:
    query = instantiate(shape("1p"), np.array([4]), np.array([7]), 5)
    (atom,) = query.patterns[0].atoms
    assert (atom.relation, atom.head, atom.tail) == (Id(2), Variable("y"), Id(4))


def test_a_limit_of_bindings_leaves_out_broad_queries() -> None:
    graph = random_graph(False)
    for name in ("2p", "pin", "up"):
        limited = Protocol(("train",), ("train",), max_bindings=5)
        found = sample(shape(name), graph, limited, 30, seed=0)
        assert len(found)
        assert found.easy.counts.max() <= 5 * (1 + (name == "up"))
        view = graph.view("train")
        answers = solve_many(shape(name), view, found.entities, found.relations)
        assert found.easy.entities.tolist() == answers.entities.tolist()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(splits=("train", "test")), st.sampled_from([*NEGATION]), st.integers(1, 6))
def test_a_limit_of_bindings_makes_no_easy_answer_hard(
    graph: KnowledgeGraph, name: str, most: int
) -> None:
    """A negation can have more rows on the smaller graph, so that only there it is too broad."""
    limited = Protocol(("train",), ("train", "test"), max_bindings=most)
    found = sample(shape(name), graph, limited, 10, seed=0)
    easy = solve_many(shape(name), graph.view("train"), found.entities, found.relations)
    for hard, known in zip(found.hard, easy, strict=True):
        assert not set(hard.tolist()) & set(known.tolist())


def test_a_query_that_is_too_broad_without_the_hidden_facts_is_left_out() -> None:
    builder = GraphBuilder()
    for hub in range(3):  # s leads to three hubs, these to ten places each
        builder.add("train", "s", "leads", f"hub{hub}")
        for place in range(10):
            builder.add("train", f"hub{hub}", "has", f"place{hub}{place}")
    builder.add("train", "t", "closes", "place00")
    builder.add("test", "t", "closes", "hub0")  # hidden: two of the hubs are closed
    builder.add("test", "t", "closes", "hub1")
    builder.add("test", "hub2", "has", "new place")
    graph = builder.build()
    template = parse_formula("?y : $a($s, ?x) & !$b($t, ?x) & $c(?x, ?y)")
    for most, expected in ((0, {"new place"}), (12, set())):
        protocol = Protocol(("train",), ("train", "test"), max_bindings=most)
        found = sample(template, graph, protocol, 50, seed=0)
        rows = [
            n
            for n in range(len(found))
            if "s" in graph.labels(found.entities[n]) and "new place" in graph.labels(found.hard[n])
        ]
        hard = {label for n in rows for label in graph.labels(found.hard[n])}
        assert hard == expected
