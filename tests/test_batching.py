"""Batching of queries: what is computed, from what, and how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmpt.logic.formula import placeholders
from clmpt.logic.parser import parse
from clmpt.logic.query_graph import query_graphs
from clmpt.logic.shapes import shape
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.message_passing.layout import lay_out_queries
from clmpt.reasoners.message_passing.unrolling import FREE, PassingOptions

RELATIONS = 6
PASSING = PassingOptions(np.arange(RELATIONS) ^ 1, share=False)


def group(name: str, queries: int = 1, seed: int = 0) -> QueryGroup:
    random, template = np.random.default_rng(seed), shape(name)
    entities, relations = placeholders(template)
    none = AnswerSets(np.zeros(queries + 1, np.int64), np.empty(0, np.int64))
    return QueryGroup(
        name,
        template,
        random.integers(50, size=(queries, len(entities))).astype(np.int32),
        random.integers(RELATIONS, size=(queries, len(relations))).astype(np.int32),
        none,
        none,
    )


@pytest.mark.parametrize(
    ("name", "all_layers", "needed"),
    [
        # A set is a variable's messages and itself. 2p: ?x has those of $s and ?y (3), ?y that of
        # ?x (2), in two layers 10; ?x's second update comes too late to reach ?y.
        *(("1p", 2, 2), ("2p", 10, 7), ("3p", 24, 15), ("2i", 3, 3), ("2in", 3, 3)),
        *(("3i", 4, 4), ("3in", 4, 4), ("ip", 12, 8), ("inp", 12, 8), ("pi", 12, 9)),
        *(("pin", 12, 9), ("pni", 12, 9), ("2u", 4, 4), ("up", 20, 14)),
    ],
)
def test_encoder_tokens_of_a_query(name: str, all_layers: int, needed: int) -> None:
    assert lay_out_queries([group(name)], replace(PASSING, prune=False)).tokens == all_layers
    assert lay_out_queries([group(name)], PASSING).tokens == needed


def test_batching_shapes_together_costs_no_more_than_separately() -> None:
    groups = [group(name, 3, seed) for seed, name in enumerate(("3p", "1p", "up", "pni"))]
    batch = lay_out_queries(groups, PASSING)
    assert batch.tokens == 3 * (15 + 2 + 14 + 9)
    assert batch.queries == 12
    assert batch.query_G.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 9, 10, 11]


def test_a_constant_sends_its_message_once_and_receives_none() -> None:
    # pi: r1(s1, ?x) & r2(?x, ?y) & r3(s2, ?y). Both layers of ?y receive s2's message.
    batch = lay_out_queries([group("pi")], PASSING)
    first, second = batch.waves
    constants = {2, 3}
    assert len(constants & set(first.source_M.tolist())) == 2
    assert not constants & set(second.source_M.tolist())
    # s1 to ?x, s2 to ?y, ?x to ?y, ?y to ?x; then ?x and ?y have changed, but only ?y is updated.
    assert (len(first.source_M), len(second.source_M)) == (4, 1)


def test_updates_that_depend_on_relations_alone_are_shared() -> None:
    many = group("2p", 200)
    ends = len(set(many.relations[:, 1].tolist()))
    firsts = len({tuple(row) for row in np.hstack([many.entities, many.relations]).tolist()})
    batch = lay_out_queries([many], replace(PASSING, share=True))
    assert batch.tokens == 2 * ends + (3 + 2) * firsts


def test_every_embedding_of_a_variable_can_be_found() -> None:
    batch = lay_out_queries([group("2p", 2)], PASSING)
    items = {found.variable.name: found.items for found in batch.variable_items}
    assert items["y"][0].tolist() == [FREE, FREE]
    assert items["y"][2].tolist() == batch.answer_G.tolist()
    assert sorted(items["x1"]) == [0, 1]  # its second update would not reach ?y


def test_an_atom_is_projected_towards_the_free_variable() -> None:
    """Relations 0 and 1 are inverses: either way round, the row that leads to ?y is used."""
    for text in ("?y : #0(#7, ?y)", "?y : #1(?y, #7)"):
        batch = lay_out_queries([QueryGroup.single(parse(text))], PASSING)
        assert batch.relation_B.tolist() == [0]
        assert batch.waves[0].to_head_M.tolist() == [False]
    no_inverse = PassingOptions(np.full(RELATIONS, -1))
    batch = lay_out_queries([QueryGroup.single(parse("?y : #1(?y, #7)"))], no_inverse)
    assert batch.relation_B.tolist() == [1]
    assert batch.waves[0].to_head_M.tolist() == [True]


def test_without_reverse_each_direction_has_the_row_of_its_own_relation() -> None:
    # Relations 0 and 1 are inverses, 2 has one in row 6. ?x gets the message of #7 along 0; ?y that
    # of ?x along 2; ?x that of ?y along 6, though that leads away from ?y.
    rows = np.array([1, 0, 6, 7, 8, 9])
    one_way = PassingOptions(rows, conditional=True, prune=False, share=False, reversible=False)
    for text in ("?y : #0(#7, ?x) & #2(?x, ?y)", "?y : #1(?x, #7) & #2(?x, ?y)"):
        batch = lay_out_queries([QueryGroup.single(parse(text))], one_way)
        used = {int(batch.relation_B[row]) for wave in batch.waves for row in wave.relation_M}
        assert used == {0, 2, 6}
        assert not any(bool(wave.to_head_M.any()) for wave in batch.waves)


def test_a_relation_id_beyond_the_last_is_an_inverse() -> None:
    """In stored queries an id r + R stands for the inverse of relation r."""
    backwards = replace(PASSING, inverse_R=np.full(RELATIONS, -1))
    for passing in (PASSING, backwards):
        one, other = group("2p"), parse("?y : #2(#7, ?x) & #3(?y, ?x)")
        stored = replace(
            one,
            entities=np.array([[7]], np.int32),
            relations=np.array([[2, 3 + RELATIONS]], np.int32),
        )
        batches = [lay_out_queries([g], passing) for g in (stored, QueryGroup.single(other))]
        assert batches[0].relation_B.tolist() == batches[1].relation_B.tolist()
        for left, right in zip(batches[0].waves, batches[1].waves, strict=True):
            assert left.to_head_M.tolist() == right.to_head_M.tolist()
            assert left.token_T.tolist() == right.token_T.tolist()


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("?y : r(a, ?y)", 1),
        ("?y : r(a, ?x) & r(?x, ?z) & r(?z, ?y) & r(?x, ?y)", 2),  # the shorter way round a cycle
        ("?y : r(a, ?x) & r(?x, ?y) & s(b, ?y)", 2),
        ("?y : r(?y, ?x)", 1),
        ("?y : r(?y, ?y)", 1),
        ("?y : r(?y, ?x) & r(?x, ?z)", 2),  # only variables: the distance of the farthest
        ("?y : r(a, ?y) & s(a, ?x)", 1),  # repeating a constant does not connect its nodes
    ],
)
def test_depth_is_the_distance_to_the_farthest_constant(text: str, depth: int) -> None:
    (graph,) = query_graphs(parse(text)).alternatives
    assert graph.depth == depth


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("?y : r(a, ?y) & !exists ?x (s(a, ?x) & r(?x, ?y))", "negated group"),
        ("?y : r(a, ?y) & s(b, c)", "1 of 2 atoms are not connected to ?y"),
        ("?y : r(a, ?y) & s(?y, ?x) & s(?x, ?z)", "1 of 3 atoms are farther"),
    ],
)
def test_approximations_are_noted(text: str, what: str) -> None:
    graphs = query_graphs(parse(text))
    (note,) = graphs.notes + graphs.out_of_reach
    assert what in note


def test_a_plain_query_needs_no_note() -> None:
    assert query_graphs(parse("?y : r(a, ?x) & s(?x, ?y) & !s(a, ?y) | r(b, ?y)")).notes == ()


def test_edges_out_of_a_negated_group_are_negated() -> None:
    """Also for nested groups: a double negation cancels out."""
    text = "?y : r(a, ?y) & !exists ?x (s(b, ?x) & t(?x, ?y) & !exists ?z (u(?x, ?z) & v(?z, ?y)))"
    (graph,) = query_graphs(parse(text)).alternatives
    negated = {edge.relation.text: edge.negated for edge in graph.edges}  # type: ignore[union-attr]
    assert negated == {"r": False, "s": False, "t": True, "u": True, "v": False}
