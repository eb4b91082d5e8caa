"""train, evaluate and ask: normal use and common mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from clmpt.answering.answerer import Answerer
from clmpt.cli.main import main
from clmpt.graph.builder import GraphBuilder
from clmpt.storage.run_folder import read_summary
from tampering import without_checksums
from toy import random_graph

Captured = pytest.CaptureFixture[str]
QUICK = "--epochs 2 --batch 64 --heads 2 --feed-forward 16 --validation-queries 5 --device cpu"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, a predictor, queries and a trained reasoner, made by commands."""
    folder = tmp_path_factory.mktemp("world")
    builder, toy = GraphBuilder(), random_graph(False)
    names, relations = toy.entities.names, toy.relations.names
    for number, (head, relation, tail) in enumerate(toy.triples().tolist()):
        split = "valid" if number % 10 == 8 else "test" if number % 10 == 9 else "train"
        builder.add(split, names[head], relations[relation], names[tail])
    builder.label("e0", "Entity zero")
    builder.build().save(folder / "graph")
    graph = str(folder / "graph")
    for line in (
        f"pretrain {graph} --out {folder}/predictor --rank 4 --epochs 2 --device cpu",
        f"sample {graph} --shapes 1p 2p 2in --count 50 --out {folder}/train.queries --workers 1",
        f"sample {graph} --shapes 1p 2p pni --count 9 --split test --out {folder}/test.queries "
        "--workers 1",
    ):
        assert main(line.split()) == 0
    assert main(_train(folder, "reasoner")) == 0
    return folder


def _train(folder: Path, out: str, *more: str) -> list[str]:
    line = f"train {folder}/graph --predictor {folder}/predictor --queries {folder}/train.queries"
    return [*line.split(), *QUICK.split(), "--out", str(folder / out), *more]


