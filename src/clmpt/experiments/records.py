"""Records of finished experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.pages.report_folder import read_report
from clmpt.storage.checksums import MANIFEST
from clmpt.storage.files import open_json

VARIANTS = "variants"
_NEEDED = ("train", "valid", "reasoner", "test", "report")  # roles that every experiment has
_ALWAYS = (("experiment", "benchmark"), ("experiment", "published"))
_SHARED = ("train", "valid", "test", "predictor")
_APART = ("seed", "device", "divided")  # settings that seeds of one variant need not share
LeaveOut = Callable[[DataError], None]


def seed_suffix(seed: int) -> str:
    """What follows the name of a variant that is trained with several seeds."""
    return f", seed {seed}"


def refuse(error: DataError) -> None:
    """The default for damaged experiments: raises the error."""
    raise error


@contextmanager
def or_else(leave_out: LeaveOut, whose: str = "") -> Iterator[None]:
    try:
        yield
    except DataError as error:
        leave_out(DataError(f"{whose}{error}"))


@dataclass(frozen=True)
class Variant:
    """A finished experiment: its settings, and the paths of its results by role."""

    name: str
    settings: dict[str, Any]
    folders: dict[str, Path]
    provenance: dict[str, Any]

    @property
    def report(self) -> dict[str, Any]:
        """The figures: mean MRR, averages, and a row for each shape."""
        return read_report(self.folders["report"])

    def __repr__(self) -> str:
        return f"<Variant {self.name!r}: mean MRR {self.report['mean']:.3f}>"

    @property
    def seed(self) -> int:
        """The seed of training."""
        found = self.settings.get("training", {}).get("seed", 0)
        return found if isinstance(found, int) else 0

    @property
    def without_seed(self) -> str:
        """What it shares with the variants that only differ in the seed of training."""
        training = self.settings.get("training", {})
        same = {
            "places": [str(self.folders.get(role)) for role in _SHARED],
            "reasoning": self.settings.get("reasoning"),
            "training": {name: training[name] for name in training if name not in _APART},
        }
        return json.dumps(same, sort_keys=True, default=str)

    @property
    def family(self) -> str:
        """Its name without the seed of training, if that was added to it."""
        named = self.name.replace(f", training.seed={self.seed}", "")
        return named.removesuffix(seed_suffix(self.seed))

    @property
    def done(self) -> str:
        """The time it was finished, to the microsecond: small ones take less than a second."""
        return str(self.provenance.get("done") or self.provenance.get("started", ""))


def variants_in(folder: Path, leave_out: LeaveOut = refuse) -> list[Variant]:
    """The finished experiments in a folder, oldest first."""
    found = []
    for path in sorted((folder / VARIANTS).glob("*.json")):
        if path.name != MANIFEST:
            with or_else(leave_out):
                found.append(read_variant(path))
    return sorted(found, key=lambda variant: variant.done)


def by_seed(variants: Sequence[Variant]) -> list[list[Variant]]:
    """The variants in groups that differ in the seed of training alone, in order of that seed. What
    was recorded under two names counts once, under the later one."""
    found: dict[str, list[Variant]] = {}
    for variant in {one.folders["report"]: one for one in variants}.values():
        found.setdefault(variant.without_seed, []).append(variant)
    return [sorted(group, key=lambda one: one.seed) for group in found.values()]


def read_variant(path: Path) -> Variant:
    out = path.parent.parent
    try:
        document = dict(open_json(path))
        found = document.pop("folders")
        folders = {str(role): out / str(place) for role, place in found.items()}
        for role in _NEEDED:
            folders[role]
        if not all(place.resolve().is_relative_to(out.resolve()) for place in folders.values()):
            raise ValueError("a path points outside the folder")
        settings = {str(table): dict(given) for table, given in document.pop("settings").items()}
        for table, setting in _ALWAYS:
            settings[table][setting]
        name = str(document.pop("name"))
        if not name.isprintable():
            raise ValueError("its name is not printable")
        return Variant(name, settings, folders, document)
    except (DataError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Remove it and run the same command again; "
            "finished stages are not repeated."
        ) from None
