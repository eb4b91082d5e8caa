"""Experiments from recipes: stages that are shared, skipped and resumed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.experiments.recipes import read_recipe
from clmpt.experiments.records import variants_in
from clmpt.experiments.reproduction import Recipe, experiment_stages, reproduce
from clmpt.graph.opening import open_graph
from clmpt.progress import Progress
from clmpt.queries.store import QuerySet
from killing import killed_when
from small_experiment import RECIPE, arguments, figures
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]


def test_official_queries_are_used_and_missing_ones_sampled(run: Path) -> None:
    train = QuerySet.open(next(run.glob("queries/train-*.queries")))
    assert (train.about["official"], train.about["sampled"]) == ([], ["1p", "2p", "2i", "2in"])
    counts = {group.name: len(group) for group in train.groups}
    assert counts == {"1p": 40, "2p": 40, "2i": 40, "2in": 10}
    test = QuerySet.open(next(run.glob("queries/test-*.queries")))
    assert test.about["official"] == ["1p", "2p", "2i", "2u", "2in"]
    assert test.about["sampled"] == ["ip", "pi"]
    counts = {group.name: len(group) for group in test.groups}
    assert counts == {"1p": 5, "2p": 5, "2i": 5, "ip": 6, "pi": 6, "2u": 5, "2in": 5}


def test_variants_share_what_they_have_in_common(run: Path) -> None:
    counts = {
        folder.name: len(list(folder.iterdir())) for folder in run.iterdir() if folder.is_dir()
    }
    assert counts == {
        "queries": 3,
        "predictors": 1,
        "reasoners": 2,
        "reports": 3,
        "variants": 3,  # with their checksums
        "report": 4,
    }
    assert list(figures(run)) == ["CLMPT", "LMPNN, training.batch=8", "beam search"]


def test_finished_stages_are_not_repeated(home: Path, run: Path, capsys: Captured) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert main(arguments(home, run)) == 0
    shown = capsys.readouterr().out
    assert shown.count(" done\n") == 7
    after = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    changed = {path for path in before if after[path] != before[path]}
    assert {path.parent.name for path in changed} == {"report"}


def test_the_same_recipe_and_seed_give_the_same_report(
    home: Path, run: Path, tmp_path: Path
) -> None:
    assert main(arguments(home, tmp_path / "again")) == 0
    again = figures(tmp_path / "again")
    assert again == {name: figures(run)[name] for name in again}
    assert main(arguments(home, tmp_path / "other", "--set", "experiment.seed=1")) == 0
    assert figures(tmp_path / "other").popitem()[1] != again["beam search"]


@pytest.mark.parametrize("stage", ["queries", "predictors", "reasoners", "reports"])
def test_a_killed_run_resumes_to_the_same_report(
    home: Path, run: Path, tmp_path: Path, stage: str
) -> None:
    out, script = tmp_path / "run", str(Path(sys.executable).with_name("clmpt"))
    killed_when((out / stage).exists, [script, *arguments(home, out)])
    assert not list(out.glob("report/*"))
    assert main(arguments(home, out)) == 0
    assert figures(out)["CLMPT"] == figures(run)["CLMPT"]


@pytest.mark.parametrize("stage", ["pre-training", "training"])
def test_a_run_resumes_in_the_middle_of_a_stage_and_on_another_device(
    home: Path, run: Path, tmp_path: Path, stage: str, capsys: Captured
) -> None:
    out, data = tmp_path / "run", home / "NELL-betae"

    def press_ctrl_c(now: Progress) -> None:
        if now.stage == stage and now.total and now.done == now.total // 2:
            raise KeyboardInterrupt

    recipe = Recipe.of(read_recipe(home / "tiny.toml"))
    with pytest.raises(KeyboardInterrupt):
        reproduce(open_graph(data), data, recipe, out, progress=press_ctrl_c)
    assert list(out.rglob("state.safetensors"))
    assert main(arguments(home, out, "--plan")) == 0
    assert re.findall(r"^  (\S+) +started, about", capsys.readouterr().out, re.M) == [stage]
    assert main(arguments(home, out, "--device", "cpu")) == 0
    assert figures(out)["CLMPT"] == figures(run)["CLMPT"]
    assert main(arguments(home, out)) == 0
    assert list(figures(out)) == ["CLMPT", "beam search"]


def test_a_plan_lists_stages_in_the_order_they_are_done(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    out, data, seen = tmp_path / "run", home / "NELL-betae", list[str]()
    assert main(arguments(home, out, "--plan")) == 0
    plan = capsys.readouterr().out
    assert re.search(r"^About 0\.[4-9] GB of memory at most\.$", plan, re.M)
    planned = re.findall(r"^  (\S+(?: \S+)*?)  +\S", plan, re.M)
    recipe = Recipe.of(read_recipe(home / "tiny.toml"))
    reproduce(open_graph(data), data, recipe, out, progress=lambda now: seen.append(now.stage))
    assert list(dict.fromkeys(seen)) == planned
    assert [
        stage.name for stage in experiment_stages(recipe, open_graph(data), data, out)
    ] == planned


def test_official_queries_that_come_later_are_used(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    data, out = tmp_path / "data", tmp_path / "run"
    shutil.copytree(home / "NELL-betae", data)
    asked = list(data.glob("test-*.pkl"))
    for path in asked:
        path.rename(tmp_path / path.name)
    words = arguments(home, out)
    words[3] = str(data)
    assert main(words) == 0
    for path in asked:
        (tmp_path / path.name).rename(path)
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out.count(" done\n") == 4  # all but those of the test split
    page = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "official: 1p 5" in page
    assert list(figures(out))[:2] == ["CLMPT", "CLMPT (2)"]


def test_samples_of_other_shapes_are_not_used(home: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (test,) = out.glob("queries/test-*.queries")
    test.unlink()
    (train,) = out.glob("queries/train-*.queries")
    shutil.copy(train, test.with_suffix(".samples"))
    assert main(arguments(home, out)) == 0
    (test,) = out.glob("queries/test-*.queries")
    assert QuerySet.open(test).about["sampled"] == ["ip", "pi"]
    assert len(list((out / "queries").iterdir())) == 3


def test_leftovers_of_a_kill_are_removed_and_nothing_else(
    home: Path, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    halves = [out / place / ".any-x7_a.unfinished" for place in (".", "queries", "report")]
    own = [out / ".my-notes", out / "queries" / ".keep-this", out / "report" / ".a-b"]
    for path in halves + own:
        path.write_text("text")
    (out / ".Trash-1000").mkdir()
    assert main(arguments(home, out)) == 0
    assert not any(path.exists() for path in halves)
    assert all(path.read_text() == "text" for path in own)
    assert (out / ".Trash-1000").is_dir()


def test_variants_with_the_same_name_are_numbered(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    out, other = tmp_path / "run", ("--set", "training.seed=1", "--name", "CLMPT")
    assert main(arguments(home, out)) == 0
    assert main(arguments(home, out, *other)) == 0
    found = figures(out)
    assert list(found) == ["CLMPT", "CLMPT (2)", "beam search"]
    assert found["CLMPT"] != found["CLMPT (2)"]
    page = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert page.count("| CLMPT (2) |") >= 3
    assert (out / "report" / "training.svg").read_text(encoding="utf-8").count(">CLMPT (2)<") >= 1
    for more, name in (((), "CLMPT"), (other, "CLMPT (2)")):
        capsys.readouterr()
        assert main([*arguments(home, out, *more), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["report"] == found[name]


def test_variants_started_in_the_same_second_are_sorted_by_when_they_finished(
    home: Path, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    assert main(arguments(home, out, "--set", "conditional=false")) == 0
    before = [variant.name for variant in variants_in(out)]
    assert (before[0], before[-1]) == ("CLMPT", "CLMPT without C")
    moments = reversed([variant.done for variant in variants_in(out)])
    turned = dict(zip(before, moments, strict=True))
    for path in (without_checksums(out) / "variants").glob("*.json"):
        variant = json.loads(path.read_text(encoding="utf-8"))
        moment = {"started": "at once", "done": turned[variant["name"]]}
        path.write_text(json.dumps({**variant, **moment}), encoding="utf-8")
    assert [variant.name for variant in variants_in(out)] == before[::-1]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (["--reasoner", "lmpnn"], "LMPNN"),
        (["--reasoner", "lmpnn", "--set", "frozen=false"], "LMPNN (trainable)"),
        (["--set", "conditional=false", "--set", "frozen=true"], "CLMPT without C (frozen)"),
        (["--set", "training.seed=1"], "CLMPT, training.seed=1"),
        (["--set", "name=foo", "--set", "published=LMPNN"], "foo"),
        (["--set", "name=foo", "--name", "bar"], "bar"),
    ],
)
def test_a_variant_is_named_after_what_differs(
    home: Path, tmp_path: Path, capsys: Captured, more: list[str], name: str
) -> None:
    assert main(arguments(home, tmp_path / "run", *more, "--plan")) == 0
    assert capsys.readouterr().out.startswith(f"{name}, 40 entities")


def test_variants_keep_the_recipe_s_own_name(home: Path, tmp_path: Path, capsys: Captured) -> None:
    named = tmp_path / "named.toml"
    named.write_text(RECIPE.replace("[experiment]", '[experiment]\nname = "4 heads"'))
    words = arguments(home, tmp_path / "run", "--set", "frozen=true", "--plan")
    words[1] = str(named)
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("4 heads, frozen=true, 40 entities")


def test_a_plan_for_a_folder_of_another_graph_is_rejected(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    other = tmp_path / "other"
    shutil.copytree(home / "NELL-betae", other)
    facts = (other / "train.txt").read_text().splitlines(keepends=True)
    (other / "train.txt").write_text("".join(facts[:-2]))
    words = arguments(home, run, "--plan")
    words[3] = str(other)
    assert main(words) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


def test_a_plan_changes_nothing(home: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(arguments(home, tmp_path / "run", "--plan")) == 0
    shown = capsys.readouterr().out
    assert "pre-training        about 0 min" in shown
    assert not (tmp_path / "run").exists()


def test_a_damaged_stage_is_reported(home: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    assert main(arguments(home, out)) == 0
    (weights,) = out.glob("predictors/*/weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    assert main(arguments(home, out, "--set", "training.batch=4")) == 2
    assert "is damaged. Remove that folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--set", "training.bach=4"], "Did you mean 'batch'?"),
        (["--set", "training.batch=many"], "'batch' must be of type int"),
        (["--set", "heads=3"], "3 heads do not divide the predictor's width of 16."),
        (["--set", "trained=1p 9z"], "There is no shape '9z'"),
        (["--set", "trained="], "'trained' must name at least one shape"),
        (["--set", "fitting.hide=0.5"], "There is no table 'fitting'"),
        (["--set", "hide=0.5"], "There is no setting 'hide'.\n"),
        (["--set", "benchmark=nell-995"], "Did you mean 'nell995'?"),
        (["--set", "published=CLMTP"], "There is no published row 'CLMTP' for nell995. Available:"),
        (["--name", "caf\udce9"], "'name' must be at most 100 printable characters"),
        (["--name", "a\x07b"], "'name' must be at most 100 printable characters"),
        (["--name", "x" * 101], "'name' must be at most 100 printable characters"),
        (["--device", "abacus"], "abacus"),
        (["--set", "training.device=abacus"], "abacus"),
    ],
)
def test_wrong_settings_are_reported_before_anything_is_written(
    home: Path, tmp_path: Path, capsys: Captured, more: list[str], why: str
) -> None:
    assert main(arguments(home, tmp_path / "run", *more)) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_unsuitable_folders_are_rejected(home: Path, tmp_path: Path, capsys: Captured) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    assert main(arguments(home, mine)) == 2
    assert "already exists" in capsys.readouterr().err
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tb\tc\n")
    words = arguments(home, tmp_path / "new")
    words[3] = str(facts)
    assert main(words) == 2
    assert "no facts in the split 'train'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
