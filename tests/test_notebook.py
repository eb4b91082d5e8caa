"""Values in a notebook and at a prompt: short, readable, and harmless whatever the names are."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.answering.answers import Answer, Answers, Evidence, EvidenceAtom, Status
from clmpt.display.html import html_picture
from clmpt.errors import MissingLibrary
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report, ShapeResult
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Atom, Name, Query, Variable
from clmpt.logic.parser import parse
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.symbolic.solver import solve
from toy import films

SAFE_TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "img"}
SAFE_ATTRIBUTES = {"style", "scope", "alt", "src", "title", "aria-hidden"}


class Tags(HTMLParser):
    """What a browser would make of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.texts: list[str] = []
        self.images: list[str] = []
        self.feed(html)
        self.close()
        assert self.opened == [], "every element is closed"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in SAFE_TAGS
        assert {name for name, _ in attributes} <= SAFE_ATTRIBUTES
        self.images += [value or "" for name, value in attributes if name == "src"]
        if tag != "img":
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(thing: Any) -> str:
    """The text of a value's HTML, after checking that it has nothing else than text and pictures
    that are well-formed."""
    tags = Tags(thing._repr_html_())
    for image in tags.images:
        kind, _, data = image.partition(",")
        assert kind == "data:image/svg+xml;base64"
        ElementTree.fromstring(base64.b64decode(data))
    return " ".join(tags.texts)


def answers(label: str, name: str = "", note: str = "") -> Answers:
    atom = EvidenceAtom(label, "won", "Lion", False, "predicted", 0.25)
    evidence = Evidence((atom,), 0.25, label)
    listed: list[tuple[Status, float | None]] = [
        ("known", 1.0),
        ("hidden", 0.5),
        ("predicted", 0.25),
        ("refuted", 0.0),
    ]
    made = tuple(
        Answer(number, name or label, label, 0.5, status, chance, lambda *_: (evidence,))
        for number, (status, chance) in enumerate(listed)
    )
    return Answers(parse("?x : won(?x, Lion)"), made, 1, (note,) if note else (), 1)


def report(name: str) -> Report:
    figures = Figures(0.5, 0.25, 0.5, 1.0, 4)
    return Report(name, (ShapeResult(name, figures, 0.1, 9, {}, (name,)),), ("train",))


# --- at a prompt ----------------------------------------------------------------------------------


def test_values_are_short_at_a_prompt() -> None:
    graph = films()
    found = answers("Ugetsu")
    assert repr(graph) == "<KnowledgeGraph: 10 entities, 3 relations, 14 facts in train + test>"
    assert repr(graph.entities) == "<Vocabulary: 10 entity names>"
    assert repr(found[0]) == "<Answer 'Ugetsu': known>"
    assert repr(found[2]) == "<Answer 'Ugetsu': predicted, 25%>"
    assert repr(found[:1]) == "<1 answer to '?x : won(?x, Lion)': 'Ugetsu' (known)>"
    assert repr(found[:0]) == "<0 answers to '?x : won(?x, Lion)': none>"
    assert (
        repr(found[0].evidence)
        == "<Evidence for 'Ugetsu', 25%: 'Ugetsu won Lion (predicted, 25%)'>"
    )
    assert repr(report("mine")) == "<Report on 'mine': 1 shape, mean MRR 0.500>"
    single = QueryGroup.single(parse("?x : #0(#1, ?x)"))
    assert repr(QuerySet((single,))) == "<QuerySet: 1 query (?x : #0(#1, ?x) 1)>"


def test_a_query_s_representation_gives_it_back() -> None:
    query = parse('?x : "starred in"(Kyo, ?x) & !won(?x, "the \\"Lion\\"")')
    assert eval(repr(query), {"parse": parse}) == query


# --- in a notebook --------------------------------------------------------------------------------


def test_answers_are_a_table_with_probabilities_and_a_status_in_words() -> None:
    text = shown(answers("Ugetsu", note="It is late."))
    for part in ("?x : won(?x, Lion)", "Ugetsu", "25%", "Note: It is late.", "1 ruled out"):
        assert part in text
    for status in ("✓ known", "◆ predicted, true (hidden)", "? predicted", "✗ refuted"):
        assert status in " ".join(text.split())


def test_answers_without_probabilities_show_scores() -> None:
    found = answers("Ugetsu")
    plain = tuple(
        Answer(one.entity, one.name, one.label, one.score, one.status, None, one.explain)
        for one in found
    )
    text = shown(Answers(found.query, plain, 1, ()))
    assert "score" in text
    assert "0.5000" in text
    assert "%" not in text


