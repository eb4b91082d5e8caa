"""Commands that are repeated, and those that meet in one place."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.storage.files import lock_file
from killing import interrupted_when, started, wait_for

Captured = pytest.CaptureFixture[str]
FACTS = Path(__file__).parents[2] / "src" / "clmpt" / "world" / "world.tsv"
CLMPT = [sys.executable, "-m", "clmpt"]


def many_facts(folder: Path) -> Path:
    path = folder / "many.tsv"
    path.write_text("".join(f"e{n % 70_001}\tr{n % 11}\te{n % 65_537}\n" for n in range(400_000)))
    return path


def test_an_import_of_the_same_sources_is_not_repeated(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    (tmp_path / "names.tsv").write_text("a\tAda\n")
    out = tmp_path / "graph"
    words = ["import", str(tmp_path / "facts.tsv"), "--out", str(out)]
    assert main(words) == 0
    moment = (out / "keys.npy").stat().st_mtime_ns
    capsys.readouterr()
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "already finished" in shown.err
    assert "triples\t1" in shown.out
    assert (out / "keys.npy").stat().st_mtime_ns == moment
    # Other labels or other facts are another graph, and nothing is overwritten.
    assert main([*words, "--labels", str(tmp_path / "names.tsv")]) == 2
    (tmp_path / "facts.tsv").write_text("a\tr\tc\n")
    assert main(words) == 2
    assert "already exists" in capsys.readouterr().err


def test_sampling_the_same_queries_is_not_repeated(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "some.queries"
    words = ["sample", str(FACTS), "--shapes", "1p", "2p", "--out", str(out), "--workers", "1"]
    assert main([*words, "--count", "5"]) == 0
    first, before = capsys.readouterr().out, out.read_bytes()
    assert main([*words, "--count", "5"]) == 0
    shown = capsys.readouterr()
    assert shown.out == first
    assert "already finished" in shown.err
    assert main([*words, "--count", "6"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["export", "facts.tsv"], "tsv"),
        (["export", "facts.tsv"], "nt.gz"),
        (["export", "facts.tsv"], "ttl"),
        (["draw", "2i"], "svg"),
        (["queries", "some.queries"], "queries"),
        (["queries", "some.queries", "--graph", "facts.tsv"], "jsonl"),
        (["sample", "facts.tsv", "--shapes", "1p", "--count", "2", "--workers", "1"], "jsonl"),
    ],
)
def test_a_file_that_is_written_again_must_be_the_same(
    words: list[str],
    ending: str,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("facts.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    sample = ["sample", "facts.tsv", "--shapes", "1p", "--count", "2", "--out", "some.queries"]
    assert main(sample) == 0
    out = Path(f"out.{ending}")
    words = [*words, "--svg" if ending == "svg" else "--out", str(out)]
    capsys.readouterr()
    assert main(words) == 0
    first, before = capsys.readouterr(), (out.read_bytes(), out.stat().st_mtime_ns)
    assert "already" not in first.err
    monkeypatch.setattr("time.time", lambda: 1.0)  # what is written does not depend on the time
    assert main(words) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert f"{out} is already" in again.err
    assert (out.read_bytes(), out.stat().st_mtime_ns) == before
    out.write_bytes(b"mine")
    assert main(words) == 2
    assert "already exists, and is not what would be written now" in capsys.readouterr().err
    assert out.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["facts.tsv", "some.queries", str(out)]
    )


def test_two_samplings_or_imports_cannot_write_the_same_file(
    tmp_path: Path, capsys: Captured
) -> None:
    queries, graph = tmp_path / "some.queries", tmp_path / "graph"
    shapes = ["--shapes", "2p", "--count", "200000", "--workers", "1"]
    for words, out in (
        (["sample", str(FACTS), *shapes], queries),
        (["import", str(many_facts(tmp_path))], graph),
    ):
        process = started([*CLMPT, *words, "--out", str(out)])
        wait_for(lock_file(out).exists, process)
        assert main([*words, "--out", str(out)]) == 2
        assert "Another process is working in" in capsys.readouterr().err
        process.kill()
        process.communicate()


def test_an_import_that_is_terminated_leaves_nothing_behind(tmp_path: Path) -> None:
    facts, out = many_facts(tmp_path), tmp_path / "graph"
    command = [*CLMPT, "import", str(facts), "--out", str(out)]
    said = interrupted_when(lock_file(out).exists, command, signal.SIGTERM)
    assert "stopped" in said
    # The signal may come before the lock is held; its hidden file is then taken over.
    assert [path for path in tmp_path.iterdir() if path != lock_file(out)] == [facts]
    assert main(command[3:]) == 0
