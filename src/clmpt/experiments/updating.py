"""A fitted model of a graph that has changed since: what an update starts from and where it goes.

An update is a fit in a folder of its own, which starts from the weights of the model before. When
it is finished the folders change places, so the model can be asked all the time, and a kill at any
moment leaves a state from which the same command goes on.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.answering.model_folder import PREDICTOR, REASONER
from clmpt.errors import DataError
from clmpt.experiments.fit_settings import FitSettings
from clmpt.experiments.recipes import Fitting
from clmpt.graph.edges import AnyInts, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH
from clmpt.graph.splits import train_split
from clmpt.predictors.predictor_folder import (
    StoredPredictor,
    about_predictor,
    is_predictor,
    open_predictor,
)
from clmpt.reasoners.model import read_reasoning
from clmpt.reasoners.reasoner_folder import StoredWeights, open_weights
from clmpt.settings import Pretraining, Training, read_table
from clmpt.storage.run_folder import identity_of, is_begun, is_finished

_TABLES = ("fitting", "pretraining", "reasoning", "training")
_EPOCHS, _STEPS = 3, 4  # an update has one in so many of them


@dataclass(frozen=True)
class Previous:
    """A finished fit of an older state of the graph."""

    folder: Path

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """Divided: what was held out from training stays held out."""
        return KnowledgeGraph.open(self.folder / GRAPH)

    def predictor(self, trust: list[str]) -> StoredPredictor | None:
        path = self.folder / PREDICTOR
        return open_predictor(path, trust=trust) if is_predictor(path) else None

    def start(self, trust: list[str]) -> StoredWeights:
        return open_weights(self.folder / REASONER, trust)

    def shortened(self, settings: FitSettings) -> FitSettings:
        """For an update: fewer epochs and steps, and the regularisation that was best before."""
        path, before, after = self.folder / PREDICTOR, settings.pretraining, settings.training
        chosen = about_predictor(path).get("settings", {}) if is_predictor(path) else {}
        found = chosen.get("regularisation") if isinstance(chosen, dict) else None
        before = replace(
            before,
            regularisation=found if isinstance(found, float) else before.regularisation,
            epochs=math.ceil(before.epochs / _EPOCHS),
        )
        after = replace(
            after,
            steps=math.ceil(after.steps / _STEPS),
            epochs=math.ceil(after.epochs / _STEPS),
            validate_every=math.ceil(after.validate_every / _STEPS),
        )
        return replace(settings, pretraining=before, training=after)

    def is_outdated(self, graph: KnowledgeGraph) -> bool:
        """Whether the graph has changed since; another order of the same facts is no change."""
        return len(graph.splits) > 1 or bool(changes(self.graph, graph))


def fit_of_other_names(out: Path, graph: KnowledgeGraph) -> Previous | None:
    """The finished fit in a folder, if its graph had other names or facts, or another order."""
    found = identity_of(out) if is_finished(out) else {}
    is_other = found.get("kind") == "fit" and found.get("graph") != graph.identity
    return Previous(out) if is_other else None


def previous_fit(out: Path, graph: KnowledgeGraph) -> Previous | None:
    """The finished fit in a folder, if its graph has changed since."""
    found = fit_of_other_names(out, graph)
    return found if found and found.is_outdated(graph) else None


def same_settings(previous: Previous, given: Mapping[str, Mapping[str, Any]]) -> FitSettings:
    """The settings of the fit before, with what is given now: an update keeps them even if the
    graph has grown into another size."""
    found = identity_of(previous.folder)
    try:
        tables = {name: {**found[name], **given.get(name, {})} for name in _TABLES}
    except (KeyError, TypeError):
        raise DataError(f"'{previous.folder}' is damaged. Choose another folder.") from None
    return FitSettings(
        read_table(Fitting, tables["fitting"]),
        read_table(Pretraining, tables["pretraining"]),
        read_reasoning(tables["reasoning"]),
        read_table(Training, tables["training"]),
    )


# --- folders --------------------------------------------------------------------------------------


def update_folder(out: Path) -> Path:
    return out.with_name(out.name + ".update")


def previous_folder(out: Path) -> Path:
    return out.with_name(out.name + ".previous")


def finish_exchange(out: Path) -> None:
    """Completes an exchange that was interrupted half-way."""
    if not out.exists() and is_finished(update_folder(out)):
        update_folder(out).rename(out)


def exchange(out: Path) -> None:
    """Puts the finished update in place; the model before is kept, the one before that is not."""
    kept = previous_folder(out)
    if kept.exists():
        if not is_begun(kept):
            raise DataError(f"'{kept}' is in the way. Move it, and run the same command again.")
        shutil.rmtree(kept)
    out.rename(kept)
    update_folder(out).rename(out)


# --- what changed ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changes:
    entities: int  # new ones
    relations: int
    facts: int
    gone: int  # facts

    def __bool__(self) -> bool:
        return any((self.entities, self.relations, self.facts, self.gone))


def changes(before: KnowledgeGraph, graph: KnowledgeGraph) -> Changes:
    was = _Renumbered(before, graph)
    same = np.isin(was.facts(graph.triples()), was.codes(before.triples()))
    return Changes(
        int((was.entity_E < 0).sum()),
        int((was.relation_R < 0).sum()),
        int((~same).sum()),
        before.index.triples - int(same.sum()),
    )


def refuse_seen(previous: Previous, divided: KnowledgeGraph) -> None:
    """Rejects a graph that holds out facts which the model before was trained on: figures on them
    would be too good."""
    before = previous.graph
    was, seen = _Renumbered(before, divided), before.triples(train_split(before))
    held = [divided.triples(name) for name in ("valid", "test") if name in divided.splits]
    count = sum(int(np.isin(was.facts(rows), was.codes(seen)).sum()) for rows in held)
    if count:
        raise DataError(
            f"{count:,} of the facts that are held out now were trained on before, so the figures "
            "would be too good. Train a new model, in another folder."
        )


class _Renumbered:
    """Facts of a graph in the numbers of an older state of it."""

    def __init__(self, before: KnowledgeGraph, graph: KnowledgeGraph) -> None:
        self.entities, self.relations = len(before.entities), len(before.relations)
        self.entity_E = before.entities.names.ids_of(graph.entities.names)
        self.relation_R = before.relations.names.ids_of(graph.relations.names)

    def facts(self, rows: AnyInts) -> Ints:
        """A number for each fact, as `codes` gives it to the older graph's; -1 if it is new."""
        head, relation, tail = rows.T
        moved = np.stack([self.entity_E[head], self.relation_R[relation], self.entity_E[tail]], 1)
        return np.where((moved >= 0).all(1), self.codes(moved), -1)

    def codes(self, rows: AnyInts) -> Ints:
        head, relation, tail = rows.astype(np.int64).T
        code: Ints = (head * self.relations + relation) * self.entities + tail
        return code
