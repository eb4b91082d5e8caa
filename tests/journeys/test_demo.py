"""The demo: its output, its files, and that a second run only opens the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clmpt
from clmpt.cli.commands.demo import QUESTIONS
from clmpt.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_the_output_of_the_demo(world_model: Path) -> None:
    said = world_model.with_name("clmpt-world.txt").read_text()
    for words, formula in QUESTIONS:
        assert words in said
        assert str(clmpt.parse(formula)) in said
    assert "├─" in said
    for mark in ("\tknown\n", "\tpredicted, true (hidden)\n", "\tpredicted\n"):
        assert mark in said
    for stage in ("pre-training:", "training queries:", "training:", "test queries:", "measuring:"):
        assert stage in said
    assert "shape\thybrid\tCLMPT\ttruth values\tbeam search\tqueries" in said
    assert f"The model is in {world_model}" in said
    assert said.count(f"clmpt ask {world_model}") == 3
    assert "clmpt fit YOUR_FACTS.tsv" in said


def test_a_tenth_of_the_facts_is_hidden(world_model: Path) -> None:
    graph = clmpt.open_graph(world_model)
    hidden = len(graph.triples("valid", "test"))
    assert hidden == 2 * round(0.05 * len(graph.triples()))
    borders = graph.relations.names.find("borders")[0]
    for split in graph.splits:
        pairs = {(h, t) for h, r, t in graph.triples(split).tolist() if r == borders}
        assert pairs == {(t, h) for h, t in pairs}


def test_the_second_run_opens_the_model(world_model: Path, capsys: Captured) -> None:
    before = (world_model / "reasoner" / "weights.safetensors").stat().st_mtime_ns
    assert main(["demo", "--out", str(world_model), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "already finished" in err
    assert "pre-training" not in err
    found = json.loads(out)
    assert len(found["questions"]) == len(QUESTIONS)
    assert (world_model / "reasoner" / "weights.safetensors").stat().st_mtime_ns == before


def test_the_model_predicts_hidden_facts_better_than_its_predictor(world_model: Path) -> None:
    """On the mean over all shapes; single shapes vary from machine to machine."""
    means = [
        json.loads((world_model / name / "report.json").read_text())["mean"]
        for name in ("report", "report-beam-search")
    ]
    assert means[0] > means[1] > 0.25


def test_some_hidden_answers_are_among_the_first_ten(world_model: Path) -> None:
    model = clmpt.load(world_model)
    found = [model.ask(formula) for _, formula in QUESTIONS]
    assert sum(answer.status == "hidden" for answers in found for answer in answers) >= 4
    for answers in found:
        assert "known" in [answer.status for answer in answers]
