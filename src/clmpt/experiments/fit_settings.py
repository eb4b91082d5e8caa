"""The settings of `fit`: chosen by graph size unless given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clmpt.errors import SettingError
from clmpt.experiments.costs import check_reasoning, products_per_question
from clmpt.experiments.recipes import Fitting, chosen_reasoner
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.objectives import is_sampled
from clmpt.predictors.predictor import read_pretraining
from clmpt.reasoners.model import read_reasoning, tables_of
from clmpt.registry import PREDICTORS, REASONERS
from clmpt.settings import Pretraining, Reasoning, Training, read_table

_TABLES = ("fitting", "pretraining", "reasoning", "training")
_REASONER = "hybrid"  # contains CLMPT and truth values; all are measured, and the best answers
# Operations of pre-training by default, at most: some hours on two cores, and a quarter of one.
_MOST_WORK = 10**15
_SAMPLED_WORK = 8 * 10**13


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
            "test_queries": 200,
            "tries": 3,
            "pretraining": {"rank": 32, "epochs": 100, "batch": 64, "patience": 10},
            "training": {**_SMALL_TRAINING, "steps": 300, "batch": 128, "validate_every": 100},
        },
    ),
    (
        5_000,
        {
            "queries": 5_000,
            "test_queries": 200,
            "tries": 3,
            "pretraining": {"rank": 64, "epochs": 100, "batch": 256, "patience": 10},
            "training": {**_SMALL_TRAINING, "steps": 600, "batch": 256, "validate_every": 150},
        },
    ),
    (
        50_000,
        {
            "queries": 20_000,
            "test_queries": 200,
            "tries": 1,
            "pretraining": {"rank": 200, "epochs": 10},
            "training": {**_LARGE_TRAINING, "steps": 1500, "validate_every": 250},
        },
    ),
    (
        200_000,
        {
            "queries": 20_000,
            "test_queries": 100,
            "tries": 1,
            "pretraining": {"rank": 128, "epochs": 10},
            "training": {**_LARGE_TRAINING, "steps": 2000, "validate_every": 1000},
        },
    ),
    (
        math.inf,
        {
            "queries": 5_000,
            "test_queries": 10,
            "tries": 1,
            "pretraining": {"rank": 64, "epochs": 10},
            "training": {
                **_LARGE_TRAINING,
                "steps": 500,
                "validate_every": 500,
                "validation_queries": 8,
                "entity_rows": "step",
            },
        },
    ),
)
# Where ten epochs of the full softmax take too long: docs/scaling.md has what was measured.
_SAMPLED: dict[str, Any] = {
    "rank": 64,
    "epochs": 20,
    "batch": 1024,
    "candidates": 1024,
    "learning_rate": 0.4,
    "decay": "linear",
    "initial_scale": 0.01,
    "regularisation": 0.001,
    "validation_links": 2000,
}


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
    chosen = replace(
        chosen,
        queries=chosen.queries or by_size["queries"],
        test_queries=chosen.test_queries or by_size["test_queries"],
    )
    tries = 1 if "regularisation" in given.get("pretraining", {}) else chosen.tries
    chosen = replace(chosen, tries=tries or by_size["tries"])
    seeded = {"seed": chosen.seed}
    asked = given.get("pretraining", {})
    before = _pretraining(graph, {**seeded, **by_size["pretraining"]}, asked)
    reasoner = chosen_reasoner({"reasoning": {"reasoner": _REASONER, **given.get("reasoning", {})}})
    kind = REASONERS.find(reasoner)
    own = {**kind.suggested(size), **tables_of(given.get("reasoning", {}), reasoner)}
    model = read_reasoning({**given.get("reasoning", {}), "reasoner": reasoner, reasoner: own})
    check_reasoning(model, before)
    after = read_table(Training, {**seeded, **by_size["training"], **given.get("training", {})})
    return FitSettings(chosen, before, model, after)


def _pretraining(
    graph: KnowledgeGraph, by_size: Mapping[str, Any], asked: Mapping[str, Any]
) -> Pretraining:
    """The full softmax where all its epochs are a matter of hours, or else a sample of entities;
    and no more epochs than that."""
    whole = read_pretraining({**by_size, **asked})
    can_sample = is_sampled(PREDICTORS.find(whole.model).objective, replace(whole, candidates=1))
    if _epochs(graph, whole, _MOST_WORK) >= whole.epochs or whole.candidates or not can_sample:
        most = _SAMPLED_WORK if whole.candidates else _MOST_WORK
        found = whole
    elif whole.relation_weight or "candidates" in asked:
        most, found = _MOST_WORK, whole
    else:
        most, found = _SAMPLED_WORK, read_pretraining({**by_size, **_SAMPLED, **asked})
    if "epochs" in asked:
        return found
    return replace(found, epochs=min(found.epochs, _epochs(graph, found, most)))


def _epochs(graph: KnowledgeGraph, settings: Pretraining, most: int) -> int:
    """How many take at most so many operations; at least one."""
    an_epoch = 2 * graph.index.triples * products_per_question(settings, len(graph.entities))
    return max(1, int(most // max(an_epoch, 1)))
