"""Sweeps: grids of settings, trials that resume, and a choice that no test query has a part in."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clmpt
from clmpt.cli.main import main
from clmpt.errors import DataError, SettingError, TrainingError
from clmpt.experiments.grids import Grid, grid_of, listed_values
from clmpt.experiments.records import variants_in
from clmpt.experiments.sweeping import chosen_trial, read_sweep, sweeps_in
from clmpt.reasoners.reasoner_folder import about_reasoner
from killing import killed_when
from small_experiment import arguments
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]
GRID = ("--set", "training.learning_rate=0.0001,0.01", "--set", "heads=2,4")


@pytest.fixture(scope="module")
def swept(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of four trials. To be looked at, not changed."""
    out = tmp_path_factory.mktemp("swept") / "run"
    assert main(arguments(home, out, *GRID)) == 0
    return out


def tried(out: Path) -> list[tuple[Any, ...]]:
    """The trials of a folder's only sweep, with the choice, without times."""
    (sweep,) = sweeps_in(out)
    return [
        (*trial["changes"], trial["validation"], number == sweep.chosen)
        for number, trial in enumerate(sweep.trials)
    ]


# --- grids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("64", ["64"]),
        ("64,128", ["64", "128"]),
        (" 1 , 2 ", ["1", "2"]),
        ("1,,2", ["1", "", "2"]),
        ("1,", ["1", ""]),
        ("", [""]),
        ('"a, b"', ['"a, b"']),
        ("'a, b',c", ["'a, b'", "c"]),
        ('"a\\"b, c",d', ['"a\\"b, c"', "d"]),
        ("1p 2p,3p", ["1p 2p", "3p"]),
        ('"open, 1', ['"open', "1"]),
    ],
)
def test_values_are_divided_at_commas_outside_of_quotes(text: str, values: list[str]) -> None:
    assert listed_values(text) == values


@given(st.lists(st.integers(0, 999).map(str), min_size=1, max_size=6))
def test_any_list_of_values_is_read_back(values: list[str]) -> None:
    assert listed_values(",".join(values)) == values
    assert listed_values(", ".join(f'"{value},"' for value in values)) == [
        f'"{v},"' for v in values
    ]


def test_a_grid_has_all_combinations_and_the_last_changes_fastest() -> None:
    fixed, grid = grid_of(["training.batch=1,2", "rank=8", "heads=2, 4"], "clmpt")
    assert fixed == ["rank=8"]
    assert grid.size == 4
    assert grid.points() == [
        ("training.batch=1", "heads=2"),
        ("training.batch=1", "heads=4"),
        ("training.batch=2", "heads=2"),
        ("training.batch=2", "heads=4"),
    ]