def test_a_graph_shows_its_splits_and_biggest_relations() -> None:
    text = " ".join(shown(films()).split())
    # directed 4, won 2 + 1, starred 5 + 2
    assert "relation facts starred 7 directed 4 won 3" in text
    assert "splits: train 11, test 3" in text
    part = " ".join(shown(films().view("test")).split())
    assert "starred 2 won 1 directed 0 splits: test 3" in part


def test_relation_counts_are_those_of_the_triples() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rng.integers(12, size=(300, 3)).tolist()]
    graph = KnowledgeGraph.from_triples(rows)
    text = " ".join(shown(graph).split())
    counts = np.bincount(graph.triples()[:, 1])
    listed = re.findall(r"(r\d+) (\d+)", text)
    assert len(listed) == 10
    assert all(int(count) == counts[graph.relations.names.find(name)[0]] for name, count in listed)
    assert "and 2 more relations" in text


def test_a_report_shows_figures_by_shape() -> None:
    text = " ".join(shown(report("mine")).split())
    assert "mine* 50.0 ± 10.0 25.0 50.0 100.0 4 mean 50.0" in text


def test_a_query_and_evidence_are_drawn() -> None:
    query = parse("?x : directed(Mizoguchi, ?x) | (won(?x, Lion) & !starred(Kyo, ?x))")
    for thing in (query, answers("Ugetsu")[0].evidence):
        assert len(Tags(thing._repr_html_()).images) == 1  # type: ignore[union-attr]
        shown(thing)


hostile = st.text(max_size=20) | st.sampled_from(
    ["</div><script>alert(1)</script>", '" onerror="alert(1)', "a\u202eb", "\x00\x07\n", "\ufffe"]
)


@given(hostile, hostile)
def test_no_name_escapes_into_the_page(label: str, name: str) -> None:
    for thing in (answers(label, name, label), answers(label)[0].evidence, report(label)):
        shown(thing)
    x = Variable("x")
    shown(Query(x, Atom(Name(label), Name(name), x)))
    if label and name and label.isprintable() and name.isprintable():
        graph = KnowledgeGraph.from_triples([(label, name, "b")])
        assert label in shown(graph.solve(Query(x, Atom(Name(name), x, Name("b")))))
        assert name in shown(graph)


def test_a_picture_survives_half_a_surrogate_pair() -> None:
    assert "img" in html_picture("<svg>\ud800</svg>", "broken")


# --- access ---------------------------------------------------------------------------------------


def test_answers_are_a_sequence() -> None:
    found = answers("Ugetsu")
    assert found[0].status == "known"
    assert found[-1].status == "refuted"
    assert [one.status for one in found[1:3]] == ["hidden", "predicted"]
    assert (found[1:3].query, found[1:3].known) == (found.query, 1)
    with pytest.raises(IndexError):
        found[4]


def test_answers_become_a_data_frame() -> None:
    frame = answers("Ugetsu", "ugetsu").to_pandas()
    assert list(frame.columns) == ["label", "name", "id", "probability", "score", "status"]
    assert frame.iloc[1].tolist() == ["Ugetsu", "ugetsu", 1, 0.5, 0.5, "hidden"]
    assert films().solve("?x : won(?x, Lion)").to_pandas()["name"].tolist() == [
        "Rashomon",
        "Sansho",
        "Ugetsu",
    ]


@pytest.fixture
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    return


@pytest.mark.usefixtures("without_pandas")
def test_a_missing_library_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(MissingLibrary, match="pip install pandas"):
        answers("Ugetsu").to_pandas()


def test_exact_answers_are_a_set_of_names_in_order() -> None:
    graph = films()
    found = graph.solve("?x : won(?x, Lion)")
    assert list(found) == ["Rashomon", "Sansho", "Ugetsu"]
    assert set(found.ids) == solve("?x : won(?x, Lion)", graph)
    assert "Oharu" not in found
    assert found == {"Ugetsu", "Sansho", "Rashomon"}
    assert found - {"Sansho"} == {"Ugetsu", "Rashomon"}
    assert list(graph.view("train").solve("?x : won(?x, Lion)")) == ["Rashomon", "Ugetsu"]
    assert list(graph.solve("SELECT ?x { ?x :won :Lion } LIMIT 1")) == ["Rashomon"]
    assert repr(graph.solve("?x : won(?x, Kyo)")) == "<0 answers>"


def test_exact_answers_have_names_and_labels() -> None:
    graph = KnowledgeGraph.from_triples(
        [("q1", "r", "q2"), ("q1", "r", "q3")], {"q2": "Zeta", "q3": "Alpha"}
    )
    found = graph.solve("?x : r(q1, ?x)")
    assert (found.labels, found.names) == (("Alpha", "Zeta"), ("q3", "q2"))
    assert repr(found) == "<2 answers: 'Alpha', 'Zeta'>"
    assert "q3" in shown(found)
