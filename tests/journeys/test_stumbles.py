"""Small things that used to trip people up."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from pathlib import Path

import pytest

import clmpt
from clmpt.cli.main import main
from clmpt.logic.parser import parse
from clmpt.queries.json_lines import read_json_lines
from clmpt.queries.store import QuerySet

Captured = pytest.CaptureFixture[str]
CAFE = "café"


def piped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_labels_can_be_given_with_a_folder_of_splits(tmp_path: Path, capsys: Captured) -> None:
    kg = tmp_path / "kg"
    kg.mkdir()
    for split, fact in (("train", "q1\tp1\tq2"), ("valid", "q2\tp1\tq3"), ("test", "q1\tp1\tq3")):
        (kg / f"{split}.tsv").write_text(fact + "\n")
    (tmp_path / "names.tsv").write_text("q1\tAda\nq9\tNobody\nq8\tNo one\n")
    words = ["import", str(kg), "--labels", str(tmp_path / "names.tsv")]
    assert main([*words, "--out", str(tmp_path / "graph"), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["splits"] == {"train": 1, "valid": 1, "test": 1}
    assert json.loads(shown.out)["unused labels"] == 2
    assert "name nothing in the graph: 2, such as 'q9', 'q8'." in shown.err
    assert clmpt.open_graph(tmp_path / "graph").entities.label(0) == "Ada"
    # A stored graph has its labels already.
    words[1] = str(tmp_path / "graph")
    assert main([*words, "--out", str(tmp_path / "again")]) == 2
    assert "a folder in another layout" in capsys.readouterr().err


def test_import_and_info_count_the_same_labels(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x.ttl").write_text(
        "<http://e/a> <http://e/r> <http://e/b> ; <http://xmlns.com/foaf/0.1/name> 'A', 'B' ."
    )
    (tmp_path / "labels.tsv").write_text("http://e/nothing\tunused\n")
    words = ["import", str(tmp_path / "x.ttl"), "--labels", str(tmp_path / "labels.tsv")]
    assert main([*words, "--out", str(tmp_path / "graph"), "--json"]) == 0
    imported = json.loads(capsys.readouterr().out)["labels"]
    assert main(["info", str(tmp_path / "graph"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == imported == 3  # A, and the ends b and r


def test_a_language_that_no_label_has_is_noted(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x.ttl").write_text(
        "<http://e/a> <http://e/r> <http://e/b> ; <http://xmlns.com/foaf/0.1/name> 'A'@en-GB ."
    )
    words = ["import", str(tmp_path / "x.ttl"), "--language", "fr,en"]
    assert main([*words, "--out", str(tmp_path / "graph")]) == 0
    assert "Note: no label is in the language fr.\n" in capsys.readouterr().err


def test_piped_questions_are_answered_in_json_lines(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    piped("?y : r0(e0, ?y)\n?y : r1(e1, ?y)\n", monkeypatch)
    assert main(["ask", str(fitted / "model"), "--json", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["query"] for line in lines] == ["?y : r0(e0, ?y)", "?y : r1(e1, ?y)"]


def test_every_kind_of_piped_question_is_one_json_line(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    asked = [
        "?y : r0(e0, ?y)",
        "?x, ?y : r0(?x, ?y)",
        "SELECT ?x ?y { ?x :r0 ?y }",
        "SELECT (COUNT(*) AS ?n) { ?x :r0 ?y }",
        "ASK { :e0 :r0 :e1 }",
    ]
    piped("\n".join(asked), monkeypatch)
    assert main(["ask", str(fitted / "model"), "--json", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["query"] for line in lines] == asked


def test_csv_of_rows_and_probabilities_is_for_programs(fitted: Path, capsys: Captured) -> None:
    """Numbers are numbers, and the status is the one of JSON."""

    def table(question: str) -> list[list[str]]:
        capsys.readouterr()
        assert main(["ask", str(fitted / "model"), question, "--csv", "--device", "cpu"]) == 0
        return list(csv.reader(io.StringIO(capsys.readouterr().out)))

    for question in ("?x, ?y : r0(?x, ?y)", "SELECT ?x ?y { ?x :r0 ?y }"):
        headers, first, *_ = table(question)
        assert headers == ["x", "y", "probability", "status"]
        assert first[2:] == ["1.0", "known"]
    headers, row = table("ASK { :e0 :r0 :e1 }")
    assert headers == ["probability", "status"]
    assert 0 <= float(row[0]) <= 1
    assert table("SELECT (COUNT(*) AS ?n) { ?x :r0 ?y }")[0] == ["n"]


def test_probabilities_that_rest_on_few_facts_are_called_rough(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", device="cpu")
    facts = len(model.graph.triples("valid"))
    assert 0 < facts < 30
    note = f"Probabilities are rough: they were fitted to {facts} held-out facts only."
    assert model.ask_sparql("SELECT (COUNT(*) AS ?n) { ?x :r0 ?y }").notes[-1] == note
    head, relation, tail = model.graph.triples("train")[0].tolist()
    entities, relations = model.graph.entities.names, model.graph.relations.names
    known = f"ASK {{ :{entities[head]} :{relations[relation]} :{entities[tail]} }}"
    assert model.ask_sparql(known).notes == ()


def test_piped_rows_do_not_fit_into_one_csv_table(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    piped("?y : r0(e0, ?y)\nASK { :e0 :r0 :e1 }\n", monkeypatch)
    assert main(["ask", str(fitted / "model"), "--csv", "--limit", "2", "--device", "cpu"]) == 2
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert "line 2: One CSV table has answers to questions about one variable." in shown.err


def test_a_reasoner_that_cannot_rank_rows_says_who_does(fitted: Path, capsys: Captured) -> None:
    words = ["ask", str(fitted / "model"), "?x, ?y : r0(?x, ?y)", "--device", "cpu"]
    note = "Note: CLMPT knows one variable: truth values rank the rows."
    assert main([*words, "--reasoner", "clmpt", "--csv"]) == 0
    assert note in capsys.readouterr().err
    assert main(words) == 0
    assert "one variable" not in capsys.readouterr().err


def test_every_line_of_exact_rows_has_the_same_cells(tmp_path: Path, capsys: Captured) -> None:
    """q1 has a label, q2 has none; literals have none either."""
    (tmp_path / "x.ttl").write_text(
        "@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':q1 rdfs:label "Ada" ; :r :q2 ; :n 1 . _:b :r :q1 ; :n 2 .\n'
    )
    assert main(["import", str(tmp_path / "x.ttl"), "--out", str(tmp_path / "graph")]) == 0
    for relation, cells in ((":r", 4), (":n", 3)):
        capsys.readouterr()
        query = f"PREFIX : <http://e/> SELECT ?x ?y {{ ?x {relation} ?y }}"
        assert main(["solve", str(tmp_path / "graph"), query]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [len(line.split("\t")) for line in lines] == [cells, cells]


def test_exact_truth_values_have_a_header_in_csv(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    assert main(["import", str(tmp_path / "x.tsv"), "--out", str(tmp_path / "graph")]) == 0
    capsys.readouterr()
    assert main(["solve", str(tmp_path / "graph"), "ASK { :a :r :b }", "--csv"]) == 0
    assert capsys.readouterr().out == "answer\ntrue\n"


def test_piped_questions_are_one_csv_table(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    piped("?y : r0(e0, ?y)\n?y : r1(e1, ?y)\n", monkeypatch)
    assert main(["ask", str(fitted / "model"), "--csv", "--limit", "2", "--device", "cpu"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["question", "label", "name", "id", "probability", "score", "status"]
    assert [row[0] for row in rows[1:]] == ["?y : r0(e0, ?y)"] * 2 + ["?y : r1(e1, ?y)"] * 2


def test_a_time_limit_ends_a_piped_question_not_the_others(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    piped("?y : r0(e0, ?y)\n?y : r1(e1, ?y)\n", monkeypatch)
    words = ["ask", str(fitted / "model"), "--time-limit", "0", "--device", "cpu"]
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line[:7] for line in said] == ["line 1:", "line 2:"]
    assert all("time limit of 0 s" in line for line in said)


def test_an_argument_written_as_an_option_is_explained(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["info", "films", "--folder", "films"])
    assert "Give the folder by itself, without '--folder'." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["solve", "films", "?x : r(a, ?x)", "--run"])
    assert "Did you mean '--run'" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["solve", "films", "?x : r(a, ?x)", "--limits", "3"])
    assert "Did you mean '--limit'?" in capsys.readouterr().err


def test_links_are_measured_with_the_predictor_of_a_fitted_model(
    fitted: Path, capsys: Captured
) -> None:
    words = ["--links", "--device", "cpu", "--json"]
    assert main(["evaluate", str(fitted / "model"), *words]) == 0
    inside = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(fitted / "model" / "predictor"), *words]) == 0
    assert json.loads(capsys.readouterr().out) == inside


def test_info_describes_a_model(fitted: Path, capsys: Captured) -> None:
    assert main(["info", str(fitted / "model"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    model = found["model"]
    assert (model["reasoner"], model["predictor"], model["rank"]) == ("hybrid", "complex", 8)
    assert model["trained on"] == str(fitted / "facts.tsv")
    assert f"clmpt {clmpt.__version__}" in model["made with"]
    assert 0 < model["MRR of beam search, all shapes"] < 1
    assert found["triples"] == 448
    assert main(["info", str(fitted / "model" / "predictor"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)["model"]
    assert alone["predictor validation MRR"] == model["predictor validation MRR"]
    assert alone["finished"] is True
    assert main(["info", str(fitted / "model")]) == 0
    assert "reasoner\thybrid" in capsys.readouterr().out


def test_a_shape_can_have_a_name_of_its_own(tmp_path: Path, capsys: Captured) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"e{n % 7}\tr\te{n % 5}\n" for n in range(35)))
    formula = "?y : $r1($s1, ?x) & $r2(?x, ?y) & $r3(?y, $s1)"
    words = ["sample", str(facts), "--shapes", f"triangle={formula}", "1p=3", "--count", "4"]
    assert main([*words, "--workers", "1", "--out", str(tmp_path / "some.queries")]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "triangle",
        "1p",
    ]
    made = QuerySet.open(tmp_path / "some.queries")
    assert made.groups[0].template == parse(formula)
    assert main([*words, "--workers", "1", "--out", str(tmp_path / "some.jsonl")]) == 0
    read = read_json_lines(tmp_path / "some.jsonl", clmpt.open_graph(facts))
    assert [(group.name, len(group)) for group in read.groups] == [("triangle", 4), ("1p", 3)]
    words[3] = f"2p={formula}"
    assert main([*words, "--out", str(tmp_path / "other.queries")]) == 2
    assert "is taken by another shape" in capsys.readouterr().err


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_both_normal_forms_name_the_same_thing(stored: str, asked: str) -> None:
    name = unicodedata.normalize(stored, CAFE)  # type: ignore[arg-type]
    graph = clmpt.KnowledgeGraph.from_triples([(name, "r", "b"), ("q1", "r", name)], {"q1": name})
    question = unicodedata.normalize(asked, f"?x : r('{CAFE}', ?x)")  # type: ignore[arg-type]
    assert graph.labels(clmpt.solve(question, graph)) == ["b"]


def test_a_very_long_name_is_cut_in_messages() -> None:
    graph = clmpt.KnowledgeGraph.from_triples([("a", "r", "b")])
    with pytest.raises(clmpt.ClmptError) as error:
        clmpt.solve(f"?x : r({'z' * 50_000}, ?x)", graph)
    assert len(str(error.value)) < 300
    assert "(50,000 characters)" in str(error.value)


def test_what_can_be_answered_has_its_alternatives() -> None:
    """The negated group is repeated for each alternative in it: 12 · 11 atoms, more than 64."""
    always = " & ".join(f"p{n}(?x, ?y)" for n in range(10))
    either = " | ".join(f"q{n}(?x, a)" for n in range(12))
    query = parse(f"?y : r(a, ?y) & !exists ?x ({always} & ({either}))")
    (only,) = query.disjuncts()
    assert [len(pattern.absent) for pattern in only.patterns] == [12]
