"""Imported predictors give the same scores as the original."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from clmpt.errors import DataError
from clmpt.predictors.imports import (
    predictor_from_arrays,
    predictor_from_cqd,
)
from toy import films, random_graph

RANK = 3


def cqd_scores(entities: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """All scores [h, r, t] as CQD defines them, in complex arithmetic."""
    h, r = (torch.complex(t[:, :RANK], t[:, RANK:]) for t in (entities, relations))
    return torch.einsum("hd,rd,td->hrt", h, r, h.conj()).real


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_cqd_checkpoint_gives_the_same_scores(tmp_path: Path, wrapped: bool) -> None:
    graph = random_graph(True)
    generator = torch.Generator().manual_seed(3)
    entities = torch.randn(len(graph.entities), 2 * RANK, generator=generator)
    relations = torch.randn(len(graph.relations), 2 * RANK, generator=generator)
    tables = {"embeddings.0.weight": entities, "embeddings.1.weight": relations}
    torch.save({"model_state_dict": tables, "epoch": 99} if wrapped else tables, tmp_path / "c.pt")
    predictor = predictor_from_cqd(tmp_path / "c.pt", graph)
    expected = cqd_scores(entities, relations)
    everything = torch.cartesian_prod(*(torch.arange(size) for size in expected.shape))
    found = predictor.score(*everything.T).detach()
    torch.testing.assert_close(found, expected.flatten())
    assert predictor.inverse_R.tolist() == graph.inverse_ids.tolist()


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


@pytest.mark.parametrize(
    "content",
    [
        {"model_state_dict": {}},
        {"model_state_dict": {"embeddings.0.weight": 1, "embeddings.1.weight": 2}},
        [1, 2],
        _Bomb(),
    ],
)
def test_anything_but_a_cqd_checkpoint_is_rejected(
    tmp_path: Path, content: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, "c.pt")
    with pytest.raises(DataError, match=r"c\.pt"):
        predictor_from_cqd("c.pt", films())
    assert not Path("exploded").exists()
    Path("c.pt").write_bytes(Path("c.pt").read_bytes()[:40])
    with pytest.raises(DataError, match="cannot be read"):
        predictor_from_cqd("c.pt", films())
    Path("c.pt").write_text("hello")
    with pytest.raises(DataError, match="cannot be read"):
        predictor_from_cqd("c.pt", films())
    with pytest.raises(DataError, match="no file"):
        predictor_from_cqd("none.pt", films())


@pytest.mark.parametrize(
    "table",
    [
        torch.zeros(10),
        torch.zeros(10, 4, 1),
        torch.zeros(10, 4, dtype=torch.complex64),
        torch.zeros(10, 4, dtype=torch.int64),
        torch.zeros(10, 4).to_sparse(),
        torch.full((10, 4), torch.nan),
    ],
)
def test_invalid_tables_are_rejected(tmp_path: Path, table: torch.Tensor) -> None:
    tables = {"embeddings.0.weight": table, "embeddings.1.weight": torch.zeros(3, 4)}
    torch.save(tables, tmp_path / "c.pt")
    with pytest.raises(DataError, match=r"The model's (embeddings|tables)"):
        predictor_from_cqd(tmp_path / "c.pt", films())


def test_a_checkpoint_of_another_graph_is_rejected(tmp_path: Path) -> None:
    graph = films()
    for entities, relations, reason in (
        (len(graph.entities) + 1, len(graph.relations), "entities"),
        (len(graph.entities), 7, "relations"),
    ):
        tables = {
            "embeddings.0.weight": torch.zeros(entities, 4),
            "embeddings.1.weight": torch.zeros(relations, 4),
        }
        torch.save(tables, tmp_path / "c.pt")
        with pytest.raises(DataError, match=f"The model has .* {reason}"):
            predictor_from_cqd(tmp_path / "c.pt", graph)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("inverses", [False, True])
def test_arrays_follow_their_names(tmp_path: Path, suffix: str, inverses: bool) -> None:
    graph = films()
    rng = np.random.default_rng(0)
    entity_names = sorted(graph.entities.names)
    relation_names = sorted(graph.relations.names)
    entities = rng.normal(size=(len(entity_names), 4)).astype(np.float32)
    rows = len(relation_names) * (1 + inverses)
    relations = rng.normal(size=(rows, 4)).astype(np.float32)
    path = tmp_path / f"model{suffix}"
    arrays = {"entities": entities, "relations": relations}
    np.savez(path, **arrays) if suffix == ".npz" else save_file(arrays, path)
    predictor = predictor_from_arrays("distmult", path, graph, entity_names, relation_names)
    head, relation, tail = "Mizoguchi", "directed", "Oharu"
    ids = [graph.entities.names.find(head), graph.relations.names.find(relation)]
    ids.append(graph.entities.names.find(tail))
    found = predictor.score(*(torch.tensor(number) for number in ids))
    at = (entity_names.index(head), relation_names.index(relation), entity_names.index(tail))
    expected = (entities[at[0]] * relations[at[1]] * entities[at[2]]).sum()
    assert found.item() == pytest.approx(expected)
    assert (predictor.inverse_R.tolist() == [-1, -1, -1]) is not inverses
    if inverses:
        backward = predictor.directed(torch.tensor([ids[1][0] + len(relation_names)]))
        assert backward[0].tolist() == relations[at[1] + len(relation_names)].tolist()


def test_a_matrix_for_each_relation_is_a_row_of_the_array(tmp_path: Path) -> None:
    graph, rng = films(), np.random.default_rng(0)
    entities = rng.normal(size=(len(graph.entities), 4)).astype(np.float32)
    matrices = rng.normal(size=(len(graph.relations), 4, 4)).astype(np.float32)
    np.savez(tmp_path / "m.npz", entities=entities, relations=matrices.reshape(-1, 16))
    predictor = predictor_from_arrays("rescal", tmp_path / "m.npz", graph)
    ids = [torch.tensor([number]) for number in (3, 1, 5)]
    expected = entities[3] @ matrices[1] @ entities[5]
    assert predictor.score(*ids).item() == pytest.approx(expected, rel=1e-5)


def test_what_arrays_cannot_hold_is_not_made_up(tmp_path: Path) -> None:
    graph = films()
    for model, relations, why in (
        ("tucker", 2, "TuckER has weights besides its two tables"),
        ("conve", 2, "ConvE has weights besides its two tables"),
        ("cp", 1, "CP cannot reverse a relation"),
    ):
        width = 4 if model != "cp" else 2
        rows = np.zeros((relations * len(graph.relations), width), np.float32)
        np.savez(tmp_path / "m.npz", entities=np.zeros((10, 4), np.float32), relations=rows)
        with pytest.raises(DataError, match=why):
            predictor_from_arrays(model, tmp_path / "m.npz", graph)


def test_arrays_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    graph = films()
    names, relations = list(graph.entities.names), list(graph.relations.names)
    good = {"entities": np.zeros((10, 4), np.float32), "relations": np.zeros((3, 4), np.float32)}
    for arrays, given, reason in (
        ({"entities": good["entities"]}, {}, "two arrays"),
        ({**good, "entities": np.zeros(10)}, {}, "table of floats"),
        ({**good, "entities": np.zeros((10, 4), np.int64)}, {}, "table of floats"),
        ({**good, "entities": np.full((10, 4), np.nan)}, {}, "not finite"),
        ({**good, "entities": np.array([[None]])}, {}, "objects"),
        (good, {"entity_names": names[:-1]}, "1 of the graph's 10 entity names"),
        (good, {"entity_names": [*names, "new"]}, "11 entity names for 10 rows"),
        (good, {"relation_names": [*relations, relations[0]]}, "not unique"),
    ):
        np.savez(tmp_path / "m.npz", **arrays)
        with pytest.raises(DataError, match=reason):
            predictor_from_arrays("distmult", tmp_path / "m.npz", graph, **given)
    (tmp_path / "m.safetensors").write_bytes(b"no tensors")
    with pytest.raises(DataError, match="two arrays"):
        predictor_from_arrays("distmult", tmp_path / "m.safetensors", graph)
