"""Atomic writes of files and folders; JSON and TOML of limited size."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.storage.checksums import MANIFEST, lacks_list, verify_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST_JSON = 64 * 2**20
_LARGEST_TOML = 2**20
_CHUNK = 2**20
_UNFINISHED = ".unfinished"  # so that no user's file is mistaken for ours


def lock_file(path: Path) -> Path:
    """The hidden file next to a path that a process holds while it makes the path."""
    return path.with_name(f".{path.name}-lock{_UNFINISHED}")


def is_unfinished(path: Path) -> bool:
    """Whether a file or folder is one that `new_folder` or `new_file` has not finished."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def clear_unfinished(folder: Path) -> None:
    """Removes what a killed `new_folder`, `new_file` or lock left in a folder, and nothing else."""
    for scratch in folder.glob(f".*-*{_UNFINISHED}"):
        shutil.rmtree(scratch) if scratch.is_dir() else scratch.unlink()


def refuse_existing(path: Path) -> None:
    """Raises a DataError if the path exists: nothing is ever overwritten."""
    if path.exists():
        raise DataError(f"'{path}' already exists. Choose another name, or remove it first.")


def refuse_different(made: Path, path: Path) -> None:
    """Raises a DataError if what is at the path is not, byte for byte, what was made again."""
    if not _same(made, path):
        raise DataError(
            f"'{path}' already exists, and is not what would be written now. Choose another name, "
            "or remove it first."
        )


@contextmanager
def new_folder(path: Path, repeatable: bool = False) -> Iterator[Path]:
    """A scratch folder that becomes `path` if the block succeeds, and is removed otherwise. If it
    is `repeatable`, the path may exist with the same content, which is then left as it is."""
    if not (repeatable and path.is_dir()):
        refuse_existing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(_UNFINISHED, f".{path.name}-", path.parent))
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        yield scratch
        if repeatable and path.exists():
            refuse_different(scratch, path)
            return
        scratch.chmod(0o777 & ~_umask())
        os.rename(scratch, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def new_file(path: Path, replaces: bool = True) -> Iterator[Path]:
    """A scratch file that replaces `path` if the block succeeds, and is removed otherwise. Unless
    it `replaces` what is there, that must have the same content, and is left as it is."""
    if not replaces and not path.is_file():
        refuse_existing(path)
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
        if not replaces and path.exists():
            refuse_different(scratch, path)
            return
        scratch.chmod(0o666 & ~_umask())
        os.replace(scratch, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        scratch.unlink(missing_ok=True)


def save_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")


def open_json(path: Path) -> Any:
    verify_file(path)
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise DataError(f"'{path}' is larger than {_LARGEST_JSON // 2**20} MiB.")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}).") from None
    if lacks_list(path.parent, document):
        raise DataError(
            f"'{path.parent / MANIFEST}' is missing. Use another copy of the folder, or make it "
            "again."
        )
    return document


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a settings file."""
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST_TOML:
            raise DataError(f"'{path}' is too large for a settings file.")
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is not TOML: {error}.") from None
    return tables


def toml_value(text: str) -> Any:
    """A value in TOML notation; anything else is taken as plain text.

    >>> toml_value("8"), toml_value("true"), toml_value("cosine")
    (8, True, 'cosine')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(f"'{path}' cannot be written: {error.strerror or error}.")


def _same(one: Path, other: Path) -> bool:
    """Whether two files or folders have the same content."""
    if one.is_dir() and other.is_dir():
        names = [sorted(path.name for path in folder.iterdir()) for folder in (one, other)]
        return names[0] == names[1] and all(_same(one / name, other / name) for name in names[0])
    if not (one.is_file() and other.is_file()) or one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(_CHUNK):
                return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
