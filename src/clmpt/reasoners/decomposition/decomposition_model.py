"""What both ways to optimise a query share: a predictor as it is, and a t-norm that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clmpt.evaluation.measuring import evaluate
from clmpt.logic.formula import Query
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.fuzzy_logic import LOGICS, FuzzyLogic
from clmpt.reasoners.model import Basis, ReasonerModel
from clmpt.reasoners.question_kinds import KINDS, kind_of

# Shapes: K kinds of questions, T t-norms that are tried

TUNED = "tuned"
_TRIED = ("product", "godel")  # as in the paper


class DecompositionModel(ReasonerModel):
    """`t_norm` of its settings is a name in `LOGICS`, or `tuned`: chosen on validation queries, for
    each kind of question (hops, negation). The paper chooses for each shape."""

    norm_K: Tensor

    def __init__(
        self, basis: Basis, settings: Any, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(basis, settings, generator)
        self.check(settings, type(self.frozen), self.frozen.entities_ED.shape[1])
        self.graph = basis.graph
        self.register_buffer("norm_K", torch.zeros(len(KINDS), dtype=torch.int64))

    @property
    def frozen(self) -> EmbeddingPredictor:
        assert self.predictor is not None
        return self.predictor

    @property
    def device(self) -> torch.device:
        return self.frozen.entities_ED.device

    def logic_of(self, query: Query) -> FuzzyLogic:
        """The logic for a query."""
        chosen = self.settings.t_norm
        return LOGICS[_TRIED[int(self.norm_K[kind_of(query)])] if chosen == TUNED else chosen]

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        if self.settings.t_norm != TUNED:
            return
        mrr_TK = torch.zeros(len(_TRIED), len(KINDS))
        for number in range(len(_TRIED)):
            self.norm_K.fill_(number)
            for group in queries:
                mrr_TK[number, kind_of(group.template)] += evaluate(self.reasoner(), [group]).mean
        self.norm_K.copy_(mrr_TK.argmax(0))
