"""The record of an experiment that `reproduce` has done, and how records are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.storage.files import open_json

VARIANTS = "variants"
_NEEDED = ("train", "valid", "reasoner", "test", "report")  # roles of stages that all have
_ALWAYS = (("experiment", "benchmark"), ("experiment", "published"))
LeaveOut = Callable[[DataError], None]


def refuse(error: DataError) -> None:
    """What is done about a damaged experiment, unless somebody knows better."""
    raise error


@contextmanager
def or_else(leave_out: LeaveOut, whose: str = "") -> Iterator[None]:
    try:
        yield
    except DataError as error:
        leave_out(DataError(f"{whose}{error}"))


@dataclass(frozen=True)
class Variant:
    """An experiment that was done: its settings, and by role where its stages' results lie."""

    name: str
    settings: dict[str, Any]
    folders: dict[str, Path]
    provenance: dict[str, Any]

    @property
    def done(self) -> str:
        """When, to the microsecond: two small ones may be done within a second."""
        return str(self.provenance.get("done") or self.provenance.get("started", ""))


def variants_in(folder: Path, leave_out: LeaveOut = refuse) -> list[Variant]:
    """The experiments that were done in a folder, in the order they were done."""
    found = []
    for path in sorted((folder / VARIANTS).glob("*.json")):
        with or_else(leave_out):
            found.append(read_variant(path))
    return sorted(found, key=lambda variant: variant.done)


def read_variant(path: Path) -> Variant:
    out = path.parent.parent
    try:
        document = dict(open_json(path))
        found = document.pop("folders")
        folders = {str(role): out / str(place) for role, place in found.items()}
        for role in _NEEDED:
            folders[role]
        if not all(place.resolve().is_relative_to(out.resolve()) for place in folders.values()):
            raise ValueError("it points elsewhere")
        settings = {str(table): dict(given) for table, given in document.pop("settings").items()}
        for table, setting in _ALWAYS:
            settings[table][setting]
        name = str(document.pop("name"))
        if not name.isprintable():
            raise ValueError("its name cannot be printed")
        return Variant(name, settings, folders, document)
    except (DataError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Remove it and run the command that made it again; "
            "what is there will not be made again."
        ) from None
