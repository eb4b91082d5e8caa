"""A reasoner's checkpoint folder: its own weights, its predictor's, settings and names.

The model's and the predictor's weights are in separate files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clmpt.compute.tensor_files import checksum, open_tensors, save_tensors, shapes_in
from clmpt.errors import DataError, WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.graph.stored_names import NameMatch, StoredNames
from clmpt.predictors.carrying_over import on_newer_graph
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.predictors.predictor_folder import (
    WAY_OUT,
    check_fit,
    damage_named,
    open_about,
    predictor_of,
)
from clmpt.reasoners.answer_calibration import AnswerCalibration
from clmpt.reasoners.model import Basis, ReasonerModel, build_model
from clmpt.registry import PREDICTORS, REASONERS
from clmpt.settings import Reasoning, read_table
from clmpt.storage.checksums import is_there
from clmpt.storage.files import open_json, save_json
from clmpt.storage.run_folder import versions
from clmpt.storage.sealing import list_mark, listed_file

_FORMAT = "clmpt reasoner 2"
_ABOUT = "reasoner.json"
_WEIGHTS = "weights.safetensors"
_PREDICTOR_WEIGHTS = "predictor.safetensors"
_CALIBRATION = "calibration.json"


@dataclass(frozen=True)
class StoredReasoner:
    """A model, including its predictor, and its metadata."""

    model: ReasonerModel
    names: StoredNames
    about: dict[str, Any]
    match: NameMatch | None = None  # if it was opened on a newer graph


@dataclass(frozen=True)
class StoredWeights:
    """A model's own weights, its predictor, its names and its metadata, without its graph."""

    own: Mapping[str, Tensor]
    predictor: EmbeddingPredictor | None
    names: StoredNames
    about: dict[str, Any]

    @property
    def checksum(self) -> int:
        tables = self.predictor.parameters() if self.predictor else ()
        return checksum([*self.own.values(), *tables])


def is_reasoner(folder: str | Path) -> bool:
    return (Path(folder) / _ABOUT).exists()


def reasoner_is_whole(folder: Path) -> bool:
    """Whether all files exist and no weights are truncated, without loading them."""
    try:
        about = about_reasoner(folder)
        shapes_in(folder / _WEIGHTS)
        return about.get("predictor") is None or bool(shapes_in(folder / _PREDICTOR_WEIGHTS))
    except DataError:
        return False


def about_reasoner(folder: str | Path) -> dict[str, Any]:
    return open_about(Path(folder) / _ABOUT, _FORMAT)


def replace_reasoner(folder: Path, model: ReasonerModel, about: Mapping[str, Any]) -> None:
    """Replaces the weights in a folder that already has its names; atomic."""
    predictor = model.predictor
    kinds: dict[str, Any] = {
        "reasoner": REASONERS.name_of(type(model)),
        "predictor": PREDICTORS.name_of(type(predictor)) if predictor else None,
    }
    kinds["saved"] = checksum(model.state_dict().values())  # the files belong together
    if predictor:
        save_tensors(folder / _PREDICTOR_WEIGHTS, predictor.state_dict(), kinds)
    save_tensors(folder / _WEIGHTS, own_state(model), kinds)
    document = {"format": _FORMAT, "versions": versions(), **kinds}
    document["reasoning"] = asdict(model.settings)
    document["parameters"] = _counted(model)
    with listed_file(folder / _ABOUT) as scratch:
        save_json(scratch, {**document, **about, **list_mark(folder)})


def open_reasoner(
    folder: str | Path,
    graph: KnowledgeGraph,
    device: torch.device | str = "cpu",
    trust: Collection[str] = (),
    known: KnowledgeGraph | None = None,
    newer: bool = False,
) -> StoredReasoner:
    """A stored model of this graph, after checking that its parts are intact and belong together.

    It sees the facts in `known`, by default those of the graph's training split. With `newer` the
    graph may have other names than the model, which knows nothing of new ones: carrying_over.py. A
    class outside this installation is imported only if `trust` names it.
    """
    folder = Path(folder)
    weights = open_weights(folder, trust)
    tensors, predictor, about = weights.own, weights.predictor, weights.about
    match = weights.names.match_newer(graph, newer)
    with damage_named(folder):
        kind = REASONERS.find_trusted(about["reasoner"], trust, folder)
        reasoning = Reasoning(about["reasoner"], read_table(kind.Settings, about["reasoning"]))
        if match is not None:
            kind.check_newer(match)
        if match is not None and predictor is not None:
            predictor = on_newer_graph(predictor, match)
            tensors = _carried_over(tensors, about["predictor"], trust, folder, match)
        basis = Basis(known or graph.view(train_split(graph)), predictor)
        model = _filled(basis, reasoning, tensors, match is not None)
    model = model.to(device).requires_grad_(False).eval()
    return StoredReasoner(model, weights.names, about, match)


