"""A graph that grew: `fit` updates the model, and `ask` says what is new to it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from test_fitting_commands import files_of, refused

import clmpt
from clmpt.cli.main import main
from clmpt.experiments.updating import previous_folder, update_folder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.storage.run_folder import is_finished
from killing import killed_when
from small_fit import TABLES, fit_words

Captured = pytest.CaptureFixture[str]
NEWS = "dana\tr0\te1\ndana\tr1\te2\ne3\tr2\tdana\nemil\tr0\te1\ne4\tr3\te5\ne1\tlikes\te2\n"


@pytest.fixture
def grown(fitted: Path, tmp_path: Path) -> Path:
    """A fitted model, and the facts it was made of with some more."""
    shutil.copytree(fitted / "model", tmp_path / "model")
    shutil.copy(fitted / "quick.toml", tmp_path)
    (tmp_path / "facts.tsv").write_text((fitted / "facts.tsv").read_text() + NEWS)
    return tmp_path


def test_a_newer_graph_is_asked_with_the_model_of_before(grown: Path, capsys: Captured) -> None:
    words = ["--graph", str(grown / "facts.tsv"), "--device", "cpu"]
    assert main(["ask", str(grown / "model"), "?x : r0(e1, ?x)", *words]) == 0
    note = "New to the model: 2 entities (dana, emil) and 1 relation (likes)."
    assert note in capsys.readouterr().err
    assert main(["ask", str(grown / "model"), "?x : r0(dana, ?x)", *words, "--json"]) == 0
    out, _ = capsys.readouterr()
    found = json.loads(out)
    assert [one["name"] for one in found["answers"]] == ["e1"]
    assert found["answers"][0]["evidence"][0]["status"] == "known"
    assert found["notes"][0] == "'dana' is new to the model: truth values answer it."
    assert main(["ask", str(grown / "model"), "?x : likes(?x, e2)", *words, "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["answers"]] == ["e1"]
    two_hops = "?x : r1(dana, ?y) & r0(?y, ?x)"  # what follows from facts first, then predictions
    assert main(["ask", str(grown / "model"), two_hops, *words, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert {one["status"] for one in answers} == {"known", "predicted"}
    assert not {"dana", "emil"} & {one["name"] for one in answers if not one["known"]}
    refusal = refused(capsys, "ask", str(grown / "model"), two_hops, *words, "--reasoner", "clmpt")
    assert "'dana' is new to the model: CLMPT has not seen it" in refusal
    asked = ["?x : r0(e1, ?x)", *words, "--reasoner", "clmpt", "--limit", "50", "--json"]
    assert main(["ask", str(grown / "model"), *asked]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert not {"emil", "dana"} & {one["name"] for one in answers if one["status"] == "predicted"}


def test_a_graph_of_something_else_is_refused(grown: Path, capsys: Captured) -> None:
    (grown / "other.tsv").write_text("a\tlikes\tb\nb\tlikes\tc\n")
    told = refused(
        *(capsys, "ask", str(grown / "model"), "?x : likes(a, ?x)"),
        *("--graph", str(grown / "other.tsv")),
    )
    assert "made for a graph with different entity names" in told


def test_fit_updates_a_model_and_keeps_the_one_before(grown: Path, capsys: Captured) -> None:
    before = files_of(grown / "model")
    assert main(fit_words(grown, "model", "--plan")) == 0
    out, _ = capsys.readouterr()
    assert f"update    of {grown / 'model'}: 2 new entities, 1 new relation, 6 new facts" in out
    assert main(fit_words(grown, "model")) == 0
    out, err = capsys.readouterr()
    assert f"The model before is kept in {grown / 'model'}.previous." in out
    assert "trying regularisation" not in err
    assert files_of(previous_folder(grown / "model")) == before
    assert not update_folder(grown / "model").exists()
    assert main(["ask", str(grown / "model"), "?x : r0(dana, ?x)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["notes"]
    assert len(found["answers"]) > 1  # now there are predictions
    assert main(fit_words(grown, "model", "--json")) == 0
    out, err = capsys.readouterr()
    assert "already finished" in err
    assert json.loads(out)["previous"] is None
    old, new = (
        KnowledgeGraph.open(path / "graph") for path in (grown / "model.previous", grown / "model")
    )
    for split in ("valid", "test"):
        assert named(old, split) <= named(new, split)
    assert named(old, "train") <= named(new, "train")


def named(graph: KnowledgeGraph, split: str) -> set[tuple[str, str, str]]:
    entities, relations = graph.entities.names, graph.relations.names
    return {(entities[h], relations[r], entities[t]) for h, r, t in graph.triples(split).tolist()}


def test_an_update_that_is_killed_goes_on_and_leaves_the_model_usable(
    grown: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("whole")
    shutil.copytree(grown, other, dirs_exist_ok=True)
    assert main(fit_words(other, "model")) == 0
    command = [sys.executable, "-m", "clmpt", *fit_words(grown, "model")]
    for awaited in ("predictor", "reasoner", "report"):
        killed_when((update_folder(grown / "model") / awaited).exists, command)
        assert not is_finished(update_folder(grown / "model"))
        assert clmpt.load(grown / "model", "cpu").ask("?x : r0(e1, ?x)")
    assert main(fit_words(grown, "model")) == 0
    assert files_of(grown / "model") == files_of(other / "model")


def test_a_kill_between_the_two_renames_loses_nothing(grown: Path, capsys: Captured) -> None:
    model = grown / "model"
    shutil.copytree(model, grown / "kept")
    assert main(fit_words(grown, "model")) == 0
    updated = files_of(model)
    model.rename(update_folder(model))  # as after the first rename
    assert main(fit_words(grown, "model")) == 0
    assert "already finished" in capsys.readouterr().err
    assert files_of(model) == updated
    assert previous_folder(model).is_dir()


def test_a_second_update_replaces_the_model_that_was_kept(grown: Path) -> None:
    assert main(fit_words(grown, "model")) == 0
    first = files_of(grown / "model")
    with (grown / "facts.tsv").open("a") as file:
        file.write("fay\tr0\te1\nfay\tr1\te2\n")
    assert main(fit_words(grown, "model")) == 0
    assert files_of(previous_folder(grown / "model")) == first


def test_the_same_facts_in_another_order_are_no_change(
    fitted: Path, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    shutil.copy(fitted / "quick.toml", tmp_path)
    lines = (fitted / "facts.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "facts.tsv").write_text("".join(reversed(lines)))
    before = files_of(tmp_path / "model")
    assert main(fit_words(tmp_path, "model")) == 0
    assert "already finished" in capsys.readouterr().err
    assert files_of(tmp_path / "model") == before
    assert not previous_folder(tmp_path / "model").exists()


def test_an_update_with_other_settings_is_refused(grown: Path, capsys: Captured) -> None:
    told = refused(capsys, *fit_words(grown, "model", "--seed", "7"))
    assert "other settings (fitting.seed: 0 there, 7 here)" in told
    assert not update_folder(grown / "model").exists()


def test_a_folder_in_the_way_is_not_removed(grown: Path, capsys: Captured) -> None:
    previous_folder(grown / "model").mkdir()
    (grown / "model.previous" / "diary").write_text("mine")
    assert "is in the way" in refused(capsys, *fit_words(grown, "model"))
    shutil.rmtree(grown / "model.previous")
    assert main(fit_words(grown, "model")) == 0  # nothing is trained again
    assert "dana" in KnowledgeGraph.open(grown / "model" / "graph").entities.names


def test_facts_that_were_trained_on_may_not_be_held_out_now(
    grown: Path, tmp_path: Path, capsys: Captured
) -> None:
    graph = KnowledgeGraph.open(grown / "model" / "graph")
    for split, facts in (
        ("train", named(graph, "test") | named(graph, "valid")),
        ("test", named(graph, "train")),
    ):
        (tmp_path / f"{split}.tsv").write_text(
            "".join("\t".join(fact) + "\n" for fact in sorted(facts))
        )
    words = fit_words(grown, "model")
    words[1:2] = [f"train={tmp_path / 'train.tsv'}", f"test={tmp_path / 'test.tsv'}"]
    assert "were trained on before" in refused(capsys, *words)


def test_fit_updates_in_python_too(grown: Path) -> None:
    model = clmpt.fit(grown / "facts.tsv", grown / "python", TABLES, device="cpu")
    assert "dana" in model.graph.entities.names
    with (grown / "facts.tsv").open("a") as file:
        file.write("fay\tr0\te1\nfay\tr1\te2\n")
    model = clmpt.fit(grown / "facts.tsv", grown / "python", TABLES, device="cpu")
    assert "fay" in model.graph.entities.names
    assert (grown / "python.previous").is_dir()


def test_training_starts_from_given_weights(grown: Path, tmp_path: Path, capsys: Captured) -> None:
    model = grown / "model"
    own = json.loads((model / "reasoner" / "reasoner.json").read_text())["reasoning"]
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in own.items())
    (tmp_path / "own.toml").write_text(f"[reasoning]\nreasoner = 'hybrid'\n{lines}\n")
    quick = ["--recipe", str(tmp_path / "own.toml"), "--device", "cpu"]
    queries, predictor = str(model / "train.queries"), str(model / "predictor")
    graph, checkpoint = str(model / "graph"), str(model / "reasoner")
    words = ["train", graph, "--predictor", predictor, "--queries", queries, *quick]
    none = ["--steps", "0", "--epochs", "0", "--start-from", checkpoint]
    assert main([*words, "--out", str(tmp_path / "same"), *none]) == 0
    question = "?x : r0(e1, ?y) & r1(?y, ?x)"
    first, second = (
        clmpt.load(model, "cpu", reasoner="clmpt").ask(question),
        clmpt.Answerer.open(tmp_path / "same", device="cpu", reasoner="clmpt").ask(question),
    )
    assert [(a.name, a.score) for a in first] == [(a.name, a.score) for a in second]
    wider = ["--feed-forward", "32", "--out", str(tmp_path / "wide"), *none]
    assert "other settings" in refused(capsys, *words, *wider)
    started = ["--start-from", predictor, "--rank", "8", "--epochs", "1", "--device", "cpu"]
    assert main(["pretrain", graph, "--out", str(tmp_path / "more"), *started]) == 0
    wrong = ["--start-from", predictor, "--rank", "4", "--device", "cpu"]
    told = refused(capsys, "pretrain", graph, "--out", str(tmp_path / "less"), *wrong)
    assert "cannot start from a ComplEx of width 16" in told
