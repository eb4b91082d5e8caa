"""A predictor's checkpoint folder: weights, settings and names, always together.

Weights are safetensors, the rest JSON and plain arrays: opening an untrusted folder runs no code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.tensor_files import (
    Pieces,
    open_tensors,
    parameters_in,
    save_tensors,
    shapes_in,
)
from clmpt.errors import DataError, SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.stored_names import StoredNames
from clmpt.predictors.predictor import CALIBRATION, EmbeddingPredictor
from clmpt.registry import PREDICTORS
from clmpt.storage.files import open_json, save_json
from clmpt.storage.run_folder import is_begun, is_finished, versions
from clmpt.storage.sealing import list_mark, listed_file, sealed_folder

_FORMAT = "clmpt predictor 2"
WAY_OUT = "Make the checkpoint again, or use another copy of it."
_ABOUT = "predictor.json"
_WEIGHTS = "weights.safetensors"
_TABLES = ("entities_ED", "relations_SW", "inverse_R")


@dataclass(frozen=True)
class StoredPredictor:
    """A predictor, the names of its rows, and its metadata."""

    predictor: EmbeddingPredictor
    names: StoredNames
    about: dict[str, Any]  # settings, versions, origin, validation figures


def is_predictor(folder: str | Path) -> bool:
    return (Path(folder) / _ABOUT).exists()


def predictor_is_whole(folder: Path) -> bool:
    """Whether all files exist and the weights are not truncated, without loading them."""
    try:
        return is_predictor(folder) and bool(shapes_in(folder / _WEIGHTS))
    except DataError:
        return False


def about_predictor(folder: str | Path) -> dict[str, Any]:
    return open_about(Path(folder) / _ABOUT, _FORMAT)


def save_predictor(
    folder: str | Path, predictor: EmbeddingPredictor, graph: KnowledgeGraph, about: dict[str, Any]
) -> None:
    """Saves a predictor of this graph to a new folder; one that exists must have the same in it."""
    with sealed_folder(Path(folder), repeatable=True) as scratch:
        StoredNames.of(graph).save(scratch)
        replace_predictor(scratch, predictor, about)


def replace_predictor(
    folder: Path, predictor: EmbeddingPredictor, about: Mapping[str, Any]
) -> None:
    """Replaces the weights in a folder that already has its names; atomic. If several processes
    have a shard of the table each, all of them call it."""
    tensors: dict[str, Tensor | Pieces] = {**predictor.state_dict()}
    given = []
    for name, shard in ((_TABLES[0], predictor.shard), (_TABLES[1], predictor.relation_shard)):
        if shard.parts > 1:
            table = predictor.get_parameter(name).detach()
            given.append(shard.parts_of(table))
            tensors[name] = Pieces((shard.count, *table.shape[1:]), table.dtype, given[-1])
    distributed.by_one(_replace)(folder, PREDICTORS.name_of(type(predictor)), tensors, about)
    for rows in given:
        for _ in rows:  # of the processes that do not write, but give their rows
            pass


def _replace(
    folder: Path, model: str, tensors: Mapping[str, Tensor | Pieces], about: Mapping[str, Any]
) -> None:
    save_tensors(folder / _WEIGHTS, tensors, {"model": model})
    with listed_file(folder / _ABOUT) as scratch:
        same = {"format": _FORMAT, "model": model, "versions": versions()}
        save_json(scratch, {**same, **about, **list_mark(folder)})


def open_predictor(
    folder: str | Path, device: torch.device | str = "cpu", trust: Collection[str] = ()
) -> StoredPredictor:
    """A stored predictor, after checking that its parts are intact and belong together.

    A class outside this installation is imported only if `trust` names it.
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
    """The number of parameters of a stored predictor, without loading them."""
    return parameters_in(folder / _WEIGHTS, without=CALIBRATION)


# --- shared with reasoner folders -----------------------------------------------------------------


def open_about(path: Path, form: str) -> dict[str, Any]:
    about = open_json(path)
    if not isinstance(about, dict) or about.get("format") != form:
        raise DataError(f"'{path}' is not in the format '{form}'. {WAY_OUT}")
    return about


def predictor_of(
    name: Any, tensors: Mapping[str, Tensor], trust: Collection[str], folder: Path
) -> EmbeddingPredictor:
    """The predictor with these weights. Rejects a size mismatch before allocating memory."""
    kind = PREDICTORS.find_trusted(name, trust, folder)
    entities_ED, relations_SW, inverse_R = (tensors[table] for table in _TABLES)
    outline = kind(entities_ED.to("meta"), relations_SW.to("meta"), inverse_R)
    for own, weight in outline.named_parameters():
        if tensors[own].shape != weight.shape:
            raise KeyError(f"'{own}' does not have the size that the tables ask for")
    made = kind(entities_ED, relations_SW, inverse_R)
    given = {CALIBRATION: made.calibration_SC, **tensors}
    made.load_state_dict(given, assign=True)  # so that the tables stay mapped to their file
    return made


@contextmanager
def damage_named(folder: Path) -> Iterator[None]:
    """Reports malformed content as a damaged folder."""
    try:
        yield
    except (SettingError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise DataError(
            f"'{folder}' does not have the expected content ({error!r}). {WAY_OUT}"
        ) from None


def check_fit(folder: Path, predictor: EmbeddingPredictor, names: StoredNames) -> None:
    if not _fits(predictor, len(names.entities), len(names.relations)):
        raise DataError(f"The weights and the names in '{folder}' do not fit together. {WAY_OUT}")


def _fits(predictor: EmbeddingPredictor, entities: int, relations: int) -> bool:
    inverse_R = predictor.inverse_R
    return (
        predictor.entities_ED.dim() == predictor.relations_SW.dim() == 2
        and {weight.dtype for weight in predictor.parameters()}
        in ({torch.float32}, {torch.float64})
        and len(predictor.entities_ED) == entities
        and tuple(inverse_R.shape) == (relations,)
        and inverse_R.dtype == torch.int64
        and len(predictor.relations_SW) >= relations
        and (not relations or int(inverse_R.min()) >= -1)
        and (not relations or int(inverse_R.max()) < len(predictor.relations_SW))
    )
