"""Truth values of links: what a predictor's scores are worth in fuzzy logic."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from clmpt.graph.edges import EdgeIndex
from clmpt.predictors.calibration import Sharpening, is_calibrated
from clmpt.predictors.predictor import EmbeddingPredictor

# Shapes: P one-hop questions, E entities

Truth: TypeAlias = Literal["raw", "sigmoid", "min-max", "softmax", "calibrated"]


class LinkTruth:
    """truth_PE of every entity as the answer to a one-hop question.

    All but `raw` are from 0 to 1. `sigmoid` is what papers write, but scores above 17 are all 1 in
    single precision. `calibrated` is the probability that the link is there, given how many answers
    are known; without calibration it is softmax × known answers.
    """

    def __init__(self, predictor: EmbeddingPredictor, index: EdgeIndex, kind: Truth) -> None:
        self.predictor, self.index, self.kind = predictor, index, kind
        self.sharpening = Sharpening("calibrated" if is_calibrated(predictor) else "count")

    def __call__(self, entity_P: Tensor, directed_P: Tensor) -> Tensor:
        scores_PE = self.predictor.score_answers(entity_P, directed_P)
        if self.kind == "raw":
            return scores_PE
        if self.kind == "sigmoid":
            return scores_PE.sigmoid_()  # eq:cqd-atom
        if self.kind == "min-max":
            least_P1, most_P1 = scores_PE.amin(1, keepdim=True), scores_PE.amax(1, keepdim=True)
            return scores_PE.sub_(least_P1).div_((most_P1 - least_P1).clamp_min(1e-9))
        if self.kind == "softmax":
            return scores_PE.softmax(1)
        start_P, stop_P = self.index.ranges(entity_P.cpu().numpy(), directed_P.cpu().numpy())
        known_P = torch.from_numpy(stop_P - start_P).to(scores_PE.device)
        slope_P, offset_P = self.sharpening.terms(self.predictor, directed_P, known_P)
        log_PE = scores_PE.log_softmax(1)
        return self.sharpening.values(log_PE, slope_P[:, None], offset_P[:, None])