def refused(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("clmpt")
    return said[-1]


def test_training_reports_progress_and_the_next_command(
    world: Path, tmp_path: Path, capsys: Captured
) -> None:
    command = _train(world, "again")
    command[command.index("--out") + 1] = str(tmp_path / "again")
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "validation MRR 0." in out
    assert "Next: clmpt ask" in out
    assert "epoch 2/2, step 6/6: loss" in err
    assert main(["curve", str(tmp_path / "again"), "--json"]) == 0
    assert [line["epoch"] for line in json.loads(capsys.readouterr().out)] == [1, 2]
    assert main(command) == 0
    assert "already finished" in capsys.readouterr().err


def test_a_report_on_the_terminal_and_in_files(
    world: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path / "report"
    command = ["evaluate", str(world / "reasoner"), "--queries", str(world / "test.queries")]
    assert main([*command, "--report", str(folder)]) == 0
    out, err = capsys.readouterr()
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0][:3] == ["shape", "MRR", "±"]
    assert [line[0] for line in lines[1:]] == ["1p", "2p", "pni*"]
    assert "Easy answers follow from train + valid." in err
    assert "pni (*): A negated group" in err
    written = {"report.md", "report.json", "report.svg", "queries.safetensors", "checksums.json"}
    assert {path.name for path in folder.iterdir()} == written
    stored = json.loads((folder / "report.json").read_text())
    assert main([*command, "--json", "--shapes", "2p"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["queries"]["shapes"]
    assert only == stored["shapes"][1]
    assert main([*command, "--report", str(folder)]) == 0
    assert "already there" in capsys.readouterr().err
    more = ["--shapes", "2p", "--report"]
    assert "already exists" in refused(capsys, *command, *more, str(folder))
    assert "already exists" in refused(capsys, *command, *more, str(world))
    assert json.loads((folder / "report.json").read_text()) == stored
    assert "no queries of shape 3p" in refused(capsys, *command, "--shapes", "3p")


def test_predictors_and_the_exact_solver_have_the_same_report(
    world: Path, capsys: Captured
) -> None:
    queries = ["--queries", str(world / "test.queries"), "--json"]
    found = {}
    for name, checkpoint in (("hops", str(world / "predictor")), ("exact", "exact")):
        assert main(["evaluate", checkpoint, "--graph", str(world / "graph"), *queries]) == 0
        found[name] = json.loads(capsys.readouterr().out)["queries"]
    assert "beam search" in found["hops"]["model"]
    assert [row["shape"] for row in found["exact"]["shapes"]] == ["1p", "2p", "pni"]
    assert all(row["hits_at_1"] == 0 for row in found["exact"]["shapes"])
    assert not any(row["notes"] for row in found["exact"]["shapes"])
    assert [bool(row["notes"]) for row in found["hops"]["shapes"]] == [False, False, True]
    assert found["exact"]["observed"] == ["train", "valid"]


def test_asking_in_formula_and_sparql(world: Path, capsys: Captured) -> None:
    reasoner = str(world / "reasoner")
    assert main(["ask", reasoner, "?y : r0('Entity zero', ?x) & r1(?x, ?y)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["answers"]) == 10
    statuses = [answer["status"] for answer in found["answers"]]
    assert statuses == sorted(statuses, key=["known", "hidden", "predicted"].index)
    for status in set(statuses):
        scores = [answer["score"] for answer in found["answers"] if answer["status"] == status]
        assert scores == sorted(scores, reverse=True)
    assert main(["ask", reasoner, "SELECT ?y { <e0> <r0> ?x . ?x <r1> ?y } LIMIT 3", "--json"]) == 0
    short = json.loads(capsys.readouterr().out)
    assert short["answers"] == found["answers"][:3]
    assert main(["solve", str(world / "graph"), "?y : r0(e0, ?x) & r1(?x, ?y)", "--json"]) == 0
    known = {row["id"] for row in json.loads(capsys.readouterr().out)["answers"]}
    assert found["known"] == len(known)
    assert all(row["known"] == (row["id"] in known) for row in found["answers"])


def test_an_approximation_is_noted(world: Path, capsys: Captured) -> None:
    query = "?y : r0(e0, ?y) & !exists ?x (r1(e1, ?x) & r2(?x, ?y))"
    assert main(["ask", str(world / "reasoner"), query, "--limit", "2"]) == 0
    out, err = capsys.readouterr()
    header, *rows = [line.split("\t") for line in out.splitlines()]
    assert header == ["answer", "probability", "in the graph"]
    assert {row[2] for row in rows} <= {"known", "predicted"}
    assert "approximation" in err


def test_asking_from_python(world: Path) -> None:
    answerer = Answerer.open(world / "reasoner", device="cpu")
    found = answerer.ask("?y : r0(e0, ?y)", limit=3)
    assert len(found.answers) == 3
    again = answerer.ask("?y : r0(e0, ?y)", limit=40)
    assert again.answers[:3] == found.answers
    assert sum(answer.known for answer in again.answers) == found.known > 0


def test_bad_input_is_rejected_in_one_line(world: Path, tmp_path: Path, capsys: Captured) -> None:
    reasoner, graph = str(world / "reasoner"), str(world / "graph")
    assert "Did you mean 'r0'" in refused(capsys, "ask", reasoner, "?y : r00(e0, ?y)")
    assert "is not a model" in refused(capsys, "ask", graph, "?y : r0(e0, ?y)")
    assert "no run" in refused(capsys, *_train(world, "nothing", "--resume"))
    assert "do not divide" in refused(capsys, *_train(world, "odd", "--heads", "5"))
    assert not (world / "odd").exists()
    assert "other settings" in refused(capsys, *_train(world, "reasoner", "--seed", "9"))
    (tmp_path / "r.toml").write_text("[trainign]\nepochs = 1\n")
    recipe = ["--recipe", str(tmp_path / "r.toml")]
    assert "has an unknown entry 'trainign'" in refused(capsys, *_train(world, "new", *recipe))
    (tmp_path / "r.toml").write_text("[training]\nepoch = 1\n")
    assert "Did you mean 'epochs'" in refused(capsys, *_train(world, "new", *recipe))
    (tmp_path / "r.toml").write_text("training = 1\n")
    assert "has an unknown entry 'training'" in refused(capsys, *_train(world, "new", *recipe))
    other = tmp_path / "other.tsv"
    other.write_text("a\tr\tb\n")
    assert "different entity names" in refused(
        capsys, "ask", reasoner, "?y : r(a, ?y)", "--graph", str(other)
    )
    queries = ["--queries", str(world / "train.queries")]
    assert "no hard answers" in refused(capsys, "evaluate", reasoner, *queries)
    assert "evaluates a predictor" in refused(capsys, "evaluate", reasoner, "--links")
    assert "--graph" in refused(capsys, "evaluate", "exact", *queries)
    wrong = _train(world, "new")
    wrong[wrong.index("--predictor") + 1] = graph
    assert "not a predictor" in refused(capsys, *wrong)


def test_what_needs_too_much_memory_is_refused_before_anything_else_is_said(
    tmp_path: Path, capsys: Captured
) -> None:
    facts = [f"e{number}\tr\te{number + 1}\n" for number in range(50)]
    (tmp_path / "facts.tsv").write_text("".join(facts))
    queries = str(tmp_path / "train.queries")
    sampled = ["sample", str(tmp_path / "facts.tsv"), "--shapes", "1p", "--count", "2"]
    assert main([*sampled, "--out", queries]) == 0
    words = ["train", str(tmp_path / "facts.tsv"), "--queries", queries, "--reasoner", "gqe"]
    capsys.readouterr()
    assert (
        main([*words, "--out", str(tmp_path / "larger"), "--rank", str(10**12)]) == 2
    )  # beyond any address
    assert capsys.readouterr().err.startswith("clmpt: Out of memory. A lower rank")
    assert not (tmp_path / "larger").exists()
    assert main([*words, "--out", str(tmp_path / "small"), "--rank", "4", "--steps", "2"]) == 0
    assert "no facts in 'valid'" in capsys.readouterr().err


def test_options_override_a_recipe(world: Path, tmp_path: Path, capsys: Captured) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[reasoning]\nreasoner = "lmpnn"\n[training]\nseed = 5\nepochs = 1\n')
    command = _train(world, "recipe", "--recipe", str(recipe), "--epochs", "3", "--json")
    command[command.index("--out") + 1] = str(tmp_path / "recipe")
    with pytest.raises(SystemExit):
        main(command)
    assert "Unexpected argument '--heads'" in capsys.readouterr().err  # LMPNN has none
    heads = command.index("--heads")
    del command[heads : heads + 2]
    assert main([*command, "--epsilon", "0.25"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["reasoner"] == "lmpnn"
    assert about["reasoning"]["epsilon"] == 0.25
    assert about["reasoning"]["conditional"] is False
    assert (about["training"]["seed"], about["training"]["epochs"]) == (5, 3)


def test_a_model_that_can_express_none_of_the_queries_says_so(
    world: Path, tmp_path: Path, capsys: Captured
) -> None:
    graph, negated, out = str(world / "graph"), str(tmp_path / "2in.queries"), str(tmp_path / "gqe")
    sample = ["sample", graph, "--shapes", "2in", "--count", "5", "--out", negated]
    assert main([*sample, "--split", "test", "--workers", "1"]) == 0
    words = ["train", graph, "--reasoner", "gqe", "--queries", str(world / "train.queries")]
    quick = ["--out", out, "--steps", "2", "--rank", "4", "--device", "cpu"]
    assert "GQE uses no predictor" in refused(
        capsys, *words, *quick, "--predictor", str(world / "predictor")
    )
    assert main([*words, *quick, "--validation-queries", "5"]) == 0
    none = "GQE can express none of these queries (2in: GQE has no negation)."
    assert none in refused(capsys, "evaluate", out, "--queries", negated)
    assert none in refused(capsys, "evaluate", out, "--queries", negated, "--json")
    words[-1] = negated
    assert none in refused(capsys, *words, "--out", str(tmp_path / "new"), "--steps", "2")
    # It starts from constants, and has no truth values that would not.
    assert "Ask a model with a link predictor" in refused(capsys, "ask", out, "?x : r0(?x, ?y)")
    with pytest.raises(SystemExit):
        main([*words, *quick, "--heads", "2"])
    assert "See 'clmpt train --reasoner gqe --help'." in capsys.readouterr().err


def test_training_time_includes_what_is_chosen_on_validation_queries(
    world: Path, tmp_path: Path
) -> None:
    words = ["train", str(world / "graph"), "--reasoner", "truth-values"]
    words += ["--predictor", str(world / "predictor"), "--queries", str(world / "train.queries")]
    assert main([*words, "--out", str(tmp_path / "truth"), "--device", "cpu"]) == 0
    assert read_summary(tmp_path / "truth")["seconds"] > 0


def test_shapes_may_contain_names(world: Path, tmp_path: Path, capsys: Captured) -> None:
    queries = tmp_path / "own.queries"
    sample = ["sample", str(world / "graph"), "--shapes", "?y : r1($s1, ?y)", "--count", "5"]
    assert main([*sample, "--split", "test", "--workers", "1", "--out", str(queries)]) == 0
    for model in ("reasoner", "predictor"):
        capsys.readouterr()
        assert main(["evaluate", str(world / model), "--queries", str(queries), "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["queries"]["shapes"]
        assert found["count"] == 5


def test_unusable_validation_queries_are_rejected(
    world: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "none.jsonl").write_text("")
    for source in (str(world / "train.queries"), str(tmp_path / "none.jsonl")):
        command = _train(world, "unvalidated", "--valid", source)
        assert "have no hard answers" in refused(capsys, *command)
    assert not (world / "unvalidated").exists()


def test_split_applies_to_folders_only(world: Path, capsys: Captured) -> None:
    command = ["evaluate", str(world / "reasoner"), "--queries", str(world / "test.queries")]
    assert "is a single file" in refused(capsys, *command, "--split", "valid")


def test_limits_of_any_size(world: Path, capsys: Captured) -> None:
    for limit, count in (("LIMIT 0", 0), ("LIMIT 1000", 40)):
        query = f"SELECT ?y {{ <e0> <r0> ?y }} {limit}"
        assert main(["ask", str(world / "reasoner"), query, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["answers"]) == count


def test_folders_that_are_not_models_yet(world: Path, tmp_path: Path, capsys: Captured) -> None:
    unfinished = tmp_path / "unfinished"
    shutil.copytree(world / "reasoner", unfinished)
    for path in list(without_checksums(unfinished).iterdir()):
        if path.name not in ("run.json", "log.jsonl"):
            path.unlink()
    said = refused(capsys, "ask", str(unfinished), "?y : r0(e0, ?y)")
    assert "Run the same command again to resume" in said
    moved = tmp_path / "moved"
    shutil.copytree(world / "reasoner", moved)
    (without_checksums(moved) / "run.json").unlink()
    assert "Use --graph" in refused(capsys, "ask", str(moved), "?y : r0(e0, ?y)")
    command = _train(world, "new")
    command[command.index("--predictor") + 1] = str(world / "reasoner")
    assert "is not a predictor" in refused(capsys, *command)
