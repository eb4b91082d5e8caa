"""Cosines of each answer with its own candidates, without copying any candidate's embedding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.predictors.predictor import EmbeddingPredictor, look_up
from clmpt.reasoners.model import Candidates
from clmpt.reasoners.pair_scores import pair_scores

_SHORTEST = 1e-12  # as in torch's normalize: a zero vector has cosine 0 with everything

# Shapes: Q queries, G graphs, C constants, K candidates of each, U rows of a table, E entities,
# D width


@dataclass(frozen=True)
class CandidateRows:
    """Rows of the entity table with their norms, and the positions of a step's entities."""

    rows_UD: Tensor
    length_U1: Tensor
    constant_C: Tensor
    positive_Q: Tensor
    negative_QK: Tensor | None


class CandidateTable:
    """A predictor's entity table, for lookups in a training step.

    A frozen table is used in place, so the cost of a step with sampled negatives does not depend
    on its size. From a trainable table, the rows that a step needs are gathered once.
    """

    def __init__(self, predictor: EmbeddingPredictor) -> None:
        self.predictor = predictor
        self.frozen_length_E1: Tensor | None = None

    def rows(self, constant_C: Tensor, candidates: Candidates) -> CandidateRows:
        table_ED: Tensor = self.predictor.entities_ED
        positive_Q, negative_QK = candidates.positive_Q, candidates.negative_QK
        if not table_ED.requires_grad:
            if self.frozen_length_E1 is None:
                self.frozen_length_E1 = lengths(table_ED)
            return CandidateRows(
                table_ED, self.frozen_length_E1, constant_C, positive_Q, negative_QK
            )
        if negative_QK is None:
            return CandidateRows(table_ED, table_ED.new_empty(0), constant_C, positive_Q, None)
        parts = [constant_C, positive_Q, negative_QK.flatten()]
        found_U, place = torch.unique(torch.cat(parts), return_inverse=True)
        rows_UD = functional.embedding(found_U, table_ED, sparse=candidates.by_rows)
        constant, positive, negative = torch.split(place, [len(part) for part in parts])
        return CandidateRows(
            rows_UD, lengths(rows_UD), constant, positive, negative.view_as(negative_QK)
        )


def lengths(rows_UD: Tensor) -> Tensor:
    """length_U1, the norm of each row, never 0."""
    return torch.linalg.vector_norm(rows_UD, dim=1, keepdim=True).clamp_min(_SHORTEST)  # type: ignore[no-any-return]


def pair_cosines(
    unit_GD: Tensor, rows_UD: Tensor, length_U1: Tensor, candidate_GK: Tensor
) -> Tensor:
    """cosines_GK of normalised queries with candidates that need not be normalised.

    Dividing the products by the candidates' norms avoids a normalised copy of the table.
    """
    length_GK = look_up(length_U1, candidate_GK).squeeze(-1)
    return pair_scores(unit_GD, rows_UD, candidate_GK) / length_GK
