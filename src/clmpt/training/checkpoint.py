"""A folder that holds weights, settings and vocabulary, so that none is used without the rest.

Weights are safetensors, all else JSON and plain arrays: opening a stranger's folder runs nothing.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clmpt.errors import DataError, SettingError, WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable, open_names, save_names
from clmpt.predictors.models import MODELS
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.reasoners.message_passing.clmpt import MessagePassing
from clmpt.reasoners.models import fresh_reasoner
from clmpt.settings import Reasoning
from clmpt.storage.files import cannot_write, new_file, new_folder, open_json, save_json

FORMAT = "clmpt predictor 1"
_WEIGHTS = "weights.safetensors"
_ABOUT = "predictor.json"
REASONER_FORMAT = "clmpt reasoner 1"
_ABOUT_REASONER = "reasoner.json"
_PREDICTOR = "predictor."  # what the names of a reasoner's predictor's tensors begin with
_WAY_OUT = "Make the checkpoint again, or take another copy of it."
_SHOWN = 3  # names that an error lists


@dataclass(frozen=True)
class _Stored:
    """The names that a model's rows stand for, and what is known about it."""

    entities: NameTable
    relations: NameTable
    about: dict[str, Any]  # settings, versions, where it came from, how it did in validation

    def check_graph(self, graph: KnowledgeGraph) -> None:
        """Refuses a graph whose names are not this model's, in the same order."""
        for kind, own, other in (
            ("entity", self.entities, graph.entities.names),
            ("relation", self.relations, graph.relations.names),
        ):
            if not _same(own, other):
                raise WrongGraph(
                    f"This model was made for a graph with other {kind} names: "
                    f"{_difference(own, other)}. Use the graph that it was made for."
                )


@dataclass(frozen=True)
class Checkpoint(_Stored):
    """A predictor with its names."""

    predictor: EmbeddingPredictor


@dataclass(frozen=True)
class ReasonerCheckpoint(_Stored):
    """A reasoner, its predictor included, with its names."""

    model: MessagePassing


def save_checkpoint(
    folder: str | Path, predictor: EmbeddingPredictor, graph: KnowledgeGraph, about: dict[str, Any]
) -> None:
    """A new folder with a predictor of this graph; refuses one that exists."""
    with new_folder(Path(folder)) as scratch:
        save_vocabulary(scratch, graph.entities.names, graph.relations.names)
        save_weights(scratch, predictor, about)


def save_vocabulary(folder: Path, entities: NameTable, relations: NameTable) -> None:
    save_names(folder, "entity_names", entities)
    save_names(folder, "relation_names", relations)


def save_weights(folder: Path, predictor: EmbeddingPredictor, about: Mapping[str, Any]) -> None:
    """Puts a predictor's weights in the place of those that the folder has, whole or not at all."""
    save_tensors(folder / _WEIGHTS, predictor.state_dict(), {"model": predictor.name})
    with new_file(folder / _ABOUT) as scratch:
        save_json(scratch, {"format": FORMAT, "model": predictor.name, **about})


def open_checkpoint(folder: str | Path, device: torch.device | str = "cpu") -> Checkpoint:
    """A stored predictor, after checks that its parts are whole and belong together."""
    folder = Path(folder)
    if not (folder / _ABOUT).exists():
        if (folder / "run.json").exists() and not is_reasoner(folder):
            raise DataError(
                f"'{folder}' has no trained weights yet. Run the same command again to go on."
            )
        raise DataError(
            f"'{folder}' is not a predictor: it has no {_ABOUT}. "
            "Make one with 'clmpt pretrain', or convert one with 'clmpt convert'."
        )
    about = _about(folder / _ABOUT, FORMAT)
    tensors, _ = open_tensors(folder / _WEIGHTS)
    entities, relations = _vocabulary(folder)
    with _whole(folder):
        predictor = _predictor(about["model"], tensors)
    _check_fit(folder, predictor, entities, relations)
    return Checkpoint(entities, relations, about, predictor.to(device).requires_grad_(False))


def save_reasoner(folder: Path, model: MessagePassing, about: Mapping[str, Any]) -> None:
    """Puts a reasoner's weights in the place of those that the folder has, whole or not at all."""
    kinds = {"reasoner": model.settings.reasoner, "predictor": model.predictor.name}
    save_tensors(folder / _WEIGHTS, model.state_dict(), kinds)
    with new_file(folder / _ABOUT_REASONER) as scratch:
        settings = {"format": REASONER_FORMAT, **kinds, "reasoning": asdict(model.settings)}
        save_json(scratch, {**settings, **about})


def is_reasoner(folder: str | Path) -> bool:
    return (Path(folder) / _ABOUT_REASONER).exists()


def is_whole(folder: Path) -> bool:
    """Whether a model's files are there and its weights are not cut short; reads no numbers."""
    try:
        with safe_open(folder / _WEIGHTS, "pt"):
            return is_reasoner(folder) or (folder / _ABOUT).exists()
    except (OSError, SafetensorError):
        return False


