"""Benchmark folders: small ones in BetaE's and LMPNN's layouts, and the real ones if available."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from clmpt.cli.main import main
from clmpt.errors import DataError, UnsafePickle
from clmpt.experiments.query_stages import QueryPlan, official_files, query_stage
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import open_graph
from clmpt.logic.shapes import SHAPES, shape
from clmpt.progress import silent
from clmpt.queries.benchmark_files import lmpnn_template, query_splits, read_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.sampling.sampler import Protocol, sample
from clmpt.symbolic.missing_links import hard_answer_counts
from clmpt.symbolic.verification import verify_group

NAMES = ["a", "b", "c", "d"]
TRIPLES = {"train": [(0, 0, 1), (1, 0, 2)], "valid": [(2, 0, 3)], "test": [(0, 2, 3)]}


def graph_and_queries(folder: Path) -> tuple[KnowledgeGraph, list[QueryGroup]]:
    return open_graph(folder), read_queries(folder, "test")


def both(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return [row for h, r, t in rows for row in ((h, r, t), (t, r ^ 1, h))]


@pytest.fixture
def betae(tmp_path: Path) -> Path:
    """a -r-> b -r-> c for training, c -r-> d for validation, a -s-> d for testing."""
    folder = tmp_path / "toy-betae"
    folder.mkdir()
    for split, rows in TRIPLES.items():
        text = "".join(f"{h}\t{r}\t{t}\n" for h, r, t in both(rows))
        (folder / f"{split}.txt").write_text(text)
    for kind, names in (("ent", NAMES), ("rel", ["+r", "-r", "+s", "-s"])):
        (folder / f"id2{kind}.pkl").write_bytes(pickle.dumps(dict(enumerate(names))))
    (folder / "entity2label.tsv").write_text("a\tAnna\n")
    one, two = ("e", ("r",)), ("e", ("r", "r"))
    queries = defaultdict(set, {one: {(0, (2,)), (1, (0,))}, two: {(0, (0, 0)), (1, (0, 0))}})
    easy = {(0, (2,)): set(), (1, (0,)): {2}, (0, (0, 0)): {2}, (1, (0, 0)): {3}}
    hard = {(0, (2,)): {3}, (1, (0,)): set(), (0, (0, 0)): set(), (1, (0, 0)): set()}
    for name, value in (("queries", queries), ("easy-answers", easy), ("hard-answers", hard)):
        (folder / f"test-{name}.pkl").write_bytes(pickle.dumps(value))
    return folder


def test_betae_graphs_keep_their_ids(betae: Path) -> None:
    graph = open_graph(betae)
    assert graph.splits == ("train", "valid", "test")
    assert list(graph.entities.names) == NAMES
    assert graph.labels([0, 1]) == ["Anna", "b"]
    assert graph.inverse_ids.tolist() == [1, 0, 3, 2]
    assert {tuple(row) for row in graph.triples("valid").tolist()} == {(2, 0, 3), (3, 1, 2)}


def test_betae_queries_can_be_verified(betae: Path) -> None:
    graph, groups = open_graph(betae), read_queries(betae, "test")
    assert query_splits(betae) == ["test"]
    assert {group.name for group in groups} == {"1p", "2p"}
    assert all(verify_group(group, graph, "test").is_perfect for group in groups)


def test_a_wrong_answer_is_noticed(betae: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = betae / "test-hard-answers.pkl"
    answers = pickle.loads(path.read_bytes())
    answers[(0, (0, 0))] = {1}
    path.write_bytes(pickle.dumps(answers))
    (wrong,) = [
        found
        for group in read_queries(betae, "test")
        if not (found := verify_group(group, open_graph(betae), "test")).is_perfect
    ]
    assert (wrong.shape, wrong.queries, wrong.easy, wrong.hard) == ("2p", 2, 2, 1)
    assert main(["verify", str(betae)]) == 1
    assert "?y : +r(a, ?x1) & +r(?x1, ?y) differs" in capsys.readouterr().err


def test_ids_that_the_graph_lacks_are_rejected_not_misread(betae: Path) -> None:
    """Entity 5 of relation 0 must not be mistaken for entity 1 of relation 1."""
    for query in ((5, (0,)), (1, (4,))):
        for name, value in (("queries", {("e", ("r",)): {query}}), ("easy-answers", {query: {0}})):
            (betae / f"test-{name}.pkl").write_bytes(pickle.dumps(value))
        (betae / "test-hard-answers.pkl").write_bytes(pickle.dumps({query: set()}))
        with pytest.raises(DataError, match="Is it the right graph"):
            verify_group(read_queries(betae, "test")[0], open_graph(betae), "test")


def test_empty_splits_and_empty_structures_are_allowed(betae: Path) -> None:
    (betae / "valid.txt").write_text("")
    path = betae / "test-queries.pkl"
    path.write_bytes(pickle.dumps({**pickle.loads(path.read_bytes()), ("e", ("r", "n")): set()}))
    assert open_graph(betae).view("valid").index.triples == 0
    assert len(read_queries(betae, "test")) == 2


@pytest.mark.parametrize("names", ["id2{}.tsv", "{}2id.pkl", "ind2{}.pkl"])
def test_names_can_come_from_any_of_the_usual_files(betae: Path, names: str) -> None:
    for kind in ("ent", "rel"):
        table = pickle.loads((betae / f"id2{kind}.pkl").read_bytes())
        (betae / f"id2{kind}.pkl").unlink()
        path = betae / names.format(kind)
        if path.suffix == ".tsv":
            path.write_text("".join(f"{number}\t{name}\n" for number, name in table.items()))
        else:
            swapped = {name: number for number, name in table.items()}
            path.write_bytes(pickle.dumps(swapped if "2id" in names else table))
    assert list(open_graph(betae).entities.names) == NAMES


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("train.txt", "0\t0\n", "three ids"),
        ("train.txt", "x\ty\tz\n", "three ids"),
        ("train.txt", "0\t0\t99\n", "not in the name files"),
        ("id2ent.pkl", pickle.dumps([1, 2]), "does not map the ids"),
        ("id2ent.pkl", pickle.dumps({0: "a", 5: "b"}), "does not map the ids"),
        ("id2ent.pkl", b"junk", "damaged|not safe"),
        ("id2ent.pkl", pickle.dumps({0: "x", 1: "x", 2: "y", 3: "z"}), "two ids"),
        ("id2ent.pkl", pickle.dumps({0: "a", "b": 1}), "does not map the ids"),
        ("id2ent.pkl", pickle.dumps({0: ("a",), 1: "b", 2: "c", 3: "d"}), "not text"),
        ("id2ent.pkl", pickle.dumps({0: "\ud800", 1: "b", 2: "c", 3: "d"}), "is not text"),
        ("train.txt", f"0\t0\t{2**40}\n", "three ids"),
        ("test-queries.pkl", pickle.dumps({("e", ("r",)): {"abc"}}), "BetaE"),
        ("test-queries.pkl", pickle.dumps({("e", ("r",)): {(2**70, (0,))}}), "BetaE"),
        ("test-queries.pkl", pickle.dumps([1]), "dictionaries"),
        ("test-queries.pkl", pickle.dumps({("e", ("r",)): {(0, (0, 0))}}), "structure"),
        ("test-queries.pkl", pickle.dumps({("e", ("r",)): {(3, (0,))}}), "BetaE"),
        ("test-queries.pkl", pickle.dumps({7: {1}}), "BetaE"),
    ],
)
def test_bad_betae_files_are_named(betae: Path, file: str, content: Any, words: str) -> None:
    (betae / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=words):
        graph_and_queries(betae)


def test_malicious_query_files_are_rejected(betae: Path) -> None:
    (betae / "test-queries.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(UnsafePickle):
        read_queries(betae, "test")


def test_folders_without_a_graph_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a folder with a graph"):
        open_graph(tmp_path)
    with pytest.raises(DataError, match="no file or folder"):
        open_graph(tmp_path / "nothing")
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    assert open_graph(tmp_path).splits == ("train",)
    assert open_graph(tmp_path / "train.tsv").splits == ("train",)


@pytest.fixture
def lmpnn(tmp_path: Path) -> Path:
    """The same graph in LMPNN's format: each file includes the ones before it."""
    folder = tmp_path / "toy-lmpnn"
    folder.mkdir()
    index = {
        "e": {name: number for number, name in enumerate(NAMES)},
        "r": {name: number for number, name in enumerate(["+r", "-r", "+s", "-s"])},
    }
    (folder / "kgindex.json").write_text(json.dumps(index))
    rows: list[tuple[int, int, int]] = []
    for split in ("train", "valid", "test"):
        rows += both(TRIPLES[split])
        (folder / f"{split}_kg.tsv").write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in rows))
    document = {
        "(r1(s1,e1))&(r2(e1,f))": [[{"s1": 1, "r1": 0, "r2": 0}, {"f": [3]}, {"f": []}]],
        "r1(s1,f)": [[{"s1": 0, "r1": 2}, {"f": []}, {"f": [3]}]],
        "r1(s1,e1)&!r2(e1,f)&r3(s2,f)": [],
    }
    (folder / "test-qaa.json").write_text(json.dumps(document))
    return folder


