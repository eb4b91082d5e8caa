"""What a model folder says of itself, from its JSON files alone: no weights are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.graph.opening import GRAPH
from clmpt.storage.files import open_json
from clmpt.storage.run_folder import is_begun, read_provenance

_ABOUT = {"reasoner": "reasoner.json", "predictor": "predictor.json"}
_FITTED, _CHOICE = "reasoner", "choice.json"


@dataclass(frozen=True)
class ModelFacts:
    """A reasoner or a predictor; `fitted` if its graph is with it."""

    kind: str
    name: str  # of its class, such as hybrid or complex
    predictor: str | None
    asked: str  # the reasoner that answers questions
    fitted: bool
    versions: Mapping[str, str]
    settings: Mapping[str, Mapping[str, Any]]  # by table
    parameters: Mapping[str, int]  # how many, by what happens to them in training
    started: str = ""  # when and on what kind of machine it was trained, if that is recorded

    @property
    def made_with(self) -> str:
        listed = [f"{name} {version}" for name, version in self.versions.items()]
        return ", ".join(listed) or "an early version, which did not say so"

    def rows(self) -> list[tuple[str, str]]:
        """For a table: what, and its value."""
        found = [
            (self.kind, self.name),
            ("over the predictor", self.predictor or ""),
            ("questions are answered by", self.asked),
            ("parameters", ", ".join(f"{n:,} {what}" for what, n in self.parameters.items())),
            ("made with", self.made_with),
            ("trained", self.started),
        ]
        return [(name, value) for name, value in found if value]


def is_model(folder: str | Path) -> bool:
    return _place(Path(folder)) is not None


def model_facts(folder: str | Path) -> ModelFacts:
    """The facts of a fitted model, or of a reasoner's or a predictor's checkpoint."""
    folder = Path(folder)
    place = _place(folder)
    if place is None:
        raise DataError(
            f"'{folder}' is not a model. Make one with 'clmpt fit', or with 'clmpt pretrain' and "
            "'clmpt train'."
        )
    kind, path = place
    about = open_json(path)
    choice = open_json(folder / _CHOICE) if (folder / _CHOICE).exists() else {}
    try:
        name = str(about["reasoner" if kind == "reasoner" else "model"])
        predictor = about.get("predictor") if kind == "reasoner" else None
        versions = {str(key): str(value) for key, value in about.get("versions", {}).items()}
        tables = {"pretraining": "settings", "reasoning": "reasoning", "training": "training"}
        settings = {table: dict(about[key]) for table, key in tables.items() if key in about}
        asked = str(choice.get("reasoner", name if kind == "reasoner" else ""))
        counts = {str(what): int(number) for what, number in about.get("parameters", {}).items()}
        fitted = path.parent != folder
        return ModelFacts(
            *(kind, name, predictor, asked, fitted, versions, settings, counts), _started(folder)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"'{path}' is damaged ({error!r}).") from None


def _started(folder: Path) -> str:
    found = read_provenance(folder) if is_begun(folder) else {}
    day, machine = str(found.get("started") or "")[:10], str(found.get("platform") or "")
    return ", ".join(part for part in (day, machine) if part)


def _place(folder: Path) -> tuple[str, Path] | None:
    """The kind of a model, and the file that describes it."""
    inside = (folder / GRAPH).is_dir() and folder / _FITTED
    for kind, name in _ABOUT.items():
        for parent in (inside, folder):
            if parent and (parent / name).is_file():
                return kind, parent / name
    return None
