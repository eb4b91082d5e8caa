"""An index in a model's folder: the same best answers, and never a wrong, stale or strange one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import clmpt
from clmpt.answering.answerer import Answerer
from clmpt.answering.answers import Answers
from clmpt.cli.main import main
from clmpt.errors import DataError, MissingLibrary, SettingError
from clmpt.graph.edges import build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.stored_names import StoredNames
from clmpt.graph.vocabulary import Vocabulary
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor, read_pretraining
from clmpt.predictors.predictor_folder import save_predictor
from clmpt.reasoners.hybrid import WithTruthValues
from clmpt.reasoners.indexing import searches_of, with_best
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from clmpt.reasoners.reasoner_folder import open_reasoner, replace_reasoner
from clmpt.storage.sealing import sealed_folder
from killing import killed_when

pytest.importorskip("faiss")
Captured = pytest.CaptureFixture[str]

ENTITIES = 6_000  # more than an index samples
QUESTIONS = [
    "?x : r1(e7, ?x)",
    "?x : r2(e9, ?y) & r0(?y, ?x)",
    "?x : r1(e7, ?x) | r2(e8, ?x)",
    "?x : r0(e30, ?x) & !r1(e31, ?x)",
]


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    random = np.random.default_rng(0)
    entities, relations = (
        Vocabulary(kind, NameTable.of(f"{kind[0]}{number}" for number in range(size)))
        for kind, size in (("entity", ENTITIES), ("relation", 3))
    )
    sizes = (ENTITIES, 3, ENTITIES)
    facts = np.stack([random.integers(size, size=3 * ENTITIES) for size in sizes], 1)
    return KnowledgeGraph(entities, relations, build_index(ENTITIES, 3, [facts.astype(np.int32)]))


def clustered(graph: KnowledgeGraph, model: str = "complex") -> EmbeddingPredictor:
    """A predictor whose entities lie around centres, as trained ones do."""
    made = fresh_predictor(graph, read_pretraining({"model": model, "rank": 8, "seed": 1}))
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(60, made.entities_ED.shape[1], generator=random)
    own = torch.randint(60, (ENTITIES,), generator=random)
    noise = torch.randn(made.entities_ED.shape, generator=random)
    with torch.no_grad():
        made.entities_ED.copy_(centres[own] + 0.5 * noise)
        made.relations_SW.copy_(torch.randn(made.relations_SW.shape, generator=random))
    return made


@pytest.fixture(scope="module")
def plain(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hybrid of CLMPT and truth values, without an index."""
    chosen = read_reasoning({"reasoner": "hybrid", "heads": 2, "feed_forward": 16})
    model = build_model(Basis(graph, clustered(graph)), chosen, seed=0)
    assert isinstance(model, WithTruthValues)
    model.weight_K.fill_(0.2)
    folder = tmp_path_factory.mktemp("models") / "plain"
    with sealed_folder(folder) as scratch:
        StoredNames.of(graph).save(scratch)
        replace_reasoner(scratch, model, {})
    return folder


@pytest.fixture(scope="module")
def indexed(plain: Path, graph: KnowledgeGraph) -> Path:
    folder = plain.parent / "indexed"
    shutil.copytree(plain, folder)
    made = clmpt.index(folder, recall=0.99, graph=graph, progress=False)
    assert set(made) == {"cosines", "links"}
    assert all(one.recall_at_100 > 0.95 for one in made.values())
    return folder


def ids(found: Answers) -> list[int]:
    return [one.entity for one in found]