def test_lmpnn_folders_can_be_read(lmpnn: Path, betae: Path) -> None:
    graph = open_graph(lmpnn)
    assert graph.triples().tolist() == open_graph(betae).triples().tolist()
    assert graph.triples("test").tolist() == open_graph(betae).triples("test").tolist()
    groups = read_queries(lmpnn, "test")
    assert [group.name for group in groups] == ["2p", "1p"]
    assert all(verify_group(group, graph, "test").is_perfect for group in groups)


def test_lmpnn_triples_may_use_names(lmpnn: Path) -> None:
    (lmpnn / "train_kg.tsv").write_text("a\t+r\tb\n")
    assert open_graph(lmpnn).triples("train").tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("2in", "(r1(s1,f))&(!(r2(s2,f)))"),
        ("3i", "((r1(s1,f))&(r2(s2,f)))&(r3(s3,f))"),
        ("inp", "((r1(s1,e1))&(!(r2(s2,e1))))&(r3(e1,f))"),
        ("up", "(r1(s1,e1)|r2(s2,e1))&r3(e1,f)"),
        ("2u-DM", "!(!r1(s1,f)&!r2(s2,f))"),
        ("pni", "((r1(s1,e1))&(!(r2(e1,f))))&(r3(s2,f))"),
    ],
)
def test_lmpnn_formulas_get_the_meaning_of_their_answers(name: str, formula: str) -> None:
    assert lmpnn_template(formula) == shape(name)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("kgindex.json", "{}", "under 'e' and 'r'"),
        ("kgindex.json", '{"e": {"a": 5}, "r": {}}', "under 'e' and 'r'"),
        ("kgindex.json", "{", "damaged"),
        ("train_kg.tsv", "a\tb\n", "line 1"),
        ("train_kg.tsv", "x\ty\tz\n", "line 1"),
        ("test-qaa.json", "[]", "LMPNN's format"),
        ("test-qaa.json", '{"r1(s1": [[{}, {}, {}]]}', "LMPNN's format"),
        ("test-qaa.json", '{"r1(s1,f)": [[{"s1": 1}, {}, {}]]}', "LMPNN's format"),
    ],
)
def test_bad_lmpnn_files_are_named(lmpnn: Path, file: str, text: str, words: str) -> None:
    (lmpnn / file).write_text(text)
    with pytest.raises(DataError, match=words):
        graph_and_queries(lmpnn)


