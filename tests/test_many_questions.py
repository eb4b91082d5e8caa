"""Many questions at once: the answers are those of one by one, in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clmpt
from clmpt.answering.answers import Answers
from clmpt.errors import BadQuestions, QueryError, SettingError, UnknownName
from clmpt.logic.formula import Query
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.queries.templates import instantiate
from clmpt.sampling.sampler import Protocol, sample
from strategies import queries


def same(many: Answers, one: Answers) -> bool:
    """Equal but for the last digits of scores, which depend on how many are computed together and
    may order ties."""
    close = all(
        (a.status, a.score) == (b.status, pytest.approx(b.score, abs=1e-4))
        for a, b in zip(many, one, strict=True)
    )
    facts = [(f.query, f.known, f.refuted, f.notes) for f in (many, one)]
    return close and facts[0] == facts[1]


@pytest.mark.parametrize("reasoner", ["hybrid", "clmpt", "truth-values", "beam-search"])
def test_a_list_is_answered_as_one_by_one_for_every_shape_and_reasoner(
    world_model: Path, reasoner: str
) -> None:
    model = clmpt.load(world_model, "cpu", reasoner=reasoner)
    graph, asked = model.graph, list[Query]()
    groups = [
        sample(shape(name), graph, Protocol(("train",), ("train",)), 4, seed=2)
        for name in (*EPFO, *NEGATION)
    ]
    for row in range(4):  # shapes take turns, so that the order of the answers can be lost
        for group in groups:
            ids = (group.entities[row], group.relations[row])
            asked.append(instantiate(group.template, *ids, len(graph.relations)))
    many = model.ask(asked, limit=8)
    assert [found.query for found in many] == asked
    one_by_one = [model.ask(query, limit=8) for query in asked]
    assert all(map(same, many, one_by_one))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(queries(), min_size=1, max_size=6))
def test_any_questions_can_be_asked_together(fitted: Path, asked: list[Query]) -> None:
    """Repeated names and repeated parts, too: equal ids stay equal in a shared template."""
    model = clmpt.load(fitted / "model", "cpu", reasoner="truth-values")
    many = model.ask([*asked, *asked], limit=40)
    for found, query in zip(many, [*asked, *asked], strict=True):
        one = model.ask(query, limit=40)
        assert {a.entity: pytest.approx(a.score, abs=1e-5) for a in found} == {
            a.entity: a.score for a in one
        }
        assert (found.known, found.refuted) == (one.known, one.refuted)


def test_texts_and_queries_mix_and_each_keeps_its_own_limit(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu")
    sparql = "SELECT ?y { :e0 :r0 ?y } LIMIT 3"
    found = model.ask(text for text in (sparql, "?y : r0(e1, ?y)"))
    assert [len(one) for one in found] == [3, 10]
    assert model.ask([]) == []
    assert found[0][0].derivations(1) == model.ask(sparql)[0].derivations(1)


def test_bad_questions_are_listed_by_number_and_nothing_is_computed(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu")
    asked = ["?y : r0(e0, ?y)", "?y : r0(nobody, ?y)", "?y : r0(e0, ?y)", "?y"]
    with pytest.raises(BadQuestions, match=r"2 of 4 .* question 2: Unknown entity 'nobody'") as bad:
        model.ask(asked)
    assert list(bad.value.problems) == [1, 3]
    assert isinstance(bad.value.problems[1], UnknownName)
    with pytest.raises(BadQuestions, match="question 1: A question is a text or a Query, not None"):
        model.ask([None, "?y : r0(e0, ?y)"])  # type: ignore[list-item]
    with pytest.raises(BadQuestions, match="and 3 more"):
        model.ask(["?y"] * 8)


def test_a_model_says_what_it_is(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu", reasoner="clmpt")
    assert repr(model).startswith("<Answerer: clmpt, 40 entities, 5 relations, ")


def test_what_cannot_be_asked_here_names_what_answers_it(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu")
    for question, words in (
        ("?x, ?y : r0(?x, ?y)", r"model\.ask_rows answers it"),
        ("SELECT ?x { ?x :r0 ?y FILTER(?y != :e1) }", r"model\.ask_sparql answers more"),
        ("ASK { ?x :r0 ?y }", r"model\.ask_sparql answers more"),
        ((0, (0,)), r"as a text: '\(0, \(0,\)\)'"),
        (None, "not NoneType"),
    ):
        with pytest.raises(QueryError, match=words):
            model.ask(question)
    with pytest.raises(QueryError, match="a text, not Query"):
        model.ask_sparql(clmpt.parse("?x : r0(?x, e1)"))


def test_impossible_choices_are_refused(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu")
    for choice in ({"limit": -1}, {"only": "knwn"}, {"at_least": 50}):
        for ask in (model.ask, model.ask_rows):
            with pytest.raises(SettingError, match=next(iter(choice))):
                ask("?x : r0(?x, e1)", **choice)
    assert len(model.ask_rows("?x, ?y : r0(?x, ?y)", limit=0)) == 0
