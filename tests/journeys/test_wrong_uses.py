"""What people get wrong in their first ten minutes, and the one-line error they get."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clmpt.cli.main import main

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
FACT = "Zoë\tknows\tRené\n"
MIZOGUCHI = '"Kenji Mizoguchi"'
FILES = {
    "empty.tsv": b"",
    "two.tsv": b"a\tb\nc\td\n",
    "junk.tsv": bytes(range(256)) * 8,
    "latin.tsv": FACT.encode("latin-1"),
    "utf16.tsv": FACT.encode("utf-16"),
    "numbers.ttl": b"<http://e/x> <http://e/p> 3 .",
    "labels.ttl": b'<http://e/x> <http://www.w3.org/2000/01/rdf-schema#label> "x"@en .',
    "taken/mine.txt": b"mine",
}
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
NOT_TEXT = "line 1 is not utf-8 text."
# Command, and error.
WRONG = {
    "no such file": (
        "fit nothing.tsv --out new",
        "'nothing.tsv' cannot be read: No such file or directory.",
    ),
    "an empty file": ("fit empty.tsv --out new", "'empty.tsv' is empty."),
    "only two columns": (
        "fit two.tsv --out new",
        "'two.tsv', line 1: 2 column(s). Expected head, relation and tail; set another delimiter "
        "with --delimiter.",
    ),
    "binary junk": (
        "fit junk.tsv --out new",
        f"'junk.tsv', {NOT_TEXT.replace('1', '2')} It does not look like text at all. A graph is "
        "text with three columns, or RDF.",
    ),
    "another encoding": (
        "fit latin.tsv --out new",
        f"'latin.tsv', {NOT_TEXT} If it is text in another encoding, pass that to 'clmpt import' "
        "or 'clmpt fit', for example: --encoding latin-1",
    ),
    "UTF-16": (
        "fit utf16.tsv --out new",
        f"'utf16.tsv', {NOT_TEXT} It looks like UTF-16: pass --encoding utf-16 to 'clmpt import' "
        "or 'clmpt fit'.",
    ),
    "a misspelt relation": (
        f"solve films.tsv '?f : directd({MIZOGUCHI}, ?f)'",
        "Unknown relation 'directd' at column 6. Did you mean 'directed'?",
    ),
    "a misspelt relation, asked of a model": (
        f"ask model '?f : directd({MIZOGUCHI}, ?f)'",
        "Unknown relation 'directd' at column 6. Did you mean 'directed'?",
    ),
    "a query without a free variable": (
        f"ask model 'directed({MIZOGUCHI}, ?f)'",
        "Unexpected 'directed' at column 1. A query starts with its free variable and a colon, as "
        "in '?x : directed(Mizoguchi, ?x)'.",
    ),
    "an update": (
        "solve films.tsv 'DELETE WHERE { ?f :won ?a }'",
        "DELETE changes a graph at column 1. Graphs are only read here.",
    ),
    "a checkpoint of another graph": (
        "ask model '?x : r(a, ?x)' --graph other.tsv",
        "This model was made for a graph with different entity names: 26 of its 26 are not in the "
        "graph ('A Geisha', 'Akira Kurosawa', 'Ayako Wakao', …); 2 of the graph's 2 are not in the "
        "model ('a', 'b'). Use the graph it was made for.",
    ),
    "an output folder that exists": (
        "fit films.tsv --out taken",
        "'taken' already exists. Choose another name, or remove it first.",
    ),
    "no model": (
        "ask taken '?x : r(a, ?x)'",
        "'taken' is not a model. Make one with 'clmpt fit', or with 'clmpt pretrain' and "
        "'clmpt train'.",
    ),
    "an unknown option": (
        "fit films.tsv --hidden 0.2",
        "Unexpected argument '--hidden'. Did you mean '--hide'? See 'clmpt fit --help'.",
    ),
    "a file instead of a model": (
        "ask films.tsv '?x : won(?x, ?y)'",
        "'films.tsv' is a file, not a model. Train one on it with 'clmpt fit films.tsv', or "
        "get exact answers with 'clmpt solve'.",
    ),
    "heads that do not divide the width": (
        "fit films.tsv --out new --recipe odd.toml",
        "3 heads do not divide the predictor's width of 64.",
    ),
    "nothing to learn from": (
        "fit numbers.ttl --out new",
        "There are no facts between things to learn from. If they are literals of RDF, such as "
        "numbers, keep these as entities with --literals.",
    ),
    "nothing to plan for": (
        "fit numbers.ttl --plan",
        "There are no facts between things to learn from. If they are literals of RDF, such as "
        "numbers, keep these as entities with --literals.",
    ),
    "an option for RDF with a table": (
        "import films.tsv --leave-out won --out new",
        "--leave-out is for RDF, and there is none here. Leave it out, or make RDF of the graph "
        "first with 'clmpt export'.",
    ),
    "an unknown prefix": (
        "import labels.ttl --leave-out ex:knows --out new",
        "There is nothing to leave out: no statement has the relation 'ex:knows', and 'ex:' is not "
        "a well-known prefix. Give the IRI in full.",
    ),
    "a language that is none": (
        "import labels.ttl --language de,,en --out new",
        "--language takes tags such as en or de,en, not 'de,,en'.",
    ),
    "a base that is no IRI": (
        "import labels.ttl --base example --out new",
        "--base takes an IRI such as http://example.org/, not 'example'.",
    ),
    "another misspelt language": (
        "fit labels.ttl --language xx_yy",
        "--language takes tags such as en or de,en, not 'xx_yy'.",
    ),
    "an address that is no endpoint": (
        "import ftp://x/y --out new",
        "'ftp://x/y' cannot be read: only SPARQL endpoints at http:// or https:// are. Download "
        "it, and give the file.",
    ),
    "an option of other commands": (
        "import films.tsv --folder x --out new",
        "Unexpected argument '--folder'. See 'clmpt import --help'.",
    ),
    "no such command": (
        "fti films.tsv",
        "There is no command 'fti'. Did you mean 'fit'? See 'clmpt --help'.",
    ),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these files, and a model of the film graph."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copy(ROOT / "examples" / "films.tsv", folder)
    (folder / "other.tsv").write_text("a\tr\tb\n")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "odd.toml").write_text("[reasoning]\nheads = 3\n")
    (folder / "quick.toml").write_text("[training]\nsteps = 2\n[pretraining]\nepochs = 1\n")
    fit = ["fit", str(folder / "films.tsv"), "--recipe", str(folder / "quick.toml")]
    assert main([*fit, "--out", str(folder / "model")]) == 0
    return folder


@pytest.mark.parametrize("what", WRONG)
def test_the_error_is_one_line(
    what: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(desk)
    before = sorted(desk.rglob("*"))
    typed, answer = WRONG[what]
    try:
        code = main(shlex.split(typed))
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    (line,) = err.splitlines()
    assert line == f"clmpt: {answer}"
    assert sorted(desk.rglob("*")) == before, "nothing must be left behind"
    assert (desk / "taken" / "mine.txt").read_bytes() == b"mine"


def on_a_small_disk(size: str, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command next to a folder `disk` of limited size."""
    (folder / "disk").mkdir()
    clmpt = f"{sys.executable} -m clmpt"
    script = f"mount -t tmpfs -o size={size} tmpfs disk && {clmpt} {command}; code=$?; ls -A disk"
    return subprocess.run(
        [*UNSHARE, "sh", "-c", f"{script}; exit $code"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("size", ["40k", "150k", "200k", "250k"])
def test_a_full_disk_is_reported_wherever_it_fills_up(size: str, tmp_path: Path) -> None:
    probe = [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("this machine does not let users mount a small disk")
    shutil.copy(ROOT / "examples" / "films.tsv", tmp_path)
    found = on_a_small_disk(size, "fit films.tsv --out disk/model", tmp_path)
    assert found.returncode == 2, found.stderr
    assert "Traceback" not in found.stderr
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("clmpt: '")
    assert last.endswith("cannot be written: No space left on device.")
