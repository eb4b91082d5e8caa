"""Custom models: found by name, path or entry point, and used like the built-in ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import clmpt
from clmpt.cli.main import main
from clmpt.compute.tensor_files import open_tensors, save_tensors
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.measuring import evaluate
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.message_passing.clmpt import CLMPT
from clmpt.reasoners.model import ReasonerModel, read_reasoning
from clmpt.reasoners.reasoner_folder import open_reasoner, parameter_counts
from clmpt.registry import PREDICTORS, REASONERS, Registry
from clmpt.settings import Reasoning
from clmpt.storage.run_folder import read_log, read_summary
from clmpt.training.runs import train
from own_models import Boxes, Known
from small_training import predictor, queries, settings, valid_graph
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]
OWN = ["own_models:Boxes", "own_models:Known", "own_models:Both"]
POSITIVE = ("1p", "2p", "2i", "2u")


def trained(name: str, out: Path, **given: Any) -> Reasoning:
    chosen = read_reasoning({"reasoner": name, **given})
    needed = predictor() if REASONERS.find(name).needs_predictor else None
    graph = valid_graph()
    asked = queries(graph, shapes=POSITIVE)
    chosen_training = settings(epochs=1, validation_queries=10)
    for _ in train(graph, needed, asked, chosen, chosen_training, out):
        pass
    return chosen


@pytest.mark.parametrize("name", OWN)
def test_a_custom_model_is_trained_stored_opened_evaluated_and_queried(
    name: str, tmp_path: Path
) -> None:
    trained(name, tmp_path / "run")
    graph = valid_graph()
    stored = open_reasoner(tmp_path / "run", graph, trust=[name])
    asked = QuerySet.open(tmp_path / "run" / "valid.queries").groups
    logged = [line["valid"]["mrr"] for line in read_log(tmp_path / "run")]
    report = evaluate(stored.model.reasoner(), asked)
    assert report.mean == pytest.approx(max(logged))
    assert report.model == type(stored.model).title
    graph.save(tmp_path / "graph")
    model = clmpt.Answerer.open(tmp_path / "run", tmp_path / "graph", "cpu", trust=[name])
    assert len(model.ask("?y : r0(e0, ?x) & r1(?x, ?y)")) == 10
    model.save(tmp_path / "shipped")
    again = clmpt.load(tmp_path / "shipped", "cpu", trust=[name])
    one = QueryGroup.single(graph.bind(clmpt.parse("?y : r2(e1, ?y)")))
    assert torch.equal(again.reasoner.score([one]), model.reasoner.score([one]))


def test_a_model_without_gradients_takes_no_steps_but_is_tuned(tmp_path: Path) -> None:
    trained("own_models:Known", tmp_path / "run")
    assert read_summary(tmp_path / "run")["steps_done"] == 0
    assert parameter_counts(tmp_path / "run") == (0, 0)
    model = open_reasoner(tmp_path / "run", valid_graph(), trust=OWN).model
    assert isinstance(model, Known)
    assert float(model.weight) in Known.weights
    asked = QuerySet.open(tmp_path / "run" / "valid.queries").groups
    chosen = float(model.weight)
    model.tune(asked)
    assert len(model.tuned_with) == len(Known.weights)
    assert float(model.weight) == chosen


def test_a_model_made_of_two_others_stores_all_weights_once(tmp_path: Path) -> None:
    from safetensors import safe_open

    trained("own_models:Both", tmp_path / "run")
    with safe_open(tmp_path / "run" / "weights.safetensors", "pt") as file:
        names = list(file.keys())
    assert "known.weight" in names
    assert any(name.startswith("neural.blocks.0") for name in names)
    assert not [name for name in names if "entities_ED" in name]


def test_a_model_sees_only_training_facts(tmp_path: Path) -> None:
    trained("own_models:Known", tmp_path / "run")
    model = open_reasoner(tmp_path / "run", valid_graph(), trust=OWN).model
    assert isinstance(model, Known)
    assert len(model.graph.triples()) == len(valid_graph().triples("train"))


def test_commands_accept_a_dotted_path(tmp_path: Path, capsys: Captured) -> None:
    graph = valid_graph()
    graph.save(tmp_path / "graph")
    queries(graph, shapes=POSITIVE).save(tmp_path / "train.queries")
    out, place = str(tmp_path / "boxes"), str(tmp_path / "graph")
    words = f"train {place} --reasoner own_models:Boxes --queries {tmp_path}/train.queries"
    words += f" --out {out} --rank 4 --steps 3 --batch 8 --device cpu --json"
    assert main(words.split()) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["reasoner"] == "own_models:Boxes"
    assert about["reasoning"] == {"rank": 4}
    question = "?y : r0(e0, ?y)"
    assert main(["ask", out, question]) == 2
    assert "If you trust it: --trust own_models:Boxes" in capsys.readouterr().err
    assert main(["ask", out, question, "--trust", "own_models:Boxes", "--limit", "2"]) == 0


def test_fit_skips_the_predictor_if_the_model_needs_none(tmp_path: Path) -> None:
    tables: dict[str, dict[str, Any]] = {
        "fitting": {"queries": 20, "test_queries": 5},
        "reasoning": {"reasoner": "own_models:Known"},
    }
    seen: list[str] = []
    model = clmpt.fit(
        valid_graph(), tmp_path / "m", tables, lambda now: seen.append(now.stage), "cpu"
    )
    assert list(dict.fromkeys(seen)) == [
        "training queries",
        "training",
        "test queries",
        "measuring",
        "checking probabilities",
    ]
    assert model.reasoner.name == "Known"
    assert not (tmp_path / "m" / "predictor").exists()


def test_a_folder_cannot_import_untrusted_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained("own_models:Boxes", tmp_path / "run")
    evil = tmp_path / "path" / "evil_module.py"
    evil.parent.mkdir()
    evil.write_text("raise SystemExit('this ran')")
    folder = without_checksums(tmp_path / "run")
    about, weights = folder / "reasoner.json", folder / "weights.safetensors"
    tensors, header = open_tensors(weights)
    monkeypatch.syspath_prepend(str(evil.parent))
    for name in ("evil_module:Model", "os:system", "evil_module", "os", "clmpt"):
        document = {**json.loads(about.read_text()), "reasoner": name}
        about.write_text(json.dumps(document))
        save_tensors(weights, tensors, {**header, "reasoner": name})
        with pytest.raises(DataError, match=r"not part of this installation|expected content"):
            open_reasoner(tmp_path / "run", valid_graph(), trust=["own_models:Boxes"])


# --- the registry ---------------------------------------------------------------------------------


def test_built_in_models_are_found_by_name_and_by_class() -> None:
    assert REASONERS.find("clmpt") is CLMPT
    assert REASONERS.name_of(CLMPT) == "clmpt"
    assert REASONERS.name_of(Boxes) == "own_models:Boxes"
    assert [PREDICTORS.name_of(PREDICTORS.find(name)) for name in PREDICTORS.own] == list(
        PREDICTORS.own
    )


def fresh_registry() -> Registry[ReasonerModel]:
    return Registry("reasoner", "clmpt.reasoners", REASONERS.base, REASONERS.own)


def test_a_class_is_registered_under_a_name() -> None:
    registry = fresh_registry()
    registry.register("boxes", Boxes)
    assert registry.find("boxes") is Boxes
    assert registry.name_of(Boxes) == "boxes"
    assert registry.is_known("boxes")
    with pytest.raises(SettingError, match="The reasoner 'clmpt' already exists"):
        registry.register("clmpt", Boxes)
    with pytest.raises(SettingError, match="must be a class that extends ReasonerModel"):
        registry.register("words", str)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("clmtp", "Did you mean 'clmpt'"),
        ("zzz", "Available: clmpt, lmpnn"),
        ("no_such_module:Model", "cannot be imported: No module named 'no_such_module'"),
        ("own_models:Nothing", "cannot be imported"),
        ("own_models:BoxSettings", "must be a class that extends ReasonerModel"),
        (":", "cannot be imported"),
    ],
)
def test_unknown_models_are_reported(name: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        fresh_registry().find(name)


def test_an_installed_package_adds_models_by_entry_points(tmp_path: Path) -> None:
    about = tmp_path / "boxes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: boxes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[clmpt.reasoners]\nboxes = own_models:Boxes\n")
    script = (
        "from clmpt.registry import REASONERS\n"
        "kind = REASONERS.find('boxes')\n"
        "print(kind.title, REASONERS.name_of(kind), 'boxes' in REASONERS.names())\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["Boxes", "boxes", "True"]
