"""A predictor's folder: weights, settings and names, so that none is used without the rest.

Weights are safetensors, all else JSON and plain arrays: opening a stranger's folder runs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clmpt.compute.tensor_files import open_tensors, parameters_in, save_tensors, shapes_in
from clmpt.errors import DataError, SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.stored_names import StoredNames
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.registry import PREDICTORS, Registry
from clmpt.storage.files import new_file, new_folder, open_json, save_json
from clmpt.storage.run_folder import is_begun, is_finished

_FORMAT = "clmpt predictor 2"
WAY_OUT = "Make the checkpoint again, or take another copy of it."
_ABOUT = "predictor.json"
_WEIGHTS = "weights.safetensors"
_TABLES = ("entities_ED", "relations_SW", "inverse_R")


@dataclass(frozen=True)
class StoredPredictor:
    """A predictor, the names that its rows stand for, and what is known about it."""

    predictor: EmbeddingPredictor
    names: StoredNames
    about: dict[str, Any]  # settings, versions, where it came from, how it did in validation


def is_predictor(folder: str | Path) -> bool:
    return (Path(folder) / _ABOUT).exists()


def predictor_is_whole(folder: Path) -> bool:
    """Whether the files are there and the weights are not cut short; reads no numbers."""
    try:
        return is_predictor(folder) and bool(shapes_in(folder / _WEIGHTS))
    except DataError:
        return False


def about_predictor(folder: str | Path) -> dict[str, Any]:
    return open_about(Path(folder) / _ABOUT, _FORMAT)


def save_predictor(
    folder: str | Path, predictor: EmbeddingPredictor, graph: KnowledgeGraph, about: dict[str, Any]
) -> None:
    """A new folder with a predictor of this graph; refuses one that exists."""
    with new_folder(Path(folder)) as scratch:
        StoredNames.of(graph).save(scratch)
        replace_predictor(scratch, predictor, about)


def replace_predictor(
    folder: Path, predictor: EmbeddingPredictor, about: Mapping[str, Any]
) -> None:
    """Replaces the weights in a folder that has its names already, whole or not at all."""
    model = PREDICTORS.name_of(type(predictor))
    save_tensors(folder / _WEIGHTS, predictor.state_dict(), {"model": model})
    with new_file(folder / _ABOUT) as scratch:
        save_json(scratch, {"format": _FORMAT, "model": model, **about})


def open_predictor(
    folder: str | Path, device: torch.device | str = "cpu", trust: Collection[str] = ()
) -> StoredPredictor:
    """A stored predictor, after checks that its parts are whole and belong together.

    A class that is not part of this installation is imported only if `trust` names it.
    """
    folder = Path(folder)
    if not is_predictor(folder):
        if is_begun(folder) and not is_finished(folder):
            raise DataError(
                f"'{folder}' has no trained weights yet. Run the same command again to resume it."
            )
        raise DataError(
            f"'{folder}' is not a predictor: it has no {_ABOUT}. "
            "Make one with 'clmpt pretrain', or convert one with 'clmpt convert'."
        )
    about = about_predictor(folder)
    tensors, _ = open_tensors(folder / _WEIGHTS, WAY_OUT)
    names = StoredNames.open(folder, WAY_OUT)
    with damage_named(folder):
        predictor = predictor_of(about["model"], tensors, trust, folder)
    check_fit(folder, predictor, names)
    return StoredPredictor(predictor.to(device).requires_grad_(False), names, about)


def parameter_count(folder: Path) -> int:
    """How many numbers a stored predictor has; reads none of them."""
    return parameters_in(folder / _WEIGHTS)


# --- what reasoners' folders share ----------------------------------------------------------------


def open_about(path: Path, form: str) -> dict[str, Any]:
    about = open_json(path)
    if not isinstance(about, dict) or about.get("format") != form:
        raise DataError(f"'{path}' is not in the format '{form}'. {WAY_OUT}")
    return about


def trusted(registry: Registry[Any], name: Any, trust: Collection[str], folder: Path) -> type[Any]:
    """The class that a folder names, unless importing it would run code that nobody vouched for."""
    if not isinstance(name, str) or (not registry.is_known(name) and ":" not in name):
        raise KeyError(f"there is no {registry.what} {name!r}")
    if not registry.is_known(name) and name not in trust:
        raise DataError(
            f"'{folder}' was made with the class {name}, which is not part of this installation. "
            f"If you trust it: --trust {name}, or trust=['{name}'] in Python."
        )
    return registry.find(name)


def predictor_of(
    name: Any, tensors: Mapping[str, Tensor], trust: Collection[str], folder: Path
) -> EmbeddingPredictor:
    made: EmbeddingPredictor = trusted(PREDICTORS, name, trust, folder)(
        *(tensors[table] for table in _TABLES)
    )
    return made


@contextmanager
def damage_named(folder: Path) -> Iterator[None]:
    """Says that a folder is damaged where its parts are not what they should be."""
    try:
        yield
    except (SettingError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise DataError(f"'{folder}' does not hold what it should ({error!r}). {WAY_OUT}") from None


def check_fit(folder: Path, predictor: EmbeddingPredictor, names: StoredNames) -> None:
    if not _fits(predictor, len(names.entities), len(names.relations)):
        raise DataError(f"The weights and the names in '{folder}' do not fit together. {WAY_OUT}")


def _fits(predictor: EmbeddingPredictor, entities: int, relations: int) -> bool:
    inverse_R = predictor.inverse_R
    return (
        all(table.dim() == 2 for table in predictor.parameters())
        and {table.dtype for table in predictor.parameters()} <= {torch.float32, torch.float64}
        and predictor.entities_ED.dtype == predictor.relations_SW.dtype
        and len(predictor.entities_ED) == entities
        and tuple(inverse_R.shape) == (relations,)
        and inverse_R.dtype == torch.int64
        and len(predictor.relations_SW) >= relations
        and (not relations or int(inverse_R.min()) >= -1)
        and (not relations or int(inverse_R.max()) < len(predictor.relations_SW))
    )
