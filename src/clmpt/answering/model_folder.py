"""Finds the model and the graph in any folder made by training or fitting."""

from __future__ import annotations

from pathlib import Path

from clmpt.errors import DataError
from clmpt.graph.opening import GRAPH
from clmpt.predictors.predictor_folder import is_predictor
from clmpt.reasoners.reasoner_folder import is_reasoner
from clmpt.storage.checksums import is_there
from clmpt.storage.files import open_json, save_json
from clmpt.storage.run_folder import is_begun, is_finished, source_of
from clmpt.storage.sealing import listed_file

REASONER = "reasoner"  # in a fitted model's folder, next to its graph
PREDICTOR = "predictor"
CHOICE = "choice.json"  # which of its reasoners answers
RELIABILITY = "reliability.json"  # how well its probabilities hold


def weights_in(folder: str | Path) -> Path:
    """The checkpoint in a folder: the folder itself, or a subfolder of a fitted model."""
    folder = Path(folder)
    if not (folder / GRAPH).is_dir():
        return folder
    if is_begun(folder) and not is_finished(folder):
        raise DataError(f"'{folder}' is not finished. Run the same command again to resume it.")
    if not is_reasoner(folder / REASONER):
        raise DataError(f"'{folder}' is damaged: it has no model. Run the command again.")
    return folder / REASONER


def predictor_in(folder: str | Path) -> Path:
    """The link predictor in a folder: the folder itself, or a subfolder of a fitted model."""
    inside = Path(folder) / PREDICTOR
    return inside if is_predictor(inside) else weights_in(folder)


def choice_in(folder: str | Path) -> str | None:
    """The reasoner that `fit` found best; None for other folders."""
    path = Path(folder) / CHOICE
    if not is_there(path):
        return None
    chosen = open_json(path)
    if not isinstance(chosen, dict) or not isinstance(chosen.get("reasoner"), str):
        raise DataError(f"'{path}' is damaged. Remove it and run 'clmpt fit' again.")
    return str(chosen["reasoner"])


def save_choice(folder: Path, reasoner: str) -> None:
    with listed_file(folder / CHOICE) as scratch:
        save_json(scratch, {"reasoner": reasoner})


def graph_of(folder: str | Path) -> str:
    """The graph's path: in a fitted model's folder, or where it was in training."""
    folder = Path(folder)
    if (folder / GRAPH).is_dir():
        return str(folder / GRAPH)
    if not (is_begun(folder) or is_predictor(folder) or is_reasoner(folder)):
        if folder.is_file():
            raise DataError(
                f"'{folder}' is a file, not a model. Train one on it with 'clmpt fit {folder}', or "
                "get exact answers with 'clmpt solve'."
            )
        raise DataError(
            f"'{folder}' is not a model. Make one with 'clmpt fit', or with 'clmpt pretrain' "
            "and 'clmpt train'."
        )
    source = source_of(folder)
    if source is None or not Path(source).exists():
        raise DataError(f"The graph of '{folder}' has moved. Use --graph FOLDER.")
    return source
