"""What holds for every model that computes on a tree of operators, whatever the query."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clmpt.errors import UnsupportedQuery
from clmpt.graph.builder import GraphBuilder
from clmpt.logic.formula import And, Not, Or, Query
from clmpt.logic.operator_tree import Negate
from clmpt.logic.parser import parse
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.dropout import NO_DROPOUT
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.reasoners.operators.operator_model import OperatorModel
from clmpt.reasoners.operators.set_model import SetOperatorModel
from clmpt.registry import REASONERS
from laws.test_reasoner_laws import renamed, shuffled
from strategies import ENTITIES, RELATIONS, tree_queries

MODELS = [name for name in REASONERS.own if issubclass(REASONERS.find(name), OperatorModel)]
names = st.sampled_from(MODELS)

builder = GraphBuilder(ENTITIES, RELATIONS)
for fact in ("e0 r0 e1", "e2 r0 e1", "e1 r1 e3", "e4 r2 e0"):
    builder.add("facts", *fact.split())
graph = builder.build()


def kind_of(name: str) -> type[OperatorModel]:
    kind: Any = REASONERS.find(name)
    return kind


@lru_cache(maxsize=64)
def model(name: str) -> OperatorModel:
    kind, predictor = kind_of(name), None
    sizes = {"rank": 4} if "rank" in {each.name for each in fields(kind.Settings)} else {}
    if kind.needs_predictor:
        chosen = read_pretraining({"rank": 4, "initial_scale": 1.0})
        predictor = fresh_predictor(graph, chosen)
    made = build_model(Basis(graph, predictor), read_reasoning({"reasoner": name, **sizes}), seed=2)
    assert isinstance(made, OperatorModel)
    return made.double().eval()


def negates(name: str) -> bool:
    return Negate in kind_of(name).operators


@st.composite
def asked(draw: st.DrawFn, of: int = 1) -> tuple[Any, ...]:
    """A model's name and queries that it can express."""
    name = draw(names)
    return (name, *(draw(tree_queries(negates(name))) for _ in range(of)))


def scores(name: str, *several: Query) -> Tensor:
    """As in training: all queries in one batch, whatever the reasoner makes of them."""
    made, groups = model(name), [QueryGroup.single(graph.bind(query)) for query in several]
    with torch.no_grad():
        found: Tensor = made.scores(made.lay_out(groups))
    same(made.reasoner().score(groups), found)
    return found


def same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-7)


@given(asked(), st.randoms(use_true_random=False))
def test_the_order_of_atoms_does_not_matter(given: tuple[Any, ...], random: Random) -> None:
    name, query = given
    same(scores(name, query), scores(name, Query(query.free, shuffled(query.body, random))))


@given(asked(3))
def test_other_queries_in_the_batch_and_their_order_do_not_matter(given: tuple[Any, ...]) -> None:
    name, *several = given
    alone = torch.cat([scores(name, query) for query in several])
    same(scores(name, *several), alone)
    same(scores(name, *reversed(several)), alone.flip(0))


@given(asked())
def test_names_of_existential_variables_do_not_matter(given: tuple[Any, ...]) -> None:
    name, query = given
    same(scores(name, query), scores(name, Query(query.free, renamed(query.body))))


@given(asked(2))
def test_repeating_an_alternative_changes_nothing(given: tuple[Any, ...]) -> None:
    name, one, other = given
    both = Query(one.free, Or((one.body, other.body)))
    twice = Query(one.free, Or((one.body, other.body, one.body)))
    same(scores(name, both), scores(name, twice))


@given(asked())
def test_scores_are_numbers_and_not_all_alike(given: tuple[Any, ...]) -> None:
    name, query = given
    found = scores(name, query)
    assert bool(found.isfinite().all())
    assert float(found.max()) > float(found.min())


@given(st.sampled_from(("betae", "cone", "cyle")), tree_queries(True))
def test_what_is_negated_twice_is_what_it_was(name: str, query: Query) -> None:
    made = model(name)
    assert isinstance(made, SetOperatorModel)
    batch = made.lay_out([QueryGroup.single(graph.bind(query))])
    dropout = NO_DROPOUT.of_sets(torch.zeros(len(batch.query_G), dtype=torch.int64), ())
    with torch.no_grad():
        set_GX = made(batch)
        same(made.negate(made.negate(set_GX, dropout), dropout), set_GX)


@given(st.sampled_from([name for name in MODELS if negates(name)]), *[tree_queries(True)] * 2)
def test_a_double_negation_is_none(name: str, one: Query, other: Query) -> None:
    twice = Query(one.free, And((one.body, Not(Not(other.body)))))
    same(scores(name, twice), scores(name, Query(one.free, And((one.body, other.body)))))


def test_product_logic_has_de_morgan_s_law() -> None:
    """1 - (1 - x)(1 - y) = x + y - xy."""
    either = parse("?y : r0(e4, ?y) & (r1(e1, ?y) | r2(?y, e2))")
    neither = parse("?y : r0(e4, ?y) & !(!r1(e1, ?y) & !r2(?y, e2))")
    same(scores("gnn-qe", either), scores("gnn-qe", neither))


@given(names, st.integers(2, 4), st.randoms(use_true_random=False))
def test_an_intersection_ignores_the_order_of_its_parts(
    name: str, parts: int, random: Random
) -> None:
    hops = [parse(f"?y : r{part % 3}(e{part}, ?y)").body for part in range(parts)]
    free = parse("?y : r0(e0, ?y)").free
    whole = Query(free, And(tuple(hops)))
    random.shuffle(hops)
    same(scores(name, whole), scores(name, Query(free, And(tuple(hops)))))


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_cannot_express_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedQuery, match="not a tree"):
        scores(name, parse("?y : r0(e0, ?y) & r1(?x, ?y) & r2(?x, ?y)"))
    if not negates(name):
        with pytest.raises(UnsupportedQuery, match="has no negation"):
            scores(name, parse("?y : r0(e0, ?y) & !r1(e1, ?y)"))
