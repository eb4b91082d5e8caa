"""The commands as people run them, and their errors when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.world import FACTS
from killing import interrupted_when, killed_when

FILMS = Path(__file__).parents[2] / "examples" / "films.tsv"
QUESTION = '?who : directed("Kenji Mizoguchi", ?film) & "starred in"(?who, ?film)'


@pytest.fixture
def films(tmp_path: Path) -> str:
    assert main(["import", str(FILMS), "--out", str(tmp_path / "films"), "--json"]) == 0
    return str(tmp_path / "films")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("clmpt")), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=cwd, check=False
    )


def test_from_a_file_to_an_answer(films: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    venice = '!exists ?p (won(?film, ?p) & "awarded at"(?p, "Venice Film Festival"))'
    assert main(["solve", films, f"{QUESTION} & {venice}"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == [
        "Ayako Wakao",
        "Kazuo Hasegawa",
        "Kyoko Kagawa",
        "Machiko Kyo",
        "Michiyo Kogure",
    ]


def test_sparql_and_formula_give_the_same_answers(
    films: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    sparql = "SELECT ?w { :Kenji%20Mizoguchi :directed ?f . ?w :starred%20in ?f } LIMIT 2"
    assert main(["solve", films, sparql, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["count"] == 8
    assert [answer["name"] for answer in document["answers"]] == ["Ayako Wakao", "Kazuo Hasegawa"]
    assert document["query"] == sparql


def test_info_shows_counts(films: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["info", films, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["entities"], document["relations"], document["triples"]) == (26, 4, 39)
    assert document["biggest relations"][0] == {"relation": "starred in", "triples": 22}
    # Each of 39 triples gives two entities an edge.
    assert sum(row["entities"] for row in document["degrees"]) == 26
    assert main(["info", films]) == 0
    assert "starred in\t22" in capsys.readouterr().out


def test_draw_translate_export(
    films: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["draw", QUESTION]) == 0
    assert '└─ "starred in" ▶─ ?film' in capsys.readouterr().out
    picture = tmp_path / "query.svg"
    assert main(["draw", "pni", "--svg", str(picture)]) == 0
    assert picture.read_text().startswith("<svg")
    assert main(["draw", "2i", "--svg", str(picture)]) == 2, "it must not overwrite the picture"
    capsys.readouterr()
    assert main(["translate", QUESTION, "--to", "sparql"]) == 0
    assert capsys.readouterr().out.startswith("SELECT DISTINCT ?who WHERE {")
    assert (
        main(
            ["translate", '?f : directed("Kenji Mizoguchi", ?f)', "--to", "betae", "--graph", films]
        )
        == 0
    )
    assert capsys.readouterr().out == "(0, (0,))\n"
    assert main(["translate", "up-DM", "--to", "dnf"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["export", films, "--out", str(tmp_path / "films.nt")]) == 0
    assert main(["import", str(tmp_path / "films.nt"), "--out", str(tmp_path / "again")]) == 0
    capsys.readouterr()
    assert main(["solve", str(tmp_path / "again"), QUESTION, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 8


def test_sample_and_convert(films: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, lines, back = (str(tmp_path / name) for name in ("q.queries", "q.jsonl", "r.queries"))
    own = "?y : $r($s, ?x) & $q(?x, ?y) & !$p(?y, $t)"
    command = ["sample", films, "--shapes", "2p", "2in=3", own, "--count", "5", "--workers", "1"]
    assert main([*command, "--out", out]) == 0
    assert main(["queries", out, "--graph", films, "--out", lines]) == 0
    assert main(["queries", lines, "--graph", films, "--out", back]) == 0
    capsys.readouterr()
    assert main(["queries", out, "--json"]) == 0
    shapes = json.loads(capsys.readouterr().out)["shapes"]
    assert [(row["shape"], row["queries"]) for row in shapes] == [("2p", 5), ("2in", 3), (own, 5)]
    assert not list(tmp_path.glob("*.partial"))
    asked = [json.loads(line)["query"] for line in Path(lines).read_text().splitlines()]
    assert len(asked) == 13
    for query in asked:
        assert main(["solve", films, query]) == 0


def test_queries_of_another_graph_are_rejected(
    films: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = str(tmp_path / "q.queries"), tmp_path / "other.tsv"
    other.write_text("a\tr\tb\n")
    assert (
        main(["sample", films, "--shapes", "1p", "--count", "3", "--workers", "1", "--out", out])
        == 0
    )
    assert main(["queries", out, "--graph", films]) == 0
    capsys.readouterr()
    assert main(["queries", out, "--graph", str(other)]) == 2
    assert "was made from another graph" in capsys.readouterr().err


def _sample_command(out: Path, count: int) -> list[str]:
    words = f"sample {FACTS} --shapes 1p 2p 3p 2in up --count {count} --workers 1 --out {out}"
    return words.split()


def test_killed_sampling_resumes_with_the_same_result(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.queries", tmp_path / "cut.queries"
    parts, script = tmp_path / "cut.queries.partial", str(Path(sys.executable).with_name("clmpt"))
    assert main(_sample_command(whole, 2000)) == 0
    killed_when((parts / "1.queries").exists, [script, *_sample_command(cut, 2000)])
    assert not cut.exists()
    assert main(_sample_command(cut, 7)) == 2, "other settings"
    assert main(_sample_command(cut, 2000)) == 0
    assert cut.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    out, script = tmp_path / "q.queries", str(Path(sys.executable).with_name("clmpt"))
    parts = tmp_path / "q.queries.partial"
    said = interrupted_when((parts / "1.queries").exists, [script, *_sample_command(out, 20_000)])
    assert "The same command resumes" in said
    assert not out.exists()


def test_the_exit_code_of_verify_says_whether_all_agree(benchmarks: Path) -> None:
    found = run(
        "verify", str(benchmarks / "NELL-q2b"), "--graph", str(benchmarks / "NELL-betae"), "--json"
    )
    assert found.returncode == 0
    assert json.loads(found.stdout)["all agree"] is True
    # Against the wrong graph nothing agrees, and the exit code says so.
    wrong = run(
        "verify", str(benchmarks / "NELL-q2b"), "--graph", str(benchmarks / "FB15k-237-betae")
    )
    assert wrong.returncode != 0
    assert "Traceback" not in wrong.stderr


# Arguments, and what the error must contain. FILMS is a stored graph, NOWHERE does not exist.
BAD_INPUT = (
    (["solve", "FILMS", '?x : directd("Kenji Mizoguchi", ?x)'], "Did you mean 'directed'?"),
    (
        ["solve", "FILMS", '?x : directed("Kenji Mizogushi", ?x)'],
        "Did you mean 'Kenji Mizoguchi'?",
    ),
    (["solve", "FILMS", "?x : directed(?x)"], "column 17"),
    (["solve", "FILMS", ""], "empty"),
    (["solve", "FILMS", "?x : $r(?x, ?x)"], "$r"),
    (["solve", "FILMS", QUESTION, "--split", "test"], "no split 'test'"),
    (["solve", "FILMS", QUESTION, "--limit", "0"], "must be at least 1"),
    (["solve", "NOWHERE", QUESTION], "no file or folder"),
    (["info", "NOWHERE"], "no file or folder"),
    (["import", "NOWHERE", "--out", "x"], "No such file"),
    (["import", "FILMS", "FILMS", "--out", "x"], "import it on its own"),
    (["import", str(FACTS), "--out", "FILMS"], "already exists"),
    (["import", str(FILMS), "--out", "x", "--columns", "1,2"], "three numbers"),
    (["import", str(FILMS), "--out", "x", "--encoding", "klingon"], "no encoding"),
    (["import", str(FILMS), "--out", "/proc/nope/x"], "cannot be written"),
    (["export", "FILMS", "--out", "x.doc"], ".tsv .nt .nq .ttl .trig"),
    (["draw", "4p"], "starts with its free variable"),
    (["sample", "FILMS", "--shapes", "4p", "--out", "x"], "no shape '4p'"),
    (["sample", "FILMS", "--shapes", "2p=many", "--out", "x"], "NAME=COUNT"),
    (["sample", "FILMS", "--shapes", "2p", "--out", "x", "--split", "test"], "no split 'test'"),
    (["sample", "FILMS", "--shapes", "2p", "--out", "FILMS"], "already exists"),
    (["queries", "NOWHERE"], "No such file"),
    (["queries", str(FILMS)], "not a query file"),
    (["queries", "x.jsonl"], "--graph"),
    (["verify", "FILMS"], "no queries with answers"),
    (["verify", "NOWHERE"], "no folder"),
    (["translate", QUESTION, "--to", "betae"], "not yet resolved"),
    (["translate", QUESTION, "--to", "betae"], "--graph FOLDER"),
    (["solve", "FILMS", "2p"], "A shape is not a query yet"),
    (["solve", "FILMS", "(-5, (1,))"], "no BetaE query"),
    (["solve", "FILMS", QUESTION, "--max-atoms", "1"], "--max-atoms"),
    (["info", "x" * 300], "File name too long"),
    (
        ["sample", "FILMS", "--shapes", "2p", "--seed", "-1", "--out", "x"],
        "must be a whole number of at least 0",
    ),
    (["sample", "FILMS", "--shapes", "2p=²", "--out", "x"], "NAME=COUNT"),
    (["sample", "FILMS", "--shapes", "2p", "2p", "--out", "x"], "listed twice"),
    (["sample", "FILMS", "--shapes", "?y : nothing($s, ?y)", "--out", "x"], "Unknown relation"),
    (["import", "FILMS", "--out", "x", "--columns", "1,2,3"], "a folder in another layout"),
    (["import", str(FILMS), "--out", "x", "--columns", "1,2,9"], "3 column"),
    (["nonsense"], "There is no command 'nonsense'"),
    (["solve"], "required"),
)


@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT)
def test_bad_input_gets_one_clear_line_and_exit_code_2(
    films: str, tmp_path: Path, arguments: list[str], words: str
) -> None:
    places = {"FILMS": films, "NOWHERE": str(tmp_path / "nowhere")}
    found = run(*(places.get(argument, argument) for argument in arguments), cwd=tmp_path)
    assert found.returncode == 2, found.stderr
    assert words in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout == ""
    assert not list(tmp_path.glob("*.partial")), "a rejected command must leave nothing behind"


def test_names_cannot_break_lines_or_control_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('a,r,"b\n\x1b[31mred"\n')
    found = run("solve", str(path), "?x : r(a, ?x)")
    assert found.stdout == "b\\n\\x1b[31mred\n"
    wrong = run("solve", str(path), '?x : "r\\nq"(a, ?x)')
    assert len(wrong.stderr.splitlines()) == 1


def test_a_terminal_without_unicode_still_works(films: str) -> None:
    clmpt = str(Path(sys.executable).with_name("clmpt"))
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in (["info", films], ["draw", "2p"]):
        found = subprocess.run([clmpt, *command], capture_output=True, env=plain, check=False)
        assert (found.returncode, found.stderr) == (0, b"")


def test_a_full_disk_is_reported(films: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    shell = f"{Path(sys.executable).with_name('clmpt')} info {films} > /dev/full"
    found = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert "No space left" in found.stderr
    assert "Traceback" not in found.stderr


def test_help_imports_nothing_heavy() -> None:
    """Solving a formula imports nothing heavy but numpy."""
    script = (
        "import sys; from clmpt.cli.main import main\n"
        "try: main({arguments!r})\nexcept SystemExit: pass\n"
        "heavy = {{'torch', 'numpy', 'rdflib', 'pyoxigraph', 'rich'}} & set(sys.modules)\n"
        "sys.stderr.write(' '.join(sorted(heavy)))"
    )
    for arguments, expected in ((["--help"], ""), (["draw", "2p"], "")):
        text = script.format(arguments=arguments)
        found = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        )
        assert found.stderr == expected
    text = script.format(arguments=["solve", str(FILMS), QUESTION])
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stderr == "numpy"


def test_every_command_has_help_with_an_example() -> None:
    listed = run("--help").stdout
    commands = [
        "import",
        "export",
        "info",
        "solve",
        "draw",
        "translate",
        "sample",
        "queries",
        "verify",
        "hardness",
        "pretrain",
        "evaluate",
        "convert",
        "curve",
    ]
    for command in commands:
        assert command in listed
        shown = run(command, "--help")
        assert shown.returncode == 0
        assert f"example:\n  clmpt {command}" in shown.stdout


def test_a_closed_pipe_is_not_an_error(films: str) -> None:
    clmpt = Path(sys.executable).with_name("clmpt")
    shell = f"{clmpt} solve {films} '?x : \"starred in\"(?x, ?y)' | head -n 1"
    found = subprocess.run(
        shell, shell=True, capture_output=True, text=True, env=os.environ, check=False
    )
    assert found.stdout == "Ayako Wakao\n"
    assert found.stderr == ""
