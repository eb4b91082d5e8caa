"""Properties of CQD for every query, and what beam search finds if its beam is wide enough."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clmpt.errors import UnsupportedQuery
from clmpt.graph.builder import GraphBuilder
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Id,
    Limits,
    Not,
    Or,
    Query,
    Term,
    Variable,
    children,
    map_atoms,
)
from clmpt.logic.parser import parse
from clmpt.logic.quantifiers import quantified
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.queries.templates import abstract
from clmpt.reasoners.decomposition.fuzzy_logic import LOGICS
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.reasoners.reasoner import Reasoner
from laws.test_reasoner_laws import renamed, shuffled
from strategies import ENTITIES, RELATIONS, queries, tree_queries

SIZE, WIDTH = len(ENTITIES), 8
BEAMS = [
    ("cqd-beam", (("beam", 3), ("t_norm", "product"))),
    ("cqd-beam", (("beam", 2), ("truth", "min-max"), ("t_norm", "godel"))),
    ("cqd-beam", (("beam", 8), ("bindings", 3), ("truth", "softmax"), ("t_norm", "lukasiewicz"))),
    ("cqd-beam", (("truth", "calibrated"), ("t_norm", "product"))),
]
OPTIMISED = [
    ("cqd-co", (("t_norm", "product"), ("iterations", 12))),
    ("cqd-co", (("t_norm", "godel"), ("iterations", 12), ("regularised", "atoms"))),
]
Variant = tuple[str, tuple[tuple[str, Any], ...]]
variants = st.sampled_from([*BEAMS, *OPTIMISED])

builder = GraphBuilder(ENTITIES, RELATIONS)
builder.add("facts", "e0", "r0", "e1")
graph = builder.build()


def predictor() -> ComplEx:
    """r0 and r1 are each other's inverses, r2 has none."""
    random = torch.Generator().manual_seed(1)
    return ComplEx(
        torch.randn(SIZE, WIDTH, generator=random),
        torch.randn(len(RELATIONS), WIDTH, generator=random),
        torch.tensor([1, 0, -1]),
    ).double()


@lru_cache(maxsize=64)
def reasoner(variant: Variant) -> Reasoner:
    name, chosen = variant
    reasoning = read_reasoning({"reasoner": name, **dict(chosen)})
    return build_model(Basis(graph, predictor()), reasoning, seed=0).reasoner()


def scores(variant: Variant, *several: Query) -> Tensor:
    return reasoner(variant).score([QueryGroup.single(graph.bind(query)) for query in several])


def same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-7)


@given(variants, tree_queries(True), st.randoms(use_true_random=False))
def test_the_order_of_atoms_does_not_matter(variant: Variant, query: Query, random: Random) -> None:
    same(scores(variant, query), scores(variant, Query(query.free, shuffled(query.body, random))))


@given(variants, st.lists(tree_queries(True), min_size=2, max_size=4))
def test_other_queries_in_the_batch_and_their_order_do_not_matter(
    variant: Variant, several: list[Query]
) -> None:
    alone = torch.cat([scores(variant, query) for query in several])
    same(scores(variant, *several), alone)
    same(scores(variant, *reversed(several)), alone.flip(0))


@given(variants, tree_queries(True), st.integers(0, 99))
def test_queries_of_one_shape_do_not_matter_to_each_other(
    variant: Variant, query: Query, seed: int
) -> None:
    template, *symbols = abstract(graph.bind(query))
    random = np.random.default_rng(seed)
    columns = [
        np.stack(
            [[symbol.number for symbol in given], *random.integers(size, size=(3, len(given)))]
        )
        for given, size in zip(symbols, (SIZE, len(RELATIONS)), strict=True)
    ]
    none = AnswerSets(np.zeros(5, np.int64), np.empty(0, np.int64))
    group = QueryGroup("", template, *(column.astype(np.int32) for column in columns), none, none)
    each = [group.take(slice(row, row + 1)) for row in range(len(group))]
    alone = torch.cat([reasoner(variant).score([one]) for one in each])
    same(reasoner(variant).score([group]), alone)


@given(variants, tree_queries(True))
def test_names_of_existential_variables_do_not_matter(variant: Variant, query: Query) -> None:
    same(scores(variant, query), scores(variant, Query(query.free, renamed(query.body))))


@given(variants, tree_queries(True), tree_queries(True))
def test_repeating_an_alternative_changes_nothing(
    variant: Variant, one: Query, other: Query
) -> None:
    large = Limits(atoms=1000, disjuncts=1000)
    both = Query(one.free, Or((one.body, other.body)), limits=large)
    twice = Query(one.free, Or((one.body, other.body, one.body)), limits=large)
    same(scores(variant, both), scores(variant, twice))


@given(variants, tree_queries(True))
def test_an_atom_and_its_inverse_are_equivalent(variant: Variant, query: Query) -> None:
    other = {Id(0): Id(1), Id(1): Id(0)}

    def turned(atom: Atom) -> Formula:
        inverse = other.get(atom.relation)  # type: ignore[call-overload]
        return atom if inverse is None else Atom(inverse, atom.tail, atom.head)

    bound = graph.bind(query)
    inverted = Query(bound.free, map_atoms(bound.body, turned))
    one, two = (reasoner(variant).score([QueryGroup.single(each)]) for each in (bound, inverted))
    same(one, two)


