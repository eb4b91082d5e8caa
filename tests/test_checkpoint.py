"""Checkpoints: complete, plain files, tied to the names of their graph."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clmpt.errors import DataError, WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.predictors.predictor_folder import open_predictor, save_predictor
from clmpt.registry import PREDICTORS
from tampering import without_checksums
from toy import films

TRIPLES = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "owns", "a")]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    graph = KnowledgeGraph.from_triples(TRIPLES)
    predictor = fresh_predictor(graph, read_pretraining({"rank": 3}))
    save_predictor(tmp_path / "model", predictor, graph, {"note": "made by hand"})
    return tmp_path / "model"


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_a_checkpoint_round_trips(model: str, tmp_path: Path) -> None:
    graph = films()
    predictor = fresh_predictor(graph, read_pretraining({"model": model, "rank": 3}))
    save_predictor(tmp_path / "model", predictor, graph, {"note": 1})
    found = open_predictor(tmp_path / "model")
    assert type(found.predictor) is type(predictor)
    for name, tensor in predictor.state_dict().items():
        assert torch.equal(found.predictor.state_dict()[name], tensor)
    found.names.check_graph(graph)
    assert found.about["note"] == 1
    assert not any(table.requires_grad for table in found.predictor.parameters())


def test_an_existing_folder_is_left_alone(stored: Path) -> None:
    graph = KnowledgeGraph.from_triples(TRIPLES)
    with pytest.raises(DataError, match="already exists"):
        save_predictor(stored, fresh_predictor(graph, read_pretraining({})), graph, {})


@pytest.mark.parametrize(
    ("triples", "reason"),
    [
        ([("b", "likes", "c"), ("c", "owns", "a")], "number 0 is 'a' in the model and 'b'"),
        ([*TRIPLES, ("a", "likes", "Zoë")], "1 of the graph's 4 are not in the model .'Zoë'."),
        ([("a", "likes", "b"), ("c", "owns", "a")], None),
        (TRIPLES[:2], "relation names: 1 of its 2 are not in the graph .'owns'."),
        ([("x", "likes", "b"), ("b", "likes", "c"), ("c", "owns", "x")], "1 of its 3 are not in"),
    ],
)
def test_another_graph_is_rejected_with_the_differences(
    stored: Path, triples: list[tuple[str, str, str]], reason: str | None
) -> None:
    graph = KnowledgeGraph.from_triples(triples)
    checkpoint = open_predictor(stored)
    if reason is None:  # other facts with the same names are fine
        checkpoint.names.check_graph(graph)
        return
    with pytest.raises(WrongGraph, match=reason):
        checkpoint.names.check_graph(graph)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "weights.safetensors")
        change(tensors)
        save_file(tensors, folder / "weights.safetensors")

    return spoil


def _about(**changes: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        about = json.loads((folder / "predictor.json").read_text())
        (folder / "predictor.json").write_text(json.dumps({**about, **changes}))

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: _cut(folder / "weights.safetensors"),
        lambda folder: (folder / "weights.safetensors").write_bytes(b""),
        lambda folder: (folder / "weights.safetensors").write_bytes(b"\xff" * 100),
        lambda folder: (folder / "weights.safetensors").unlink(),
        lambda folder: (folder / "predictor.json").write_text("{"),
        lambda folder: (folder / "predictor.json").write_text("[1]"),
        lambda folder: (folder / "entity_names_bytes.npy").unlink(),
        lambda folder: _cut(folder / "relation_names_offsets.npy"),
        lambda folder: shutil.copy(
            folder / "relation_names_order.npy", folder / "entity_names_order.npy"
        ),
        _about(format="clmpt predictor 99"),
        _about(model="no such model"),
        _about(model="conve"),
        _about(model=["complex"]),
        _about(model="rotate"),
        _weights(lambda t: t.pop("inverse_R")),
        _weights(lambda t: t.update(entities_ED=t["entities_ED"][:2].clone())),
        _weights(lambda t: t.update(entities_ED=t["entities_ED"][0].clone())),
        _weights(lambda t: t.update(entities_ED=t["entities_ED"].int())),
        _weights(lambda t: t.update(relations_SW=t["relations_SW"][:1].clone())),
        _weights(lambda t: t.update(relations_SW=t["relations_SW"][:, :4].clone())),
        _weights(lambda t: t.update(inverse_R=torch.tensor([0, 99]))),
        _weights(lambda t: t.update(inverse_R=torch.tensor([0, -2]))),
        _weights(lambda t: t.update(inverse_R=torch.tensor([0.0, 1.0]))),
    ],
)
def test_a_damaged_or_foreign_folder_is_rejected(
    stored: Path, spoil: Callable[[Path], object]
) -> None:
    open_predictor(stored)
    spoil(without_checksums(stored))
    with pytest.raises(DataError):
        open_predictor(stored)


def test_the_error_for_a_non_checkpoint_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="clmpt pretrain"):
        open_predictor(tmp_path)
