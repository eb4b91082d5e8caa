"""Folders as an earlier version made them, or as somebody forged them."""

from __future__ import annotations

from pathlib import Path

from clmpt.storage.checksums import MANIFEST


def without_checksums(folder: Path) -> Path:
    """The folder after all its lists of checksums are removed."""
    for manifest in folder.rglob(MANIFEST):
        manifest.unlink()
    return folder
