"""The prompt of `clmpt ask`: what Tab offers, and what history keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from clmpt.cli.prompt import NameCompleter, questions
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.name_search import NameSearch

GRAPH = KnowledgeGraph.from_triples(
    [
        ("Ugetsu", "directed by", "Kenji Mizoguchi"),
        ("Ugetsu", "won", "Silver Lion"),
        ("Q64", "capital_of", "Q183"),
    ],
    {"Q64": "Berlin"},
)


def offered(text: str, asked: bool = True) -> list[str]:
    completer = NameCompleter(GRAPH)
    event = CompleteEvent(completion_requested=asked)
    return [found.text for found in completer.get_completions(Document(text), event)]


def test_relations_are_completed_outside_brackets_and_entities_inside() -> None:
    assert offered("?x : cap") == ["capital_of"]
    assert offered("?x : won(ug") == ["Ugetsu"]
    assert offered("?x : won(Ugetsu, s") == ['"Silver Lion"']
    assert offered("?x : won(?x, Ugetsu) & dir") == ['"directed by"']


def test_labels_are_completed_like_names() -> None:
    assert offered("?x : capital_of(ber") == ["Berlin"]
    assert offered("?x : capital_of(Q") == ["Q183", "Q64"]


def test_a_quoted_name_is_completed_in_quotes() -> None:
    completer = NameCompleter(GRAPH)
    (found,) = completer.get_completions(Document('?x : won("silver l'), CompleteEvent())
    assert (found.text, found.start_position) == ('"Silver Lion"', -len('"silver l'))


def test_names_after_a_quoted_one_are_completed_too() -> None:
    assert offered('?x : won("Silver Lion", ug') == ["Ugetsu"]
    assert offered('?x : won(?x, "Silver Lion") & dir') == ['"directed by"']
    assert offered('?x : "directed by"(ug') == ["Ugetsu"]
    assert offered('?x : "directed by"(Ugetsu, "kenji m') == ['"Kenji Mizoguchi"']


def test_in_sparql_names_follow_a_colon() -> None:
    assert offered("SELECT ?x { ?x :cap") == [":capital_of"]
    assert offered("select ?x { :silver%20l") == [":Silver%20Lion"]
    assert offered("SELECT ?x { ?x ") == []


def test_nothing_is_suggested_before_typing() -> None:
    assert offered("?x : won(", asked=False) == []
    assert len(offered("?x : won(")) == 5  # entities


def test_names_are_found_by_any_word_and_by_similarity() -> None:
    search = NameSearch(GRAPH.entities)
    assert [GRAPH.entities.label(one) for one in search.find("mizo")] == ["Kenji Mizoguchi"]
    assert [GRAPH.entities.label(one) for one in search.find("kenjy")] == ["Kenji Mizoguchi"]
    assert search.find("kenjy", similar=False) == []


def test_large_graphs_are_searched_by_the_usual_spellings() -> None:
    search = NameSearch(GRAPH.entities, fold_up_to=2)
    assert search.find("Ug") == search.find("ug") == [0]
    assert search.find("getsu") == []


def test_questions_come_line_by_line_and_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("?x : won(?x, a)\rdropped\x03help\r\x04")
        assert list(questions(GRAPH, "films")) == ["?x : won(?x, a)", "help"]
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("\x1b[A\x1b[A\r\x04")  # twice up, to the first question
        assert list(questions(GRAPH, "films")) == ["?x : won(?x, a)"]
    assert (tmp_path / "clmpt" / "history").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["file", "folder"])
def test_history_is_not_kept_if_it_cannot_be_stored(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "clmpt" / "history").mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / place))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("one\r\x04")
        assert list(questions(GRAPH, "films")) == ["one"]
