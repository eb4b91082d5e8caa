"""fit and ask: from a file to answers."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clmpt
from clmpt.cli.main import main
from clmpt.progress import Progress
from killing import killed_when
from small_fit import STAGES, TABLES, fit_words
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]


def refused(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return err.strip().splitlines()[-1]


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a fit, without dates and timings."""
    moments = ("run.json", "finished.json", "log.jsonl", "cost.json", "checksums.json")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in moments
    }


def test_fit_prints_a_plan_and_its_results(fitted: Path, capsys: Captured, tmp_path: Path) -> None:
    command = fit_words(fitted, "told")
    command[command.index("--out") + 1] = str(tmp_path / "told")
    assert main(command) == 0
    out, err = capsys.readouterr()
    for expected in ("40 entities, 5 relations", "valid and", "rank 8", "about 0 min", "GB of"):
        assert expected in out
    for stage in STAGES:
        assert f"{stage}:" in err
    assert "shape\thybrid\tCLMPT\ttruth values\tbeam search\tqueries" in out
    assert f"Next: clmpt ask {tmp_path / 'told'}" in out


def test_a_plan_is_shown_without_doing_anything(fitted: Path, capsys: Captured) -> None:
    assert main(fit_words(fitted, "planned", "--plan", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["pretraining"]["rank"] == 8
    assert found["plan"]["fitting"]["hide"] == 0.1
    assert found["estimate"]["seconds"] > 0
    assert main(fit_words(fitted, "planned", "--plan")) == 0
    assert "estimate" in capsys.readouterr().out
    assert not (fitted / "planned").exists()


def test_a_finished_folder_is_opened_at_once(fitted: Path, capsys: Captured) -> None:
    before = files_of(fitted / "model")
    assert main(fit_words(fitted, "model", "--json")) == 0
    out, err = capsys.readouterr()
    assert "already finished" in err
    report = json.loads(out)["report"]
    assert {shape["count"] for shape in report["shapes"]} <= set(range(1, 6))
    assert files_of(fitted / "model") == before


def test_the_same_facts_and_seed_give_the_same_files(fitted: Path, tmp_path: Path) -> None:
    command = fit_words(fitted, "again")
    command[command.index("--out") + 1] = str(tmp_path / "again")
    assert main(command) == 0
    assert files_of(tmp_path / "again") == files_of(fitted / "model")


def test_a_killed_fit_resumes_and_ends_the_same(fitted: Path, tmp_path: Path) -> None:
    command = fit_words(fitted, "killed")
    out = tmp_path / "killed"
    command[command.index("--out") + 1] = str(out)
    for awaited in ("predictor", "train.queries", "reasoner"):
        killed_when((out / awaited).exists, [sys.executable, "-m", "clmpt", *command])
    assert main(command) == 0
    assert files_of(out) == files_of(fitted / "model")
    assert not list(out.glob(".*"))


def test_asking_what_fit_made(fitted: Path, capsys: Captured) -> None:
    model = str(fitted / "model")
    assert main(["ask", model, "?y : r0(e0, ?y)", "--limit", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_status = {
        status: {row["name"] for row in found["answers"] if row["status"] == status}
        for status in ("known", "hidden", "predicted")
    }
    for split, status in (("train", "known"), ("train+valid+test", None)):
        assert main(["solve", model, "?y : r0(e0, ?y)", "--split", split, "--json"]) == 0
        solved = {row["name"] for row in json.loads(capsys.readouterr().out)["answers"]}
        assert solved == (
            by_status["known"] if status else by_status["known"] | by_status["hidden"]
        )
    assert len(by_status["predicted"]) == 40 - found["known"]


def test_hidden_known_and_predicted_answers_are_distinguished(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", device="cpu")
    head, relation, tail = model.graph.triples("test")[0].tolist()
    found = model.ask(f"?y : #{relation}(#{head}, ?y)", limit=len(model.graph.entities))
    status = {answer.entity: answer.status for answer in found}
    assert status[tail] == "hidden"
    seen = set(model.graph.view("train").neighbours(head, relation))
    assert {entity for entity, one in status.items() if one == "known"} == seen


def test_answers_as_csv_and_as_a_picture(fitted: Path, tmp_path: Path, capsys: Captured) -> None:
    picture = tmp_path / "answers.svg"
    command = ["ask", str(fitted / "model"), "?y : r0(e0, ?y)", "--limit", "3"]
    assert main([*command, "--csv", "--svg", str(picture)]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["label", "name", "id", "probability", "score", "status"]
    assert len(rows) == 3
    drawn = picture.read_text(encoding="utf-8")
    assert rows[0][0] in drawn
    assert "url(http" not in drawn
    assert main([*command, "--svg", str(picture)]) == 0
    assert "already there" in capsys.readouterr().err
    command[command.index("3")] = "2"
    assert "already exists" in refused(capsys, *command, "--svg", str(picture))
    assert picture.read_text(encoding="utf-8") == drawn
    assert main(["solve", str(fitted / "model"), "?y : r0(e0, ?y)", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("label,name,id\n")


def test_questions_from_a_pipe_and_a_mistake_among_them(fitted: Path) -> None:
    asked = "?y : r0(e0, ?y)\n\nhelp\n?y : r9(e0, ?y)\ndraw 2i\nlimit 1\n?y : r1(e0, ?y)\nquit\nx\n"
    found = subprocess.run(
        [sys.executable, "-m", "clmpt", "ask", str(fitted / "model"), "--limit", "2"],
        input=asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 2
    assert found.stdout.count("answer\tprobability") == 2
    assert "?y : r1(e0, ?y)\nanswer" in found.stdout
    assert len([line for line in found.stdout.splitlines() if line.startswith("e")]) == 3
    assert "Tab completes names" in found.stdout
    assert "─ $s1" in found.stdout
    assert "line 4: Unknown relation 'r9' at column 6" in found.stderr


def test_bad_input_to_fit_is_rejected_in_one_line(
    fitted: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert "other settings" in refused(capsys, *fit_words(fitted, "model", "--seed", "3"))
    assert "'hide' must be" in refused(capsys, *fit_words(fitted, "new", "--hide", "1"))
    (tmp_path / "one.tsv").write_text("a\tr\tb\n")
    (tmp_path / "other.toml").write_text("[fiting]\nhide = 0\n")
    one = ["fit", str(tmp_path / "one.tsv"), "--out", str(tmp_path / "one")]
    assert "has an unknown entry 'fiting'" in refused(
        capsys, *one, "--recipe", str(tmp_path / "other.toml")
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    said = refused(capsys, "fit", str(tmp_path / "one.tsv"), "--out", str(tmp_path / "notes"))
    assert "already exists" in said
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "one").exists()


def test_even_a_single_fact_can_be_fitted(tmp_path: Path, fitted: Path, capsys: Captured) -> None:
    (tmp_path / "one.tsv").write_text("a\tr\tb\n")
    out = str(tmp_path / "one")
    recipe = ["--recipe", str(fitted / "quick.toml")]
    assert main(["fit", str(tmp_path / "one.tsv"), "--out", out, *recipe]) == 0
    said = capsys.readouterr().out
    assert "nothing will be evaluated" in said
    assert "Nothing was evaluated" in said
    assert main(["ask", out, "?x : r(a, ?x)", "--limit", "1"]) == 0


def test_fit_can_train_on_all_facts(tmp_path: Path, fitted: Path, capsys: Captured) -> None:
    command = fit_words(fitted, "all", "--hide", "0", "--json")
    command[command.index("--out") + 1] = str(tmp_path / "all")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["report"] is None


def test_fit_trains_on_all_splits_if_nothing_is_held_out(tmp_path: Path, fitted: Path) -> None:
    lines = (fitted / "facts.tsv").read_text().splitlines(keepends=True)
    for name, part in (("a", lines[::2]), ("b", lines[1::2])):
        (tmp_path / f"{name}.tsv").write_text("".join(part))
    sources = [f"{name}={tmp_path / name}.tsv" for name in ("a", "b")]
    recipe = ["--recipe", str(fitted / "quick.toml")]
    assert main(["fit", *sources, "--hide", "0", "--out", str(tmp_path / "m"), *recipe]) == 0
    graph = clmpt.open_graph(tmp_path / "m")
    assert graph.splits == ("facts",)
    assert len(graph.triples()) == len(lines)


def test_nothing_is_evaluated_if_no_query_needs_a_held_out_fact(
    tmp_path: Path, fitted: Path, capsys: Captured
) -> None:
    lines = (fitted / "facts.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "test.tsv").write_text("".join(lines[:5]))
    sources = [str(tmp_path / f"{name}.tsv") for name in ("train", "test")]
    recipe = ["--recipe", str(fitted / "quick.toml")]
    assert main(["fit", *sources, "--out", str(tmp_path / "m"), *recipe]) == 0
    assert "Nothing was evaluated" in capsys.readouterr().out


def test_missing_parts_are_recreated_or_reported(
    fitted: Path, tmp_path: Path, capsys: Captured
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(fitted / "model", broken)
    command = fit_words(fitted, "model")
    command[command.index("--out") + 1] = str(broken)
    before = files_of(broken)
    shutil.rmtree(broken / "report")
    (broken / "reasoner" / "weights.safetensors").write_bytes(b"cut")
    assert "Remove that folder and run the same command" in refused(capsys, *command)
    shutil.rmtree(broken / "reasoner")
    assert "Run the command again" in refused(capsys, "ask", str(broken), "?y : r0(e0, ?y)")
    assert main(command) == 0
    assert files_of(broken) == before
    (broken / "report" / "report.json").write_text('{"mean": 1, "shapes": [{}]}')
    assert "report.json' is damaged. Remove" in refused(capsys, *command)


def test_an_unfinished_model_is_rejected(fitted: Path, tmp_path: Path, capsys: Captured) -> None:
    shutil.copytree(fitted / "model", tmp_path / "half")
    (without_checksums(tmp_path / "half") / "finished.json").unlink()
    said = refused(capsys, "ask", str(tmp_path / "half"), "?y : r0(e0, ?y)")
    assert "is not finished. Run the same command again to resume it" in said


def test_options_may_come_before_the_question(fitted: Path, capsys: Captured) -> None:
    assert main(["ask", str(fitted / "model"), "--limit", "2", "?y : r0(e0, ?y)", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(SystemExit):
        main(["ask", str(fitted / "model"), "?y : r0(e0, ?y)", "--csv", "--json"])
    assert "cannot be used together" in capsys.readouterr().err


def test_a_failing_fit_releases_its_folder(fitted: Path, tmp_path: Path) -> None:
    kept = []
    for stage in STAGES:

        def break_off(now: Progress, stage: str = stage) -> None:
            if now.stage == stage:
                raise RuntimeError(stage)

        with pytest.raises(RuntimeError, match=stage) as error:
            clmpt.fit(fitted / "facts.tsv", tmp_path / "m", TABLES, break_off, "cpu")
        kept.append(error)  # with the frames in its traceback
    clmpt.fit(fitted / "facts.tsv", tmp_path / "m", TABLES, device="cpu")
    assert files_of(tmp_path / "m") == files_of(fitted / "model")


def test_a_folder_with_splits_keeps_them(tmp_path: Path, fitted: Path) -> None:
    lines = (fitted / "facts.tsv").read_text().splitlines()
    for name, part in (("train", lines[30:]), ("test", lines[:30])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(part) + "\n")
    sources = [str(tmp_path / f"{name}.tsv") for name in ("train", "test")]
    out = tmp_path / "split"
    recipe = ["--recipe", str(fitted / "quick.toml")]
    assert main(["fit", *sources, "--out", str(out), *recipe]) == 0
    graph = clmpt.open_graph(out)
    assert len(graph.triples("test")) == 30
    assert graph.splits == ("train", "test")
