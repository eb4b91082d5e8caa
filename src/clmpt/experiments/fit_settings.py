"""The settings of `fit`: chosen by graph size unless given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clmpt.errors import SettingError
from clmpt.experiments.costs import check_reasoning, predictor_width
from clmpt.experiments.recipes import Fitting, chosen_reasoner
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor import read_pretraining
from clmpt.reasoners.model import read_reasoning, tables_of
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Reasoning, Training, read_table

_TABLES = ("fitting", "pretraining", "reasoning", "training")
_REASONER = "hybrid"  # contains CLMPT and truth values; all are measured, and the best answers
_MOST_WORK = 4 * 10**15  # maximum operations of pre-training by default: about a day on two cores


@dataclass(frozen=True)
class FitSettings:
    """All the settings of a fit."""

    fitting: Fitting
    pretraining: Pretraining
    reasoning: Reasoning
    training: Training

    def as_plain(self) -> dict[str, Any]:
        return {**asdict(self), "reasoning": self.reasoning.as_plain()}


_SMALL_TRAINING = {"learning_rate": 2e-3, "decay": "cosine", "clip": 1.0, "negatives": "all"}
_LARGE_TRAINING = {"batch": 512, "learning_rate": 3e-4, "warm_up": 30}

# Settings by the maximum number of entities.
_BY_SIZE: tuple[tuple[float, dict[str, Any]], ...] = (
    (
        200,
        {
            "queries": 500,
            "tries": 3,
            "pretraining": {"rank": 32, "epochs": 100, "batch": 64, "patience": 10},
            "training": {**_SMALL_TRAINING, "steps": 300, "batch": 128, "validate_every": 100},
        },
    ),
    (
        5_000,
        {
            "queries": 5_000,
            "tries": 3,
            "pretraining": {"rank": 64, "epochs": 100, "batch": 256, "patience": 10},
            "training": {**_SMALL_TRAINING, "steps": 600, "batch": 256, "validate_every": 150},
        },
    ),
    (
        50_000,
        {
            "queries": 20_000,
            "tries": 1,
            "pretraining": {"rank": 200, "epochs": 10},
            "training": {**_LARGE_TRAINING, "steps": 1500, "validate_every": 250},
        },
    ),
    (
        math.inf,
        {
            "queries": 20_000,
            "tries": 1,
            "pretraining": {"rank": 64, "epochs": 10},
            "training": {**_LARGE_TRAINING, "steps": 2000, "validate_every": 500},
        },
    ),
)


def fit_settings(
    graph: KnowledgeGraph, given: Mapping[str, Mapping[str, Any]] | None = None
) -> FitSettings:
    """Settings by graph size; those in `given`, by table, take precedence.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b")])
    >>> fit_settings(graph, {"pretraining": {"rank": 8}}).pretraining.rank
    8
    """
    given, size = given or {}, len(graph.entities)
    for name in given:
        if name not in _TABLES:
            raise SettingError(f"There is no table '{name}'. Available: {', '.join(_TABLES)}.")
    by_size = next(tables for most, tables in _BY_SIZE if size <= most)
    chosen = read_table(Fitting, given.get("fitting", {}))
    chosen = replace(chosen, queries=chosen.queries or by_size["queries"])
    tries = 1 if "regularisation" in given.get("pretraining", {}) else chosen.tries
    chosen = replace(chosen, tries=tries or by_size["tries"])
    seeded = {"seed": chosen.seed}
    asked = given.get("pretraining", {})
    before = read_pretraining({**seeded, **by_size["pretraining"], **asked})
    if "epochs" not in asked:
        an_epoch = 12 * graph.index.triples * size * predictor_width(before)
        before = replace(before, epochs=max(1, min(before.epochs, _MOST_WORK // max(an_epoch, 1))))
    reasoner = chosen_reasoner({"reasoning": {"reasoner": _REASONER, **given.get("reasoning", {})}})
    kind = REASONERS.find(reasoner)
    own = {**kind.suggested(size), **tables_of(given.get("reasoning", {}), reasoner)}
    model = read_reasoning({**given.get("reasoning", {}), "reasoner": reasoner, reasoner: own})
    check_reasoning(model, before)
    after = read_table(Training, {**seeded, **by_size["training"], **given.get("training", {})})
    return FitSettings(chosen, before, model, after)
