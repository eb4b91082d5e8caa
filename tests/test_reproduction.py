"""Experiments from recipes: stages that are shared, skipped and gone on with; their report."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clmpt.cli.main import main
from clmpt.experiments import stages
from clmpt.experiments.entries import Entry, entries_in
from clmpt.experiments.records import variants_in
from clmpt.pages.comparison import compare, main_table
from clmpt.queries.store import QuerySet
from clmpt.training.runs import Progress
from stand_ins import make_stand_ins

Captured = pytest.CaptureFixture[str]
RECIPE = """
[experiment]
benchmark = "nell995"
published = "CLMPT"

[queries]
trained = "1p 2p 2i 2in"
measured = "1p 2p 2i ip pi 2u 2in"
train = 40
train_negated = 10
test = 6

[pretraining]
rank = 8
epochs = 3
batch = 64

[reasoning]
encoder_layers = 1
heads = 2
feed_forward = 16

[training]
steps = 8
batch = 16
validate_every = 4
validation_queries = 5
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_stand_ins(folder)
    (folder / "tiny.toml").write_text(RECIPE)
    return folder


def arguments(home: Path, out: Path, *more: str) -> list[str]:
    data = str(home / "NELL-betae")
    recipe = str(home / "tiny.toml")
    return ["reproduce", recipe, "--data", data, "--out", str(out), "--workers", "1", *more]


@pytest.fixture(scope="module")
def run(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment, and a variant."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(arguments(home, out)) == 0
    assert main(arguments(home, out, "--reasoner", "lmpnn", "--set", "training.batch=8")) == 0
    return out


def figures(out: Path) -> dict[str, Any]:
    """All that a report says but for what it cost."""
    return {entry.name: entry.report for entry in entries_in(out)}


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
        "variants": 2,
        "report": 4,
    }
    assert list(figures(run)) == ["CLMPT", "LMPNN, training.batch=8", "predictor, hop by hop"]


def test_what_is_done_is_not_done_again(home: Path, run: Path, capsys: Captured) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert main(arguments(home, run)) == 0
    shown = capsys.readouterr().out
    assert shown.count("done already") == 7
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
    assert figures(tmp_path / "other").popitem()[1] != again["predictor, hop by hop"]


