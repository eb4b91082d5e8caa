"""Several seeds of one variant: only training differs, and the page shows mean and deviation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from clmpt.cli.main import main
from clmpt.experiments.records import by_seed, variants_in
from clmpt.pages.report_folder import read_report
from small_experiment import arguments

Captured = pytest.CaptureFixture[str]
SEEDS = ("--seeds", "0", "1", "2")


@pytest.fixture(scope="module")
def seeded(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of one variant. To be looked at, not changed."""
    out = tmp_path_factory.mktemp("seeded") / "run"
    assert main(arguments(home, out, *SEEDS)) == 0
    return out


def test_seeds_share_everything_but_training(seeded: Path) -> None:
    counts = {name: len(list(seeded.glob(f"{name}/*"))) for name in ("queries", "predictors")}
    assert counts == {"queries": 3, "predictors": 1}
    variants = variants_in(seeded)
    assert [one.name for one in variants] == [f"CLMPT, seed {seed}" for seed in range(3)]
    assert [one.settings["training"]["seed"] for one in variants] == [0, 1, 2]
    assert {one.settings["pretraining"]["seed"] for one in variants} == {0}
    assert len({one.report["mean"] for one in variants}) == 3
    assert {one.settings["experiment"]["published"] for one in variants} == {"CLMPT"}
    (group,) = by_seed(variants)
    assert [one.family for one in group] == ["CLMPT"] * 3


def test_the_page_has_mean_and_deviation_above_the_seeds(seeded: Path) -> None:
    page = (seeded / "report" / "report.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in re.findall(r"^\| (CLMPT, .*) \|$", page, re.M)][:4]
    assert [row[0] for row in rows] == ["CLMPT, 3 seeds", *(f"CLMPT, seed {s}" for s in range(3))]
    mrr = [read_report(one.folders["report"])["shapes"][0]["mrr"] for one in variants_in(seeded)]
    mean, deviation = 100 * np.mean(mrr), 100 * np.std(mrr, ddof=1)
    assert rows[0][1] == f"{mean:.1f} ± {deviation:.1f}"
    assert [row[1] for row in rows[1:]] == [f"{100 * one:.1f}" for one in mrr]
    assert "mean ± standard deviation over training.seed 0, 1, 2" in page


def test_means_over_seeds_are_recorded(home: Path, seeded: Path, capsys: Captured) -> None:
    (group,) = json.loads((seeded / "report" / "seeds.json").read_text())
    assert (group["name"], group["seeds"]) == ("CLMPT", [0, 1, 2])
    means = [read_report(one.folders["report"])["mean"] for one in variants_in(seeded)]
    assert group["mrr"]["mean"] == {
        "mean": pytest.approx(np.mean(means)),
        "deviation": pytest.approx(np.std(means, ddof=1)),
    }
    assert main([*arguments(home, seeded, *SEEDS), "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["seeds"] == group
    assert [one["report"]["mean"] for one in found["variants"]] == means
    assert "already finished" in said.err


def test_a_plan_shows_all_seeds_and_a_further_one_repeats_nothing(
    home: Path, seeded: Path, tmp_path: Path, capsys: Captured
) -> None:
    more = arguments(home, seeded, *SEEDS, "3", "--plan")
    assert main(more) == 0
    shown = capsys.readouterr().out
    assert shown.count(" done\n") == 5 + 2 * 3
    assert re.findall(r"^  (\S.*?)  +about", shown, re.M) == [
        "training, seed 3",
        "measuring, seed 3",
    ]
    assert main(arguments(home, tmp_path / "new", *SEEDS, "--plan")) == 0
    shown = capsys.readouterr().out
    planned = re.findall(r"^  (\S.*?)  +about", shown, re.M)
    assert planned.count("pre-training") == planned.count("beam search") == 1
    assert [name for name in planned if "seed" in name] == [
        f"{what}, seed {seed}" for seed in range(3) for what in ("training", "measuring")
    ]
    assert not (tmp_path / "new").exists()


def test_the_same_variant_without_seeds_is_recognised(home: Path, seeded: Path) -> None:
    """`--set training.seed=1` finds what `--seeds` made, and is the same variant."""
    before = {path.name for path in seeded.glob("reasoners/*")}
    assert main(arguments(home, seeded, "--set", "training.seed=1", "--plan")) == 0
    assert main(arguments(home, seeded, "--set", "training.batch=16", *SEEDS, "--plan")) == 0
    assert {path.name for path in seeded.glob("reasoners/*")} == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--seeds", "1", "1"), "A seed is listed twice."),
        (("--seeds", "1", "2", "--set", "training.seed=1"), "The seed is given twice"),
    ],
)
def test_seeds_that_make_no_sense_are_refused(
    home: Path, tmp_path: Path, capsys: Captured, words: tuple[str, ...], why: str
) -> None:
    assert main(arguments(home, tmp_path / "run", *words)) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_sweep_chooses_once_and_what_it_chose_has_all_seeds(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "run"
    words = arguments(home, out, "--set", "training.learning_rate=0.0001,0.01", "--seeds", "0", "5")
    assert main(words) == 0
    assert len(list(out.glob("reasoners/*"))) == 3  # two trials of seed 0, and seed 5
    assert len(list(out.glob("reports/*"))) == 3
    page = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert page.count("### Trials for") == 1
    assert ", 2 seeds |" in page
    capsys.readouterr()
    assert main([*words, "--plan"]) == 0
    stages = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line for line in stages if not line.endswith(" done")] == []
    assert len(stages) == 3 + 2 + 1 + 3 + 2  # shared; trials; choice; test and seed 0; seed 5