@given(variants, queries())
def test_scores_are_truth_values_or_the_query_is_refused(variant: Variant, query: Query) -> None:
    try:
        found = scores(variant, query)
    except UnsupportedQuery:
        assert variant in BEAMS  # where there is a place to start from
        return
    assert found.shape == (1, SIZE)
    assert bool(((found >= -1e-9) & (found <= 1 + 1e-9)).all())


# --- beam search, and the truth -------------------------------------------------------------------


def brute_force(query: Query, t_norm: str) -> Tensor:
    """truth_1E straight from the definition."""
    logic = LOGICS[t_norm]
    pairs = torch.arange(SIZE).repeat_interleave(len(RELATIONS)), torch.arange(len(RELATIONS))
    entity, relation = pairs[0], pairs[1].repeat(SIZE)
    truth_ERE = predictor().score_answers(entity, relation).sigmoid().view(SIZE, -1, SIZE)

    def value(formula: Formula, chosen: dict[Term, int]) -> Tensor:
        if isinstance(formula, Atom):
            assert isinstance(formula.relation, Id)
            ends = [
                chosen.get(end, getattr(end, "number", -1)) for end in (formula.head, formula.tail)
            ]
            return truth_ERE[ends[0], formula.relation.number, ends[1]]
        if isinstance(formula, Exists):
            ways = product(range(SIZE), repeat=len(formula.variables))
            filled = [{**chosen, **dict(zip(formula.variables, way, strict=True))} for way in ways]
            return torch.stack([value(formula.body, each) for each in filled]).amax()
        parts = [value(part, chosen) for part in children(formula)]
        if isinstance(formula, Not):
            return logic.negated(parts[0])
        return logic.all_of(parts) if isinstance(formula, And) else logic.any_of(parts)

    body = quantified(query)
    return torch.stack([value(body, {query.free: entity}) for entity in range(SIZE)])[None].detach()


def wide(t_norm: str) -> Variant:
    return "cqd-beam", (("beam", SIZE), ("bindings", SIZE**4), ("t_norm", t_norm))


def only_r2(query: Query) -> Query:
    """The same with r2 alone, whose inverse is itself reversed: a link has one truth value."""
    bound = graph.bind(query)
    return Query(bound.free, map_atoms(bound.body, lambda atom: Atom(Id(2), atom.head, atom.tail)))


@settings(max_examples=200)
@given(queries())
def test_a_beam_as_wide_as_the_graph_is_exact(query: Query) -> None:
    """Under the minimum *some* and *or* can change places, so any formula can be compared."""
    query = only_r2(query)
    try:
        found = reasoner(wide("godel")).score([QueryGroup.single(query)])
    except UnsupportedQuery:  # most of these have a part that starts nowhere
        return
    same(found, brute_force(query, "godel"))


@pytest.mark.parametrize("t_norm", ["product", "godel", "lukasiewicz"])
@pytest.mark.parametrize(
    "text",
    [
        "?y : #2(#0, ?x) & #2(?x, ?y)",
        "?y : #2(#1, ?z) & #2(?z, ?x) & #2(?x, ?y)",
        "?y : #2(#1, ?x) & #2(?x, ?y) & #2(?y, #3)",
        "?y : (#2(#1, ?x) | #2(#4, ?x)) & #2(?x, ?y)",
        "?y : #2(#1, ?x) & !#2(#2, ?x) & #2(?y, ?x)",
        "?y : #2(#1, ?y) & !exists ?x (#2(#2, ?x) & #2(?x, ?y))",
        "?y : #2(#0, ?x) & #2(?x, ?y) & !#2(?y, ?x)",  # two atoms between the same variables
        "?y : #2(#1, ?z) & #2(?z, ?x) & #2(?x, ?y) & #2(?y, ?z)",  # a cycle
        "?y : #2(#0, ?x) & #2(?x, ?y) & #2(#1, ?z) & #2(?y, ?z)",  # two branches
        "?y : #2(#0, ?y) & #2(#1, ?x) & #2(?x, #3)",  # a part apart from the rest
        "?y : #2(#0, ?y) & #2(#3, #4)",  # a part that is known
    ],
)
def test_a_beam_as_wide_as_the_graph_is_exact_under_any_norm(text: str, t_norm: str) -> None:
    query = parse(text)
    found = reasoner(wide(t_norm)).score([QueryGroup.single(query)])
    same(found, brute_force(query, t_norm))


@given(tree_queries(), st.integers(1, 5))
def test_a_narrow_beam_finds_no_more_than_a_wide_one(query: Query, beam: int) -> None:
    narrow = "cqd-beam", (("beam", beam), ("t_norm", "product"))
    assert bool((scores(narrow, query) <= scores(wide("product"), query) + 1e-9).all())


# --- without variables to search for --------------------------------------------------------------


@given(st.sampled_from(["product", "godel"]), st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_both_ways_agree_where_there_is_no_other_variable(t_norm: str, entities: list[int]) -> None:
    parts = tuple(
        parse(f"?y : #{number % 3}(#{entity}, ?y)").body for number, entity in enumerate(entities)
    )
    query = Query(Variable("y"), parts[0] if len(parts) == 1 else And(parts))
    found = [
        reasoner((name, (("t_norm", t_norm),))).score([QueryGroup.single(query)])
        for name in ("cqd-beam", "cqd-co")
    ]
    same(*found)
    if len(parts) == 1:
        direct = predictor().score_answers(torch.tensor(entities), torch.tensor([0]))
        same(found[0], direct.sigmoid())
