"""Folders as an earlier version made them, or as somebody forged them."""

from __future__ import annotations

import json
from pathlib import Path

from clmpt.storage.checksums import MANIFEST


def without_checksums(folder: Path) -> Path:
    """The folder after all its lists of checksums are removed, and that there were any."""
    for manifest in list(folder.rglob(MANIFEST)):
        manifest.unlink()
        for path in manifest.parent.glob("*.json"):
            document = json.loads(path.read_text())
            if isinstance(document, dict) and document.pop("checksums", None):
                path.write_text(json.dumps(document, indent=2) + "\n")
    return folder
