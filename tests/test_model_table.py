"""Tables of many models: short trials choose, records resume, a page shows all."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.experiments.table_records import TableRecord, read_record
from clmpt.reasoners.reasoner_folder import about_reasoner

Captured = pytest.CaptureFixture[str]
TABLE = """
title = "Two models, four steps each"
set = ["training.steps=4", "training.validate_every=2"]
trial = ["training.steps=2"]

[[row]]
recipe = "{recipe}"
set = ["training.learning_rate=0.0001,0.01"]
seeds = [0, 1]

[[row]]
recipe = "{recipe}"
name = "points"
reasoner = "gqe"
set = ["reasoning.rank=8"]
"""


def words(folder: Path, home: Path, *more: str) -> list[str]:
    places = ["--data", str(home / "NELL-betae"), "--out", str(folder / "run"), "--workers", "1"]
    return ["table", str(folder / "table.toml"), *places, *more]


@pytest.fixture(scope="module")
def made(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished table. To be looked at, not changed."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "table.toml").write_text(TABLE.format(recipe=home / "tiny.toml"))
    assert main(words(folder, home)) == 0
    return folder


def records(folder: Path) -> dict[str, TableRecord]:
    found = (read_record(path) for path in folder.glob("*-*.json"))
    return {record.name: record for record in found}


def test_trials_are_short_and_what_they_choose_is_trained_whole(made: Path) -> None:
    found = records(made / "run" / "tables" / "table")
    assert set(found) == {"CLMPT", "points"}
    first, second = found["CLMPT"].entries
    assert (first.seed, second.seed) == (0, 1)
    assert [trial["changes"][0] for trial in first.trials] == [
        "training.learning_rate=0.0001",
        "training.learning_rate=0.01",
    ]
    (chosen,) = (trial for trial in first.trials if trial.get("chosen"))
    assert chosen["validation"] == max(trial["validation"] for trial in first.trials)
    rate = float(chosen["changes"][0].partition("=")[2])
    assert first.settings["training"]["learning_rate"] == rate
    assert (first.costs["steps"], second.costs["steps"]) == (4, 4)
    trained = [about_reasoner(path) for path in (made / "run" / "reasoners").iterdir()]
    assert sorted(one["training"]["steps"] for one in trained) == [2, 2, 4, 4, 4]
    assert found["points"].entries[0].costs["answering"] > 0
    assert str(made) not in "".join(path.read_text() for path in made.rglob("points-*.json"))


def test_a_row_is_compared_with_what_its_recipe_reproduces(made: Path) -> None:
    found = records(made / "run" / "tables" / "table")
    assert [entry.published for entry in found["CLMPT"].entries] == ["CLMPT", "CLMPT"]
    assert found["points"].entries[0].published == ""


def test_beam_search_is_not_measured_where_no_row_shows_it(made: Path) -> None:
    reports = {path.name.partition("-")[0] for path in (made / "run" / "reports").iterdir()}
    assert reports == {"clmpt", "gqe"}


def test_the_page_is_sorted_and_says_what_made_each_row(made: Path) -> None:
    page = (made / "run" / "tables" / "table" / "report.md").read_text()
    assert page.startswith("# Two models, four steps each")
    assert "CLMPT, 2 seeds" in page
    assert "--rows points" in page
    assert "| parameters | memory | a query |" in page
    assert "Trials are compared on 5 validation queries of each shape." in page
    assert "| trial | training.learning" in page
    assert re.search(r"smallest value tried was the best for CLMPT \(training\.learning", page)
    rows = [line.split(" | ")[0].strip("| ") for line in page.splitlines() if "|" in line]
    assert (
        rows.index("CLMPT, seed 0") < rows.index("CLMPT, seed 1") < rows.index("LMPNN (published)")
    )


def test_what_is_recorded_is_not_repeated(made: Path, home: Path, tmp_path: Path) -> None:
    """Not even where the models themselves are gone: records suffice for the page."""
    kept = tmp_path / "kept"
    kept.mkdir()
    for path in (made / "run" / "tables" / "table").glob("*.json"):
        shutil.copy(path, kept)
    shutil.copy(made / "table.toml", tmp_path)
    assert main(words(tmp_path, home, "--records", str(kept))) == 0
    assert not (tmp_path / "run" / "reasoners").exists()
    assert (kept / "report.md").read_text() == (
        made / "run" / "tables" / "table" / "report.md"
    ).read_text()


def test_other_test_queries_make_another_record(
    made: Path, home: Path, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copy(made / "table.toml", tmp_path)
    shutil.copytree(home / "NELL-betae", tmp_path / "NELL-betae")
    for path in (tmp_path / "NELL-betae").glob("test-*.pkl"):
        path.unlink()  # so that test queries would be sampled
    plan = words(tmp_path, tmp_path, "--records", str(made / "run" / "tables" / "table"), "--plan")
    assert main(plan) == 0
    assert "done" not in capsys.readouterr().out


def test_a_record_has_each_seed_once_however_many_processes_add_it(
    made: Path, tmp_path: Path
) -> None:
    record = records(made / "run" / "tables" / "table")["CLMPT"]
    first, second = (replace(record, entries=(entry,)) for entry in record.entries)
    for one in (first, second, first):
        path = one.save(tmp_path)
    assert read_record(path).entries == record.entries


def test_what_diverges_is_not_chosen_and_stops_no_other_row(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    recipe = home / "tiny.toml"
    (tmp_path / "table.toml").write_text(
        f"""
        set = ["training.steps=2", "training.validate_every=1"]
        [[row]]
        recipe = "{recipe}"
        set = ["training.learning_rate=1e30"]
        [[row]]
        recipe = "{recipe}"
        name = "tried"
        set = ["training.learning_rate=1e30,0.01"]
        """
    )
    assert main(words(tmp_path, home)) == 2
    assert "Not made, for the reasons above: CLMPT." in capsys.readouterr().err
    record = records(tmp_path / "run" / "tables" / "table")["tried"]
    assert [trial.get("diverged", False) for trial in record.trials] == [True, False]
    assert record.point == ("training.learning_rate=0.01",)
    page = (tmp_path / "run" / "tables" / "table" / "report.md").read_text()
    assert "Not made yet: CLMPT." in page
    assert "| 1e30 | diverged |" in page


def test_a_row_that_no_query_can_be_asked_of_stops_no_other_row(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    rows = [
        f'[[row]]\nrecipe = "{home / "tiny.toml"}"\nreasoner = "gqe"\nname = "{name}"\n{more}'
        for name, more in (("boxes", 'set = ["queries.trained=2in"]'), ("points", ""))
    ]
    (tmp_path / "table.toml").write_text(
        "\n".join(['set = ["training.steps=2", "reasoning.rank=4"]', *rows])
    )
    assert main(words(tmp_path, home)) == 2
    shown = capsys.readouterr().err
    assert "boxes: GQE can express none of these queries (2in: GQE has no negation)" in shown
    assert list(records(tmp_path / "run" / "tables" / "table")) == ["points"]


def test_a_default_that_is_set_makes_no_other_record(
    made: Path, home: Path, tmp_path: Path, capsys: Captured
) -> None:
    text = (made / "table.toml").read_text().replace('"training.steps=4"', '"steps=4", "clip=0.0"')
    assert "clip" in text
    (tmp_path / "table.toml").write_text(text)
    plan = words(tmp_path, home, "--records", str(made / "run" / "tables" / "table"), "--plan")
    assert main(plan) == 0
    assert capsys.readouterr().out.count("done") == 2


def test_seeds_that_a_row_gets_later_are_added_without_new_trials(
    made: Path, home: Path, tmp_path: Path
) -> None:
    """Where the models are gone, too."""
    text = (made / "table.toml").read_text().replace("seeds = [0, 1]", "seeds = [1, 2]")
    (tmp_path / "table.toml").write_text(text)
    kept = tmp_path / "kept"
    shutil.copytree(made / "run" / "tables" / "table", kept)
    assert main(words(tmp_path, home, "--records", str(kept))) == 0
    before, after = records(made / "run" / "tables" / "table")["CLMPT"], records(kept)["CLMPT"]
    assert after.seeds == [0, 1, 2]
    assert after.entries[:2] == before.entries
    assert after.entries[2].trials == before.trials
    (trained,) = (tmp_path / "run" / "reasoners").iterdir()
    learned = about_reasoner(trained)["training"]
    assert (learned["seed"], learned["steps"]) == (2, 4)
    assert learned["learning_rate"] == before.entries[0].settings["training"]["learning_rate"]
    assert "CLMPT, 3 seeds" in (kept / "report.md").read_text()


def test_a_row_that_has_changed_is_made_again(
    made: Path, home: Path, tmp_path: Path, capsys: Captured
) -> None:
    text = (made / "table.toml").read_text().replace("rank=8", "rank=16")
    (tmp_path / "table.toml").write_text(text)
    plan = words(tmp_path, home, "--records", str(made / "run" / "tables" / "table"), "--plan")
    assert main(plan) == 0
    shown = capsys.readouterr().out.split("\n")
    assert [line.split()[1:3] for line in shown if line] == [["done,", "2"], ["to", "do"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('title = "none"', "must have rows"),
        ('[[row]]\nrecipe = "{recipe}"\nseeds = [1.5]', "whole numbers from 0 on, not 1.5"),
        ('[[row]]\nrecipe = "{recipe}"\nseeds = [-1]', "whole numbers from 0 on, not -1"),
        (
            'set = ["training.validation_queries=0"]\n[[row]]\nrecipe = "{recipe}"\n'
            'set = ["training.batch=8,16"]',
            "and there are none",
        ),
        (
            'set = ["queries.tested=valid"]\n[[row]]\nrecipe = "{recipe}"\n'
            'set = ["training.batch=8,16"]',
            "chosen on the queries that are measured",
        ),
        ("rows = 3", "unknown entry 'rows'"),
        ("[[row]]\nset = []", "with a 'recipe'"),
        ('[[row]]\nrecipe = "{recipe}"\nset = "rank=8"', "must be of type list"),
        ('[[row]]\nrecipe = "{recipe}"\n[[row]]\nrecipe = "{recipe}"', "several rows 'CLMPT'"),
        ('[[row]]\nrecipe = "none.toml"', "cannot be read"),
        (
            '[[row]]\nrecipe = "{recipe}"\nname = "mine"\nset = ["rnak=8"]',
            "table.toml', mine: There is no setting 'rnak'. Did you mean 'rank'",
        ),
        ('trial = ["training.stps=5"]\n[[row]]\nrecipe = "{recipe}"', "Did you mean 'steps'"),
        ('[[row]]\nrecipe = "{recipe}"\nset = ["reasoning.heads=7"]', "Row 1 of"),
    ],
)
def test_a_wrong_table_is_reported(
    home: Path, tmp_path: Path, capsys: Captured, text: str, why: str
) -> None:
    (tmp_path / "table.toml").write_text(text.format(recipe=home / "tiny.toml"))
    assert main(words(tmp_path, home)) == 2
    assert why in capsys.readouterr().err


def test_an_unknown_row_is_reported(made: Path, home: Path, capsys: Captured) -> None:
    assert main(words(made, home, "--rows", "lines")) == 2
    assert "no row 'lines'. Available: CLMPT, points." in capsys.readouterr().err


SHAPE = {"shape": "1p", "notes": [], "mrr": 0.5, "hits_at_3": 0.5, "count": 1}
WHOLE: dict[str, Any] = {"name": "a", "report": {"shapes": [SHAPE]}}


@pytest.mark.parametrize(
    "entry",
    [
        {"a": 1},
        {**WHOLE, "report": {"shapes": [{**SHAPE, "mrr": "0.5"}]}},
        {**WHOLE, "report": {"shapes": [{**SHAPE, "count": None}]}},
        {**WHOLE, "seed": "a"},
        {**WHOLE, "costs": "x"},
        {**WHOLE, "costs": {"steps": "many"}},
        {**WHOLE, "settings": None},
        {**WHOLE, "settings": {"training": 1}},
        {**WHOLE, "trials": [{"a": 1}]},
        {**WHOLE, "report": {"shapes": [{**SHAPE, "mrr": float("nan")}]}},
        {**WHOLE, "report": {"shapes": [{**SHAPE, "mrr": 7.0}]}},
        {**WHOLE, "report": {"shapes": [{**SHAPE, "standard_error": "0.1"}]}},
        {**WHOLE, "report": {"shapes": [SHAPE], "notes": [1]}},
        {**WHOLE, "settings": {"training": {"validation_queries": "x"}}},
    ],
)
def test_a_record_with_a_damaged_entry_is_named(tmp_path: Path, entry: object) -> None:
    document = {"format": 1, "name": "a", "key": "b", "entries": [WHOLE]}
    (tmp_path / "row.json").write_text(json.dumps(document))
    assert read_record(tmp_path / "row.json").name == "a"
    (tmp_path / "row.json").write_text(json.dumps({**document, "entries": [entry]}))
    with pytest.raises(DataError, match=r"row\.json.*damaged"):
        read_record(tmp_path / "row.json")


@pytest.mark.parametrize("damage", [{}, {"format": 1}, {"format": 1, "entries": 3}])
def test_a_damaged_record_is_named(tmp_path: Path, damage: object) -> None:
    whole = json.dumps(damage)
    for text in (whole, whole[:-1], ""):
        (tmp_path / "row.json").write_text(text)
        with pytest.raises(DataError, match=r"row\.json.*damaged.*make its row again"):
            read_record(tmp_path / "row.json")
