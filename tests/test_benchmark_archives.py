"""Published benchmarks from archives and folders, including malicious ones."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bad_server import cut, serving
from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.experiments.benchmarks import BENCHMARKS, Benchmark, check, get
from clmpt.graph.opening import open_graph
from stand_ins import make_stand_ins


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_stand_ins(folder)
    return folder


@pytest.fixture(scope="module")
def small(home: Path) -> Benchmark:
    """The stand-in's sizes, instead of the published ones."""
    graph = open_graph(home / "NELL-betae")
    train, valid, test = (len(graph.triples(name)) for name in ("train", "valid", "test"))
    sizes = len(graph.entities), len(graph.relations), (train, valid, test)
    return Benchmark("NELL-betae", *sizes, graph.checksum)


def zipped(home: Path, path: Path, prefix: str = "KG_data/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("NELL-betae", "FB15k-237-betae"):
            for file in sorted((home / name).iterdir()):
                archive.write(file, f"{prefix}{name}/{file.name}")
    return path


@pytest.mark.parametrize("prefix", ["KG_data/", ""])
def test_a_benchmark_is_unpacked(home: Path, small: Benchmark, tmp_path: Path, prefix: str) -> None:
    graph = get(small, zipped(home, tmp_path / "a.zip", prefix), tmp_path / "out")
    assert graph.checksum == small.checksum
    for file in (home / "NELL-betae").iterdir():
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("inner", ["", "NELL-betae"])
def test_a_folder_is_copied(home: Path, small: Benchmark, tmp_path: Path, inner: str) -> None:
    (home / "NELL-betae" / "notes.exe").write_bytes(b"not ours")
    source = home / "NELL-betae" if not inner else home
    assert get(small, source, tmp_path / "out").checksum == small.checksum
    assert not (tmp_path / "out" / "notes.exe").exists()
    assert (home / "NELL-betae" / "train.txt").exists()


def test_paths_in_an_archive_cannot_escape(home: Path, small: Benchmark, tmp_path: Path) -> None:
    path = zipped(home, tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        for name in (
            "../../escaped.txt",
            "/tmp/NELL-betae/../escaped.txt",
            "../NELL-betae/evil.txt",
            "NELL-betae/../../train.txt",
            "NELL-betae\\..\\train.txt",
        ):
            archive.writestr(name, "x")
    get(small, path, tmp_path / "inner" / "out")
    assert {path.name for path in tmp_path.rglob("*.txt")} == {"train.txt", "valid.txt", "test.txt"}


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("NELL-betae/train.txt", bytes(10**7))


def liar(path: Path) -> None:
    """Its file is longer than its directory says."""
    bomb(path)
    content = bytearray(path.read_bytes())
    where = content.index(b"PK\x01\x02") + 24
    content[where : where + 4] = (10**6).to_bytes(4, "little")
    path.write_bytes(content)


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for prefix in ("a/", "b/"):
            archive.writestr(f"{prefix}NELL-betae/train.txt", "0\t0\t0\n")


def without(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/train.txt", "0\t0\t0\n")


def cut_short(path: Path) -> None:
    bomb(path)
    path.write_bytes(path.read_bytes()[:-30])


def a_web_page(path: Path) -> None:
    path.write_text("<html>Not found</html>")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (bomb, "is too large"),
        (liar, "not a complete zip archive"),
        (twice, "twice"),
        (without, "has no folder NELL-betae"),
        (cut_short, "not a complete zip archive"),
        (a_web_page, "not a complete zip archive"),
    ],
)
def test_bad_archives_are_rejected(
    small: Benchmark,
    tmp_path: Path,
    make: Callable[[Path], None],
    why: str,
) -> None:
    make(tmp_path / "a.zip")
    with pytest.raises(DataError, match=why):
        get(small, tmp_path / "a.zip", tmp_path / "out", largest=10**6)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_a_flipped_bit_is_detected_or_harmless(
    home: Path, small: Benchmark, tmp_path: Path
) -> None:
    path = zipped(home, tmp_path / "a.zip")
    whole = path.read_bytes()
    get(small, path, tmp_path / "right")
    right = {file.name: file.read_bytes() for file in (tmp_path / "right").iterdir()}
    rejected = 0
    random = np.random.default_rng(0)
    for number, at in enumerate(random.integers(len(whole), size=150)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        out = tmp_path / f"out{number}"
        try:
            get(small, path, out)
        except DataError:
            rejected += 1
            assert not out.exists()
        else:
            # A file whose name was damaged is left out; the others are correct.
            assert {file.name: file.read_bytes() for file in out.iterdir()}.items() <= right.items()
    assert rejected > 40  # the archive has other folders too


def test_another_graph_is_not_mistaken_for_the_benchmark(
    home: Path, small: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["data", "get", "nell995", "--from", str(home), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert code == 2
    assert "is not the published NELL-betae: entities 40 instead of 63,361" in said
    assert not (tmp_path / "out").exists()
    others = Benchmark(small.folder, small.entities, small.relations, small.facts, 1)
    with pytest.raises(DataError, match="the right number of facts, but different ones"):
        get(others, home, tmp_path / "out")


def test_the_command_fetches_and_unpacks_a_benchmark(
    home: Path,
    small: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(BENCHMARKS, "nell995", small)
    monkeypatch.chdir(tmp_path)
    with serving(cut) as server:
        server.content = zipped(home, tmp_path / "made.zip").read_bytes()
        # The first part is of another file, as its length shows, so it is fetched again.
        assert main(["data", "get", "nell995", "--url", server.url]) == 0
        asked = len(server.ranges)
        assert main(["data", "get", "nell995", "--url", server.url, "--out", "again"]) == 0
        assert len(server.ranges) == asked  # the archive was kept
    shown = capsys.readouterr().out
    assert "NELL-betae: 40 entities, 10 relations" in shown
    assert "Queries with answers: valid, test" in shown
    assert main(["data", "get", "nell995", "--url", server.url]) == 0
    assert "NELL-betae is already there" in capsys.readouterr().err
    (tmp_path / "NELL-betae" / "test-queries.pkl").write_bytes(b"other")
    assert main(["data", "get", "nell995", "--url", server.url]) == 2
    assert "already exists" in capsys.readouterr().err


def test_every_benchmark_has_a_recipe_to_start_with() -> None:
    for name, benchmark in BENCHMARKS.items():
        text = (Path(__file__).parents[1] / benchmark.recipe).read_text(encoding="utf-8")
        assert f'benchmark = "{name}"' in text


def test_the_published_sizes_match_the_data(benchmarks: Path) -> None:
    for name in ("fb15k-237", "nell995"):
        folder = benchmarks / BENCHMARKS[name].folder
        check(BENCHMARKS[name], folder, folder)
