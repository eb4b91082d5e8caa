"""Exact answers on a graph that can be checked by eye; see toy.py."""

from __future__ import annotations

import numpy as np
import pytest

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.sampling.sampler import Protocol, sample
from clmpt.symbolic.engine import Engine
from clmpt.symbolic.solver import compiled, solve_many, solve_within, template_batches
from clmpt.symbolic.tables import Bindings
from toy import ask, films, random_graph


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("?f : directed(Mizoguchi, ?f)", {"Ugetsu", "Sansho", "Oharu"}),
        ("?d : directed(?d, Ugetsu)", {"Mizoguchi"}),
        ("?f : ^directed(?f, Mizoguchi)", {"Ugetsu", "Sansho", "Oharu"}),
        ("?a : directed(Mizoguchi, ?f) & starred(?a, ?f)", {"Kyo", "Tanaka"}),
        ("?a : starred(?a, Ugetsu) & starred(?a, Rashomon)", {"Kyo"}),
        ("?f : directed(Mizoguchi, ?f) | won(?f, Lion)", {"Ugetsu", "Sansho", "Oharu", "Rashomon"}),
        ("?f : directed(Mizoguchi, ?f) & !won(?f, Lion)", {"Sansho", "Oharu"}),
        # Who starred with Kyo: a two-cycle through a film.
        ("?a : starred(Kyo, ?f) & starred(?a, ?f)", {"Kyo", "Tanaka", "Mifune"}),
        # No constants at all: directors of anything that won anything.
        ("?d : directed(?d, ?f) & won(?f, ?p)", {"Mizoguchi", "Kurosawa"}),
        # A part that shares no variable only needs to hold.
        ("?f : directed(Kurosawa, ?f) & won(?x, Lion) & starred(Kyo, ?x)", {"Rashomon"}),
        ("?f : directed(Kurosawa, ?f) & starred(Mifune, Ugetsu)", set()),
        ("?f : directed(Kurosawa, ?f) & !starred(Mifune, Ugetsu)", {"Rashomon"}),
        (
            "?a : starred(?a, ?f) & won(?f, Lion) & directed(?d, ?f) & !starred(?a, Ugetsu)",
            {"Mifune"},
        ),
    ],
)
def test_answers_are_exact(question: str, answers: set[str]) -> None:
    assert ask(films().view("train"), question) == answers


def test_some_not_and_not_some_are_different_questions() -> None:
    train = films().view("train")
    # Tanaka starred in Oharu, which did not win: some film of hers did not.
    assert ask(train, "?a : starred(?a, ?f) & !won(?f, Lion)") == {"Tanaka"}
    # Kyo and Mifune starred only in films that won: none of theirs did not.
    none = "?a : starred(?a, ?g) & !exists ?f (starred(?a, ?f) & !won(?f, Lion))"
    assert ask(train, none) == {"Kyo", "Mifune"}
    # Everyone has a film that won.
    assert (
        ask(train, "?a : starred(?a, ?g) & !exists ?f (starred(?a, ?f) & won(?f, Lion))") == set()
    )


def test_each_split_and_each_union_of_splits_can_be_asked() -> None:
    graph = films()
    question = "?a : starred(?a, ?f) & directed(Mizoguchi, ?f)"
    assert ask(graph.view("train"), question) == {"Kyo", "Tanaka"}
    assert ask(graph.view("test"), question) == set()
    assert ask(graph, question) == ask(graph.view("train", "test"), question)
    assert ask(graph, question) == {"Kyo", "Tanaka", "Mifune"}


def test_self_loops_and_parallel_edges() -> None:
    graph = KnowledgeGraph.from_triples(
        [("a", "likes", "a"), ("a", "likes", "b"), ("a", "knows", "b"), ("b", "likes", "c")]
    )
    assert ask(graph, "?x : likes(?x, ?x)") == {"a"}
    assert ask(graph, "?y : likes(?x, ?y) & knows(?x, ?y)") == {"b"}
    assert ask(graph, "?y : likes(?x, ?y) & !knows(?x, ?y)") == {"a", "c"}
    assert ask(graph, "?y : likes(?x, ?y) & likes(?x, ?x) & likes(?y, ?y)") == {"a"}


def test_cycles() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "a")]
    graph = KnowledgeGraph.from_triples([(head, "r", tail) for head, tail in edges])
    assert ask(graph, "?x : r(?x, ?y) & r(?y, ?z) & r(?z, ?x)") == {"a", "b", "c"}
    # The one four-cycle is a b c d; from a, its third corner c leads straight back to a.
    four = "?x : r(?x, ?y) & r(?y, ?z) & r(?z, ?w) & r(?w, ?x) & !r(?z, ?x)"
    assert ask(graph, four) == {"b", "c", "d"}


def test_relation_ids_beyond_the_last_are_inverses() -> None:
    graph = films().view("train")
    lion = graph.entities.names.find("Lion")[0]
    won = graph.relations.names.find("won")[0]
    backwards = won + len(graph.relations)
    found = solve_many(shape("1p"), graph, np.array([[lion]]), np.array([[backwards]]))
    assert set(graph.labels(found[0].tolist())) == {"Ugetsu", "Rashomon"}


def test_no_queries_give_no_answers() -> None:
    nothing = np.empty((0, 1), np.int64)
    assert len(solve_many(shape("1p"), films(), nothing, nothing)) == 0


@pytest.mark.parametrize("name", ["1p", "2p", "3p", "ip", "pi", "up", "inp", "pin"])
def test_small_parts_and_large_ones_give_the_same_bindings(name: str) -> None:
    graph, template = random_graph(False), shape(name)
    asked = sample(template, graph, Protocol(("train",), ("train",)), 60, seed=0)
    batches = template_batches(template, graph, asked.entities, asked.relations)
    for part, batch in zip(compiled(template), batches, strict=True):
        whole = Engine(graph.index).run(part.plan, batch)
        for rows_at_once in (1, 7, 50):
            found = Engine(graph.index, rows_at_once=rows_at_once).run(part.plan, batch)
            assert _rows(found) == _rows(whole)


def _rows(found: Bindings) -> set[tuple[int, ...]]:
    columns = [found.columns[variable].tolist() for variable in sorted(found.columns)]
    rows = list(zip(found.query_N.tolist(), *columns, strict=True))
    assert len(set(rows)) == len(rows)
    return set(rows)


@pytest.mark.parametrize("name", ["1p", "2p", "2u", "up", "2in", "pin"])
def test_broad_queries_are_given_up_and_the_others_answered(name: str) -> None:
    graph, template = random_graph(False), shape(name)
    asked = sample(template, graph, Protocol(("train",), ("train",)), 60, seed=0)
    whole = solve_many(template, graph, asked.entities, asked.relations)
    few, given_up = solve_within(template, graph, asked.entities, asked.relations, 3)
    kept = few.counts > 0
    assert (kept == ~given_up).all()
    assert 0 < kept.sum() < len(kept)
    rows = kept.nonzero()[0]
    assert few.take(rows).entities.tolist() == whole.take(rows).entities.tolist()
    assert (few.counts[rows] == whole.counts[rows]).all()
    if name == "1p":
        assert (kept == (whole.counts <= 3)).all()
    all_of_them, _ = solve_within(template, graph, asked.entities, asked.relations, 10**6)
    assert all_of_them.entities.tolist() == whole.entities.tolist()
