"""Checksums of stored files: a folder of ours lists its files with their sizes and checksums.

The list is against accidents such as bad disks, cut copies and mixed-up files, not against an
attacker, who could write a list of his own. CRC-32 misses one such accident in four billion, and
is as fast as memory. Folders without a list, made by earlier versions, are not checked. Those of
this version say in their JSON that they have one, so that it cannot get lost unnoticed.
"""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from clmpt.errors import DataError

MANIFEST = "checksums.json"
LARGE = 64 * 2**20  # bytes; arrays above this are mapped without reading them whole
LISTED = {"checksums": True}  # in the JSON of a folder that has a list
_FORMAT = "clmpt checksums 1"
_PIECE = 2**20  # bytes read at once

Version: TypeAlias = tuple[int, int] | None  # size and checksum; None is a file that is not there
Manifest: TypeAlias = dict[str, tuple[Version, ...]]  # two versions while a file is replaced


def checksum_of(path: Path) -> tuple[int, int]:
    """A file's size and checksum."""
    size = found = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            size, found = size + len(piece), zlib.crc32(piece, found)
    return size, found


def manifest_text(manifest: Manifest) -> str:
    """The list as JSON, with a checksum of its own."""
    files = {
        name: [None if one is None else [one[0], f"{one[1]:08x}"] for one in versions]
        for name, versions in sorted(manifest.items())
    }
    own = f"{zlib.crc32(json.dumps(files).encode()):08x}"
    return json.dumps({"format": _FORMAT, "files": files, "checksum": own}, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest | None:
    """What a folder lists; None if it has no list."""
    path = folder / MANIFEST
    try:
        found = path.stat()
    except OSError:
        return None
    return _read(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int, number: int) -> Manifest:  # noqa: ARG001
    """Remembered as long as the file is the same."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        files = document["files"]
        if document["format"] != _FORMAT or set(document) != {"format", "files", "checksum"}:
            raise ValueError("its format is unknown")
        if int(document["checksum"], 16) != zlib.crc32(json.dumps(files).encode()):
            raise ValueError("its own checksum is wrong")
        return {
            name: tuple(None if one is None else (one[0], int(one[1], 16)) for one in versions)
            for name, versions in files.items()
        }
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Use another copy of the folder, or make it again."
        ) from None


def lacks_list(folder: Path, document: Any) -> bool:
    """Whether a folder has lost its list, by what one of its JSON files says."""
    listed = isinstance(document, dict) and document.get("checksums") is True
    return listed and read_manifest(folder) is None


def verify_file(
    path: Path, way_out: str = "", most: int | None = None, must_be_listed: bool = True
) -> None:
    """Raises a DataError unless a file is as its folder lists it; where there is no list, nothing
    is checked. Of files with more than `most` bytes, only the size is."""
    manifest = read_manifest(path.parent)
    if manifest is None or not (must_be_listed or path.name in manifest):
        return
    problem = problem_with(path, manifest.get(path.name), most)
    if problem:
        way_out = way_out or "Use another copy of it, or make it again."
        raise DataError(f"'{path}' is missing or damaged ({problem}). {way_out}")


def problem_with(path: Path, versions: tuple[Version, ...] | None, most: int | None = None) -> str:
    """What is wrong with a file; empty if nothing is."""
    if versions is None:
        return f"{MANIFEST} does not list it"
    try:
        size = path.stat().st_size
    except OSError as error:
        return "" if None in versions else str(error.strerror or error)
    expected = [one for one in versions if one is not None]
    if size not in [one[0] for one in expected]:
        return (
            f"it has {size:,} bytes, not {' or '.join(f'{one[0]:,}' for one in expected) or 'any'}"
        )
    if (most is None or size <= most) and checksum_of(path) not in expected:
        return "its checksum is wrong"
    return ""


def is_there(path: Path) -> bool:
    """Whether a file exists that its folder may have or not; raises a DataError if it is lost."""
    if path.exists():
        return True
    versions = (read_manifest(path.parent) or {}).get(path.name, (None,))
    if None not in versions:
        raise DataError(f"'{path}' is missing. Use another copy of the folder, or make it again.")
    return False
