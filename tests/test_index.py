"""Nearest neighbours: exact scores of what is found, honest sums, and files that are checked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from clmpt.compute.nearest import NearestNeighbours
from clmpt.compute.nearest_building import build_lists
from clmpt.compute.nearest_files import open_lists, save_lists
from clmpt.errors import DataError

pytest.importorskip("faiss")


def clustered(rows: int = 5_000, width: int = 16) -> tuple[Tensor, Tensor]:
    """A table around fifty centres, and questions about it."""
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(50, width, generator=random)
    own = torch.randint(50, (rows,), generator=random)
    table = 0.3 * (centres[own] + 0.7 * torch.randn(rows, width, generator=random))
    return table, table[:20] * centres[:1]


def test_a_search_that_reads_everything_is_exact() -> None:
    table, questions = clustered()
    nearest = NearestNeighbours(table, build_lists(table))
    found = nearest.search(questions, most=len(table))
    exact = questions @ table.T
    assert found.entity_BK.sort(1).values.equal(torch.arange(5_000).expand(20, -1))
    torch.testing.assert_close(found.score_BK, exact.gather(1, found.entity_BK))
    torch.testing.assert_close(nearest.normaliser(questions, found), exact.logsumexp(1))


def test_most_of_the_best_are_found_in_a_part_of_the_lists() -> None:
    table, questions = clustered()
    found = NearestNeighbours(table, build_lists(table)).search(questions, most=200, probes=35)
    best = (questions @ table.T).topk(20, 1).indices
    hits = (best[:, :, None] == found.entity_BK[:, None, :]).any(2)
    assert float(hits.float().mean()) > 0.9


def test_the_same_seed_gives_the_same_lists() -> None:
    table, _ = clustered()
    first, second = build_lists(table, seed=3), build_lists(table, seed=3)
    assert first.code_ED.equal(second.code_ED)
    assert first.entity_E.equal(second.entity_E)


def test_an_index_of_another_table_is_not_used(tmp_path: Path) -> None:
    table, _ = clustered()
    save_lists(tmp_path / "index.safetensors", build_lists(table), table, False, {})
    assert open_lists(tmp_path / "index.safetensors", table, False) is not None
    assert open_lists(tmp_path / "index.safetensors", table + 1, False) is None
    assert open_lists(tmp_path / "index.safetensors", table, True) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("entity_E", 10**9), ("entity_E", -1), ("size_L", -5), ("span_D", float("nan"))],
)
def test_an_index_with_impossible_numbers_is_refused(
    tmp_path: Path, name: str, value: float
) -> None:
    table, _ = clustered()
    path = tmp_path / "index.safetensors"
    save_lists(path, build_lists(table), table, False, {})
    tensors = load_file(path)
    header = _header(path)
    tensors[name][0] = value
    save_file(tensors, path, header)
    with pytest.raises(DataError, match="damaged"):
        open_lists(path, table, False)


def test_a_truncated_index_is_refused(tmp_path: Path) -> None:
    table, _ = clustered()
    path = tmp_path / "index.safetensors"
    save_lists(path, build_lists(table), table, False, {})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="clmpt index"):
        open_lists(path, table, False)


def _header(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return dict(file.metadata())