def open_weights(folder: Path, trust: Collection[str] = ()) -> StoredWeights:
    if not is_reasoner(folder):
        raise DataError(
            f"'{folder}' has no trained reasoner (no {_ABOUT}). Train one with 'clmpt train', or "
            "run the same command again to resume it."
        )
    about = about_reasoner(folder)
    tensors, header = open_tensors(folder / _WEIGHTS, WAY_OUT)
    names, predictor = StoredNames.open(folder, WAY_OUT), None
    with damage_named(folder):
        if any(about[name] != kind for name, kind in header.items()):
            raise KeyError("the weights belong to a different kind of model")
        if about["predictor"] is not None:
            stored, other = open_tensors(folder / _PREDICTOR_WEIGHTS, WAY_OUT)
            if other != header:
                raise KeyError("the predictor is another one")
            predictor = predictor_of(about["predictor"], stored, trust, folder)
            check_fit(folder, predictor, names)
    return StoredWeights(tensors, predictor, names, about)


def _carried_over(
    tensors: Mapping[str, Tensor],
    predictor: str,
    trust: Collection[str],
    folder: Path,
    match: NameMatch,
) -> dict[str, Tensor]:
    """A model's own tensors with the newer graph's ids, where they are a predictor's tables."""
    found, mark = dict(tensors), "entities_ED"
    for prefix in [name.removesuffix(mark) for name in tensors if name.endswith(mark)]:
        own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        moved = on_newer_graph(predictor_of(predictor, own, trust, folder), match)
        found |= {f"{prefix}{name}": tensor for name, tensor in moved.state_dict().items()}
    return found


def save_calibrations(folder: Path, calibrations: Mapping[str, AnswerCalibration]) -> None:
    with listed_file(folder / _CALIBRATION) as scratch:
        save_json(scratch, {name: one.as_plain() for name, one in calibrations.items()})


def has_calibrations(folder: Path) -> bool:
    return is_there(folder / _CALIBRATION)


def calibrations_in(folder: Path) -> dict[str, AnswerCalibration]:
    """How scores become probabilities, for each reasoner of the model, by name."""
    if not has_calibrations(folder):
        return {}
    path = folder / _CALIBRATION
    try:
        stored = open_json(path)
        return {name: AnswerCalibration.from_plain(stored[name]) for name in stored}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"'{path}' is damaged ({error}). {WAY_OUT}") from None


def own_state(model: ReasonerModel) -> dict[str, Tensor]:
    """A model's parameters and buffers, without its predictor's."""
    lent = {id(tensor) for tensor in _tensors(model.predictor)} if model.predictor else set()
    state: dict[str, Tensor] = model.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in state.items() if id(tensor) not in lent}


def parameter_counts(folder: Path) -> tuple[int, int]:
    """The numbers of trained and of frozen parameters of a stored model."""
    found = about_reasoner(folder).get("parameters")
    try:
        assert isinstance(found, dict)
        return int(found["trained"]), int(found["frozen"])
    except (AssertionError, KeyError, TypeError, ValueError):
        raise DataError(f"'{folder / _ABOUT}' is damaged. {WAY_OUT}") from None


def _filled(
    basis: Basis, reasoning: Reasoning, tensors: Mapping[str, Tensor], newer: bool
) -> ReasonerModel:
    """The model with these weights. Rejects a size mismatch before allocating memory."""
    with torch.device("meta"):
        outline = own_state(build_model(Basis(basis.graph, _outline(basis)), reasoning, seed=0))
    wanted = {name: tuple(tensor.shape) for name, tensor in outline.items()}
    if wanted != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        if newer:
            raise WrongGraph(
                "In the newer graph other relations are inverse to each other than in the model's, "
                "so it has no weights for some of them. Train one on the newer graph."
            )
        raise KeyError("the settings belong to a model of a different size")
    model = build_model(basis, reasoning, seed=0)
    with torch.no_grad():
        for name, tensor in own_state(model).items():
            tensor.copy_(tensors[name])
    return model


def _outline(basis: Basis) -> EmbeddingPredictor | None:
    """A predictor of the same kind and size on the meta device."""
    predictor = basis.predictor
    if predictor is None:
        return None
    entities_ED, relations_SW = (
        torch.empty_like(table, device="meta")
        for table in (predictor.entities_ED, predictor.relations_SW)
    )
    return type(predictor)(entities_ED, relations_SW, predictor.inverse_R)


def _tensors(module: torch.nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _counted(model: ReasonerModel) -> dict[str, int]:
    sizes = [(parameter.requires_grad, parameter.numel()) for parameter in model.parameters()]
    return {
        "trained": sum(size for trained, size in sizes if trained),
        "frozen": sum(size for trained, size in sizes if not trained),
    }
