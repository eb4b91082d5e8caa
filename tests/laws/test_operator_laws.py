"""What holds for every model that computes on trees of operators, or on tokens."""

from __future__ import annotations

import copy
import re
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
from clmpt.logic.formula import And, Atom, Formula, Limits, Name, Not, Or, Query, map_atoms
from clmpt.logic.parser import parse
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.dropout import NO_DROPOUT
from clmpt.reasoners.model import Basis, Candidates, GradientModel, build_model, read_reasoning
from clmpt.reasoners.operators.gammae import GammaE
from clmpt.reasoners.operators.set_model import ByProducts, SetOperatorModel
from clmpt.registry import REASONERS
from laws.test_reasoner_laws import renamed, shuffled
from strategies import ENTITIES, RELATIONS, queries, tree_queries

FAMILIES = "operators|transformers|fuzzy"
MODELS = [name for name, path in REASONERS.own.items() if re.search(FAMILIES, path)]
names = st.sampled_from(MODELS)
NEGATION = parse("?y : r0(e0, ?y) & !r1(e1, ?y)")
CYCLE = parse("?y : r0(e0, ?y) & r1(?x, ?y) & r2(?x, ?y)")
SMALL = {"rank": 4, "heads": 2, "layers": 4, "feed_forward": 6}

builder = GraphBuilder(ENTITIES, RELATIONS)
builder.add("facts", "e0", "r0", "e1")
builder.add("facts", "e1", "r1", "e0")  # so that r0 and r1 are inverse to each other
graph = builder.build()


def kind_of(name: str) -> type[GradientModel]:
    kind: Any = REASONERS.find(name)
    return kind


@lru_cache(maxsize=64)
def model(name: str, **settings: Any) -> GradientModel:
    kind, predictor = kind_of(name), None
    fields = kind.Settings.__dataclass_fields__
    small = {key: value for key, value in SMALL.items() if key in fields}
    chosen = read_reasoning({"reasoner": name, **small, **settings})
    if kind.needs_predictor:
        predictor = fresh_predictor(graph, read_pretraining({"rank": 4, "initial_scale": 1.0}))
    made = build_model(Basis(graph, predictor), chosen, seed=2)
    assert isinstance(made, GradientModel)
    return made.double().eval()


def accepts(name: str, query: Query) -> bool:
    try:
        model(name).check_query(model(name).settings, query)
    except UnsupportedQuery:
        return False
    return True


TREES = [name for name in MODELS if accepts(name, NEGATION) and not accepts(name, CYCLE)]


@st.composite
def asked(draw: st.DrawFn, of: int = 1) -> tuple[Any, ...]:
    """A model's name and queries that it can express."""
    name = draw(names)
    drawn = queries if accepts(name, CYCLE) else tree_queries
    return (name, *(draw(drawn(accepts(name, NEGATION))) for _ in range(of)))


def scores(name: str, *several: Query) -> Tensor:
    """Those of all queries in one batch, which a reasoner may divide."""
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
    large = Limits(atoms=1000, disjuncts=1000)
    both = Query(one.free, Or((one.body, other.body)), limits=large)
    twice = Query(one.free, Or((one.body, other.body, one.body)), limits=large)
    same(scores(name, both), scores(name, twice))


@given(asked(), st.randoms(use_true_random=False))
def test_repeating_a_part_changes_nothing(given: tuple[Any, ...], random: Random) -> None:
    name, query = given

    def twice(formula: Formula) -> Formula:
        if isinstance(formula, Atom):
            return And((formula, formula)) if random.random() < 0.3 else formula
        return formula

    large = Limits(atoms=1000, disjuncts=1000)
    repeated = Query(query.free, map_atoms(query.body, twice), limits=large)
    same(scores(name, query), scores(name, repeated))


AFTER_A_HOP = parse("?y : r0(e0, ?x) & (r1(?x, ?y) | r2(?x, ?y))")
APART = parse("?y : r0(e0, ?x) & r1(?x, ?y) | r0(e0, ?x) & r2(?x, ?y)")
WAYS = {
    name: [way for way in ("operator", "disjunctive", "de-morgan") if way in str(field.type)]
    for name in TREES
    if (field := kind_of(name).Settings.__dataclass_fields__.get("union"))
}
UNITING = [(name, {"union": way}) for name, ways in WAYS.items() for way in ways]


@pytest.mark.parametrize(("name", "settings"), [*UNITING, ("gnn-qe", {}), ("enesy", {})])
def test_an_alternative_may_come_after_a_hop(name: str, settings: dict[str, Any]) -> None:
    """No tree has it where it is written, but the trees of its disjuncts do."""
    made = model(name, **settings)
    found = [
        made.scores(made.lay_out([QueryGroup.single(graph.bind(query))])).detach()
        for query in (AFTER_A_HOP, APART)
    ]
    same(*found)


@given(asked())
def test_scores_are_numbers_and_not_all_alike(given: tuple[Any, ...]) -> None:
    name, query = given
    found = scores(name, query)
    assert bool(found.isfinite().all())
    assert float(found.max()) > float(found.min())