def test_drawn_points_differ_and_more_of_them_begin_with_the_same() -> None:
    grid = Grid(tuple(tuple(f"{name}={n}" for n in range(100)) for name in "abcdefgh"))  # 10^16
    few, many = grid.points(5, seed=3), grid.points(50, seed=3)
    assert len(set(many)) == 50
    assert many[:5] == few
    assert grid.points(5, seed=4) != few
    assert len(Grid((("a=1", "a=2"),)).points(7)) == 2
    with pytest.raises(SettingError, match=r"10,000,000,000,000,000 points.*--trials N"):
        grid.points()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (["training.batch=1,,2"], "'training.batch=1,,2' has an empty value"),
        (["training.batch=1,"], "has an empty value"),
        (["training.bach=1,2"], "Did you mean 'batch'?"),
        (["batch=1,2"], "'batch' is ambiguous"),
        (["training.batch=1,2,1"], "has the value 1 twice"),
        (["training.batch=1,2", "training.batch=3,4"], "is given several values twice"),
        (["training.batch=1,2", "training.batch=3"], "is given one value and several"),
        (["training.seed=0,1"], "averaged over: --seeds 0 1 2"),
        (["pretraining.seed=0,1"], "averaged over"),
        (["training.device=cpu,cuda"], "the result does not depend on it"),
        (["training.validation_queries=5,6"], "on the same validation queries"),
        (["queries.train=5,6"], "'queries.train' cannot have several values"),
        (["experiment.name=a,b"], "Quote a value that has commas"),
        (["training.batch=1,many"], "'batch' must be of type int"),
        (["heads=2,3"], "3 heads do not divide"),
    ],
)
def test_grids_that_make_no_sense_are_refused_before_anything_is_written(
    home: Path, tmp_path: Path, capsys: Captured, changes: list[str], why: str
) -> None:
    words = [word for change in changes for word in ("--set", change)]
    assert main(arguments(home, tmp_path / "run", *words)) == 2
    said = capsys.readouterr()
    assert why in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_trials_need_a_grid(home: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(arguments(home, tmp_path / "run", "--trials", "3")) == 2
    assert "no setting has several values" in capsys.readouterr().err


def test_a_quoted_value_with_commas_is_one(home: Path, tmp_path: Path, capsys: Captured) -> None:
    words = arguments(home, tmp_path / "run", "--set", 'name="a, b"', "--plan")
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("a, b, 40 entities")


# --- the choice -----------------------------------------------------------------------------------


def test_validation_chooses_the_first_of_the_best_on_the_shapes_that_all_have() -> None:
    one, two = {"shapes": {"1p": 0.2, "2p": 0.4}}, {"shapes": {"1p": 0.4, "2p": 0.2}}
    chosen, figures = chosen_trial([one, two])
    assert (chosen, figures) == (0, [pytest.approx(0.3)] * 2)
    assert chosen_trial([one, {"shapes": {"1p": 0.3}}])[0] == 1
    assert chosen_trial([None, one]) == (1, [0.0, pytest.approx(0.3)])  # the first diverged
    with pytest.raises(TrainingError, match="All trials diverged"):
        chosen_trial([None, None])
    with pytest.raises(DataError, match="Trial 2 has no validation figures"):
        chosen_trial([one, {}])
    with pytest.raises(DataError, match="no shape in common"):
        chosen_trial([one, {"shapes": {"3p": 0.3}}])


def test_the_best_trial_by_validation_is_measured_and_no_other(swept: Path) -> None:
    (sweep,) = sweeps_in(swept)
    assert [trial["changes"] for trial in sweep.trials] == [
        [f"training.learning_rate={rate}", f"heads={heads}"]
        for rate in ("0.0001", "0.01")
        for heads in ("2", "4")
    ]
    kept = [about_reasoner(swept / trial["folder"])["valid"]["mrr"] for trial in sweep.trials]
    assert [trial["validation"] for trial in sweep.trials] == pytest.approx(kept)
    assert kept[sweep.chosen] == max(kept)
    (variant,) = variants_in(swept)
    assert variant.folders["reasoner"] == sweep.reasoner
    assert variant.name == f"CLMPT, {', '.join(sweep.point)}"
    assert len(list(swept.glob("reasoners/*"))) == 4
    assert len(list(swept.glob("reports/*"))) == 2  # the chosen one and beam search
    assert sweep.lead == pytest.approx(max(kept) - sorted(kept)[-2])


def test_what_was_chosen_is_said_and_shown(home: Path, swept: Path, capsys: Captured) -> None:
    assert main(arguments(home, swept, *GRID)) == 0
    said = capsys.readouterr()
    (sweep,) = sweeps_in(swept)
    rows = [line.split("\t") for line in said.out.splitlines() if line.count("\t") == 6]
    assert [row[-1] for row in rows[1:]] == [
        "chosen" if number == sweep.chosen else "" for number in range(4)
    ]
    best = sweep.trials[sweep.chosen]["validation"]
    assert f"{', '.join(sweep.point)} (MRR × 100 {100 * best:.2f}, " in said.err
    assert "already finished" in said.err
    assert "ahead of the next). Test queries are answered by it alone." in said.err
    page = (swept / "report" / "report.md").read_text(encoding="utf-8")
    assert "### Trials for CLMPT" in page
    assert f"| {100 * best:.2f} |" in page
    assert main([*arguments(home, swept, *GRID), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sweep"]["lead"] == pytest.approx(sweep.lead)
    assert found["folders"]["reasoner"] == str(sweep.reasoner)


def test_no_test_query_is_read_before_the_choice(
    home: Path, swept: Path, tmp_path: Path, capsys: Captured
) -> None:
    """With test queries that cannot be read, a sweep chooses as always, and fails only then."""
    data, out = tmp_path / "NELL-betae", tmp_path / "run"
    shutil.copytree(home / "NELL-betae", data)
    for path in data.glob("test-*.pkl"):
        path.write_bytes(b"unreadable")
    words = arguments(home, out, *GRID)
    words[3] = str(data)
    assert main(words) == 2
    assert re.search(r"test-[a-z-]+\.pkl' is not safe to load", capsys.readouterr().err)
    assert tried(out) == tried(swept)
    assert not list(out.glob("queries/test-*"))
    assert not (out / "reports").exists()


def test_a_killed_sweep_goes_on_and_chooses_the_same(
    home: Path, swept: Path, tmp_path: Path
) -> None:
    out, script = tmp_path / "run", str(Path(sys.executable).with_name("clmpt"))
    command = [script, *arguments(home, out, *GRID)]
    begun = {1, 3}

    def next_trial() -> bool:
        return len(list(out.glob("reasoners/clmpt-*"))) in begun

    for _ in range(2):
        killed_when(next_trial, command)
        begun -= {len(list(out.glob("reasoners/clmpt-*")))}
        assert not list(out.glob("queries/test-*"))
        assert not list(out.glob("sweeps/*"))
    assert main(command[1:]) == 0
    assert tried(out) == tried(swept)
    reports = [next(run.glob("reports/clmpt-*")) / "report.json" for run in (out, swept)]
    assert reports[0].read_bytes() == reports[1].read_bytes()


def test_a_plan_lists_the_trials_and_changes_nothing(
    home: Path, swept: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert main(arguments(home, tmp_path / "run", *GRID, "--plan")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("CLMPT: 4 trials, 40 entities")
    planned = re.findall(r"^  (\S.*?)  +about", shown, re.M)
    trials = [f"trial {number} of 4, training" for number in (1, 2, 3, 4)]
    before = ["training queries", "validation queries", "pre-training"]
    assert planned == [*before, *trials, "choosing", "test queries", "measuring", "beam search"]
    assert not (tmp_path / "run").exists()
    assert main(arguments(home, swept, *GRID, "--plan")) == 0
    assert capsys.readouterr().out.count(" done\n") == len(planned)


def test_some_points_are_drawn_and_a_larger_sweep_reuses_them(
    home: Path, swept: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "run"
    shutil.copytree(swept, out)
    before = {path.name for path in out.glob("reasoners/*")}
    assert main(arguments(home, out, *GRID, "--trials", "2")) == 0
    assert capsys.readouterr().out.startswith("CLMPT: 2 trials of 4, 40 entities")
    assert {path.name for path in out.glob("reasoners/*")} == before
    few, all_of_them = sorted(sweeps_in(out), key=lambda sweep: len(sweep.trials))
    assert len(few.trials) == 2
    assert few.grid_size == 4
    known = {tuple(trial["changes"]) for trial in all_of_them.trials}
    assert {tuple(trial["changes"]) for trial in few.trials} < known


def test_the_predictor_can_be_swept(home: Path, tmp_path: Path) -> None:
    found = clmpt.reproduce(
        *(home / "tiny.toml", home / "NELL-betae", tmp_path / "run"),
        changes=["rank=4,8"],
        workers=1,
        progress=False,
    )
    (sweep,) = sweeps_in(tmp_path / "run")
    assert len(list((tmp_path / "run").glob("predictors/*"))) == 2
    assert found.folders["reasoner"] == sweep.reasoner
    assert f"rank={found.settings['pretraining']['rank']}" in sweep.point


def test_a_damaged_record_is_reported(
    home: Path, swept: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "run"
    shutil.copytree(swept, out)
    (path,) = (without_checksums(out) / "sweeps").glob("*.json")
    document = json.loads(path.read_text())
    for change in ({"trials": []}, {"trials": [{}]}, {"grid_size": None}):
        path.write_text(json.dumps({**document, **change}))
        assert main(arguments(home, out, *GRID)) == 2
        assert "Remove it and run the same command again" in capsys.readouterr().err
    for trial in document["trials"]:
        trial.pop("chosen", None)
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="is damaged"):
        read_sweep(path)
    path.unlink()
    assert main(arguments(home, out, *GRID)) == 0
    assert tried(out) == tried(swept)
