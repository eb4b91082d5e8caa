"""Which files of a model are shared: its graph, its weights, its figures. All of them are data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from clmpt.errors import DataError
from clmpt.storage.checksums import MANIFEST

CARD, CONFIG = "README.md", "config.json"
NEEDED = ("graph/graph.json", "reasoner/reasoner.json", "reasoner/weights.safetensors")

_WORD = r"[a-z][a-z0-9_-]{0,60}"
_NAMES = re.compile(
    rf"{CARD}|{CONFIG}|choice\.json|checksums\.json"
    rf"|graph/{_WORD}\.(?:json|npy)|reasoner/{_WORD}\.(?:json|npy|safetensors)"
    rf"|report(?:-{_WORD})?/(?:report|checksums)\.json"
)
_PRIVATE = ("run.json", "finished.json")  # where and when a run took place
_LARGEST_TEXT = 64 * 2**20  # as for all JSON
LARGEST = 32 * 2**30  # of a model as a whole
_MOST = 500  # files


def is_shared(name: str) -> bool:
    """Whether a file of a model is for others: data in a format that cannot run code.

    >>> [is_shared(name) for name in ("graph/keys.npy", "reasoner/run.json", "graph/../x.npy")]
    [True, False, False]
    """
    return bool(_NAMES.fullmatch(name)) and name.rpartition("/")[2] not in _PRIVATE


def shared_in(folder: Path) -> list[str]:
    """The files to share of a fitted model's folder, in order; a model needs its graph."""
    inside = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = sorted(
        name
        for path in inside
        if path.name != MANIFEST and is_shared(name := path.relative_to(folder).as_posix())
    )
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise DataError(
            f"'{folder}' cannot be shared: it has no {missing[0]}. A model made by 'clmpt fit' has "
            "its graph with it; so has any other after clmpt.load(…).save(FOLDER) in Python."
        )
    return names


def check_offer(sizes: Mapping[str, int], origin: str, largest: int = LARGEST) -> None:
    """Rejects an offered set of shared files that is no model of ours, or too large."""
    missing = [name for name in NEEDED if name not in sizes]
    if missing:
        raise DataError(f"{origin} has no model of clmpt: it has no {missing[0]}.")
    texts = [name for name, size in sizes.items() if size > _LARGEST_TEXT and not _is_array(name)]
    if texts or len(sizes) > _MOST or sum(sizes.values()) > largest:
        total, most = sum(sizes.values()) / 2**30, largest / 2**30
        what = f"its {texts[0]} is" if texts else f"{len(sizes):,} files of {total:,.1f} GiB are"
        raise DataError(
            f"{origin} is too large: {what} more than allowed ({most:,.0f} GiB in all)."
        )


def _is_array(name: str) -> bool:
    return name.endswith((".npy", ".safetensors"))
