"""Experiments from recipes: stages that are shared, skipped and gone on with; their report."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clmpt.cli.main import main
from clmpt.comparison import Entry, entries_in, main_table
from clmpt.graph.query_store import QuerySet
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
    for wanted in ("LMPNN, training.batch=8", "CLMPT (published)", "58.9", "1 missing", "commit"):
        assert wanted in text


def test_the_page_says_what_the_reports_say(run: Path) -> None:
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    for entry in entries_in(run):
        name = entry.name.replace("_", r"\_")
        (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", page, re.MULTILINE)[:1]
        cells = [cell.strip() for cell in row.split("|")[:-1]]
        shown = [entry.cell(shape) for shape in ("1p", "2p", "2i", "pi", "ip", "2u", "2in")]
        assert cells[: len(shown)] == shown
    assert "official: 1p 5, 2p 5, 2i 5, 2u 5, 2in 5; sampled, seed 0: ip 6, pi 6" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        ElementTree.parse(run / "report" / picture)


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


def test_names_from_strangers_are_shown_not_obeyed(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(arguments(home, out, "--name", "<script>alert(1)</script> | *x*")) == 0
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\\<script\\>alert(1)\\</script\\> \\| \\*x\\*" in (
        out / "report" / "report.md"
    ).read_text(encoding="utf-8")
