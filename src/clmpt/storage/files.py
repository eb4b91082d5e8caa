"""Folders of arrays, written whole or not at all, and opened by memory map.

Nothing here is ever unpickled. A file that is cut short or was swapped is refused with its name.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError

_LARGEST_JSON = 64 * 2**20
IMPORT_AGAIN = "Import the graph again."
_UNFINISHED = ".unfinished"  # so that nothing of a user's is taken for ours


def clear_unfinished(folder: Path) -> None:
    """Removes what a killed `new_folder` or `new_file` left in a folder, and nothing else."""
    for scratch in folder.glob(f".*-*{_UNFINISHED}"):
        shutil.rmtree(scratch) if scratch.is_dir() else scratch.unlink()


def refuse_existing(path: Path) -> None:
    """Nothing that a user made is ever overwritten."""
    if path.exists():
        raise DataError(f"'{path}' exists already. Choose another name, or remove it first.")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A scratch folder that becomes `path` when the block ends well, and vanishes otherwise."""
    refuse_existing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(_UNFINISHED, f".{path.name}-", path.parent))
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        yield scratch
        scratch.chmod(0o777 & ~_umask())
        os.rename(scratch, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A scratch file that takes the place of `path` when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}-", path.parent)
    except OSError as error:
        raise cannot_write(path, error) from None
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        with scratch.open("rb+") as file:
            os.fsync(file.fileno())
        scratch.chmod(0o666 & ~_umask())
        os.replace(scratch, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        scratch.unlink(missing_ok=True)


def save_array(folder: Path, name: str, array: npt.NDArray[Any]) -> None:
    with (folder / f"{name}.npy").open("wb") as file:
        array = np.ascontiguousarray(array)
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)  # numpy's own way does not notice a full disk
        file.flush()
        os.fsync(file.fileno())


def open_array(folder: Path, name: str, kind: str, way_out: str = IMPORT_AGAIN) -> npt.NDArray[Any]:
    """A memory map of a flat array whose dtype kind ('i', 'u', …) is as promised."""
    path = folder / f"{name}.npy"
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise DataError(f"'{path}' is missing or damaged ({_plain(error)}). {way_out}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != kind or array.ndim != 1:
        raise DataError(f"'{path}' does not hold what it should. {way_out}")
    return np.asarray(
        array
    )  # the plain view of the map: numpy's own class for maps is slow to index


def save_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")


def open_json(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise DataError(f"'{path}' is larger than {_LARGEST_JSON // 2**20} MiB.")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}).") from None


def _plain(error: Exception) -> str:
    """Not numpy's own advice for pickled arrays: to trust the file."""
    return "it holds objects" if "pickle" in str(error) else str(error)


def cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(f"'{path}' cannot be written: {error.strerror or error}.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
