"""Training for some processor time: its steps are measured once, then everything is as usual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clmpt.errors import DataError, SettingError
from clmpt.storage.run_folder import read_log, read_summary
from clmpt.training.runs import train
from small_training import SMALL, assert_same_run, predictor, queries, settings, valid_graph


def run(out: Path, stop_at: int = 0, **changes: Any) -> None:
    graph = valid_graph()
    course = settings(validation_queries=5, **changes)
    steps = train(graph, predictor(), queries(graph), SMALL, course, out)
    for now in steps:
        if now.step == stop_at:
            steps.close()


def test_a_budget_becomes_a_number_of_steps(tmp_path: Path) -> None:
    run(tmp_path / "run", minutes=0.005, patience=99)
    pace = json.loads((tmp_path / "run" / "pace.json").read_text())["seconds_per_step"]
    log, steps = read_log(tmp_path / "run"), max(1, int(0.3 / pace))
    interval = -(-steps // 5)
    assert [line["step"] for line in log] == [*range(interval, steps, interval), steps]
    assert read_summary(tmp_path / "run")["processor"] > 0


def test_a_budget_gives_the_weights_of_as_many_steps(tmp_path: Path) -> None:
    run(tmp_path / "paced", minutes=0.005, patience=99)
    log = read_log(tmp_path / "paced")
    run(
        tmp_path / "steps",
        steps=log[-1]["step"],
        validate_every=log[0]["step"],
        patience=99,
    )
    assert_same_run(tmp_path / "paced", tmp_path / "steps")


def test_a_run_that_resumes_keeps_its_number_of_steps(tmp_path: Path) -> None:
    run(tmp_path / "run", stop_at=2, minutes=0.005)
    before = (tmp_path / "run" / "pace.json").read_bytes()
    run(tmp_path / "run", minutes=0.005)
    assert (tmp_path / "run" / "pace.json").read_bytes() == before
    steps = max(1, int(0.3 / json.loads(before)["seconds_per_step"]))
    assert read_log(tmp_path / "run")[-1]["step"] <= steps


def test_a_damaged_pace_is_named(tmp_path: Path) -> None:
    run(tmp_path / "run", stop_at=2, minutes=0.005)
    (tmp_path / "run" / "pace.json").write_text("{}")
    with pytest.raises(DataError, match=r"pace\.json"):
        run(tmp_path / "run", minutes=0.005)


@pytest.mark.parametrize("other", [{"steps": 3}, {"divided": "weights"}])
def test_a_budget_is_refused_beside_what_contradicts_it(other: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="'minutes'"):
        settings(minutes=1, **other)
