"""Tensors in safetensors files: writes are atomic, and opening an untrusted file runs no code."""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clmpt.errors import DataError
from clmpt.storage.checksums import verify_file
from clmpt.storage.files import cannot_write
from clmpt.storage.sealing import listed_file

_KINDS = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
}
_NOT_NUMBERS = ("I64", "I32", "BOOL")  # tables of ids, not parameters


@dataclass(frozen=True)
class Pieces:
    """A tensor that is nowhere whole: its rows come piece by piece, in order."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: Iterable[Tensor]


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor | Pieces], about: Mapping[str, Any]
) -> None:
    """Writes one file with `about` in its header."""
    if any(isinstance(tensor, Pieces) for tensor in tensors.values()):
        _save_pieces(path, tensors, about)
        return
    plain = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in tensors.items()
        if isinstance(tensor, Tensor)
    }
    seen: set[int] = set()
    for name, tensor in plain.items():  # weights that are tied are stored twice
        if tensor.numel() and tensor.data_ptr() in seen:
            plain[name] = tensor.clone()
        seen.add(tensor.data_ptr())
    with listed_file(path) as scratch:
        try:
            save_file(plain, scratch, {"clmpt": json.dumps(about)})
        except SafetensorError as error:  # a full disk, most likely
            number = re.search(r"os error (\d+)", str(error))
            why = os.strerror(int(number[1])) if number else str(error)
            raise cannot_write(path, OSError(why)) from None


def _save_pieces(
    path: Path, tensors: Mapping[str, Tensor | Pieces], about: Mapping[str, Any]
) -> None:
    """The same format, written from the start to the end: nothing but a piece is in memory."""
    header: dict[str, Any] = {"__metadata__": {"clmpt": json.dumps(about)}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + math.prod(tensor.shape) * tensor.dtype.itemsize
        kind = {"dtype": _KINDS[tensor.dtype], "shape": list(tensor.shape)}
        header[name] = {**kind, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with listed_file(path) as scratch, scratch.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            for piece in tensor.rows if isinstance(tensor, Pieces) else (tensor,):
                plain = piece.detach().cpu().contiguous()
                file.write(plain.view(torch.uint8).numpy().data if plain.numel() else b"")


def open_tensors(path: Path, way_out: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    verify_file(path, way_out)
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("clmpt", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}). {way_out}") from None
    return tensors, about if isinstance(about, dict) else {}


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a file's tensors, without loading them."""
    try:
        with safe_open(path, "pt") as file:
            names = list(file.keys())
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}).") from None


def parameters_in(path: Path, without: str = "") -> int:
    """The number of floating-point numbers in a file, without loading them; the tensor `without`
    does not count."""
    try:
        with safe_open(path, "pt") as file:
            found = [file.get_slice(name) for name in file.keys() if name != without]  # noqa: SIM118
            return sum(
                math.prod(one.get_shape()) for one in found if one.get_dtype() not in _NOT_NUMBERS
            )
    except (OSError, SafetensorError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}).") from None


def checksum(tensors: Iterable[Tensor]) -> int:
    """A checksum: equal for the same numbers in the same order."""
    found = 0
    for tensor in tensors:
        found = zlib.crc32(tensor.detach().cpu().contiguous().numpy().data, found)
    return found
