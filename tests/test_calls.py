"""One call for each step of an experiment: the same as the command, with values as results."""

from __future__ import annotations

import ast
import inspect
import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import clmpt
from clmpt.cli.command_line import command_parser
from clmpt.cli.main import main
from clmpt.display.bars import shown_progress
from clmpt.errors import DataError, SettingError
from clmpt.progress import Progress
from clmpt.settings import Training

SMALL = {"rank": 8, "epochs": 3, "batch": 64, "device": "cpu"}
QUICK = {"heads": 2, "feed_forward": 16, "steps": 8, "batch": 16, "validation_queries": 4}


@pytest.fixture(scope="module")
def made(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A predictor, queries and a reasoner, each made by one call."""
    folder, graph = tmp_path_factory.mktemp("calls"), home / "NELL-betae"
    predictor = clmpt.pretrain(graph, folder / "complex", progress=False, **SMALL)
    queries = clmpt.sample(
        graph, ["1p", "2i=9"], folder / "train.queries", count=20, workers=1, progress=False
    )
    assert [len(group) for group in queries.groups] == [20, 9]
    clmpt.train(
        *(graph, queries, folder / "clmpt"),
        predictor=predictor,
        progress=False,
        device="cpu",
        **QUICK,
    )
    return folder


def test_a_call_gives_what_its_command_gives(made: Path, home: Path, tmp_path: Path) -> None:
    """The same weights, the same queries: identity and content of the results agree."""
    graph, out = str(home / "NELL-betae"), str(tmp_path / "complex")
    words = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    assert main(["pretrain", graph, "--out", out, *words]) == 0
    names = ("weights.safetensors",)
    assert all((made / "complex" / n).read_bytes() == (Path(out) / n).read_bytes() for n in names)
    queries = str(tmp_path / "train.queries")
    sampled = ["--shapes", "1p", "2i=9", "--count", "20", "--workers", "1", "--out", queries]
    assert main(["sample", graph, *sampled]) == 0
    assert Path(queries).read_bytes() == (made / "train.queries").read_bytes()
    options = [f"--{name.replace('_', '-')}={value}" for name, value in QUICK.items()]
    trained = ["--predictor", out, "--queries", queries, "--out", str(tmp_path / "clmpt")]
    assert main(["train", graph, *trained, "--device", "cpu", *options]) == 0
    weights = [folder / "clmpt" / "weights.safetensors" for folder in (made, tmp_path)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_finished_run_is_opened_and_other_settings_are_refused(made: Path, home: Path) -> None:
    again = clmpt.pretrain(home / "NELL-betae", made / "complex", progress=False, **SMALL)
    assert again.valid_mrr == clmpt.TrainedModel.open(made / "complex", again.graph).valid_mrr
    with pytest.raises(DataError, match="other settings"):
        clmpt.pretrain(
            home / "NELL-betae", made / "complex", progress=False, **{**SMALL, "rank": 9}
        )


def test_a_trained_model_shows_how_it_went_and_answers(made: Path, home: Path) -> None:
    graph = clmpt.open_graph(home / "NELL-betae")
    model = clmpt.TrainedModel.open(made / "clmpt", graph)
    assert repr(model).startswith(f"<TrainedModel in '{made / 'clmpt'}': validation MRR 0.")
    assert "data:image/svg+xml" in model._repr_html_()
    assert [record["step"] for record in model.log]
    assert len(model.answerer("cpu").ask("?y : #0(#1, ?y)", limit=3)) == 3


def test_queries_and_links_are_evaluated_as_by_the_command(
    made: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = home / "NELL-betae"
    report = clmpt.evaluate(
        made / "clmpt", data, report=tmp_path / "report", device="cpu", progress=False
    )
    words = [str(made / "clmpt"), "--queries", str(data), "--device", "cpu", "--json"]
    assert main(["evaluate", *words]) == 0
    assert json.loads(capsys.readouterr().out)["queries"] == json.loads(
        json.dumps(report.as_plain())
    )
    assert (tmp_path / "report" / "report.json").exists()
    links = clmpt.evaluate_links(made / "complex", device="cpu", progress=False)
    assert main(["evaluate", str(made / "complex"), "--links", "--device", "cpu", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["links"]
    assert [row["mrr"] for row in shown] == [figures.mrr for figures in links.values()]
    assert list(links) == ["valid", "test"]


def test_models_in_memory_and_the_exact_solver_can_be_evaluated(made: Path, home: Path) -> None:
    graph = clmpt.open_graph(home / "NELL-betae")
    queries = home / "NELL-betae"
    trained = clmpt.TrainedModel.open(made / "clmpt", graph)
    same = [
        clmpt.evaluate(model, queries, shapes=["2p"], device="cpu", progress=False).mean
        for model in (trained, trained.answerer("cpu"), made / "clmpt")
    ]
    assert len(set(same)) == 1
    chosen = clmpt.load(made / "clmpt", "cpu", reasoner="beam-search")
    beam = clmpt.evaluate(chosen, queries, shapes=["2p"], device="cpu", progress=False)
    assert beam.model == "clmpt (beam search)"
    exact = clmpt.evaluate("exact", queries, graph=graph, progress=False)
    assert exact.model == "exact solver"
    with pytest.raises(SettingError, match="Name the graph"):
        clmpt.evaluate("exact", queries, progress=False)


def test_an_experiment_is_reproduced_as_by_the_command(
    run: Path, home: Path, tmp_path: Path
) -> None:
    made = clmpt.reproduce(
        *(home / "tiny.toml", home / "NELL-betae", tmp_path / "run"), workers=1, progress=False
    )
    assert repr(made).startswith("<Variant 'CLMPT': mean MRR 0.")
    theirs = list((run / "variants").glob("clmpt-*.json"))
    assert [path.name for path in (tmp_path / "run" / "variants").glob("clmpt-*")] == [
        path.name for path in theirs
    ]
    assert (tmp_path / "run" / "report" / "report.html").exists()
    again = clmpt.reproduce(
        *(home / "tiny.toml", home / "NELL-betae", tmp_path / "run"),
        reasoner="lmpnn",
        changes=["training.batch=8"],
        workers=1,
        progress=False,
    )
    assert again.name == "LMPNN, training.batch=8"


def test_a_setting_that_does_not_exist_is_refused_with_a_hint(home: Path, tmp_path: Path) -> None:
    graph = home / "NELL-betae"
    with pytest.raises(SettingError, match=r"'rnak'\. Did you mean 'rank'"):
        clmpt.pretrain(graph, tmp_path / "m", rnak=8)
    with pytest.raises(SettingError, match=r"'bacth'\. Did you mean 'batch'"):
        clmpt.train(graph, tmp_path / "q", tmp_path / "m", bacth=8)
    with pytest.raises(SettingError, match="must be at least 1"):
        clmpt.pretrain(graph, tmp_path / "m", rank=0)
    assert not (tmp_path / "m").exists()


# --- defaults -------------------------------------------------------------------------------------

OPTION_OF = {"changes": "set"}  # where the names differ
ONLY_IN_PYTHON = {"graph", "folder", "progress", "settings", "model", "queries", "shapes", "out"}


@pytest.mark.parametrize("name", ["pretrain", "train", "sample", "evaluate", "reproduce"])
def test_defaults_are_those_of_the_command(name: str) -> None:
    parser = command_parser("clmpt")
    (commands,) = (a for a in parser._actions if isinstance(a.choices, dict))
    options = {action.dest: action.default for action in commands.choices[name]._actions}
    table = {field.name for field in fields(Training)}
    for parameter in inspect.signature(getattr(clmpt, name)).parameters.values():
        if parameter.name in ONLY_IN_PYTHON | table or parameter.default is parameter.empty:
            continue
        default = options[OPTION_OF.get(parameter.name, parameter.name)]
        own = parameter.default if parameter.default not in ((), "test") else None
        assert (own or None) == (default or None), parameter.name


def test_a_type_checker_sees_every_public_name() -> None:
    tree = ast.parse(Path(clmpt.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    seen |= {
        node.targets[0].id
        for node in block.body
        if isinstance(node, ast.Assign)
        if isinstance(node.targets[0], ast.Name)
    }
    assert {*clmpt.__all__} - {"__version__"} <= seen


# --- progress -------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress: Any) -> None:
    with shown_progress(progress) as show:
        for stage in ("pre-training", "training\x1b[2J"):
            for done in range(3):
                show(Progress(stage, done, 4, "loss 0.5"))


def test_progress_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    work(True)
    lines = [line.split("\r")[-1] for line in terminal.getvalue().split("\n")]
    assert lines[0].startswith("pre-training           ████████████████████████ 100%")
    assert "\x1b" not in terminal.getvalue()
    assert len(lines) == 3  # two stages, and the end of the last line
    assert not lines[2]


def test_progress_is_silent_on_request_and_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for progress, stream in ((False, Terminal()), (True, io.StringIO())):
        monkeypatch.setattr("sys.stderr", stream)
        work(progress)
        assert stream.getvalue() == ""


def test_progress_goes_to_a_function() -> None:
    seen: list[Progress] = []
    work(seen.append)
    assert len(seen) == 6


def test_a_terminal_is_left_in_order_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    def interrupted() -> None:
        with shown_progress(True) as show:
            show(Progress("training", 1, 4))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.getvalue().endswith("\n")
