"""An RDF engineer: from Turtle with labels in three languages to likely answers in SPARQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clmpt.cli.main import main
from small_fit import QUICK
from toy import random_graph

PREFIXES = """@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
WORDS = {"en": "Thing", "de": "Ding", "ja": "もの"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted model of a graph in Turtle: links between things, labels, numbers, types."""
    folder = tmp_path_factory.mktemp("engineer")
    graph = random_graph(False)
    lines = [PREFIXES]
    for head, relation, tail in graph.triples().tolist():
        lines.append(f":n{head} :r{relation} :n{tail} .\n")
    for number in range(len(graph.entities)):
        labels = ", ".join(f'"{word} {number}"@{tag}' for tag, word in WORDS.items())
        lines.append(f":n{number} rdfs:label {labels} ; :size {number} ; a :Thing .\n")
    (folder / "things.ttl").write_text("".join(lines), encoding="utf-8")
    (folder / "quick.toml").write_text(QUICK)
    words = ["fit", str(folder / "things.ttl"), "--out", str(folder / "model")]
    words += ["--leave-out", "rdf:type", "--language", "de,en"]
    assert main([*words, "--recipe", str(folder / "quick.toml"), "--device", "cpu"]) == 0
    return folder / "model"


def document(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_was_left_out_of_the_model_can_still_be_asked_exactly(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    query = 'SELECT ?n { ?x rdfs:label "もの 7"@ja ; a :Thing ; :size ?n }'
    assert main(["solve", str(model), query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "n\r\n7\r\n"
    assert main(["solve", str(model), '?x : type("Ding 7", ?x)']) == 2
    assert "Unknown relation 'type'" in capsys.readouterr().err


def test_a_type_that_was_left_out_filters_likely_answers(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT ?x ?t {{ ?x :r0 :n3 OPTIONAL {{ ?x a ?t }} FILTER(?t {} :Thing) }}"
    some, none = (
        document(["ask", str(model), query.format(sign)], capsys)["rows"] for sign in ("=", "!=")
    )
    assert some[0]["t"]["iri"] == "http://example.org/Thing"
    assert none == []


def test_likely_answers_in_sparql_use_any_label(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "SELECT ?y { :Thing%203 :r0 ?x . ?x :r1 ?y }"
    english = document(["ask", str(model), question], capsys)
    japanese = document(["ask", str(model), question.replace("Thing%203", "もの%203")], capsys)
    assert english["answers"] == japanese["answers"]
    assert english["answers"][0]["label"].startswith("Ding ")
    assert all(0 < row["probability"] <= 1 for row in english["answers"])


def test_rows_filters_counts_and_yes_or_no(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "?x :r0 ?y . ?y :r1 ?z"
    rows = document(["ask", str(model), f"SELECT ?x ?z {{ {pattern} }}", "--limit", "50"], capsys)
    assert rows["variables"] == ["x", "z"]
    chances = [row["probability"] for row in rows["rows"]]
    assert chances == sorted(chances, reverse=True)
    some = rows["rows"][0]["z"]["name"]
    filtered = f"SELECT ?x ?z {{ {pattern} FILTER(?z != <{some}>) }}"
    kept = document(["ask", str(model), filtered, "--limit", "50"], capsys)
    assert all(row["z"]["name"] != some for row in kept["rows"])
    sized = "SELECT ?x ?n { ?x :r0 ?y OPTIONAL { ?x :size ?n } FILTER(?n < 3) } ORDER BY ?n"
    ordered = document(["ask", str(model), sized], capsys)
    sizes = [int(row["n"]["value"]) for row in ordered["rows"]]
    assert sizes == sorted(sizes)
    assert sizes
    assert max(sizes) < 3
    count = document(["ask", str(model), f"SELECT (COUNT(*) AS ?n) {{ {pattern} }}"], capsys)
    known = document(["solve", str(model), "?x, ?y, ?z : r0(?x, ?y) & r1(?y, ?z)"], capsys)
    assert float(count["rows"][0]["n"]["value"]) > 0
    assert known["count"] > 0
    fact = known["answers"][0]
    ask = f"ASK {{ <{fact['x']['name']}> :r0 <{fact['y']['name']}> }}"
    assert document(["ask", str(model), ask], capsys)["probability"] == 1


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT (SUM(?n) AS ?s) { ?x :r0 ?n }", "SUM has no meaning over likely answers"),
        ("SELECT ?x { ?x :r0+ ?y FILTER(?x != ?y) }", "path operator '+'"),
        ("DESCRIBE :n1", "DESCRIBE has no likely answers"),
        ("SELECT ?x ?y { ?x :r0 ?y } LIMIT", "Expected a whole number"),
        ("SELECT ?x ?y { ?x :nothing ?y }", "Unknown relation 'nothing'"),
        ("SELECT ?x { ?x :r0 :nobody }", "Unknown entity 'nobody'"),
        ("ASK { :n1 :r0 :nobody }", "Unknown entity 'nobody'"),
    ],
)
def test_what_has_no_likely_answer_is_refused_in_one_line(
    model: Path, capsys: pytest.CaptureFixture[str], query: str, words: str
) -> None:
    capsys.readouterr()
    assert main(["ask", str(model), query]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
