"""Properties that hold for every query that a reasoner answers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clmpt.graph.builder import GraphBuilder
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Limits,
    Not,
    Or,
    Query,
    Term,
    Variable,
    map_atoms,
)
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.message_passing.clmpt import MessagePassing, cosine
from clmpt.reasoners.message_passing.layout import lay_out_queries
from clmpt.registry import PREDICTORS
from clmpt.settings import Reasoning
from models import changed, fresh_reasoner, reasoning
from strategies import ENTITIES, RELATIONS, queries

WIDTH = 8
SMALL = reasoning(heads=2, feed_forward=12, encoder_layers=2, dropout=0.0)
Variant = tuple[Reasoning, str]  # a reasoner's settings, and its predictor
LMPNN = {"reasoner": "lmpnn", "feed_forward": 12, "dropout": 0.0}
VARIANTS = [
    (SMALL, "complex"),
    (SMALL, "tucker"),
    (changed(SMALL, norm="post", pooling="sum", encoder_layers=1), "complex"),
    (changed(SMALL, norm="post", pooling="sum", encoder_layers=1, penalty=0.1), "conve"),
    (changed(SMALL, pooling="max", conditional=False), "complex"),
    (changed(SMALL, pooling="max", conditional=False), "rescal"),
    (reasoning(**LMPNN, frozen=False), "complex"),
    (reasoning(**LMPNN, frozen=False), "cp"),
    (reasoning(**LMPNN, conditional=True, penalty=0.1), "complex"),
]
variants = st.sampled_from(VARIANTS)
builder = GraphBuilder(ENTITIES, RELATIONS)
builder.add("facts", "e0", "r0", "e1")
graph = builder.build()


def model(settings: Variant) -> MessagePassing:
    """r0 and r1 are each other's inverses, r2 has none, or one that is no relation of the graph."""
    chosen, name = settings
    random, kind = torch.Generator().manual_seed(1), PREDICTORS.find(name)
    inverse_R = torch.tensor([1, 0, -1 if kind.can_reverse() else 3])
    rows, rank = max(len(RELATIONS), int(inverse_R.max()) + 1), WIDTH // kind.width(1)
    predictor = kind(*kind.initial(len(ENTITIES), rows, rank, 1.0, random), inverse_R)
    predictor.initialise(random)
    return fresh_reasoner(predictor, chosen, seed=2).double()


def single(query: Query) -> QueryGroup:
    return QueryGroup.single(graph.bind(query))


def scores(settings: Variant, *asked: Query) -> Tensor:
    return model(settings).reasoner().score([single(query) for query in asked])


def same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


@given(variants, queries(), st.randoms(use_true_random=False))
def test_the_order_of_atoms_does_not_matter(
    settings: Variant, query: Query, random: Random
) -> None:
    same(scores(settings, query), scores(settings, Query(query.free, shuffled(query.body, random))))


@given(variants, st.lists(queries(), min_size=2, max_size=4))
def test_other_queries_in_the_batch_and_their_order_do_not_matter(
    settings: Variant, several: list[Query]
) -> None:
    alone = torch.cat([scores(settings, query) for query in several])
    same(scores(settings, *several), alone)
    same(scores(settings, *reversed(several)), alone.flip(0))


@given(variants, queries())
def test_names_of_existential_variables_do_not_matter(settings: Variant, query: Query) -> None:
    same(scores(settings, query), scores(settings, Query(query.free, renamed(query.body))))


@given(variants, queries(), queries())
def test_repeating_an_alternative_changes_nothing(
    settings: Variant, one: Query, other: Query
) -> None:
    large = Limits(atoms=1000, disjuncts=1000)
    both = Query(one.free, Or((one.body, other.body)), limits=large)
    twice = Query(one.free, Or((one.body, other.body, one.body)), limits=large)
    same(scores(settings, both), scores(settings, twice))
    each = torch.stack([scores(settings, one), scores(settings, other)])
    same(scores(settings, both), each.amax(0))


@given(variants, queries())
def test_an_atom_and_its_inverse_are_equivalent(settings: Variant, query: Query) -> None:
    other = {"r0": "r1", "r1": "r0"}

    def turned(atom: Atom) -> Formula:
        name = other.get(atom.relation.text)  # type: ignore[union-attr]
        if name is None:
            return atom
        return Atom(replace(atom.relation, text=name), atom.tail, atom.head)  # type: ignore[type-var]

    same(
        scores(settings, query), scores(settings, Query(query.free, map_atoms(query.body, turned)))
    )


@given(variants, st.lists(queries(), min_size=1, max_size=3))
def test_pruning_and_sharing_change_neither_answers_nor_gradients(
    settings: Variant, several: list[Query]
) -> None:
    made = model(settings)
    groups = [single(query) for query in several]

    def outcome(**saving: bool) -> tuple[Tensor, list[Tensor]]:
        made.zero_grad()
        batch = lay_out_queries(groups, replace(made.passing(), **saving))
        found = cosine(made(batch), made.predictor.entities_ED)
        found = best_alternative(found, batch.query_G, batch.queries)
        (found * torch.linspace(-1, 2, found.numel()).view_as(found)).sum().backward()
        return found.detach(), [
            torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in made.parameters()
        ]

    answers, gradients = outcome(prune=False, share=False)
    for saving in ({"prune": True, "share": False}, {"prune": True, "share": True}):
        saved_answers, saved_gradients = outcome(**saving)
        same(saved_answers, answers)
        for saved, whole in zip(saved_gradients, gradients, strict=True):
            same(saved, whole)


@given(variants, st.lists(queries(), min_size=2, max_size=4))
def test_a_cache_changes_nothing(settings: Variant, several: list[Query]) -> None:
    reasoner = model(settings).reasoner()
    for query in [*several, *several]:
        same(reasoner.score([single(query)]), scores(settings, query))


@pytest.mark.parametrize("settings", VARIANTS)
def test_states_that_depend_on_relations_alone_are_cached(settings: Variant) -> None:
    from clmpt.logic.parser import parse

    query = single(parse("?y : r0(e1, ?x) & r2(?x, ?y)"))
    made = model(settings)
    reasoner = made.reasoner()
    whole = lay_out_queries([query], made.passing()).tokens
    reasoner.score([query])
    # ?y receives ?x's initial embedding along r2, whatever e1 is: a set of two.
    (cache,) = reasoner.idle_caches
    assert lay_out_queries([query], made.passing(), cache).tokens == whole - 2


def shuffled(formula: Formula, random: Random) -> Formula:
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, And | Or):
        parts = [shuffled(part, random) for part in formula.parts]
        random.shuffle(parts)
        return type(formula)(tuple(parts))
    body = shuffled(formula.body, random)
    return Not(body) if isinstance(formula, Not) else Exists(formula.variables, body)


def renamed(formula: Formula) -> Formula:
    """Renames every variable except the free one, including bound occurrences."""

    def other(term: Term) -> Term:
        hidden = isinstance(term, Variable) and term.name != "y"
        return Variable(f"{term.name}_other") if hidden else term  # type: ignore[union-attr]

    if isinstance(formula, Atom):
        return Atom(formula.relation, other(formula.head), other(formula.tail))
    if isinstance(formula, And | Or):
        return type(formula)(tuple(renamed(part) for part in formula.parts))
    if isinstance(formula, Not):
        return Not(renamed(formula.body))
    # A quantifier that shadows the free variable keeps its name.
    variables = tuple(other(variable) for variable in formula.variables)
    return Exists(variables, renamed(formula.body))  # type: ignore[arg-type]
