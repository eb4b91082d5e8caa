"""`clmpt compare`: what is paired, what is refused, and what is written."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clmpt
from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.evaluation.comparing import ComparedModel, check_seeds, compare_models
from clmpt.evaluation.query_figures import FIGURES, QueryFigures, read_query_figures
from clmpt.experiments.compared_runs import models_of
from clmpt.pages.compared import comparison_latex, comparison_page, differences_table, figures_table
from clmpt.pages.report_folder import read_report
from small_experiment import arguments
from tampering import without_checksums

Captured = pytest.CaptureFixture[str]
QUICK = ("--resamples", "200")


def report_of(run: Path, name: str) -> Path:
    return next(run.glob(f"reports/{name}-*"))


def measured(mrr: dict[str, list[float]], **conditions: Any) -> QueryFigures:
    rows = {s: np.repeat(np.array(m, np.float32)[:, None], 4, 1) for s, m in mrr.items()}
    return QueryFigures(
        rows, dict.fromkeys(mrr, 7), {"graph": "g", "known": ["train"], **conditions}
    )


def refused(words: list[str], capsys: Captured) -> str:
    capsys.readouterr()
    assert main(["compare", *words, *QUICK]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


# --- what reports keep ----------------------------------------------------------------------------


def test_a_report_has_the_figures_of_every_query(run: Path) -> None:
    for report in run.glob("reports/*"):
        found = read_query_figures(report / "queries.safetensors")
        for row in read_report(report)["shapes"]:
            rows_Q4 = found.rows[row["shape"]]
            assert len(rows_Q4) == row["count"]
            for name in FIGURES:
                assert found.figure(row["shape"], name).mean() == pytest.approx(row[name], abs=1e-6)
    assert found.conditions["known"] == ["train"]
    assert found.conditions["approximate"] is False


@pytest.mark.parametrize("change", [b"", b"junk", "short", "forged"])
def test_damaged_figures_are_reported(
    run: Path, tmp_path: Path, capsys: Captured, change: object
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(report_of(run, "clmpt"), bad)
    path = bad / "queries.safetensors"
    whole = path.read_bytes()
    if change == "forged":  # a list of checksums cannot tell; the figures are above one
        path = without_checksums(bad) / "queries.safetensors"
        path.write_bytes(whole[:-4] + np.float32(1.5).tobytes())
    else:
        path.write_bytes(whole[:-8] if change == "short" else bytes(change))  # type: ignore[call-overload]
    said = refused([str(bad), str(report_of(run, "lmpnn"))], capsys)
    assert "queries.safetensors' is missing or damaged" in said
    assert "measure again" in said


# --- what is compared -----------------------------------------------------------------------------


def test_a_folder_of_experiments_is_compared_with_its_first(run: Path, capsys: Captured) -> None:
    assert main(["compare", str(run), *QUICK]) == 0
    said = capsys.readouterr()
    first, *rest = [line.split("\t") for line in said.out.splitlines()]
    names = ["CLMPT", "LMPNN, training.batch=8", "beam search"]
    assert [row[0] for row in rest[:3]] == names
    assert first[1:] == ["1p", "2p", "2i", "pi", "ip", "2u", "2in", "mean"]
    shapes = {row["shape"]: row for row in read_report(report_of(run, "clmpt"))["shapes"]}
    assert rest[0][1] == f"{100 * shapes['1p']['mrr']:.1f}"
    assert [row[1] for row in rest[4:]] == 2 * ["mean", *first[1:-1]]
    assert {row[0] for row in rest[4:]} == set(names[1:])
    assert "Holm's correction is for the 16 tests" in said.err


def test_a_difference_is_that_of_the_reports(run: Path, capsys: Captured) -> None:
    words = [f"A={report_of(run, 'clmpt')}", f"B={report_of(run, 'lmpnn')}"]
    assert main(["compare", *words, "--figures", "mrr", "hits_at_10", "--json", *QUICK]) == 0
    found = json.loads(capsys.readouterr().out)
    before, after = (
        {row["shape"]: row for row in read_report(report_of(run, name))["shapes"]}
        for name in ("clmpt", "lmpnn")
    )
    assert len(found["differences"]) == 2 * 8
    for row in found["differences"]:
        if row["of"] in before:
            difference = after[row["of"]][row["figure"]] - before[row["of"]][row["figure"]]
            assert row["difference"] == pytest.approx(difference, abs=1e-6)
            assert (row["low"] is None) or row["low"] <= difference <= row["high"]
    assert (found["baseline"], found["models"][1]["name"]) == ("A", "B")


def test_the_baseline_can_be_chosen(run: Path, capsys: Captured) -> None:
    assert main(["compare", str(run), "--baseline", "beam search", *QUICK]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("beam search\t")
    said = refused([str(run), "--baseline", "CLMTP"], capsys)
    assert "no run 'CLMTP'. Available: CLMPT, LMPNN, training.batch=8, beam search." in said


def test_python_gives_the_same(run: Path, capsys: Captured) -> None:
    found = clmpt.compare([run], baseline="beam search", resamples=200)
    assert repr(found) == "<Comparison of 'CLMPT', 'LMPNN, training.batch=8' with 'beam search'>"
    assert main(["compare", str(run), "--baseline", "beam search", "--json", *QUICK]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == found.rows
    pytest.importorskip("pandas")
    assert list(found.to_pandas()["of"]) == [row["of"] for row in found.rows]


def test_models_of_the_same_name_are_told_apart_by_their_folders(
    run: Path, tmp_path: Path, capsys: Captured
) -> None:
    places = [tmp_path / place / "report" for place in ("one", "two")]
    for place in places:
        shutil.copytree(report_of(run, "clmpt"), place)
    places[1] = places[1].rename(tmp_path / "two" / "other")
    assert main(["compare", *map(str, places), *QUICK]) == 0
    rows = capsys.readouterr().out.splitlines()
    name = read_report(places[0])["model"]
    assert [row.split("\t")[0] for row in rows[1:3]] == [f"report: {name}", f"other: {name}"]
    # The same figures twice: no difference at all, with certainty.
    assert rows[4].split("\t")[2:6] == ["0.00", "0.00 to 0.00", "1.0000", "1.0000"]


def test_a_fitted_model_s_reasoners_are_compared(fitted: Path, capsys: Captured) -> None:
    assert main(["compare", str(fitted / "model"), *QUICK]) == 0
    rows = capsys.readouterr().out.splitlines()
    names = {row.split("\t")[0] for row in rows[1:5]}
    assert len(names) == 4
    assert "truth values" in names


def test_only_shapes_that_both_have_are_tested() -> None:
    random = np.random.default_rng(0)
    many = {shape: list(random.random(9)) for shape in ("2i", "2in", "my own")}
    few = {shape: list(random.random(9)) for shape in ("my own", "2i")}
    models = [ComparedModel("many", (measured(many),)), ComparedModel("few", (measured(few),))]
    found = compare_models(models, resamples=50)
    assert [one.of for one in found.differences] == ["2i", "my own", "mean"]
    assert found.columns["mean"] == ("2i", "my own")
    table = figures_table(found, "mrr")
    assert table.headers == ["MRR × 100", "2i", "2in", "my own", "mean"]
    assert table.rows[1][2] == "–"


# --- seeds ----------------------------------------------------------------------------------------


def test_seeds_of_a_variant_are_one_model(home: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "run"
    for seed in (1, 0, 2):
        assert main(arguments(home, out, "--set", f"training.seed={seed}")) == 0
    means = [read_report(path)["mean"] for path in out.glob("reports/clmpt-*")]
    capsys.readouterr()
    assert main(["compare", str(out), "--json", *QUICK]) == 0
    model, beam = json.loads(capsys.readouterr().out)["models"]
    assert (model["name"], model["seeds"], beam["seeds"]) == ("CLMPT", 3, 1)
    assert model["mrr"]["mean"]["mean"] == pytest.approx(np.mean(means), abs=1e-6)
    assert model["mrr"]["mean"]["deviation"] == pytest.approx(np.std(means, ddof=1), abs=1e-6)
    assert beam["mrr"]["mean"]["deviation"] is None
    (all_three,) = [one for one in models_of([out]) if one.name == "CLMPT"]
    # By hand: the same name given several times.
    named = [f"mine={path}" for path in out.glob("reports/clmpt-*")]
    (mine,) = models_of(named)
    assert len(mine.seeds) == len(all_three.seeds) == 3
    said = refused([named[0], named[0], str(out)], capsys)
    assert "is listed twice" in said


def test_what_no_seed_changes_counts_once(run: Path, tmp_path: Path, capsys: Captured) -> None:
    """The baseline of two runs over the same predictor, for example."""
    shutil.copytree(run, tmp_path / "again")
    assert main(["compare", f"a={run}", f"a={tmp_path / 'again'}", "--resamples", "100"]) == 0
    assert "seeds" not in capsys.readouterr().out


def test_seeds_must_be_measured_alike() -> None:
    first = measured({"1p": [0.1, 0.2]})
    for other, why in (
        (measured({"1p": [0.1, 0.2, 0.3]}), "different queries of 1p"),
        (measured({"1p": [0.1, 0.2], "2p": [0.1]}), "different shapes"),
        (measured({"1p": [0.1, 0.2]}, known=[]), "the second those of unknown splits"),
    ):
        with pytest.raises(DataError, match=f"These are no seeds of one model 'a': .*{why}"):
            check_seeds(ComparedModel("a", (first, other)))


# --- what is refused ------------------------------------------------------------------------------


def test_a_single_run_is_refused(run: Path, capsys: Captured) -> None:
    said = refused([str(report_of(run, "clmpt"))], capsys)
    assert "nothing to compare it with" in said
    assert "There is nothing to compare in" in refused([str(run / "queries")], capsys)
    assert "There is nothing to compare in" in refused(["no-such-place"], capsys)


def test_other_queries_graphs_and_facts_are_refused() -> None:
    plain = measured({"1p": [0.1, 0.2], "2p": [0.3, 0.4]})
    for other, why in (
        (replace(plain, checksums={"1p": 7, "2p": 8}), "different queries of 2p"),
        (measured({"1p": [0.1, 0.2], "2p": [0.3, 0.4]}, graph="h"), "different graphs"),
        (
            measured({"1p": [0.1, 0.2]}, known=["train", "valid"]),
            "the first may use the facts of train, the second those of train . valid",
        ),
        (measured({"1p": [0.1, 0.2]}, approximate=True), "only one of them .* approximate"),
        (measured({"2i": [0.1, 0.2]}), "no shape in common"),
    ):
        with pytest.raises(DataError, match=why):
            compare_models([ComparedModel("a", (plain,)), ComparedModel("b", (other,))])


def test_runs_on_other_queries_or_with_other_facts_are_refused(
    home: Path, run: Path, tmp_path: Path, capsys: Captured
) -> None:
    (predictor,) = run.glob("predictors/*")
    measure = ["evaluate", str(predictor), "--reasoner", "truth-values", "--device", "cpu"]
    sampled = str(tmp_path / "test.queries")
    words = [
        "sample",
        str(home / "NELL-betae"),
        "--shapes",
        "2p",
        "--split",
        "test",
        "--count",
        "5",
    ]
    assert main([*words, "--workers", "1", "--seed", "9", "--out", sampled]) == 0
    queries = str(home / "NELL-betae")
    for name, more in (
        ("usual", ["--queries", queries]),
        ("knowing", ["--queries", queries, "--known", "train", "valid"]),
        ("sampled", ["--queries", sampled]),
    ):
        assert main([*measure, *more, "--report", str(tmp_path / name)]) == 0
    usual, knowing, other = (str(tmp_path / name) for name in ("usual", "knowing", "sampled"))
    said = refused([f"a={usual}", f"b={knowing}"], capsys)
    assert (
        "'a' and 'b' cannot be compared: the first may use the facts of train, the second" in said
    )
    assert "different queries of 2p" in refused([usual, other], capsys)
    assert main(["compare", usual, f"CLMPT={report_of(run, 'clmpt')}", *QUICK]) == 0
    assert {"2p", "2i"} <= set(capsys.readouterr().out.splitlines()[0].split("\t"))


def test_a_report_without_figures_of_queries_says_what_to_do(
    run: Path, tmp_path: Path, capsys: Captured
) -> None:
    old = tmp_path / "old"
    shutil.copytree(report_of(run, "clmpt"), old)
    (without_checksums(old) / "queries.safetensors").unlink()
    said = refused([str(old), str(report_of(run, "lmpnn"))], capsys)
    assert "old' has no figures of single queries: an earlier version made it. Remove it" in said


# --- what is written ------------------------------------------------------------------------------


def compared(name: str = "Model_2 & 100% ^best") -> Any:
    """Two models; the second is far better on 2p, and worse on 2in."""
    random = np.random.default_rng(0)
    base = {shape: list(random.uniform(0.2, 0.4, 40)) for shape in ("2p", "2in")}
    above = {"2p": [m + 0.3 for m in base["2p"]], "2in": [m - 0.1 for m in base["2in"]]}
    jitter = {s: [float(m + random.normal(0, 0.01)) for m in found] for s, found in above.items()}
    models = [
        ComparedModel("base", (measured(base),)),
        ComparedModel(name, (measured(jitter),), {"2in": "Roughly."}),
    ]
    return compare_models(models, resamples=400)


def test_significant_differences_are_marked() -> None:
    table = figures_table(compared(), "mrr")
    assert table.headers == ["MRR × 100", "2p", "2in*", "mean"]
    assert [cell[-1] for cell in table.rows[1][1:]] == ["↑", "↓", "↑"]
    row = differences_table(compared(), "mrr").rows[0]
    assert row[1] == "mean"
    assert re.fullmatch(r"\+\d+\.\d\d to \+\d+\.\d\d", row[3])


def test_latex_is_well_formed_whatever_the_names() -> None:
    text = comparison_latex(compared())
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    columns = re.findall(r"\\begin\{tabular\}\{(l[lr]+)\}", text)
    assert [len(one) for one in columns] == [4, 7]
    assert len(re.findall(r"\\end\{tabular\}", text)) == 2
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) in (3, 6)
    tables = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"Model\_2 \& 100\% \textasciicircum{}best" in tables
    assert r"$^{\uparrow}$" in tables
    assert not re.search(r"(?<!\\)[%#]|[±×−↑↓–]", tables)  # nothing that LaTeX would misread
    assert not re.findall(r"(?<!\\)_", tables)
    assert tables.count("{") == tables.count("}")
    assert tables.count("$") % 2 == 0


def test_markdown_escapes_names() -> None:
    text = comparison_page(compared("a | b *c*")).markdown()
    assert "| a \\| b \\*c\\* |" in text
    assert "- 2in (\\*), a | b \\*c\\*: Roughly." in text


def test_tables_are_written_once_by_the_file_s_ending(
    run: Path, tmp_path: Path, capsys: Captured
) -> None:
    words = ["compare", str(run), *QUICK]
    for name, start in (
        ("t.md", "# Compared with CLMPT"),
        ("t.tex", r"\begin{tabular}{l"),
        ("t.csv", "figure,model,baseline,of,value"),
        ("t.json", "{"),
    ):
        assert main([*words, "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert main([*words, "--out", str(tmp_path / "t.md")]) == 0
    assert "t.md is already there" in capsys.readouterr().err
    before = (tmp_path / "t.md").read_text(encoding="utf-8")
    assert main([*words, "--seed", "1", "--out", str(tmp_path / "t.md")]) == 2
    assert "already exists, and is not what would be written now" in capsys.readouterr().err
    assert (tmp_path / "t.md").read_text(encoding="utf-8") == before
    assert "does not say how to write it" in refused([str(run), "--out", "t.txt"], capsys)
    both = refused([str(run), "--latex", "--markdown"], capsys)
    assert "--markdown and --latex cannot be used together" in both
    other = refused([str(run), "--latex", "--out", "t.csv"], capsys)
    assert "'t.csv' ends like csv, and --latex was asked for" in other
    for text in (f"={run}", "mine="):
        assert f"'{text}' is neither a folder nor NAME=FOLDER" in refused([text], capsys)


def test_csv_has_every_number(run: Path, capsys: Captured) -> None:
    assert main(["compare", str(run), "--csv", *QUICK]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 16
    assert float(rows[0]["difference"]) == pytest.approx(
        float(rows[0]["value"]) - float(rows[0]["baseline_value"])
    )
