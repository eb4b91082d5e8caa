"""Flat arrays in memory-mapped files. Nothing is ever unpickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.storage.checksums import LARGE, verify_file

IMPORT_AGAIN = "Import the graph again."


def save_array(folder: Path, name: str, array: npt.NDArray[Any]) -> None:
    with (folder / f"{name}.npy").open("wb") as file:
        array = np.ascontiguousarray(array)
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)  # numpy's own writer does not notice a full disk
        file.flush()
        os.fsync(file.fileno())


def open_array(folder: Path, name: str, kind: str, way_out: str = IMPORT_AGAIN) -> npt.NDArray[Any]:
    """A memory map of a flat array, whose dtype must be of this kind ('i', 'u', …).

    Its checksum is verified, unless the file is large: then only its size is."""
    path = folder / f"{name}.npy"
    verify_file(path, way_out, LARGE)
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's parser of a damaged header can raise nearly anything
        raise DataError(f"'{path}' is missing or damaged ({_plain(error)}). {way_out}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != kind or array.ndim != 1:
        raise DataError(f"'{path}' does not have the expected content. {way_out}")
    return np.asarray(array)  # a plain view, since np.memmap is slow to index


def _plain(error: Exception) -> str:
    """The error without numpy's advice to trust a file of pickled objects."""
    return "it contains objects" if "pickle" in str(error) else str(error)
