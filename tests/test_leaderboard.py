"""The leaderboard: true to what is kept in docs, sorted, and honest about its queries."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from clmpt.cli.command_line import command_parser
from clmpt.errors import DataError
from clmpt.experiments.table_records import TableRecord
from clmpt.logic.shapes import EPFO, NEGATION
from clmpt.pages.entry import Entry

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from leaderboard import Row, leaderboard_page, page_row, ranked, row_of  # noqa: E402

PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
GIVEN = {"benchmark": "nell995", "queries": "official", "name": "mine", "page": "p.md", "row": "m"}
TABLES = """
| MRR × 100 | 1p | pni\\* | Avg\\_p |
| --- | ---: | ---: | ---: |
| m | 57.0 | 4.1 | **28.0** |
| other | 1.0 | – | 2.0 |

| cost | pre-training | training | evaluation | training | parameters: trained | frozen |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| m | 19.0 min | 15.9 min | 1.3 min | 1.28 GB | 1.1 M | 16.3 M |
"""


def entry(mrr: float, **more: Any) -> Entry:
    """An entry with the same MRR on all shapes."""
    shapes = [
        {"shape": name, "mrr": mrr, "hits_at_3": mrr, "count": 5, "notes": []}
        for name in (*EPFO, *NEGATION)
    ]
    costs = {"processor": 900.0, "training": 1200.0, "answering": 0.0042, "trained": 2e6}
    return Entry(
        **{"name": "m", "report": {"shapes": shapes}, "benchmark": "nell995", "costs": costs} | more
    )


def record(*entries: Entry, command: str = "clmpt table t.toml") -> TableRecord:
    return TableRecord("mine", "0", entries, command)


# --- what is kept ---------------------------------------------------------------------------------


def test_rows_of_pages_have_the_figures_of_their_pages() -> None:
    (row,) = re.findall(r"^\| \[CLMPT, rank 128\]\S+ \| (.*) \|$", PAGE, re.M)[:1]
    assert row == "28.0 | 6.2 | 17.1 M | 19.0 min | 15.9 min | 1.3 min for all"
    assert "| [truth values over ComplEx, rank 512](results.md) | 32.2 | 12.3 |" in PAGE
    assert "| *CLMPT (published)* | 31.3 | 7.0 |" in PAGE


def test_every_command_parses_and_names_a_recipe_that_exists() -> None:
    cells = re.findall(r"\| (`clmpt [^|]+`) \|$", PAGE, re.M)
    assert len(cells) > 15
    for cell in cells:
        recipes = []
        for command in re.findall("`([^`]+)`", cell):
            words = shlex.split(command)[1:]
            command_parser("clmpt").parse_args(words)
            recipes += [word for word in words if word.endswith(".toml")]
        assert recipes
        assert all((ROOT / recipe).exists() for recipe in recipes), cell


def test_every_row_has_the_command_that_made_it() -> None:
    for section in PAGE.split("\n### ")[1:]:
        ranking, commands = section.split("| row | made by |")
        measured = set(re.findall(r"^\| \[([^]]+)\]", ranking, re.M))
        assert measured == set(re.findall(r"^\| \[([^]]+)\]", commands, re.M))


def test_a_page_s_row_has_its_figures_and_costs() -> None:
    found = page_row({**GIVEN, "command": "clmpt x", "answering": "by hand"}, TABLES)
    assert found.figures == {"1p": 57.0, "pni": 4.1, "Avg_p": 28.0}
    assert found.notes == {"pni"}
    assert (found.pretraining, found.training) == ("19.0 min", "15.9 min")  # not its memory
    assert (found.answering, found.parameters) == ("by hand", "1.1 M + 16.3 M")
    with pytest.raises(DataError, match=r"'p\.md' has no figures of 'n'"):
        page_row({**GIVEN, "row": "n", "command": "clmpt x"}, TABLES)


# --- records --------------------------------------------------------------------------------------


def test_a_record_is_a_row_with_what_it_cost() -> None:
    found = row_of(record(entry(0.25, queries={"test": "official: 1p 5, 2p 5"})))
    assert (found.cell("Avg_p"), found.cell("Avg_n"), found.cell("2i")) == ("25.0", "25.0", "25.0")
    assert found.queries == "official"
    assert found.training == "15.0 min, processor"
    assert (found.answering, found.parameters) == ("4.2 ms, processor", "2.0 M")
    assert found.cell("2u-DM") == "–"


def test_seeds_are_one_row_with_their_deviation() -> None:
    found = row_of(record(*(entry(mrr, seed=seed) for seed, mrr in enumerate((0.2, 0.3, 0.4)))))
    assert found.name == "mine, 3 seeds"
    assert found.cell("Avg_p") == "30.0 ± 10.0"  # of .2, .3 and .4, by hand


@pytest.mark.parametrize(
    ("origin", "queries"),
    [
        ("sampled, seed 3: 1p 5", "sampled, seed 3"),
        ("official: 1p 5; sampled, seed 0: ip 6", "official and sampled, seed 0"),
        ("official, of the validation split: 1p 5", "official, of the validation split"),
    ],
)
def test_a_row_says_which_queries_it_answered(origin: str, queries: str) -> None:
    is_official = "sampled" not in origin
    found = row_of(record(entry(0.2, queries={"test": origin}, is_official=is_official)))
    assert found.queries == queries


def test_a_record_without_its_command_is_refused() -> None:
    with pytest.raises(DataError, match="does not say which command made it"):
        row_of(record(entry(0.2), command=""))


def test_records_that_are_kept_become_rows(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for name in ("results", "runs"):
        shutil.copytree(ROOT / "docs" / name, docs / name)
    shutil.copy(ROOT / "docs" / "results.md", docs)
    kept = docs / "results" / "big"
    best = record(entry(0.99, queries={"test": "official: 1p 5"}))
    best.save(kept)
    sampled = record(entry(0.01, queries={"test": "sampled, seed 5: 1p 5"}, is_official=False))
    TableRecord("low", "1", sampled.entries, sampled.command).save(kept)
    (kept / "report.md").write_text("# Big")
    (kept / "notes.json").write_text("[]")  # any other JSON is left alone
    page = leaderboard_page(docs)
    official = page.split("### NELL995, the official test queries")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (\[[^]]+\]\S+|\*.+\*) \| \d", official, re.M)
    assert rows[0] == "[mine](results/big/report.md)"
    assert "clmpt table t.toml" in official
    other = page.split("### NELL995, queries sampled, seed 5")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\[[^]]+\]|\*[^*]+\*)\S* \| \d", other, re.M)
    assert rows[0] == "[low]"  # though every published row is above it
    assert "are for the official test queries" in other


def test_two_records_of_one_row_are_refused(tmp_path: Path) -> None:
    """One of them has settings that the table does not have any more."""
    (tmp_path / "results").mkdir()
    for key in ("0", "1"):
        TableRecord("mine", key, (entry(0.2),), "clmpt table t.toml").save(tmp_path / "results")
    shutil.copytree(ROOT / "docs" / "runs", tmp_path / "runs")
    with pytest.raises(DataError, match=r"mine-0.json' and .*mine-1.json' are records of one row"):
        leaderboard_page(tmp_path)


def test_rows_are_sorted_by_the_first_average_then_the_second() -> None:
    def row(name: str, **figures: float) -> Row:
        return Row(name, "nell995", "official", figures)

    rows = [
        row("none"),
        row("low", Avg_p=1, Avg_n=9),
        row("b", Avg_p=2),
        row("a", Avg_p=2, Avg_n=1),
    ]
    assert [one.name for one in ranked(rows)] == ["a", "b", "low", "none"]
