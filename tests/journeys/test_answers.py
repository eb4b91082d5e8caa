"""What a user gets: certain answers first, nothing that is refuted, probabilities and reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clmpt
from clmpt.answering.answerer import Answerer
from clmpt.answering.asked_model import AskedModel
from clmpt.cli.main import main
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.parser import parse
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.predictors.predictor_folder import save_predictor
from clmpt.queries.templates import instantiate
from clmpt.reasoners.reasoner_folder import calibrations_in
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner
from clmpt.sampling.sampler import Protocol, sample
from clmpt.symbolic.refutation import refuted
from clmpt.symbolic.solver import solve
from dense_rows import DenseRows, with_facts

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("reasoner", ["hybrid", "clmpt", "truth-values", "beam-search"])
def test_certain_answers_stand_above_all_others_and_no_refuted_one_is_listed(
    world_model: Path, reasoner: str
) -> None:
    check_order(clmpt.load(world_model, "cpu", reasoner=reasoner), 3)


@pytest.mark.parametrize("reasoner", ["truth-values", "beam-search"])
def test_the_same_holds_on_a_real_benchmark_however_bad_the_predictor(
    benchmarks: Path, tmp_path: Path, reasoner: str
) -> None:
    graph = open_graph(benchmarks / "NELL-betae")
    settings = read_pretraining({"rank": 8, "initial_scale": 1.0})
    save_predictor(tmp_path / "random", fresh_predictor(graph, settings), graph, {})
    check_order(Answerer.open(tmp_path / "random", benchmarks / "NELL-betae", reasoner=reasoner), 1)


def check_order(model: Answerer, count: int) -> None:
    graph, everything = model.graph, len(model.graph.entities)
    protocol = Protocol(("train",), ("train",))
    for name in (*EPFO, *NEGATION):
        group = sample(shape(name), graph, protocol, count, seed=5)
        for row in range(len(group)):
            query = instantiate(
                group.template, group.entities[row], group.relations[row], len(graph.relations)
            )
            certain = solve(query, graph)
            found = model.ask(query, limit=everything)
            listed = [answer.entity for answer in found]
            assert set(listed[: len(certain)]) == certain
            assert found.known == len(certain)
            assert not set(listed) & (refuted(query, graph) - certain)
            chances = [a.probability for a in found if a.status == "predicted" and a.probability]
            assert bool((np.diff(chances) <= 1e-6).all())


def test_what_a_known_fact_refutes_is_listed_only_on_request(world_model: Path) -> None:
    model = clmpt.load(world_model, "cpu")
    question = "?c : borders(?c, Germany) & !member_of(?c, NATO)"
    listed = {answer.label for answer in model.ask(question, limit=500)}
    assert "Switzerland" in listed
    assert "Poland" not in listed
    asked = model.ask(question, limit=2000, refuted=True)
    by_label = {answer.label: answer for answer in asked}
    assert by_label["Poland"].status == "refuted"
    assert by_label["Poland"].probability == 0
    assert asked.refuted == sum(answer.status == "refuted" for answer in asked) > 20


def test_only_known_only_predicted_and_at_least(world_model: Path) -> None:
    model = clmpt.load(world_model, "cpu")
    question = "?c : borders(France, ?x) & borders(?x, ?c)"
    known = model.ask(question, limit=1000, only="known")
    assert len(known) == known.known > 0
    likely = model.ask(question, limit=1000, only="predicted", at_least=0.05)
    assert all((answer.probability or 0) >= 0.05 for answer in likely)
    assert {answer.status for answer in likely} <= {"predicted"}
    chances = [answer.probability or 0 for answer in likely]
    assert likely.expected_right == pytest.approx(sum(chances))
    fewer = model.ask(question, limit=1000, at_least=0.05)
    assert len(fewer) == len(likely) + sum(a.known for a in fewer)


def test_json_has_probability_status_and_evidence(world_model: Path, capsys: Captured) -> None:
    question = "?c : borders(France, ?x) & borders(?x, ?c) & !member_of(?c, NATO)"
    assert main(["ask", str(world_model), question, "--json", "--limit", "30"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "label", "status", "probability", "evidence"} <= set(found["answers"][0])
    for answer in found["answers"]:
        for atom in answer["evidence"]:
            wanted = {"head", "relation", "tail", "negated", "status", "probability"}
            assert set(atom) == wanted
            assert atom["status"] in ("known", "hidden", "predicted", "absent")
            assert atom["negated"] or atom["status"] != "absent"
        assert [atom["relation"] for atom in answer["evidence"]].count("borders") == 2


def test_explanations_in_words_and_as_a_picture(
    world_model: Path, tmp_path: Path, capsys: Captured
) -> None:
    question, picture = "?c : borders(France, ?x) & borders(?x, ?c)", tmp_path / "why.svg"
    words = ["ask", str(world_model), question, "--explain", "2", "--limit", "40"]
    assert main([*words, "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "  1. France borders" in out
    assert "(known)" in out
    assert "(predicted, " in out
    drawn = picture.read_text(encoding="utf-8")
    assert "stroke-dasharray" in drawn
    assert drawn.count("<g transform") == 40


def test_probabilities_and_choice_travel_with_a_saved_model(
    world_model: Path, tmp_path: Path
) -> None:
    model = clmpt.load(world_model, "cpu")
    model.save(tmp_path / "shipped")
    assert set(calibrations_in(tmp_path / "shipped" / "reasoner")) == {
        *("hybrid", "clmpt", "truth-values")
    }
    assert clmpt.load(tmp_path / "shipped", "cpu").asked.name == model.asked.name


def test_questions_without_constants_are_answered_from_facts_or_refused(
    world_model: Path, capsys: Captured
) -> None:
    question = "?c : borders(?c, ?d) & !member_of(?c, NATO)"
    found = clmpt.load(world_model, "cpu", reasoner="truth-values").ask(question, limit=2000)
    assert found.known == len(solve(question, clmpt.load(world_model, "cpu").graph))
    assert any(answer.status == "predicted" for answer in found)
    model = clmpt.load(world_model, "cpu", reasoner="clmpt")
    usual = Answerer(replace(model.asked, insisted=False), model.graph).ask(question, limit=2000)
    assert [answer.entity for answer in usual] == [answer.entity for answer in found]
    assert any("truth values answer it" in note for note in usual.notes)
    assert main(["ask", str(world_model), question, "--reasoner", "clmpt"]) == 2
    assert "--reasoner truth-values" in capsys.readouterr().err


def test_wrong_uses_of_ask_and_evaluate(world_model: Path, capsys: Captured) -> None:
    question = "?c : borders(?c, France)"
    for words, hint in (
        (["ask", str(world_model), question, "--reasoner", "gqe"], "Available: "),
        (["ask", str(world_model), question, "--at-least", "7"], "from 0 to 1"),
        (["ask", str(world_model), question, "--only", "unknown"], "invalid choice"),
        (["evaluate", str(world_model), "--links", "--calibration"], "--queries SOURCE"),
    ):
        with pytest.raises(SystemExit) if hint in ("from 0 to 1", "invalid choice") else _plain():
            assert main(words) == 2
        assert hint in capsys.readouterr().err


def test_calibration_is_measured_by_hops(world_model: Path, capsys: Captured) -> None:
    """The error on queries that nothing was fitted to stays below .05."""
    queries = str(world_model / "test.queries")
    words = ["evaluate", str(world_model), "--queries", queries, "--calibration", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert [one["name"] for one in found] == ["all", "1 hop", "2 hops", "3 hops or more"]
    assert found[0]["count"] == sum(one["count"] for one in found[1:])
    assert found[0]["error"] <= 0.05


# --- evidence is faithful -------------------------------------------------------------------------


def asked_about(graph: KnowledgeGraph, likely: float) -> Answerer:
    """Truth values with one chance for every link that is not known."""
    shape_ = (len(graph.relations), len(graph.entities), len(graph.entities))
    rows = DenseRows(graph.index, with_facts(graph, np.full(shape_, likely, np.float32)))
    truth = TruthValueReasoner(rows, graph, 1.0)
    return Answerer(AskedModel(truth, "truth-values", truth), graph)


def test_without_a_known_edge_of_its_evidence_an_answer_loses_what_the_evidence_says() -> None:
    facts = [("ann", "knows", "bob"), ("bob", "likes", "tea"), ("eve", "likes", "rum")]
    question = "?drink : knows(ann, ?friend) & likes(?friend, ?drink)"
    whole = asked_about(KnowledgeGraph.from_triples(facts), 0.1)
    tea = next(answer for answer in whole.ask(question) if answer.label == "tea")
    assert tea.evidence is not None
    assert [str(atom) for atom in tea.evidence.atoms] == [
        "ann knows bob (known)",
        "bob likes tea (known)",
    ]
    assert tea.score == tea.evidence.value == tea.evidence.product == 1
    # Without 'bob likes tea' the same derivation has a factor of 0.1 where it had 1.
    names = KnowledgeGraph.from_triples(facts)
    without = KnowledgeGraph.from_triples([facts[0], facts[2], ("tea", "is", "tea")])
    less = next(a for a in asked_about(without, 0.1).ask(question) if a.label == "tea")
    assert less.score == pytest.approx(0.1)
    assert less.evidence is not None
    assert less.evidence.atoms[1].status == "predicted"
    assert less.evidence.atoms[1].probability == pytest.approx(0.1)
    assert names.labels(solve(parse(question), names)) == ["tea"]


def _plain() -> object:
    from contextlib import nullcontext

    return nullcontext()


def test_facts_that_a_reasoner_may_use_are_chosen_by_split(fitted: Path, capsys: Captured) -> None:
    model = str(fitted / "model")
    words = ["evaluate", model, "--queries", str(fitted / "model" / "test.queries"), "--json"]
    words += ["--reasoner", "truth-values", "--shapes", "1p", "2p", "2i", "--device", "cpu"]
    assert main(words) == 0
    usual = json.loads(capsys.readouterr().out)["queries"]["mean"]
    assert main([*words, "--known", "train", "valid", "test"]) == 0  # with these, all is known
    assert json.loads(capsys.readouterr().out)["queries"]["mean"] == pytest.approx(1)
    assert usual < 0.9
    assert main([*words, "--known", "yesterday"]) == 2
    assert "The graph has no split 'yesterday'" in capsys.readouterr().err


def test_a_row_that_was_held_out_is_as_likely_as_the_model_says(world_model: Path) -> None:
    model = clmpt.load(world_model, "cpu", reasoner="truth-values")
    rows = model.ask_rows("?c, ?o : member_of(?c, ?o) & member_of(Sweden, ?o)", limit=5000)
    hidden = [row for row in rows if row.status == "hidden"]
    assert hidden
    assert {row.probability for row in rows if row.status == "known"} == {1.0}
    assert any(row.probability is not None and row.probability < 1 for row in hidden)
    assert [row.score for row in hidden] == sorted((row.score for row in hidden), reverse=True)