@given(asked())
def test_an_atom_and_its_inverse_are_equivalent(given: tuple[Any, ...]) -> None:
    name, query = given
    other = {"r0": "r1", "r1": "r0"}

    def turned(atom: Atom) -> Formula:
        name = other.get(atom.relation.text)  # type: ignore[union-attr]
        return atom if name is None else Atom(Name(name), atom.tail, atom.head)

    same(
        scores(name, query),
        scores(name, Query(query.free, map_atoms(query.body, turned))),
    )


@given(asked(2))
def test_what_is_dropped_does_not_depend_on_who_else_is_in_the_batch(
    given: tuple[Any, ...],
) -> None:
    name, *several = given
    fields = kind_of(name).Settings.__dataclass_fields__
    made = model(name, **{"dropout": 0.5} if "dropout" in fields else {})
    groups = [QueryGroup.single(graph.bind(query)) for query in several]

    def loss(first: int, *asked: QueryGroup) -> Tensor:
        rows = torch.arange(first, first + len(asked))
        candidates = Candidates(rows, torch.stack([rows + 2, rows + 3], 1), first)
        batch = made.lay_out(asked)
        return made.loss(batch, candidates, torch.Generator().manual_seed(0)).detach()

    alone = torch.stack([loss(number, group) for number, group in enumerate(groups)])
    same(loss(0, *groups), alone.mean())


@given(st.sampled_from(("betae", "cone", "cyle")), tree_queries(True))
def test_what_is_negated_twice_is_what_it_was(name: str, query: Query) -> None:
    made = model(name)
    assert isinstance(made, SetOperatorModel)
    batch = made.lay_out([QueryGroup.single(graph.bind(query))])
    dropout = NO_DROPOUT.of_sets(torch.zeros(len(batch.query_G), dtype=torch.int64), ())
    with torch.no_grad():
        set_GX = made(batch)
        same(made.negate(made.negate(set_GX, dropout), dropout), set_GX)


@given(st.sampled_from(TREES), tree_queries(True))
def test_a_double_negation_is_none(name: str, query: Query) -> None:
    hop = parse("?y : r0(e4, ?y)").body
    once, twice = (And((hop, body)) for body in (query.body, Not(Not(query.body))))
    same(scores(name, Query(query.free, once)), scores(name, Query(query.free, twice)))


def test_the_union_of_equal_distributions_is_what_they_are() -> None:
    """Of Gamma(4, 2), for example, if all weigh the same."""
    made = model("gammae")
    assert isinstance(made, GammaE)
    with torch.no_grad():
        for attention in made.union.values():
            torch.nn.init.zeros_(attention.layer3.weight)
        set_NX = torch.tensor([[4.0] * 4 + [2.0] * 4], dtype=torch.float64)
        dropout = NO_DROPOUT.of_sets(torch.zeros(1, dtype=torch.int64), ())
        for parts in (2, 3):
            same(made.unite(set_NX.expand(parts, 1, 8), dropout), set_NX)


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_costs_half_precision_only(name: str) -> None:
    made = copy.deepcopy(model(name)).float()
    group = QueryGroup.single(graph.bind(parse("?y : r0(e0, ?x) & r1(?x, ?y) & r2(e1, ?y)")))
    candidates = Candidates(torch.tensor([1]), torch.tensor([[2, 3, 4]]))

    def loss() -> float:
        return float(made.loss(made.lay_out([group]), candidates, torch.Generator()).detach())

    whole = loss()
    with torch.autocast("cpu", torch.bfloat16):
        half = loss()
    assert half == pytest.approx(whole, rel=0.05, abs=0.05)


@pytest.mark.parametrize("name", ["betae", "gammae", "perm"])
def test_a_distribution_is_at_no_distance_from_itself_in_half_precision_too(name: str) -> None:
    """Its score is γ, the small difference of large numbers."""
    made = copy.deepcopy(model(name, rank=64)).float()
    assert isinstance(made, ByProducts)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        made.entities_EW.uniform_(1, 9, generator=torch.Generator().manual_seed(0))
        sets_GX = made.entities_EW + 1 if name == "gammae" else made.anchor(made.entities_EW)
        own_G = made.match_all(sets_GX, made.compared(made.entities_EW)).diagonal()
    wanted_G = torch.full_like(own_G, made.settings.margin)
    torch.testing.assert_close(own_G, wanted_G, rtol=0, atol=0.1)


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
    title = kind_of(name).title
    for query, why in ((CYCLE, "not a tree"), (NEGATION, f"{title} has no negation")):
        if not accepts(name, query):
            with pytest.raises(UnsupportedQuery, match=why):
                scores(name, query)


def test_which_models_have_negation_and_which_cycles() -> None:
    tokens = {"kgtransformer", "biqe"}
    assert {name for name in MODELS if accepts(name, CYCLE)} == tokens
    without = {"gqe", "query2box", "mlp-mixer", "perm"} | tokens
    assert {name for name in MODELS if not accepts(name, NEGATION)} == without