# --- the real benchmarks --------------------------------------------------------------------


@pytest.fixture(scope="module")
def nell(benchmarks: Path) -> tuple[KnowledgeGraph, list[QueryGroup]]:
    return graph_and_queries(benchmarks / "NELL-betae")


Nell: TypeAlias = tuple[KnowledgeGraph, list[QueryGroup]]


def test_we_reproduce_all_official_answers_of_nell(nell: Nell) -> None:
    graph, groups = nell
    assert {group.name for group in groups} == {*SHAPES} - {"pni-exists"}
    assert sum(len(group) for group in groups) == 77_021
    found = [verify_group(group, graph, "test") for group in groups]
    assert [row.shape for row in found if not row.is_perfect] == []


def test_the_official_pni_answers_do_not_mean_some_not(nell: Nell) -> None:
    """Shows that the test above can fail: read as ∃¬, most pni answers disagree."""
    graph, groups = nell
    (pni,) = [group for group in groups if group.name == "pni"]
    some = np.arange(200)
    sets = (pni.easy.take(some), pni.hard.take(some))
    some_not = shape("pni-exists")
    few = QueryGroup("pni", some_not, pni.entities[some], pni.relations[some], *sets)
    assert verify_group(few, graph, "test").easy < 100


def test_we_reproduce_all_query2box_answers(benchmarks: Path) -> None:
    for name in ("FB15k-237", "NELL"):
        graph = open_graph(benchmarks / f"{name}-betae")
        groups = read_queries(benchmarks / f"{name}-q2b", "valid")
        assert len(groups) == 9
        assert all(verify_group(group, graph, "valid").is_perfect for group in groups)


