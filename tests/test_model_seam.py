"""What a model or predictor of somebody else's may bring along, and what is made of it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clmpt
import own_models
from clmpt.cli.main import main
from clmpt.errors import DataError, Diverged, SettingError
from clmpt.evaluation.ranks import filtered_ranks
from clmpt.experiments.fit_settings import fit_settings
from clmpt.predictors.predictor import read_pretraining
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.reasoners.reasoner_folder import open_reasoner
from clmpt.training.runs import pretrain, train
from clmpt.training.trainer import Trainer
from small_training import predictor, queries, settings, valid_graph
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]
NOISY, SCALED = "own_models:Noisy", "own_models:Scaled"


def trained(out: Path, stop_after: int | None = None) -> Any:
    graph = valid_graph()
    chosen = read_reasoning({"reasoner": NOISY})
    asked = queries(graph, shapes=("1p", "2i"))
    steps = train(graph, None, asked, chosen, settings(validation_queries=5, patience=99), out)
    seen = list(islice(steps, stop_after))
    steps.close()
    return seen


def test_modules_are_in_training_mode_in_steps_and_nowhere_else(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    stored = open_reasoner(tmp_path / "run", valid_graph(), trust=[NOISY])
    assert not stored.model.training
    one = QueryGroup.single(valid_graph().bind(clmpt.parse("?y : r0(e0, ?y)")))
    first, second = (stored.model.reasoner().score([one]) for _ in range(2))
    assert torch.equal(first, second)


def test_buffers_survive_an_interruption() -> None:
    graph = valid_graph()
    asked = queries(graph, shapes=("1p",)).groups

    def fresh() -> Trainer:
        model = build_model(Basis(graph), read_reasoning({"reasoner": NOISY}), seed=0)
        assert isinstance(model, own_models.Noisy)
        return Trainer(model, asked, settings())

    first, second = fresh(), fresh()
    for _ in range(3):
        first.step()
    second.restore({name: tensor.clone() for name, tensor in first.state().items()}, 3)
    assert second.state()["buffer.seen"] == 3


def test_a_predictor_s_own_weights_are_opened_as_they_were_saved(tmp_path: Path) -> None:
    chosen = read_pretraining({"model": SCALED, "rank": 4, "epochs": 2, "device": "cpu"})
    list(pretrain(valid_graph(), chosen, tmp_path / "run"))
    found = open_predictor(tmp_path / "run", trust=[SCALED]).predictor
    assert isinstance(found, own_models.Scaled)
    assert not torch.equal(found.scale_1D, torch.ones_like(found.scale_1D))


def test_a_class_may_be_named_by_where_it_is_imported_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_window.py").write_text("from own_models import Known as Known\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    tables = {
        "fitting": {"queries": 10, "test_queries": 3},
        "reasoning": {"reasoner": "shop_window:Known"},
    }
    model = clmpt.fit(valid_graph(), tmp_path / "m", tables, device="cpu")
    assert model.reasoner.name == "Known"


def test_what_does_not_fit_the_predictor_is_rejected_before_any_training() -> None:
    given = {"pretraining": {"model": "transe"}, "reasoning": {"penalty": 0.1}}
    with pytest.raises(SettingError, match="TransE has no one-hop inference with a penalty"):
        fit_settings(valid_graph(), given)


def test_a_forged_number_of_layers_is_rejected_at_once(tmp_path: Path) -> None:
    graph = valid_graph()
    chosen = read_reasoning({"heads": 2, "feed_forward": 8, "encoder_layers": 1})
    list(train(graph, predictor(), queries(graph), chosen, settings(epochs=1), tmp_path / "run"))
    about = without_checksums(tmp_path / "run") / "reasoner.json"
    document = json.loads(about.read_text())
    document["reasoning"]["encoder_layers"] = 10**9
    about.write_text(json.dumps(document))
    with pytest.raises(DataError, match="at most 1,000"):
        open_reasoner(tmp_path / "run", graph)


def test_files_of_two_checkpoints_are_not_taken_for_one(tmp_path: Path) -> None:
    graph = valid_graph()
    chosen = read_reasoning({"heads": 2, "feed_forward": 8})
    for name, seed in (("one", 0), ("two", 1)):
        given = settings(epochs=1, seed=seed)
        list(train(graph, predictor(seed), queries(graph), chosen, given, tmp_path / name))
    other = (tmp_path / "two" / "predictor.safetensors").read_bytes()
    (tmp_path / "one" / "predictor.safetensors").write_bytes(other)
    with pytest.raises(DataError, match="its checksum is wrong"):
        open_reasoner(tmp_path / "one", graph)
    without_checksums(tmp_path / "one")
    with pytest.raises(DataError, match="the predictor is another one"):
        open_reasoner(tmp_path / "one", graph)


def test_scores_that_are_not_numbers_have_no_rank_and_minus_infinity_the_last() -> None:
    hard, known = (AnswerSets(np.array([0, 1]), np.array([e])) for e in (0, 0))
    with pytest.raises(Diverged, match="not numbers"):
        filtered_ranks(torch.tensor([[0.5, torch.nan, 0.1]]), hard, known)
    low = torch.tensor([[-torch.inf, 0.3, -torch.inf]])
    assert filtered_ranks(low, hard, known).tolist() == [2.5]  # below one, tied with another


# --- wrong uses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("[reasoning]\nclmpt = 3\n", "[reasoning.clmpt] must be a table"),
        ("[reasoning]\nreasoner = 5\n", "'reasoner' must be of type str"),
        ("[reasoning]\nreasoner = 'clmtp'\n", "Did you mean 'clmpt'"),
        ("[reasoning.clmtp]\nheads = 2\n", "Did you mean 'clmpt'"),
        ("[reasoning]\nreasoner = '.x:Y'\n", "cannot be imported"),
        ("[reasoning]\nhaeds = 2\n", "Did you mean 'heads'"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "train"])
def test_a_wrong_table_is_named_in_a_line(
    recipe: str, why: str, command: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "r.toml"
    path.write_text(recipe + "[training]\nsteps = 1\n")
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    words = [
        command,
        str(tmp_path / "facts.tsv"),
        "--recipe",
        str(path),
        "--out",
        str(tmp_path / "o"),
    ]
    words += ["--queries", "none"] if command == "train" else []
    assert main(words) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_module_that_breaks_when_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("def (")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingError, match="broken_module:X' cannot be imported"):
        read_reasoning({"reasoner": "broken_module:X"})


def test_a_folder_called_exact_is_a_folder(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exact").symlink_to(fitted / "model")
    asked = ["--queries", str(fitted / "model" / "test.queries"), "--json"]
    assert main(["evaluate", "./exact", *asked]) == 0
    assert json.loads(capsys.readouterr().out)["queries"]["model"] != "exact solver"


def test_an_abbreviated_recipe_chooses_the_reasoner_too(
    fitted: Path, tmp_path: Path, capsys: Captured
) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[reasoning]\nreasoner = "lmpnn"\n[training]\nsteps = 1\nbatch = 8\n')
    model = fitted / "model"
    words = f"train {model} --predictor {model}/predictor --queries {model}/train.queries"
    assert main([*words.split(), "--rec", str(recipe), "--out", str(tmp_path / "o"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reasoner"] == "lmpnn"
