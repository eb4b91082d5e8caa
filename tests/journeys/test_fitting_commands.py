"""fit, ask on what it made, and the Python interface: from a file to answers."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import clmpt
from clmpt.cli.main import main
from clmpt.experiments.costs import idle_peak
from clmpt.experiments.fit_settings import fit_settings
from clmpt.experiments.fitting import divide, estimate, stages_of
from clmpt.experiments.recipes import Fitting
from clmpt.progress import Progress
from killing import killed_when
from toy import random_graph

Captured = pytest.CaptureFixture[str]
QUICK = """
[fitting]
queries = 50
test_queries = 5
[pretraining]
rank = 8
epochs = 3
[reasoning]
heads = 2
feed_forward = 16
[training]
steps = 20
batch = 32
validation_queries = 4
"""
STAGES = ["pre-training", "training queries", "training", "test queries", "measuring"]
STAGES += ["beam search"]
TABLES = {
    "fitting": {"queries": 50, "test_queries": 5},
    "pretraining": {"rank": 8, "epochs": 3},
    "reasoning": {"heads": 2, "feed_forward": 16},
    "training": {"steps": 20, "batch": 32, "validation_queries": 4},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of facts, a recipe that is quick, and the model that `clmpt fit` made of them."""
    folder = tmp_path_factory.mktemp("home")
    graph = random_graph(False)
    names, relations = graph.entities.names, graph.relations.names
    rows = sorted({tuple(row) for row in graph.triples().tolist()})
    (folder / "facts.tsv").write_text(
        "".join(f"{names[h]}\t{relations[r]}\t{names[t]}\n" for h, r, t in rows)
    )
    (folder / "quick.toml").write_text(QUICK)
    assert main(_fit(folder, "model")) == 0
    return folder


def _fit(folder: Path, out: str, *more: str) -> list[str]:
    recipe = ["--recipe", str(folder / "quick.toml"), "--device", "cpu"]
    return ["fit", str(folder / "facts.tsv"), "--out", str(folder / out), *recipe, *more]


def refused(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return err.strip().splitlines()[-1]


def files_of(folder: Path) -> dict[str, bytes]:
    """What a fit makes, without what tells when and how fast it was made."""
    moments = ("run.json", "finished.json", "log.jsonl", "cost.json")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in moments
    }


def test_fit_says_what_it_will_do_and_how_it_went(
    home: Path, capsys: Captured, tmp_path: Path
) -> None:
    command = _fit(home, "told")
    command[command.index("--out") + 1] = str(tmp_path / "told")
    assert main(command) == 0
    out, err = capsys.readouterr()
    for expected in ("40 entities, 5 relations", "valid and", "rank 8", "about 0 min", "GB of"):
        assert expected in out
    for stage in STAGES:
        assert f"{stage}:" in err
    assert "shape\tCLMPT\tbeam search\tqueries" in out
    assert f"Next: clmpt ask {tmp_path / 'told'}" in out


