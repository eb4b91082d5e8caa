"""Locks between processes: whoever works on a file or folder works on it alone.

A kill releases them. On Windows there are none yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clmpt.errors import DataError
from clmpt.storage.files import cannot_write, lock_file

if sys.platform != "win32":
    import fcntl


@contextmanager
def lock_on(file: Path, place: Path) -> Iterator[None]:
    """A lock on an existing file that stands for a place; fails at once if it is taken."""
    if sys.platform == "win32":
        yield
        return
    with file.open("rb") as handle:
        _take(handle.fileno(), place)
        yield


@contextmanager
def lock_beside(path: Path) -> Iterator[None]:
    """A lock on a path that does not exist yet, held by a hidden file next to it."""
    if sys.platform == "win32":
        yield
        return
    beside = lock_file(path)
    handle = _opened_lock(beside, path)
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        os.close(handle)


def _opened_lock(beside: Path, path: Path) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise cannot_write(path, error) from None
        try:
            _take(handle, path)
            if beside.exists() and os.path.samestat(os.fstat(handle), beside.stat()):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process has just finished and removed the file


def _take(handle: int, place: Path) -> None:
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(
                f"Another process is working in '{place}'. Wait for it, or stop it."
            ) from None
