"""Folders that list their files with checksums, and changes to them that keep the list true.

A file that is replaced is first listed in both versions, so that a kill at any moment leaves a
folder in which everything is as listed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clmpt.storage.checksums import (
    LISTED,
    MANIFEST,
    Manifest,
    checksum_of,
    manifest_text,
    read_manifest,
)
from clmpt.storage.files import is_unfinished, new_file, new_folder

if sys.platform != "win32":
    import fcntl

_GROWING = ".jsonl"  # logs are listed once they are complete


@contextmanager
def sealed_folder(path: Path, repeatable: bool = False) -> Iterator[Path]:
    """`new_folder`, with a list of checksums in it and in each folder below that has none."""
    with new_folder(path, repeatable) as scratch:
        yield scratch
        for folder in (scratch, *(below for below in scratch.rglob("*") if below.is_dir())):
            if read_manifest(folder) is None:
                _write(folder, {file.name: (checksum_of(file),) for file in _own_files(folder)})


def seal(folder: Path, sums: Mapping[str, tuple[int, int]]) -> None:
    """Lists the files of a new folder, with the checksums that are known already."""
    files = (file for file in _own_files(folder) if file.name not in sums)
    found = {**sums, **{file.name: checksum_of(file) for file in files}}
    _write(folder, {name: (one,) for name, one in found.items()})


def _own_files(folder: Path) -> list[Path]:
    return [
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix != _GROWING and not is_unfinished(file)
    ]


@contextmanager
def listed_file(path: Path, replaces: bool = True) -> Iterator[Path]:
    """`new_file`, for a file that its folder lists, if it has a list."""
    if read_manifest(path.parent) is None or (path.exists() and not replaces):
        with new_file(path, replaces) as scratch:
            yield scratch
        return
    with new_file(path) as scratch:
        yield scratch
        after = checksum_of(scratch)
        _change(path, lambda before: (*(before or (None,)), after))
    _change(path, lambda _both: (after,))


def list_mark(folder: Path) -> dict[str, bool]:
    """What a JSON file says of its folder's list; nothing in folders of earlier versions, which
    have none."""
    being_made = any(is_unfinished(one) for one in (folder, *folder.parents))
    return LISTED if being_made or read_manifest(folder) is not None else {}


def make_sealed(folder: Path) -> None:
    """Makes a folder with an empty list, unless it exists."""
    if not folder.exists():
        with sealed_folder(folder):
            pass


def list_file(path: Path) -> None:
    """Lists a file that is complete now, such as a log."""
    if read_manifest(path.parent) is not None:
        _change(path, lambda _before: (checksum_of(path),))


def remove_listed(path: Path) -> None:
    """Removes a file, which need not exist, and its place in the list."""
    if read_manifest(path.parent) is None:
        path.unlink(missing_ok=True)
        return
    _change(path, lambda before: (*before, None) if before else ())
    path.unlink(missing_ok=True)
    _change(path, lambda _before: ())


def _change(path: Path, versions: Callable[[tuple[object, ...]], tuple[object, ...]]) -> None:
    with _alone(path.parent):
        manifest = dict(read_manifest(path.parent) or {})
        changed = versions(manifest.pop(path.name, ()))
        if changed:
            manifest[path.name] = changed  # type: ignore[assignment]
        _write(path.parent, manifest)


def _write(folder: Path, manifest: Manifest) -> None:
    with new_file(folder / MANIFEST) as scratch:
        scratch.write_text(manifest_text(manifest), encoding="utf-8")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits for other processes that change the list; a kill releases it."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