def test_a_plan_is_shown_without_doing_anything(home: Path, capsys: Captured) -> None:
    assert main(_fit(home, "planned", "--plan", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["pretraining"]["rank"] == 8
    assert found["plan"]["fitting"]["hide"] == 0.1
    assert found["estimate"]["seconds"] > 0
    assert main(_fit(home, "planned", "--plan")) == 0
    assert "estimate" in capsys.readouterr().out
    assert not (home / "planned").exists()


def test_a_finished_folder_is_opened_at_once(home: Path, capsys: Captured) -> None:
    before = files_of(home / "model")
    assert main(_fit(home, "model", "--json")) == 0
    out, err = capsys.readouterr()
    assert "finished already" in err
    report = json.loads(out)["report"]
    assert {shape["count"] for shape in report["shapes"]} <= set(range(1, 6))
    assert files_of(home / "model") == before


def test_the_same_facts_and_seed_give_the_same_files(home: Path, tmp_path: Path) -> None:
    command = _fit(home, "again")
    command[command.index("--out") + 1] = str(tmp_path / "again")
    assert main(command) == 0
    assert files_of(tmp_path / "again") == files_of(home / "model")


def test_a_killed_fit_resumes_and_ends_the_same(home: Path, tmp_path: Path) -> None:
    command = _fit(home, "killed")
    out = tmp_path / "killed"
    command[command.index("--out") + 1] = str(out)
    for awaited in ("predictor", "train.queries", "reasoner"):
        killed_when((out / awaited).exists, [sys.executable, "-m", "clmpt", *command])
    assert main(command) == 0
    assert files_of(out) == files_of(home / "model")
    assert not list(out.glob(".*"))


def test_asking_what_fit_made(home: Path, capsys: Captured) -> None:
    model = str(home / "model")
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


def test_a_hidden_fact_is_told_from_a_known_and_a_predicted_one(home: Path) -> None:
    model = clmpt.load(home / "model", device="cpu")
    head, relation, tail = model.graph.triples("test")[0].tolist()
    found = model.ask(f"?y : #{relation}(#{head}, ?y)", limit=len(model.graph.entities))
    status = {answer.entity: answer.status for answer in found}
    assert status[tail] == "hidden"
    seen = set(model.graph.view("train").neighbours(head, relation))
    assert {entity for entity, one in status.items() if one == "known"} == seen


def test_answers_as_csv_and_as_a_picture(home: Path, tmp_path: Path, capsys: Captured) -> None:
    picture = tmp_path / "answers.svg"
    command = ["ask", str(home / "model"), "?y : r0(e0, ?y)", "--limit", "3"]
    assert main([*command, "--csv", "--svg", str(picture)]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["label", "name", "id", "score", "status"]
    assert len(rows) == 3
    drawn = picture.read_text(encoding="utf-8")
    assert rows[0][0] in drawn
    assert "url(http" not in drawn
    assert "exists already" in refused(capsys, *command, "--svg", str(picture))
    assert main(["solve", str(home / "model"), "?y : r0(e0, ?y)", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("label,name,id\n")


def test_questions_from_a_pipe_and_a_mistake_among_them(home: Path) -> None:
    asked = "?y : r0(e0, ?y)\n\nhelp\n?y : r9(e0, ?y)\ndraw 2i\nlimit 1\n?y : r1(e0, ?y)\nquit\nx\n"
    found = subprocess.run(
        [sys.executable, "-m", "clmpt", "ask", str(home / "model"), "--limit", "2"],
        input=asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 2
    assert found.stdout.count("answer\tscore") == 2
    assert "?y : r1(e0, ?y)\nanswer" in found.stdout
    assert len([line for line in found.stdout.splitlines() if line.startswith("e")]) == 3
    assert "Tab completes names" in found.stdout
    assert "─ $s1" in found.stdout
    assert "line 4: Unknown relation 'r9' at column 6" in found.stderr


def test_what_cannot_be_fitted_is_refused_in_a_line(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert "other settings" in refused(capsys, *_fit(home, "model", "--seed", "3"))
    assert "'hide' must be" in refused(capsys, *_fit(home, "new", "--hide", "1"))
    (tmp_path / "one.tsv").write_text("a\tr\tb\n")
    (tmp_path / "other.toml").write_text("[fiting]\nhide = 0\n")
    one = ["fit", str(tmp_path / "one.tsv"), "--out", str(tmp_path / "one")]
    assert "has 'fiting'; it may have" in refused(
        capsys, *one, "--recipe", str(tmp_path / "other.toml")
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    said = refused(capsys, "fit", str(tmp_path / "one.tsv"), "--out", str(tmp_path / "notes"))
    assert "exists already" in said
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "one").exists()


def test_even_a_single_fact_can_be_fitted(tmp_path: Path, home: Path, capsys: Captured) -> None:
    (tmp_path / "one.tsv").write_text("a\tr\tb\n")
    out = str(tmp_path / "one")
    recipe = ["--recipe", str(home / "quick.toml")]
    assert main(["fit", str(tmp_path / "one.tsv"), "--out", out, *recipe]) == 0
    said = capsys.readouterr().out
    assert "nothing will be measured" in said
    assert "Nothing was measured" in said
    assert main(["ask", out, "?x : r(a, ?x)", "--limit", "1"]) == 0


def test_everything_can_be_trained_on(tmp_path: Path, home: Path, capsys: Captured) -> None:
    command = _fit(home, "all", "--hide", "0", "--json")
    command[command.index("--out") + 1] = str(tmp_path / "all")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["report"] is None


def test_all_splits_are_trained_on_where_nothing_is_hidden(tmp_path: Path, home: Path) -> None:
    lines = (home / "facts.tsv").read_text().splitlines(keepends=True)
    for name, part in (("a", lines[::2]), ("b", lines[1::2])):
        (tmp_path / f"{name}.tsv").write_text("".join(part))
    sources = [f"{name}={tmp_path / name}.tsv" for name in ("a", "b")]
    recipe = ["--recipe", str(home / "quick.toml")]
    assert main(["fit", *sources, "--hide", "0", "--out", str(tmp_path / "m"), *recipe]) == 0
    graph = clmpt.open_graph(tmp_path / "m")
    assert graph.splits == ("facts",)
    assert len(graph.triples()) == len(lines)


def test_where_no_question_needs_a_hidden_fact_nothing_is_measured(
    tmp_path: Path, home: Path, capsys: Captured
) -> None:
    lines = (home / "facts.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "test.tsv").write_text("".join(lines[:5]))
    sources = [str(tmp_path / f"{name}.tsv") for name in ("train", "test")]
    recipe = ["--recipe", str(home / "quick.toml")]
    assert main(["fit", *sources, "--out", str(tmp_path / "m"), *recipe]) == 0
    assert "Nothing was measured" in capsys.readouterr().out


def test_what_is_lost_is_made_again_or_named(home: Path, tmp_path: Path, capsys: Captured) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(home / "model", broken)
    command = _fit(home, "model")
    command[command.index("--out") + 1] = str(broken)
    before = files_of(broken)
    shutil.rmtree(broken / "report")
    (broken / "reasoner" / "weights.safetensors").write_bytes(b"cut")
    assert "Remove that folder and run the same command" in refused(capsys, *command)
    shutil.rmtree(broken / "reasoner")
    assert "Run what made it again" in refused(capsys, "ask", str(broken), "?y : r0(e0, ?y)")
    assert main(command) == 0
    assert files_of(broken) == before
    (broken / "report" / "report.json").write_text('{"mean": 1, "shapes": [{}]}')
    assert "report.json' is damaged. Remove" in refused(capsys, *command)


def test_a_model_that_is_not_finished_is_not_asked(
    home: Path, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copytree(home / "model", tmp_path / "half")
    (tmp_path / "half" / "finished.json").unlink()
    said = refused(capsys, "ask", str(tmp_path / "half"), "?y : r0(e0, ?y)")
    assert "is not finished. Run the command that began it again" in said


def test_options_may_stand_before_the_question(home: Path, capsys: Captured) -> None:
    assert main(["ask", str(home / "model"), "--limit", "2", "?y : r0(e0, ?y)", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(SystemExit):
        main(["ask", str(home / "model"), "?y : r0(e0, ?y)", "--csv", "--json"])
    assert "exclude each other" in capsys.readouterr().err


def test_a_fit_that_breaks_in_the_middle_lets_go(home: Path, tmp_path: Path) -> None:
    kept = []
    for stage in STAGES:

        def break_off(now: Progress, stage: str = stage) -> None:
            if now.stage == stage:
                raise RuntimeError(stage)

        with pytest.raises(RuntimeError, match=stage) as error:
            clmpt.fit(home / "facts.tsv", tmp_path / "m", TABLES, break_off, "cpu")
        kept.append(error)  # and with it the frames that were running
    clmpt.fit(home / "facts.tsv", tmp_path / "m", TABLES, device="cpu")
    assert files_of(tmp_path / "m") == files_of(home / "model")


def test_a_folder_with_splits_keeps_them(tmp_path: Path, home: Path) -> None:
    lines = (home / "facts.tsv").read_text().splitlines()
    for name, part in (("train", lines[30:]), ("test", lines[:30])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(part) + "\n")
    sources = [str(tmp_path / f"{name}.tsv") for name in ("train", "test")]
    out = tmp_path / "split"
    recipe = ["--recipe", str(home / "quick.toml")]
    assert main(["fit", *sources, "--out", str(out), *recipe]) == 0
    graph = clmpt.open_graph(out)
    assert len(graph.triples("test")) == 30
    assert graph.splits == ("train", "test")


# --- from Python ----------------------------------------------------------------------------------


def test_fit_ask_save_load(home: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    facts = home / "facts.tsv"
    model = clmpt.fit(facts, tmp_path / "m", TABLES, lambda now: stages.append(now.stage), "cpu")
    assert list(dict.fromkeys(stages)) == STAGES
    found = model.ask("?y : r0(e0, ?y)", limit=5)
    assert len(found) == 5
    model.save(tmp_path / "shipped")
    (tmp_path / "m").rename(tmp_path / "elsewhere")
    shipped = clmpt.load(tmp_path / "shipped", device="cpu")
    assert shipped.ask("?y : r0(e0, ?y)", limit=5).answers == found.answers
    moved = clmpt.load(tmp_path / "elsewhere", device="cpu")
    assert moved.ask("?y : r0(e0, ?y)", limit=5).answers == found.answers
    assert main(["ask", str(tmp_path / "shipped"), "?y : r0(e0, ?y)"]) == 0
    with pytest.raises(clmpt.ClmptError, match="exists already"):
        model.save(tmp_path / "shipped")


def test_importing_is_quick_and_torch_waits() -> None:
    program = (
        "import sys, clmpt\n"
        "assert not {'torch', 'numpy', 'rdflib', 'rich'} & set(sys.modules), 'import'\n"
        "graph = clmpt.KnowledgeGraph.from_triples([('a', 'r', 'b')])\n"
        "assert graph.labels(clmpt.solve('?x : r(a, ?x)', graph)) == ['b']\n"
        "assert 'torch' not in sys.modules, 'solve'\n"
        "clmpt.fit\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_interface_is_what_it_lists() -> None:
    for name in clmpt.__all__:
        assert getattr(clmpt, name) is not None
    assert set(clmpt.__all__) <= set(dir(clmpt))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = clmpt.nothing
    with pytest.raises(clmpt.ClmptError, match="no table 'fiting'"):
        fit_settings(random_graph(False), {"fiting": {}})


def test_an_estimate_counts_every_stage() -> None:
    """Sampling and measuring too: with ten times the queries it grows, whatever training does."""
    graph = divide(random_graph(False), Fitting())
    chosen = fit_settings(graph, {"training": {"steps": 1}, "pretraining": {"epochs": 1}})
    names = [stage.name for stage in stages_of(graph, chosen, Path("anywhere"))]
    assert names == STAGES
    for setting in ("queries", "test_queries"):
        few, many = (
            replace(chosen, fitting=replace(chosen.fitting, **{setting: count}))
            for count in (10_000, 1_000_000)
        )
        assert estimate(graph, many).seconds > 10 + estimate(graph, few).seconds


def test_an_estimate_grows_with_the_work() -> None:
    graph = random_graph(False)
    small, large = (fit_settings(graph, {"pretraining": {"rank": rank}}) for rank in (8, 800))
    assert estimate(graph, small).bytes < estimate(graph, large).bytes
    assert estimate(graph, small).seconds < estimate(graph, large).seconds


def test_measuring_the_processor_leaves_its_threads_alone() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert idle_peak() > 10**8
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