def parameter_counts(folder: Path) -> tuple[int, int]:
    """How many numbers of a stored model are its predictor's, and how many its own."""
    counts = {True: 0, False: 0}
    try:
        with safe_open(folder / _WEIGHTS, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                of_predictor = name.startswith(_PREDICTOR) or not is_reasoner(folder)
                found = file.get_slice(name)
                if found.get_dtype() not in ("I64", "I32", "BOOL"):
                    counts[of_predictor] += math.prod(found.get_shape())
    except (OSError, SafetensorError) as error:
        raise DataError(f"'{folder}' does not hold what it should ({error}). {_WAY_OUT}") from None
    return counts[True], counts[False]


def open_reasoner(folder: str | Path, device: torch.device | str = "cpu") -> ReasonerCheckpoint:
    """A stored reasoner, after checks that its parts are whole and belong together."""
    folder = Path(folder)
    if not is_reasoner(folder):
        raise DataError(
            f"'{folder}' has no trained reasoner (no {_ABOUT_REASONER}). Train one with "
            "'clmpt train', or run the same command again to go on with one."
        )
    about = _about(folder / _ABOUT_REASONER, REASONER_FORMAT)
    tensors, header = open_tensors(folder / _WEIGHTS)
    entities, relations = _vocabulary(folder)
    with _whole(folder):
        if any(about[name] != kind for name, kind in header.items()):
            raise KeyError("the weights are of another kind of model")
        settings = Reasoning(**about["reasoning"])
        own = {name: t for name, t in tensors.items() if name.startswith(_PREDICTOR)}
        predictor = _predictor(
            about["predictor"], {name.removeprefix(_PREDICTOR): t for name, t in own.items()}
        )
        blocks = {name.split(".")[1] for name in tensors if name.startswith("blocks.")}
        hidden = next(len(t) for name, t in tensors.items() if name.endswith("expand.weight"))
        if (len(blocks) or settings.encoder_layers, hidden) != (
            settings.encoder_layers,
            settings.feed_forward,
        ):
            raise KeyError("the settings are of a model of another size")
        model = fresh_reasoner(predictor, settings, seed=0)
        model.load_state_dict(tensors)
    _check_fit(folder, predictor, entities, relations)
    model = model.to(device).requires_grad_(False)
    return ReasonerCheckpoint(entities, relations, about, model)


def _about(path: Path, form: str) -> dict[str, Any]:
    about = open_json(path)
    if not isinstance(about, dict) or about.get("format") != form:
        raise DataError(f"'{path}' is not of the format '{form}'. {_WAY_OUT}")
    return about


def _vocabulary(folder: Path) -> tuple[NameTable, NameTable]:
    entities = open_names(folder, "entity_names", _WAY_OUT)
    return entities, open_names(folder, "relation_names", _WAY_OUT)


def _predictor(name: str, tensors: Mapping[str, Tensor]) -> EmbeddingPredictor:
    return MODELS[name](tensors["entities_ED"], tensors["relations_SW"], tensors["inverse_R"])


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """Says that a folder is damaged where its parts are not what they should be."""
    try:
        yield
    except (SettingError, KeyError, TypeError, IndexError, RuntimeError, StopIteration) as error:
        raise DataError(
            f"'{folder}' does not hold what it should ({error!r}). {_WAY_OUT}"
        ) from None


def _check_fit(
    folder: Path, predictor: EmbeddingPredictor, entities: NameTable, relations: NameTable
) -> None:
    if not _fits(predictor, len(entities), len(relations)):
        raise DataError(f"The weights and the names in '{folder}' do not fit together. {_WAY_OUT}")


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


# --- tensors ------------------------------------------------------------------------------------


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """One safetensors file, written aside and renamed; `about` travels in its header."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_file(path) as scratch:
        try:
            save_file(plain, scratch, {"clmpt": json.dumps(about)})
        except SafetensorError as error:  # a full disk, most likely
            number = re.search(r"os error (\d+)", str(error))
            why = os.strerror(int(number[1])) if number else str(error)
            raise cannot_write(path, OSError(why)) from None


def open_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("clmpt", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is missing or damaged ({error}). {_WAY_OUT}") from None
    return tensors, about if isinstance(about, dict) else {}


# --- names --------------------------------------------------------------------------------------


def _same(own: NameTable, other: NameTable) -> bool:
    return np.array_equal(own.offsets, other.offsets) and np.array_equal(own.bytes_, other.bytes_)


def _difference(own: NameTable, other: NameTable) -> str:
    """What differs between two vocabularies, in words."""
    mine, theirs = set(own), set(other)
    parts = [
        f"{len(lacking):,} of {whose} {len(whole):,} are not {where} ({_some(lacking)})"
        for lacking, whole, whose, where in (
            (mine - theirs, mine, "its", "in the graph"),
            (theirs - mine, theirs, "the graph's", "known to it"),
        )
        if lacking
    ]
    if parts:
        return "; ".join(parts)
    if len(own) != len(other):
        return f"it has {len(own):,} with repetitions, the graph {len(other):,}"
    first = next(
        number for number, pair in enumerate(zip(own, other, strict=True)) if len({*pair}) > 1
    )
    return (
        f"the same names, but number {first} is '{own[first]}' for the model and "
        f"'{other[first]}' in the graph"
    )


def _some(names: set[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:_SHOWN])
    return shown + ", …" * (len(names) > _SHOWN)