@pytest.mark.parametrize("stage", ["queries", "predictors", "reasoners", "reports"])
def test_a_killed_run_goes_on_to_the_same_report(
    home: Path, run: Path, tmp_path: Path, stage: str
) -> None:
    out, script = tmp_path / "run", Path(sys.executable).with_name("clmpt")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(
        [script, *arguments(home, out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    end = time.monotonic() + 300
    while not (out / stage).exists() and running.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert (out / stage).exists()
    assert main(arguments(home, out)) == 0
    assert figures(out)["CLMPT"] == figures(run)["CLMPT"]


@pytest.mark.parametrize("stage", ["pre-training", "training"])
def test_a_run_goes_on_from_the_middle_of_a_stage_and_on_another_device(
    home: Path,
    run: Path,
    tmp_path: Path,
    stage: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    out, usual = tmp_path / "run", stages._of_training

    def pressed(name: str, now: Progress) -> stages.Stage:
        if name == stage and now.step == now.steps // 2:
            raise KeyboardInterrupt
        return usual(name, now)

    with monkeypatch.context() as patched:
        patched.setattr(stages, "_of_training", pressed)
        assert main(arguments(home, out)) == 130
    assert list(out.rglob("state.safetensors"))
    capsys.readouterr()
    assert main(arguments(home, out, "--plan")) == 0
    assert re.findall(r"^  (\S+) +begun, at most", capsys.readouterr().out, re.M) == [stage]
    assert main(arguments(home, out, "--device", "cpu")) == 0
    assert figures(out)["CLMPT"] == figures(run)["CLMPT"]
    assert main(arguments(home, out)) == 0
    assert list(figures(out)) == ["CLMPT", "predictor, hop by hop"]


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
    assert capsys.readouterr().out.count("done already") == 4  # all but what the test split is for
    page = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "official: 1p 5" in page
    assert list(figures(out))[:2] == ["CLMPT", "CLMPT (2)"]


def test_samples_of_other_shapes_are_not_taken(home: Path, run: Path, tmp_path: Path) -> None:
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


def test_what_a_kill_left_is_cleared_away_and_nothing_else(
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


def test_variants_of_one_name_are_told_apart(home: Path, tmp_path: Path, capsys: Captured) -> None:
    out, other = tmp_path / "run", ("--set", "training.seed=1", "--name", "CLMPT")
    assert main(arguments(home, out)) == 0
    assert main(arguments(home, out, *other)) == 0
    found = figures(out)
    assert list(found) == ["CLMPT", "CLMPT (2)", "predictor, hop by hop"]
    assert found["CLMPT"] != found["CLMPT (2)"]
    page = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert page.count("| CLMPT (2) |") >= 3
    assert (out / "report" / "training.svg").read_text(encoding="utf-8").count(">CLMPT (2)<") >= 1
    for more, name in (((), "CLMPT"), (other, "CLMPT (2)")):
        capsys.readouterr()
        assert main([*arguments(home, out, *more), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["report"] == found[name]


def test_variants_begun_in_one_second_stand_in_the_order_they_were_done(
    home: Path, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    assert main(arguments(home, out, "--set", "conditional=false")) == 0
    before = [variant.name for variant in variants_in(out)]
    assert (before[0], before[-1]) == ("CLMPT", "CLMPT without C")
    moments = reversed([variant.done for variant in variants_in(out)])
    turned = dict(zip(before, moments, strict=True))
    for path in (out / "variants").glob("*.json"):
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
def test_a_variant_is_called_by_what_is_special(
    home: Path, tmp_path: Path, capsys: Captured, more: list[str], name: str
) -> None:
    assert main(arguments(home, tmp_path / "run", *more, "--plan")) == 0
    assert capsys.readouterr().out.startswith(f"{name}, 40 entities")


def test_a_recipes_own_name_stays_with_its_variants(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    named = tmp_path / "named.toml"
    named.write_text(RECIPE.replace("[experiment]", '[experiment]\nname = "4 heads"'))
    words = arguments(home, tmp_path / "run", "--set", "frozen=true", "--plan")
    words[1] = str(named)
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("4 heads, frozen=true, 40 entities")


def test_a_plan_for_a_folder_of_another_graph_is_refused(
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


def test_a_damaged_stage_is_named(home: Path, tmp_path: Path, capsys: Captured) -> None:
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
        (["--set", "trained="], "'trained' must name a shape"),
        (["--set", "fitting.hide=0.5"], "There is no table 'fitting'"),
        (["--set", "hide=0.5"], "There is no setting 'hide'.\n"),
        (["--set", "benchmark=nell-995"], "Did you mean 'nell995'?"),
        (["--set", "published=CLMTP"], "There is no row 'CLMTP' published on nell995. There are:"),
        (["--name", "caf\udce9"], "'name' must be up to 100 characters that can be printed"),
        (["--name", "a\x07b"], "'name' must be up to 100 characters that can be printed"),
        (["--name", "x" * 101], "'name' must be up to 100 characters that can be printed"),
        (["--device", "abacus"], "abacus"),
        (["--set", "training.device=abacus"], "abacus"),
    ],
)
def test_wrong_settings_are_named_before_anything_is_made(
    home: Path, tmp_path: Path, capsys: Captured, more: list[str], why: str
) -> None:
    assert main(arguments(home, tmp_path / "run", *more)) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_other_folders_are_refused(home: Path, tmp_path: Path, capsys: Captured) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    assert main(arguments(home, mine)) == 2
    assert "exists already" in capsys.readouterr().err
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tb\tc\n")
    words = arguments(home, tmp_path / "new")
    words[3] = str(facts)
    assert main(words) == 2
    assert "no facts in the split 'train'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


# --- the page -------------------------------------------------------------------------------------


class _Links(HTMLParser):
    """All that a page would fetch, and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asked += [str(v) for k, v in attrs if k in ("src", "href", "srcset", "data")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(run: Path) -> None:
    text = (run / "report" / "report.html").read_text(encoding="utf-8")
    found = _Links()
    found.feed(text)
    assert not found.asked
    assert not found.open
    assert "url(" not in text
    assert "<script" not in text
    for wanted in ("LMPNN, training.batch=8", "CLMPT (published)", "58.9", "1 missing", "Commit"):
        assert wanted in text


def test_the_page_says_what_the_reports_say(run: Path) -> None:
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    for entry in entries_in(run):
        name = entry.name.replace("_", r"\_")
        (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", page, re.MULTILINE)[:1]
        cells = [cell.strip() for cell in row.split("|")[:-1]]
        figures = [shape["mrr"] for shape in entry.report["shapes"]]
        assert sorted(cells[: len(figures)]) == sorted(f"{100 * mrr:.1f}" for mrr in figures)
        assert cells[0] == f"{100 * entry.mrr('1p'):.1f}"
    assert "official: 1p 5, 2p 5, 2i 5, 2u 5, 2in 5; sampled, seed 0: ip 6, pi 6" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        ElementTree.parse(run / "report" / picture)


def test_the_page_says_when_published_rows_are_for_other_queries(run: Path) -> None:
    ours = entries_in(run)
    assert not any(entry.is_official for entry in ours)  # ip and pi are sampled
    told = "They were measured by the official queries"
    assert told in compare(ours).markdown()
    assert told not in compare([replace(entry, is_official=True) for entry in ours]).markdown()


def test_what_all_stages_share_is_said_once(run: Path) -> None:
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    _, made_with = page.split("### Made with")
    for shared in ("Commit: ", "Versions: clmpt", "Machine: "):
        assert made_with.count(f"- {shared}") == 1
    assert "| stage | begun |\n" in made_with


def test_a_shape_scored_by_convention_is_marked() -> None:
    shapes = [
        {"shape": "pni", "mrr": 0.125, "notes": ["an approximation"]},
        {"shape": "2i", "mrr": 0.25, "notes": []},
    ]
    table = main_table([Entry("mine", {"shapes": shapes})], "nell995")
    assert table.headers == ["MRR × 100", "2i", "pni*"]
    assert table.rows[0] == ["mine", "25.0", "12.5"]
    assert ["CLMPT (published)", "41.8", "4.5"] in table.rows


def test_costs_are_told(run: Path) -> None:
    clmpt, lmpnn, hops = entries_in(run)
    assert clmpt.costs["steps"] == 8
    assert clmpt.costs["training"] > 0
    assert clmpt.costs["training memory"] > 10**7
    # Rank 8: 40 entities and 10 relations of 16 numbers, trained; the encoder's own by hand:
    # attention 4 * 16² + 4 * 16, feed-forward 2 * 16 * 16 + 16 + 16, two norms of 2 * 16.
    predictor = 50 * 16
    encoder = 4 * 16**2 + 4 * 16 + 2 * 16 * 16 + 2 * 16 + 4 * 16
    assert clmpt.costs["trained"] == pytest.approx(predictor + encoder + 2 * 16, abs=2 * 16)
    assert hops.costs["frozen"] == predictor
    assert lmpnn.costs["steps"] == 8


def test_runs_stand_side_by_side(home: Path, run: Path, tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other"
    assert main(arguments(home, other, "--set", "experiment.seed=1", "--name", "CLMPT")) == 0
    capsys.readouterr()
    assert main(["report", str(run), str(other), "--out", str(tmp_path / "page")]) == 0
    shown = capsys.readouterr().out
    assert "run: CLMPT\t" in shown
    assert "other: CLMPT\t" in shown
    assert {path.name for path in (tmp_path / "page").iterdir()} == {
        "report.md",
        "report.html",
        "mrr.svg",
        "training.svg",
    }
    assert main(["report", str(run), "--out", str(tmp_path / "page")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "CLMPT"


def test_a_report_of_evaluate_is_shown_too(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    (reasoner,) = run.glob("reasoners/clmpt-*")
    queries, report = str(home / "NELL-betae"), str(tmp_path / "one")
    assert main(["evaluate", str(reasoner), "--queries", queries, "--report", report]) == 0
    capsys.readouterr()
    assert main(["report", report]) == 0
    assert reasoner.name in capsys.readouterr().out
    assert main(["report", str(home)]) == 2
    assert "There is nothing to report" in capsys.readouterr().err


def test_notes_beside_the_page_are_left_alone(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(arguments(home, out)) == 0
    (out / "report" / "notes.txt").write_text("mine")
    (out / "report" / "report.md").write_text("old")
    assert main(arguments(home, out)) == 0
    assert (out / "report" / "notes.txt").read_text() == "mine"
    assert "Results on NELL995" in (out / "report" / "report.md").read_text(encoding="utf-8")


def test_the_page_says_what_made_each_stage(run: Path) -> None:
    (predictor,) = run.glob("predictors/*/run.json")
    began = json.loads(predictor.read_text())["started"]
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    assert f"| predictor | {began} |" in page  # both variants have it
    for stage in ("training", "last command"):  # named together where they began in the same second
        assert re.search(rf"^\| (CLMPT: )?{stage} \| 20", page, re.MULTILINE)


def test_different_numbers_of_queries_are_told_apart() -> None:
    def entry(name: str, count: int) -> Entry:
        row = {"shape": "2i", "mrr": 0.5, "count": count, "notes": []}
        return Entry(name, {"shapes": [row], "notes": []})

    same = compare([entry("a", 5), entry("b", 5)]).markdown()
    assert "| queries | 5 |" in same
    page = compare([entry("a", 4000), entry("b", 10)]).markdown()
    assert "| queries, a | 4,000 |" in page
    assert "| queries, b | 10 |" in page


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by_missing_links", {"x": {}}),
        ("by_missing_links", {"1": 3}),
        ("by_missing_links", []),
        ("count", float("inf")),
        ("mrr", float("nan")),
        ("mrr", -5),
        ("mrr", "0.5"),
        ("notes", 3),
        ("notes", [3]),
        ("shape", []),
    ],
)
def test_damaged_reports_are_named(
    run: Path, tmp_path: Path, capsys: Captured, field: str, value: object
) -> None:
    report = next(run.glob("reports/clmpt-*")) / "report.json"
    document = json.loads(report.read_text())
    document["shapes"][0][field] = value
    (tmp_path / "report.json").write_text(json.dumps(document))
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json' is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"shapes": []}, {"shapes": {}}, {"model": None}, {"mean": 2}])
def test_reports_that_cannot_be_are_named(
    run: Path, tmp_path: Path, capsys: Captured, change: dict[str, Any]
) -> None:
    document = json.loads((next(run.glob("reports/clmpt-*")) / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps({**document, **change}))
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json' is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("variants/clmpt-*.json", '{"settings": {}}'),
        ("variants/clmpt-*.json", '{"settings": {"training": 5}}'),
        ("variants/clmpt-*.json", '{"folders": {}}'),
        ("variants/clmpt-*.json", '{"name": "\\ud800"}'),
        ("variants/clmpt-*.json", "no JSON"),
        ("reports/clmpt-*/cost.json", "[]"),
        ("reasoners/clmpt-*/finished.json", "[]"),
        ("reports/clmpt-*/report.json", None),
    ],
)
def test_a_damaged_experiment_is_left_out_and_named(
    run: Path, tmp_path: Path, capsys: Captured, place: str, text: str | None
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (path,) = out.glob(place)
    if text is None:
        shutil.rmtree(path.parent)
    elif path.parent.name == "variants" and text.startswith("{"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **json.loads(text)}))
    else:
        path.write_text(text)
    assert main(["report", str(out), "--out", str(tmp_path / "page")]) == 0
    said = capsys.readouterr()
    assert "Left out: " in said.err
    assert "CLMPT\t" not in said.out
    assert "LMPNN, training.batch=8\t" in said.out


def test_a_lost_report_is_made_again_by_its_own_command_only(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    out, lmpnn = tmp_path / "run", ("--reasoner", "lmpnn", "--set", "training.batch=8")
    shutil.copytree(run, out)
    shutil.rmtree(next(out.glob("reports/clmpt-*")))
    assert main(arguments(home, out, *lmpnn)) == 0
    assert "is missing. The command that made it makes it again" in capsys.readouterr().err
    assert main(arguments(home, out)) == 0
    assert figures(out) == figures(run)


def test_one_experiment_is_one_row(home: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    for more in (("--set", "training.device=cpu"), ("--set", "conditional=true")):
        assert main(arguments(home, out, *more)) == 0
    assert sorted(figures(out)) == sorted(figures(run))
    assert main(arguments(home, out, "--name", "mine")) == 0
    assert sorted(figures(out)) == ["LMPNN, training.batch=8", "mine", "predictor, hop by hop"]


def test_a_name_that_nobody_gave_is_never_too_long(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    many = ["--set", "training.learning_rate=0.0001"] * 4
    words = arguments(home, tmp_path / "run", *many, "--plan")
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[0].partition(", 40 entities")[0].endswith("…")


def test_another_graph_than_the_recipes_is_told_of(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert main(arguments(home, tmp_path / "new", "--plan")) == 0
    told = "The recipe is for NELL995, and this graph is another: entities 40 instead of 63,361"
    assert told in capsys.readouterr().err
    assert main(["report", str(run)]) == 0
    assert "They are for NELL995 as published" in capsys.readouterr().err


def test_names_from_strangers_are_shown_not_obeyed(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(arguments(home, out, "--name", "<script>alert(1)</script> | *x*")) == 0
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\\<script\\>alert(1)\\</script\\> \\| \\*x\\*" in (
        out / "report" / "report.md"
    ).read_text(encoding="utf-8")
