"""Nothing stored is silently wrong: damaged, mixed-up and lost files are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from clmpt.cli.main import main
from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor_folder import open_predictor, replace_predictor
from clmpt.storage.checksums import LARGE, MANIFEST, checksum_of, is_there, verify_file
from clmpt.storage.sealing import list_file, listed_file, remove_listed, sealed_folder
from mutating import (
    Subject,
    mutate,
    subjects_in,
    use_graph,
    use_model,
    use_predictor,
    use_queries,
)
from tampering import without_checksums
from toy import films

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "number", range(5), ids=["graph", "queries", "predictor", "model", "statements"]
)
def test_damage_is_an_error_or_changes_nothing(fitted: Path, tmp_path: Path, number: int) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    outcomes = mutate(subjects_in(tmp_path / "model")[number], 40, seed=number)
    assert outcomes["refused"] > 5


@pytest.mark.parametrize("number", [0, 1, 4], ids=["graph", "queries", "statements"])
def test_damage_without_checksums_is_no_traceback(
    fitted: Path, tmp_path: Path, number: int
) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    subject = subjects_in(tmp_path / "model")[number]
    without_checksums(tmp_path)
    mutate(subject, 150, 0, silent_is_wrong=False)


def test_a_file_of_another_graph_is_noticed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        KnowledgeGraph.from_triples([("a", "r", name)]).save(tmp_path / name)
    stem = "entity_names_bytes.npy"
    assert (tmp_path / "one" / stem).stat().st_size == (tmp_path / "two" / stem).stat().st_size
    shutil.copy(tmp_path / "two" / stem, tmp_path / "one" / stem)
    with pytest.raises(DataError, match=rf"{stem}' is missing or damaged \(its checksum is wrong"):
        KnowledgeGraph.open(tmp_path / "one")


def test_graphs_of_earlier_versions_open_and_check_says_so(
    tmp_path: Path, capsys: Captured
) -> None:
    films().save(tmp_path / "films")
    without_checksums(tmp_path)
    assert len(KnowledgeGraph.open(tmp_path / "films").triples()) > 0
    assert main(["check", str(tmp_path / "films")]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].endswith("no checksums")
    assert "made by an earlier version" in shown.err


def test_check_names_every_damaged_file(tmp_path: Path, capsys: Captured) -> None:
    films().save(tmp_path / "in" / "films")
    question = ["?y : $r($s, ?x) & $r2(?x, ?y)"]
    words = ["sample", str(tmp_path / "in" / "films"), "--shapes", *question, "--count", "5"]
    assert main([*words, "--out", str(tmp_path / "in" / "some.queries")]) == 0
    capsys.readouterr()
    assert main(["check", str(tmp_path / "in"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["result"] for one in found["checked"]] == ["intact", "intact"]
    assert found["checked"][1]["files"] == 12  # eleven arrays, graph.json
    (tmp_path / "in" / "films" / "inverse.npy").unlink()
    for name in ("films/keys.npy", "some.queries"):
        data = bytearray((tmp_path / "in" / name).read_bytes())
        data[-1] ^= 1
        (tmp_path / "in" / name).write_bytes(data)
    assert main(["check", str(tmp_path / "in")]) == 1
    shown = capsys.readouterr()
    assert "films/keys.npy' is damaged: its checksum is wrong" in shown.out
    assert "films/inverse.npy' is damaged: No such file" in shown.out
    assert "some.queries' is damaged" in shown.out
    assert "make it again" in shown.err
    assert main(["check", str(tmp_path / "nowhere")]) == 2
    assert main(["check", str(tmp_path / "in" / "some.queries")]) == 1
    assert main(["check", str(tmp_path / "in" / "films" / "keys.npy")]) == 1


def test_a_list_that_got_lost_is_damage(fitted: Path, tmp_path: Path, capsys: Captured) -> None:
    shutil.copytree(fitted / "model", tmp_path / "model")
    for place, used, use in (
        ("graph", "graph", use_graph),
        ("predictor", "predictor", use_predictor),
        ("reasoner", ".", use_model),
        (".", ".", use_model),
    ):
        (tmp_path / "model" / place / MANIFEST).unlink()
        with pytest.raises(DataError, match=f"{MANIFEST}' is missing"):
            use(tmp_path / "model" / used)
        assert main(["check", str(tmp_path / "model")]) == 1
        shown = capsys.readouterr().out
        assert f"{MANIFEST}' is damaged: it is missing, so nothing in the folder was ch" in shown
        shutil.copy(fitted / "model" / place / MANIFEST, tmp_path / "model" / place)
    assert main(["check", str(tmp_path / "model")]) == 0


def test_a_run_of_an_earlier_version_gets_no_list_that_it_lacks(
    fitted: Path, tmp_path: Path
) -> None:
    shutil.copytree(fitted / "model" / "predictor", tmp_path / "predictor")
    without_checksums(tmp_path)
    found = open_predictor(tmp_path / "predictor")
    replace_predictor(tmp_path / "predictor", found.predictor, {})
    assert open_predictor(tmp_path / "predictor").names.entities


def test_a_file_that_is_no_store_is_not_called_damaged(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.trig").write_text("<http://e/a> <http://e/b> <http://e/c> .")
    assert main(["check", str(tmp_path / "a.trig")]) == 2
    assert "is nothing that clmpt has stored" in capsys.readouterr().err
    films().save(tmp_path / "films")
    assert main(["check", str(tmp_path / "films" / "keys.npy")]) == 0


def test_query_files_may_be_moved_and_renamed(fitted: Path, tmp_path: Path) -> None:
    shutil.copy(fitted / "model" / "train.queries", tmp_path / "mine")
    moved = Subject(tmp_path / "mine", use_queries)
    assert moved.use(moved.path) == use_queries(fitted / "model" / "train.queries")
    assert main(["check", str(tmp_path / "mine")]) == 0


def test_a_kill_while_a_file_is_replaced_leaves_a_valid_folder(tmp_path: Path) -> None:
    with sealed_folder(tmp_path / "run") as scratch:
        (scratch / "weights").write_text("old")
    path = tmp_path / "run" / "weights"

    class Killed(BaseException):
        pass

    def replace_and(end: str) -> None:
        with listed_file(path) as scratch:
            scratch.write_text("new")
            if end == "before":
                raise Killed

    with pytest.raises(Killed):
        replace_and("before")
    verify_file(path)
    assert path.read_text() == "old"
    replace_and("")
    verify_file(path)
    path.write_text("old")  # which is no longer listed
    with pytest.raises(DataError, match="checksum is wrong"):
        verify_file(path)


def test_after_a_replacement_only_the_new_version_is_listed(tmp_path: Path) -> None:
    with sealed_folder(tmp_path / "run") as scratch:
        (scratch / "weights").write_text("old")
    path = tmp_path / "run" / "weights"
    with listed_file(path) as scratch:
        scratch.write_text("new")
        new = checksum_of(scratch)
    manifest = json.loads((path.parent / MANIFEST).read_text())
    assert manifest["files"] == {"weights": [[3, f"{new[1]:08x}"]]}


def test_a_file_that_is_lost_is_not_taken_for_one_that_never_was(tmp_path: Path) -> None:
    with sealed_folder(tmp_path / "run"):
        pass
    path = tmp_path / "run" / "choice.json"
    assert not is_there(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="does not list it"):
        verify_file(path)
    list_file(path)
    verify_file(path)
    path.unlink()
    with pytest.raises(DataError, match="is missing"):
        is_there(path)
    remove_listed(path)
    assert not is_there(path)


def test_a_large_array_is_verified_before_anything_is_made_from_it(
    tmp_path: Path, capsys: Captured
) -> None:
    long = "x" * (LARGE + 1)
    KnowledgeGraph.from_triples([("a", "r", long)]).save(tmp_path / "graph")
    with (tmp_path / "graph" / "entity_names_bytes.npy").open("r+b") as file:
        file.seek(LARGE)
        file.write(b"y")
    graph = KnowledgeGraph.open(tmp_path / "graph")  # which looks at the size alone
    with pytest.raises(DataError, match="checksum is wrong"):
        _ = graph.view("facts").identity
    assert main(["check", str(tmp_path / "graph")]) == 1
    assert "entity_names_bytes.npy' is damaged" in capsys.readouterr().out
