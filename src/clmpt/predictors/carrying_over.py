"""A predictor's embeddings on another graph, matched by name: a newer state of its own graph.

Embeddings carry over to a predictor that is trained on the newer graph, which starts from them, or
to one that only answers questions there. For the latter, what is new has an embedding of zeros,
which stands for *not known to the predictor*: nothing is predicted about it. Weights that belong to
no name carry over as they are.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clmpt.errors import DataError
from clmpt.graph.stored_names import NameMatch
from clmpt.predictors.predictor import TABLES, EmbeddingPredictor

# Shapes: E entities, R relations and S rows of the newer graph, N those that are not new


@torch.no_grad()
def carry_over(old: EmbeddingPredictor, into: EmbeddingPredictor, match: NameMatch) -> None:
    """Copies the embeddings of all names that both have; those of new names stay as they are."""
    widths = [(one.entities_ED.shape[1], one.relations_SW.shape[1]) for one in (old, into)]
    if type(old) is not type(into) or widths[0] != widths[1]:
        raise DataError(
            f"A {type(into).__name__} of width {into.entities_ED.shape[1]} cannot start from a "
            f"{type(old).__name__} of width {old.entities_ED.shape[1]}."
        )
    device = into.entities_ED.device
    others = dict(old.named_parameters())
    for name, weight in into.named_parameters():
        if name not in TABLES:
            weight.copy_(others[name])
    own_E = match.entity_E[into.shard.start : into.shard.stop]
    here_N = np.flatnonzero(own_E >= 0)
    there_N = torch.from_numpy(own_E[here_N])
    source_ED = old.entities_ED.detach()
    into.entities_ED[torch.from_numpy(here_N).to(device)] = source_ED[there_N].to(device)
    here_N = np.flatnonzero(match.relation_R >= 0)
    there_N = torch.from_numpy(match.relation_R[here_N])
    relations, before = len(into.inverse_R), len(old.inverse_R)
    for backwards in (True, False):  # a relation's own row last: an inverse may share it
        asked_N = torch.from_numpy(here_N).to(device) + backwards * relations
        found_N = there_N + backwards * before
        row_N = into.rows(asked_N)
        own_N, shard = into.relation_shard.has(row_N), into.relation_shard
        into.relations_SW[row_N[own_N] - shard.start] = (
            old.directed(found_N).detach().to(device)[own_N]
        )
        into.calibration_SC[row_N] = old.calibration_SC[old.rows(found_N)].to(device)


def on_newer_graph(old: EmbeddingPredictor, match: NameMatch) -> EmbeddingPredictor:
    """The predictor with the newer graph's ids; zeros stand for what is new."""
    entities, relations = len(match.entity_E), len(match.relation_R)
    found = type(old)(
        old.entities_ED.new_zeros(entities, old.entities_ED.shape[1]),
        old.relations_SW.new_zeros(2 * relations, old.relations_SW.shape[1]),
        torch.arange(relations) + relations,
    )
    found.calibration_SC.copy_(old.calibration_SC.mean(0))
    carry_over(old, found, match)
    return found.requires_grad_(False)


def is_unknown(table_ND: Tensor) -> Tensor:
    """Which rows of a table stand for something that the predictor does not know."""
    found_N = table_ND.detach()[:, 0] == 0  # few of them if any, so the table is not read whole
    rows = found_N.nonzero().squeeze(1)
    found_N[rows] = ~table_ND.detach()[rows].any(1)
    return found_N
