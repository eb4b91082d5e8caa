"""One-hop questions: every fact from both ends, once, however the graph stores it."""

from __future__ import annotations

import numpy as np
import pytest

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.links import Links, inverse_rows, known_answers, links_of
from toy import films, random_graph


def facts(graph: KnowledgeGraph, links: Links) -> set[tuple[str, str, str]]:
    """Questions and answers as triples, backward questions with the relation's name marked."""
    names, relations = graph.entities.names, graph.relations.names
    found = [
        (
            names[entity],
            relations[directed % len(relations)] + "'" * (directed >= len(relations)),
            a,
        )
        for entity, directed, answers in zip(
            links.entity_P.tolist(), links.directed_P.tolist(), links.answers, strict=True
        )
        for a in [names[answer] for answer in answers.tolist()]
    ]
    assert len(found) == len(set(found)) == links.facts
    return set(found)


def test_graphs_with_and_without_inverses_ask_the_same() -> None:
    plain, doubled = random_graph(False), random_graph(True)
    for split in ("train", "test"):
        assert facts(plain, links_of(plain, split)) == facts(doubled, links_of(doubled, split))


def test_every_fact_is_asked_from_both_ends() -> None:
    graph = films()
    # Test facts: Sansho won Lion, Tanaka starred Sansho, Mifune starred Oharu.
    assert facts(graph, links_of(graph, "test")) == {
        ("Sansho", "won", "Lion"),
        ("Lion", "won'", "Sansho"),
        ("Tanaka", "starred", "Sansho"),
        ("Sansho", "starred'", "Tanaka"),
        ("Mifune", "starred", "Oharu"),
        ("Oharu", "starred'", "Mifune"),
    }


def test_a_symmetric_relation_is_asked_once() -> None:
    graph = KnowledgeGraph.from_triples([("a", "next", "b"), ("b", "next", "a")])
    assert inverse_rows(graph).tolist() == [0]
    assert facts(graph, links_of(graph)) == {("a", "next", "b"), ("b", "next", "a")}


def test_a_fact_and_its_reverse_in_different_splits_are_two_facts() -> None:
    builder = GraphBuilder()
    for first, second in (("a", "b"), ("b", "c"), ("c", "d")):
        builder.add("train", first, "near", second)
        builder.add("test", second, "near", first)
    graph = builder.build()
    assert graph.inverse_ids.tolist() == [0]  # symmetric, as a whole
    assert inverse_rows(graph).tolist() == [1]
    for split in ("train", "test"):
        assert links_of(graph, split).facts == 6


def test_the_filter_covers_all_splits() -> None:
    graph = films()
    asked = links_of(graph, "test")
    known = known_answers(graph, asked)
    names = graph.entities.names
    by_question = {
        (names[entity], directed): {names[a] for a in answers.tolist()}
        for entity, directed, answers in zip(
            asked.entity_P.tolist(), asked.directed_P.tolist(), known, strict=True
        )
    }
    starred = graph.relations.names.find("starred")[0]
    assert by_question["Tanaka", starred] == {"Ugetsu", "Oharu", "Sansho"}


def test_one_by_one_has_a_row_per_fact() -> None:
    graph = films()
    links = links_of(graph, "train")
    single = links.one_by_one()
    assert len(single) == links.facts == 22  # eleven facts, two ends
    assert facts(graph, single) == facts(graph, links)


@pytest.mark.parametrize("splits", [(), ("train",), ("train", "test")])
def test_questions_are_distinct_and_answers_sorted(splits: tuple[str, ...]) -> None:
    graph = random_graph(False)
    links = links_of(graph, *splits)
    pairs = links.directed_P * len(graph.entities) + links.entity_P
    assert (np.diff(pairs) > 0).all()
    assert all((np.diff(answers) > 0).all() for answers in links.answers)
