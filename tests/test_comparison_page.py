"""The comparison page: its content, that it is self-contained, and damaged runs."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clmpt.cli.main import main
from clmpt.experiments.entries import entries_in
from clmpt.pages.comparison import compare, main_table
from clmpt.pages.entry import Entry
from small_experiment import arguments, figures
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]


class _Links(HTMLParser):
    """Everything a page would load, and whether its tags are closed."""

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


def test_the_page_is_self_contained(run: Path) -> None:
    text = (run / "report" / "report.html").read_text(encoding="utf-8")
    found = _Links()
    found.feed(text)
    assert not found.asked
    assert not found.open
    assert "url(" not in text
    assert "<script" not in text
    for wanted in ("LMPNN, training.batch=8", "CLMPT (published)", "58.9", "1 missing", "Commit"):
        assert wanted in text


def test_the_page_has_the_figures_of_the_reports(run: Path) -> None:
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    for entry in entries_in(run):
        name = entry.name.replace("_", r"\_")
        (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", page, re.MULTILINE)[:1]
        cells = [cell.strip() for cell in row.split("|")[:-1]]
        figures = [shape["mrr"] for shape in entry.report["shapes"]]
        assert sorted(cells[: len(figures)]) == sorted(f"{100 * mrr:.1f}" for mrr in figures)
        assert cells[0] == f"{100 * entry.figure('1p'):.1f}"
    assert "official: 1p 5, 2p 5, 2i 5, 2u 5, 2in 5; sampled, seed 0: ip 6, pi 6" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        ElementTree.parse(run / "report" / picture)


def test_the_page_warns_if_published_rows_are_for_other_queries(run: Path) -> None:
    ours = entries_in(run)
    assert not any(entry.is_official for entry in ours)  # ip and pi are sampled
    told = "They were measured on the official queries"
    assert told in compare(ours).markdown()
    assert told not in compare([replace(entry, is_official=True) for entry in ours]).markdown()


def test_what_all_stages_share_is_shown_once(run: Path) -> None:
    page = (run / "report" / "report.md").read_text(encoding="utf-8")
    _, made_with = page.split("### Made with")
    for shared in ("Commit: ", "Versions: clmpt", "Machine: "):
        assert made_with.count(f"- {shared}") == 1
    assert "| stage | started |\n" in made_with


def test_a_shape_scored_by_convention_is_marked() -> None:
    shapes = [
        {"shape": "pni", "mrr": 0.125, "notes": ["an approximation"]},
        {"shape": "2i", "mrr": 0.25, "notes": []},
    ]
    table = main_table([Entry("mine", {"shapes": shapes})], "nell995")
    assert table.headers == ["MRR × 100", "2i", "pni*"]
    assert table.rows[0] == ["mine", "25.0", "12.5"]
    assert ["CLMPT (published)", "41.8", "4.5"] in table.rows


def test_costs_are_shown(run: Path) -> None:
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


def test_runs_are_compared(home: Path, run: Path, tmp_path: Path, capsys: Captured) -> None:
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
    assert main(["report", str(run), str(other), "--out", str(tmp_path / "page")]) == 0
    assert "page is already there" in capsys.readouterr().err
    assert main(["report", str(run), "--out", str(tmp_path / "page")]) == 2
    assert "already exists" in capsys.readouterr().err
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


def test_other_files_next_to_the_page_are_left_alone(home: Path, tmp_path: Path) -> None:
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
    assert f"| predictor | {began} |" in page  # shared by both variants
    for stage in ("training", "last command"):  # in one row if they started in the same second
        assert re.search(rf"^\| (CLMPT: )?{stage} \| 20", page, re.MULTILINE)


def test_different_numbers_of_queries_have_separate_rows() -> None:
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
def test_damaged_reports_are_reported(
    run: Path, tmp_path: Path, capsys: Captured, field: str, value: object
) -> None:
    report = next(run.glob("reports/clmpt-*")) / "report.json"
    document = json.loads(report.read_text())
    document["shapes"][0][field] = value
    (tmp_path / "report.json").write_text(json.dumps(document))
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json' is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"shapes": []}, {"shapes": {}}, {"model": None}, {"mean": 2}])
def test_impossible_reports_are_reported(
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
def test_a_damaged_experiment_is_left_out_and_reported(
    run: Path, tmp_path: Path, capsys: Captured, place: str, text: str | None
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (path,) = without_checksums(out).glob(place)
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


def test_a_missing_report_is_only_recreated_by_its_own_command(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    out, lmpnn = tmp_path / "run", ("--reasoner", "lmpnn", "--set", "training.batch=8")
    shutil.copytree(run, out)
    shutil.rmtree(next(out.glob("reports/clmpt-*")))
    assert main(arguments(home, out, *lmpnn)) == 0
    assert "is missing. Run the same command again" in capsys.readouterr().err
    assert main(arguments(home, out)) == 0
    assert figures(out) == figures(run)


def test_one_experiment_is_one_row(home: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    for more in (("--set", "training.device=cpu"), ("--set", "conditional=true")):
        assert main(arguments(home, out, *more)) == 0
    assert sorted(figures(out)) == sorted(figures(run))
    assert main(arguments(home, out, "--name", "mine")) == 0
    assert sorted(figures(out)) == ["LMPNN, training.batch=8", "beam search", "mine"]


def test_a_default_name_is_never_too_long(home: Path, tmp_path: Path, capsys: Captured) -> None:
    many = ["--set", "training.learning_rate=0.0001"] * 4
    words = arguments(home, tmp_path / "run", *many, "--plan")
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[0].partition(", 40 entities")[0].endswith("…")


def test_a_graph_that_differs_from_the_recipe_s_is_reported(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert main(arguments(home, tmp_path / "new", "--plan")) == 0
    told = "The recipe is for NELL995, but this graph differs: entities 40 instead of 63,361"
    assert told in capsys.readouterr().err
    assert main(["report", str(run)]) == 0
    assert "They are for NELL995 as published" in capsys.readouterr().err


def test_untrusted_names_are_escaped(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(arguments(home, out, "--name", "<script>alert(1)</script> | *x*")) == 0
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\\<script\\>alert(1)\\</script\\> \\| \\*x\\*" in (
        out / "report" / "report.md"
    ).read_text(encoding="utf-8")