@pytest.mark.parametrize("reasoner", ["hybrid", "clmpt", "truth-values"])
def test_the_best_answers_and_their_scores_are_those_of_exact_search(
    plain: Path, indexed: Path, graph: KnowledgeGraph, reasoner: str
) -> None:
    exact, quick = (
        Answerer.open(folder, graph, "cpu", reasoner=reasoner) for folder in (plain, indexed)
    )
    assert all(one.nearest for one in searches_of(quick.reasoner))
    wanted, found = (model.ask(QUESTIONS, limit=15) for model in (exact, quick))
    assert [ids(one) for one in found] == [ids(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        scores = ([answer.score for answer in answers] for answers in (one, other))
        np.testing.assert_allclose(*scores, rtol=1e-3)  # the sum over all is estimated


def test_what_follows_and_what_is_refuted_have_their_own_scores(
    plain: Path, indexed: Path, graph: KnowledgeGraph
) -> None:
    question = "?x : r0(e30, ?x) & !r1(e31, ?x)"
    for only in ("known", None):
        exact, quick = (
            Answerer.open(folder, graph, "cpu", reasoner="clmpt").ask(
                question, 30, only, refuted=True
            )
            for folder in (plain, indexed)
        )
        wanted = {one.entity: one.score for one in exact}
        assert quick.known == exact.known
        sure = [one for one in quick if one.status != "predicted"]
        assert sure
        for one in sure:
            assert one.score == pytest.approx(wanted[one.entity], abs=1e-5)


def test_what_is_not_found_is_not_listed(indexed: Path, graph: KnowledgeGraph) -> None:
    model = Answerer.open(indexed, graph, "cpu", reasoner="clmpt")
    found = model.ask("?x : r1(e7, ?x)", limit=ENTITIES)
    assert len(found) < ENTITIES
    assert all(np.isfinite(one.score) for one in found)


def test_the_best_of_values_join_what_is_given() -> None:
    values = torch.tensor([[0.0, 0.3, 0.2, 0.9], [0.0, 0.0, 0.0, 0.0]])
    given = with_best(torch.tensor([[0.0, 0, 0.1, 0], [0.5, 0, 0, 0]]), 4, None)
    assert [one.tolist() for one in with_best(values, 2, given)] == [[1, 2, 3], [0]]


def test_the_command_prints_recall_and_may_run_twice(
    plain: Path, graph: KnowledgeGraph, tmp_path: Path, capsys: Captured
) -> None:
    shutil.copytree(plain, tmp_path / "model")
    graph.save(tmp_path / "graph")
    words = ["index", str(tmp_path / "model"), "--graph", str(tmp_path / "graph"), "--json"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["cosines"]["recall_at_100"] > 0.8
    assert main([*words, "--recall", "0.999"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["cosines"]["probes"] >= first["cosines"]["probes"]
    assert main([*words[:-1], "--recall", "1.5"]) == 2
    assert "recall must be above 0" in capsys.readouterr().err


def test_an_index_of_weights_that_have_changed_is_not_used_and_that_is_said(
    indexed: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = tmp_path / "retrained"
    shutil.copytree(indexed, folder)
    stored = open_reasoner(folder, graph)
    assert stored.model.predictor is not None
    with torch.no_grad():
        stored.model.predictor.entities_ED[0] += 1  # what CLMPT trains; truth values have their own
    replace_reasoner(folder, stored.model, {})
    model = Answerer.open(folder, graph, "cpu", reasoner="clmpt")
    assert not any(one.nearest for one in searches_of(model.reasoner))
    found = model.ask("?x : r1(e7, ?x)")
    assert len(found) == 10
    assert any("another state of the model" in note for note in found.notes)


def test_without_faiss_answers_are_exact_and_no_index_is_made(
    plain: Path, indexed: Path, graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # as if it were not installed
    wanted, found = (
        Answerer.open(folder, graph, "cpu", reasoner="clmpt").ask("?x : r1(e7, ?x)")
        for folder in (plain, indexed)
    )
    assert ids(found) == ids(wanted)
    assert any("faiss is not installed" in note for note in found.notes)
    with pytest.raises(MissingLibrary, match=r"pip install 'clmpt\[index\]'"):
        clmpt.index(plain, graph=graph, progress=False)


def test_a_file_of_somebody_elses_is_neither_used_nor_replaced(
    plain: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    shutil.copytree(plain, tmp_path / "model")
    foreign = tmp_path / "model" / "index-cosines.safetensors"
    foreign.write_bytes(b"IxFI" + bytes(1000))  # how faiss's own files begin
    with pytest.raises(DataError, match="no index of clmpt's"):
        clmpt.index(tmp_path / "model", graph=graph, progress=False)
    assert foreign.read_bytes().startswith(b"IxFI")
    with pytest.raises(DataError, match="clmpt index"):
        Answerer.open(tmp_path / "model", graph, "cpu")


def test_a_damaged_index_is_replaced(indexed: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    shutil.copytree(indexed, tmp_path / "model")
    path = tmp_path / "model" / "index-cosines.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="clmpt index"):
        Answerer.open(tmp_path / "model", graph, "cpu")
    clmpt.index(tmp_path / "model", graph=graph, progress=False)
    assert Answerer.open(tmp_path / "model", graph, "cpu").ask("?x : r1(e7, ?x)")


def test_a_kill_while_an_index_is_made_leaves_the_model_usable(
    plain: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(plain, folder)
    graph.save(tmp_path / "graph")
    words = ["-m", "clmpt", "index", str(folder), "--graph", str(tmp_path / "graph")]
    killed_when(lambda: [*folder.glob("index-links*")], [sys.executable, *words])
    assert len(Answerer.open(folder, graph, "cpu").ask("?x : r1(e7, ?x)")) == 10
    assert (
        subprocess.run([sys.executable, *words], check=False, capture_output=True).returncode == 0
    )


def test_distances_have_no_index(graph: KnowledgeGraph, tmp_path: Path) -> None:
    save_predictor(tmp_path / "transe", clustered(graph, "transe"), graph, {})
    with pytest.raises(DataError, match="only be searched exactly"):
        clmpt.index(tmp_path / "transe", graph=graph, progress=False)


def test_an_evaluation_uses_the_index_only_if_told_and_says_so(
    plain: Path, indexed: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    queries = clmpt.sample(graph, ["1p", "2i"], tmp_path / "some.queries", count=5, progress=False)
    hidden = [replace(group, hard=group.easy, easy=group.hard) for group in queries.groups]
    asked = replace(queries, groups=tuple(hidden))
    common = {"graph": graph, "reasoner": "clmpt", "device": "cpu", "progress": False}
    exact = clmpt.evaluate(indexed, asked, **common)  # type: ignore[arg-type]
    quick = clmpt.evaluate(indexed, asked, index=True, **common)  # type: ignore[arg-type]
    assert quick.mean == pytest.approx(exact.mean, abs=2e-3)
    assert any("Approximate" in note for note in quick.notes)
    assert not any("Approximate" in note for note in exact.notes)
    with pytest.raises(DataError, match="has no index"):
        clmpt.evaluate(plain, asked, index=True, **common)  # type: ignore[arg-type]
    with pytest.raises(SettingError):
        clmpt.index("exact", graph=graph, progress=False)
