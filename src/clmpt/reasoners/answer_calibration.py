"""From a reasoner's scores to the probability that an answer is right.

Fitted on validation queries: of the candidates that are not known answers, how often is one with
such a score among the hidden ones? The slope and the bias depend on the kind of question (hops,
negation). As with links, the split 'valid' has only some of the hidden facts, and the likelihood
accounts for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.predictors.calibration import log_likelihood
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.question_kinds import KINDS, kind_of
from clmpt.reasoners.reasoner import Reasoner

# Shapes: Q queries, E entities, X candidates, K kinds of questions

_CANDIDATES = 30  # the best ones of a query
_AT_ONCE = 64  # queries
_SHRINKAGE = 1.0  # how strongly kinds are pulled towards each other
_PRIOR = 0.01  # how strongly all are pulled towards probabilities as they are: without data
_FLATTEST = 0.05  # a better score is never less likely
MOST = 0.999  # nothing that is not known is certain


@dataclass(frozen=True)
class AnswerCalibration:
    """A slope and a bias for each kind of question."""

    slope_K: tuple[float, ...]
    bias_K: tuple[float, ...]

    def probabilities(self, reasoner: Reasoner, scores_QE: Tensor, kind: int) -> Tensor:
        """The probability of every entity, for queries of one kind."""
        strength_QE = strengths(reasoner, scores_QE)
        odds_QE = self.slope_K[kind] * strength_QE + self.bias_K[kind]
        return odds_QE.sigmoid().clamp_max(MOST)

    def as_plain(self) -> dict[str, Any]:
        return {"kinds": [list(kind) for kind in KINDS], "slope": self.slope_K, "bias": self.bias_K}

    @classmethod
    def from_plain(cls, plain: Any) -> AnswerCalibration:
        """Raises KeyError, TypeError or ValueError if `plain` is none of ours."""
        columns = [tuple(float(value) for value in plain[name]) for name in ("slope", "bias")]
        numbers = [*columns[0], *columns[1]]
        if len(numbers) != 2 * len(KINDS) or not np.isfinite(numbers).all():
            raise ValueError("a calibration has a slope and a bias for each kind of question")
        return cls(*columns)


def strengths(reasoner: Reasoner, scores_QE: Tensor) -> Tensor:
    """Scores as logarithms that mean the same in every query: the reasoner's own, or a softmax."""
    own = getattr(reasoner, "strengths", None)
    found: Tensor = own(scores_QE) if own else scores_QE.log_softmax(1)
    return found


def calibrate_answers(
    reasoner: Reasoner,
    queries: Sequence[QueryGroup],
    share: float,
    progress: ReportProgress = silent,
) -> AnswerCalibration:
    """Fitted to queries of the split 'valid' that have hard answers; its facts are `share` of all
    hidden ones."""
    parts, done = [], 0
    for group in queries:
        parts.append(_candidates(reasoner, group))
        done += len(group)
        progress(Progress(group.name, done, sum(map(len, queries))))
    kind_X, strength_X, true_X = (torch.cat(column) for column in zip(*parts, strict=True))
    return _fitted(kind_X, strength_X.double(), true_X, share)


def _candidates(reasoner: Reasoner, group: QueryGroup) -> tuple[Tensor, Tensor, Tensor]:
    """The best candidates of each query that are not known answers, and which are hidden ones."""
    strength, true = [], []
    for start in range(0, len(group), _AT_ONCE):
        part = group.take(slice(start, start + _AT_ONCE))
        scores_QE = reasoner.score([part]).cpu()
        strength_QE = strengths(reasoner, scores_QE)
        strength_QE[part.easy.owners, np.asarray(part.easy.entities, np.int64)] = -torch.inf
        true_QE = torch.zeros_like(strength_QE, dtype=torch.bool)
        true_QE[part.hard.owners, np.asarray(part.hard.entities, np.int64)] = True
        best = strength_QE.topk(min(_CANDIDATES, strength_QE.shape[1]), 1)
        use = best.values.isfinite()
        strength.append(best.values[use])
        true.append(true_QE.gather(1, best.indices)[use])
    found = torch.cat(strength)
    return torch.full((len(found),), kind_of(group.template)), found, torch.cat(true)


def _fitted(kind_X: Tensor, strength_X: Tensor, true_X: Tensor, share: float) -> AnswerCalibration:
    start_2 = torch.tensor([1.0, 0.0], dtype=torch.float64)
    common_2 = start_2.clone().requires_grad_()
    own_K2 = torch.zeros(len(KINDS), 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([common_2, own_K2], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        slope_X, bias_X = (common_2 + own_K2)[kind_X].unbind(1)
        likelihood_X = log_likelihood(slope_X * strength_X + bias_X, true_X, share)
        total: Tensor = -likelihood_X.sum() + _SHRINKAGE * (own_K2**2).sum()
        total = total + _PRIOR * ((common_2 - start_2) ** 2).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    found_K2 = (common_2 + own_K2).detach()
    slopes = found_K2[:, 0].clamp(min=_FLATTEST)
    return AnswerCalibration(tuple(slopes.tolist()), tuple(found_K2[:, 1].tolist()))
