"""pretrain, evaluate, curve and convert: normal use and common mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from clmpt.cli.main import main
from clmpt.graph.builder import GraphBuilder
from tampering import without_checksums
from toy import random_graph

Captured = pytest.CaptureFixture[str]
QUICK = ["--rank", "4", "--epochs", "3", "--batch", "64", "--device", "cpu"]


@pytest.fixture
def graph(tmp_path: Path) -> str:
    """A stored graph with the three usual splits."""
    builder, toy = GraphBuilder(), random_graph(False)
    names, relations = toy.entities.names, toy.relations.names
    for number, (head, relation, tail) in enumerate(toy.triples().tolist()):
        split = "valid" if number % 10 == 8 else "test" if number % 10 == 9 else "train"
        builder.add(split, names[head], relations[relation], names[tail])
    builder.build().save(tmp_path / "graph")
    return str(tmp_path / "graph")


@pytest.fixture
def trained(graph: str, tmp_path: Path, capsys: Captured) -> str:
    assert main(["pretrain", graph, "--out", str(tmp_path / "model"), *QUICK]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"validation MRR 0\.\d{4} at epoch \d, in", out)
    assert "Next: clmpt evaluate" in out
    assert len(re.findall(r"epoch \d/3, step .*: loss .*valid MRR .* left", err)) == 3
    return str(tmp_path / "model")


def refused(capsys: Captured, *arguments: str) -> str:
    """The error for bad input: one line, no traceback."""
    assert main(list(arguments)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("clmpt")
    return said[-1]


def test_links_can_be_measured_on_a_sample(trained: str, capsys: Captured) -> None:
    def counts(*options: str) -> list[int]:
        assert main(["evaluate", trained, "--links", "--json", *options]) == 0
        return [row["count"] for row in json.loads(capsys.readouterr().out)["links"]]

    few, all_of_them = counts("--limit", "3"), counts()
    assert all(3 <= some < total for some, total in zip(few, all_of_them, strict=True))
    assert few == counts("--limit", "3")
    assert "--links" in refused(capsys, "evaluate", trained, "--queries", "x", "--limit", "3")


def test_train_and_evaluate(trained: str, capsys: Captured) -> None:
    assert main(["evaluate", trained, "--links", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["links"]
    assert [row["split"] for row in found] == ["valid", "test"]
    for row in found:
        assert 0 < row["hits_at_1"] <= row["hits_at_3"] <= row["hits_at_10"] <= 1
        assert row["hits_at_1"] <= row["mrr"] <= 1
    assert main(["evaluate", trained, "--links", "--split", "test"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split("\t") == ["links of", "MRR", "Hits@1", "Hits@3", "Hits@10", "over"]
    assert line.split("\t")[1] == f"{found[1]['mrr']:.4f}"


def test_a_curve_as_table_json_and_picture(trained: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["curve", trained]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t")[:4] == ["run", "epoch", "loss", "valid MRR"]
    assert len(lines) == 4
    assert main(["curve", trained, "--json"]) == 0
    assert [row["epoch"] for row in json.loads(capsys.readouterr().out)] == [1, 2, 3]
    picture = tmp_path / "curve.svg"
    assert main(["curve", trained, "--svg", str(picture)]) == 0
    assert picture.read_text().count("<circle") == 6
    assert main(["curve", trained, "--svg", str(picture)]) == 0
    assert "already there" in capsys.readouterr().err
    assert "already exists" in refused(capsys, "curve", trained, trained, "--svg", str(tmp_path))


def test_malformed_logs_are_shown_as_far_as_possible(
    trained: str, tmp_path: Path, capsys: Captured
) -> None:
    other = tmp_path / "other" / "model"
    other.mkdir(parents=True)
    odd = ['{"epoch": 1, "loss": 2.0, "valid": 5}', "{", "[]", '{"epoch": 1' + "0" * 400 + "}"]
    (other / "log.jsonl").write_text("\n".join(odd))
    assert main(["curve", trained, str(other), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows] == [trained] * 3 + [str(other)] * 2
    assert main(["curve", trained, str(other), "--svg", str(tmp_path / "c.svg")]) == 0
    assert "cannot be read" in refused(capsys, "curve", str(tmp_path))


@pytest.mark.parametrize("content", ["[1]", "null", '{"source": 5}', "{"])
def test_a_damaged_run_file_gives_no_traceback(
    content: str, trained: str, graph: str, capsys: Captured
) -> None:
    (without_checksums(Path(trained)) / "run.json").write_text(content)
    refused(capsys, "evaluate", trained, "--links")
    refused(capsys, "pretrain", graph, "--out", trained, *QUICK)


def test_without_held_out_facts_the_hint_still_works(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "f.tsv").write_text("a\tlikes\tb\nb\tlikes\tc\n")
    assert main(["pretrain", str(tmp_path / "f.tsv"), "--out", str(tmp_path / "m"), *QUICK]) == 0
    hint = capsys.readouterr().out.splitlines()[-1]
    assert main(hint.removeprefix("Next: clmpt ").split()) == 0


def test_options_take_precedence_over_the_recipe(
    graph: str, tmp_path: Path, capsys: Captured
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[pretraining]\nmodel = "distmult"\nrank = 3\nepochs = 1\nseed = 5\n')
    out = tmp_path / "model"
    assert (
        main(["pretrain", graph, "--out", str(out), "--settings", str(recipe), "--rank", "6"]) == 0
    )
    capsys.readouterr()
    used = json.loads((out / "predictor.json").read_text())["settings"]
    assert (used["model"], used["rank"], used["epochs"], used["seed"]) == ("distmult", 6, 1, 5)
    recipe.write_text("[pretraining]\nrnak = 3\n")
    said = refused(capsys, "pretrain", graph, "--out", "x", "--settings", str(recipe))
    assert said == "clmpt: There is no setting 'rnak'. Did you mean 'rank'?"
    recipe.write_text("[training]\nrank = 3\n")
    said = refused(capsys, "pretrain", graph, "--out", "x", "--settings", str(recipe))
    assert "[pretraining]" in said


def test_a_missing_device_is_rejected(graph: str, capsys: Captured) -> None:
    said = refused(capsys, "pretrain", graph, "--out", "x", "--device", "quantum")
    assert "Try 'cpu' or 'auto'" in said
    assert not Path("x").exists()


def test_a_model_rejects_another_graph(trained: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "other.tsv").write_text("a\tlikes\tb\n")
    other = str(tmp_path / "other.tsv")
    said = refused(capsys, "evaluate", trained, "--links", "--graph", other)
    assert "different entity names" in said


def test_a_moved_graph_must_be_named(trained: str, graph: str, capsys: Captured) -> None:
    Path(graph).rename(graph + "-moved")
    assert "--graph FOLDER" in refused(capsys, "evaluate", trained, "--links")
    assert main(["evaluate", trained, "--links", "--graph", graph + "-moved"]) == 0


def test_evaluate_needs_something_to_evaluate_on(trained: str, capsys: Captured) -> None:
    assert "--links" in refused(capsys, "evaluate", trained)


def test_a_finished_run_is_not_repeated(trained: str, graph: str, capsys: Captured) -> None:
    weights = (Path(trained) / "weights.safetensors").read_bytes()
    assert main(["pretrain", graph, "--out", trained, *QUICK]) == 0
    shown = capsys.readouterr()
    assert "already finished" in shown.err
    assert "Next: clmpt evaluate" in shown.out
    assert (Path(trained) / "weights.safetensors").read_bytes() == weights
    other = [*QUICK[:-2], "--device", "cpu", "--seed", "9"]
    assert "seed: 0 there, 9 here" in refused(capsys, "pretrain", graph, "--out", trained, *other)


def test_convert_and_evaluate(trained: str, graph: str, tmp_path: Path, capsys: Captured) -> None:
    from safetensors.torch import load_file

    tables = load_file(Path(trained) / "weights.safetensors")
    arrays = {"entities": tables["entities_ED"], "relations": tables["relations_SW"]}
    np.savez(tmp_path / "m.npz", **{name: table.numpy() for name, table in arrays.items()})
    torch.save(
        {
            "model_state_dict": {
                "embeddings.0.weight": arrays["entities"],
                "embeddings.1.weight": arrays["relations"],
            }
        },
        tmp_path / "m.pt",
    )
    assert main(["evaluate", trained, "--links", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    for source in ("m.npz", "m.pt"):
        out = str(tmp_path / f"from-{source}")
        command = ["convert", str(tmp_path / source), "--graph", graph, "--out", out]
        if source == "m.npz":
            assert "--model NAME" in refused(capsys, *command)
            command += ["--model", "complex"]
        assert main(command) == 0
        assert "complex of rank 4, 40 entities" in capsys.readouterr().out
        assert main(["evaluate", out, "--links", "--graph", graph, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == expected
        assert main(command) == 0
        assert "already there" in capsys.readouterr().err
        (Path(out) / "mine.txt").write_text("mine")
        assert "already exists" in refused(capsys, *command)
    wrong = ["convert", str(tmp_path / "m.pt"), "--graph", graph, "--out", "x"]
    assert "always ComplEx" in refused(capsys, *wrong, "--model", "transe")
