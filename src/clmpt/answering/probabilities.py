"""The probabilities that a model gives to what it would list, next to what is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from clmpt.answering.asked_model import AskedModel
from clmpt.compute.chunks import rows_at_once
from clmpt.errors import DataError
from clmpt.evaluation.ranks import Floats, united
from clmpt.evaluation.reliability import Reliability, reliability
from clmpt.graph.edges import Bools
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.question_kinds import MOST_HOPS, hops_of
from clmpt.symbolic.solver import solve_many

# Shapes: Q queries, E entities, X answers that would be listed

LISTED = 10  # predictions of a query


@dataclass(frozen=True)
class Said:
    """Predictions of one shape: how likely they were said to be, and which are true."""

    hops: int
    chance_X: Floats
    true_X: Bools


def said_and_true(
    asked: AskedModel,
    groups: Sequence[QueryGroup],
    trained_on: KnowledgeGraph,
    progress: ReportProgress = silent,
) -> list[Said]:
    """The ten likeliest answers of each query that do not follow from the facts that the model was
    trained on, and whether they are answers on the full graph: easy or hard ones of the query."""
    found, done, total = [], 0, sum(map(len, groups))
    for group in groups:
        step = min(1024, rows_at_once(len(trained_on.entities)))
        for start in range(0, len(group), step):
            found.append(_said(asked, group.take(slice(start, start + step)), trained_on))
            done += min(step, len(group) - start)
            progress(Progress(group.name, done, total))
    return found


def _said(asked: AskedModel, group: QueryGroup, trained_on: KnowledgeGraph) -> Said:
    scores_QE = asked.reasoner.score([group]).cpu()
    chance_QE = asked.chances(group.template, scores_QE)
    if chance_QE is None:
        raise DataError(
            "The model is not calibrated, so it gives no probabilities. Train it on a graph with "
            "facts in the split 'valid'."
        )
    seen = solve_many(group.template, trained_on, group.entities, group.relations)
    chance_QE[_places(seen)] = -1
    true_QE = torch.zeros_like(chance_QE, dtype=torch.bool)
    true_QE[_places(united(group.easy, group.hard))] = True
    best = chance_QE.topk(min(LISTED, chance_QE.shape[1]), 1)
    listed = best.values > 0
    true_X = true_QE.gather(1, best.indices)[listed].numpy()
    hops = min(hops_of(group.template), MOST_HOPS)
    return Said(hops, best.values[listed].double().numpy(), true_X)


def _places(sets: AnswerSets) -> tuple[torch.Tensor, torch.Tensor]:
    entities = np.asarray(sets.entities, np.int64)
    return torch.from_numpy(sets.owners), torch.from_numpy(entities)


def by_hops(said: Sequence[Said]) -> list[Reliability]:
    """The reliability of all predictions, and by the number of hops."""
    hops = sorted({one.hops for one in said})
    names = {0: "all", **{n: f"{n} hop" + "s" * (n > 1) for n in hops}}
    names[MOST_HOPS] = f"{MOST_HOPS} hops or more"
    found = []
    for number in (0, *hops):
        own = [one for one in said if number in (0, one.hops)]
        chance_X = np.concatenate([one.chance_X for one in own])
        true_X = np.concatenate([one.true_X for one in own])
        found.append(reliability(names[number], chance_X, true_X))
    return found