def test_training_queries_without_answers_are_solved_on_the_training_graph(betae: Path) -> None:
    """As Query2box's are published. By hand: a -r-> b and b -r-> c are for training, c -r-> d is
    not."""
    one, two = ("e", ("r",)), ("e", ("r", "r"))
    queries = {one: {(0, (0,)), (2, (0,))}, two: {(0, (0, 0))}}
    (betae / "train-queries.pkl").write_bytes(pickle.dumps(queries))
    graph, path = open_graph(betae), betae / "train.queries"
    names = {shape("1p"): "1p", shape("2p"): "2p"}
    stage = query_stage(
        "train", QueryPlan(graph, betae, "train", names, dict.fromkeys(names, 9), 0, 1), path
    )
    stage.run(silent)
    found = QuerySet.open(path)
    assert found.about["official"] == ["1p", "2p"]
    answers = {
        (group.name, *entities.tolist()): group.easy.take(np.array([row])).entities.tolist()
        for group in found.groups
        for row, entities in enumerate(group.entities)
    }
    assert answers == {("1p", 0): [1], ("1p", 2): [], ("2p", 0): [2]}
    assert list(official_files(betae, "train")["official"]) == ["train-queries.pkl"]


def test_the_missing_links_of_nell_are_as_published(nell: Nell) -> None:
    """Published shares: 94 to 99 % miss a single link; 3i 87 %, pi 50 %."""
    graph, groups = nell
    shares = {}
    for group in groups:
        counts, _ = hard_answer_counts(group, graph, ("train", "valid"))
        assert counts.sum() == len(group.hard.entities)
        assert counts[0] == 0, "a hard answer that misses nothing"
        shares[group.name] = 100 * counts[1] / counts.sum()
    for name in ("2p", "3p", "2i", "ip", "up", "3in", "inp", "pin"):
        assert 93.5 <= shares[name] <= 99.5, name
    assert round(shares["3i"]) == 87
    assert 49 <= shares["pi"] <= 50.5
    assert shares["1p"] == shares["2in"] == shares["2u"] == 100


def test_fb15k_237_has_the_known_number_of_training_pairs(benchmarks: Path) -> None:
    graph = open_graph(benchmarks / "FB15k-237-betae")
    assert graph.has_both_directions
    assert np.array_equal(graph.inverse_ids, np.arange(474) ^ 1)
    group = sample(shape("1p"), graph, Protocol(("train",), ("train",)), 10**6, seed=0)
    assert (len(group), len(group.easy.entities)) == (149_689, 544_230)
