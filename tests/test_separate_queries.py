"""Official queries that are in a folder of their own, as Query2box's; measured on validation."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.experiments.entries import entries_in
from clmpt.graph.opening import open_graph
from clmpt.queries.benchmark_files import read_queries
from clmpt.storage.run_folder import read_log, source_of
from small_experiment import arguments

POSITIVE = "1p 2p 2i 2u"


@pytest.fixture
def queries(home: Path, tmp_path: Path) -> Path:
    """A folder with the stand-in's validation queries and one training query, but no graph."""
    folder = tmp_path / "queries"
    folder.mkdir()
    for kind in ("queries", "easy-answers", "hard-answers"):
        found = (home / "NELL-q2b" / f"valid-{kind}.pkl").read_bytes()
        (folder / f"valid-{kind}.pkl").write_bytes(found)
    graph = open_graph(home / "NELL-betae")
    asked = {(int(head), (int(relation),)) for head, relation, _ in graph.triples("train")[:1]}
    (folder / "train-queries.pkl").write_bytes(pickle.dumps({("e", ("r",)): asked}))
    return folder


def test_they_are_used_and_nothing_is_chosen_on_what_is_measured(
    home: Path, queries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = arguments(home, out, "--queries", str(queries), "--json")
    words += ["--set", "experiment.benchmark=nell995-q2b", "--set", "tested=valid"]
    words += ["--set", f"measured={POSITIVE}", "--set", "trained=1p 2p"]
    assert main([*words, "--set", "training.validation_queries=0"]) == 0
    found = json.loads(capsys.readouterr().out)
    reasoner = Path(found["folders"]["reasoner"])
    assert all(line["valid"] is None for line in read_log(reasoner))
    assert source_of(reasoner) == str(home / "NELL-betae")  # where `ask` finds the graph
    assert found["report"]["observed"] == ["train"]
    hard = {group.name: len(group.hard.entities) for group in read_queries(queries, "valid")}
    shapes = {row["shape"]: row["hard_answers"] for row in found["report"]["shapes"]}
    assert shapes == {name: hard[name] for name in POSITIVE.split()}
    (entry, _) = entries_in(out)
    assert entry.queries["train"].startswith("official: 1p 1; sampled")
    assert entry.queries["test"].startswith("official, of the validation split: ")
    page = (out / "report" / "report.md").read_text()
    assert "| Hits@3 × 100 |" in page
    assert "ours on those of the validation split" in page
    assert f"{100 * entry.figure('1p', 'hits_at_3'):.1f}" in page


def test_a_sweep_needs_validation_queries(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(home, tmp_path / "run", "--set", "training.learning_rate=0.01,0.1")
    assert main([*words, "--set", "training.validation_queries=0"]) == 2
    assert "and there are none" in capsys.readouterr().err
