"""Indexes in files: plain arrays, checked before they are used, and the table they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clmpt.compute.nearest import Lists
from clmpt.compute.tensor_files import checksum, open_tensors, save_tensors
from clmpt.errors import DataError
from clmpt.storage.checksums import is_there, read_manifest

# Shapes: E rows (entities), D width, L lists

WAY_OUT = "Make it again with 'clmpt index', or remove it."
_FORMAT = "clmpt nearest neighbours 1"
_ARRAYS = {
    "centroids_LD": torch.float32,
    "size_L": torch.int64,
    "entity_E": torch.int64,
    "code_ED": torch.uint8,
    "low_D": torch.float32,
    "span_D": torch.float32,
}


def index_file(folder: Path, name: str) -> Path:
    return folder / f"index-{name}.safetensors"


def is_index(path: Path) -> bool:
    """Whether a file is one of ours, if perhaps a damaged one: then its folder lists it."""
    if path.name in (read_manifest(path.parent) or {}):
        return True
    try:
        return open_tensors(path)[1].get("format") == _FORMAT
    except DataError:
        return False


def save_lists(
    path: Path, lists: Lists, table_ED: Tensor, unit: bool, about: Mapping[str, Any]
) -> None:
    tensors = {name: getattr(lists, name) for name in _ARRAYS}
    kind = {"format": _FORMAT, "probes": lists.probes, **_identity(table_ED, unit)}
    save_tensors(path, tensors, {**kind, **about})


def open_lists(path: Path, table_ED: Tensor, unit: bool) -> tuple[Lists, Mapping[str, Any]] | None:
    """What was saved, with what was said about it; None if it belongs to another table. Raises a
    DataError if it is damaged."""
    if not is_there(path):
        return None
    tensors, about = open_tensors(path, WAY_OUT)
    if about.get("format") != _FORMAT:
        raise DataError(f"'{path}' is not in the format '{_FORMAT}'. {WAY_OUT}")
    if {name: about.get(name) for name in ("table", "unit")} != _identity(table_ED, unit):
        return None
    problem = _problem(tensors, about.get("probes"), *table_ED.shape)
    if problem:
        raise DataError(f"'{path}' is damaged ({problem}). {WAY_OUT}")
    return Lists(**tensors, probes=about["probes"]), about


def _identity(table_ED: Tensor, unit: bool) -> dict[str, Any]:
    return {"table": [*table_ED.shape, checksum([table_ED])], "unit": unit}


def _problem(tensors: Mapping[str, Tensor], probes: Any, rows: int, width: int) -> str:
    """What is wrong with stored lists for a table of this size; empty if nothing is. The library
    that reads them trusts sizes and ids, so these must be right."""
    if {name: tensor.dtype for name, tensor in tensors.items()} != _ARRAYS:
        return "its arrays are not those of an index"
    lists = len(tensors["size_L"]) if tensors["size_L"].dim() == 1 else 0
    shapes = {
        "centroids_LD": (lists, width),
        "size_L": (lists,),
        "entity_E": (rows,),
        "code_ED": (rows, width),
        "low_D": (width,),
        "span_D": (width,),
    }
    if not lists or {name: tuple(tensor.shape) for name, tensor in tensors.items()} != shapes:
        return "its arrays have other shapes"
    size_L, entity_E = tensors["size_L"], tensors["entity_E"]
    if int(size_L.min()) < 0 or int(size_L.max()) > rows or int(size_L.sum()) != rows:
        return "its lists do not add up to the table"
    if rows and (int(entity_E.min()) < 0 or int(entity_E.max()) >= rows):
        return "it names rows that the table does not have"
    if rows and int(entity_E.bincount(minlength=rows).max()) > 1:
        return "it has a row twice"
    if type(probes) is not int or not 1 <= probes <= lists:
        return "it reads lists that it does not have"
    if not all(
        bool(tensors[name].isfinite().all()) for name in ("centroids_LD", "low_D", "span_D")
    ):
        return "its numbers are not finite"
    return ""
