"""CQD-Beam (Arakelyan et al. 2021): combinatorial optimisation of a query by beam search.

Nothing is trained. A link predictor judges atoms; the truth of an answer is that of the whole query
with the best values found for its other variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from clmpt.errors import SettingError, UnsupportedQuery
from clmpt.logic.binding_order import binding_order
from clmpt.logic.formula import Formula, Not, Or, Query, atoms, children
from clmpt.logic.normal_form import variables_in
from clmpt.logic.quantifiers import narrowed, quantified
from clmpt.predictors.inner_products import InnerProductPredictor
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.decomposition_model import DecompositionModel
from clmpt.reasoners.decomposition.formula_search import Filled, Search
from clmpt.reasoners.decomposition.link_truth import LinkTruth, Truth
from clmpt.reasoners.truth_values.truth_values import log_odds
from clmpt.settings import Settings, setting

# Shapes: Q queries, E entities

_LEAST = 1e-9  # a truth value that counts as none
_UNITED = (
    "Raw scores cannot be united: for this query they are mapped to truth values by a sigmoid."
)


@dataclass(frozen=True)
class CQDBeamSettings(Settings):
    """How a query is searched, and what a score is worth."""

    beam: int = setting(64, "values of a variable kept for each way to bind those before", least=1)
    bindings: int = setting(4096, "ways to bind a query's variables kept in all", least=1)
    truth: Literal["raw", "sigmoid", "min-max", "softmax", "calibrated"] = setting(
        "sigmoid", "of a link, from its score"
    )
    t_norm: Literal["tuned", "product", "godel", "lukasiewicz"] = setting(
        "tuned", "of and; or's conorm follows. tuned: product or godel, on validation queries"
    )


class CQDBeam(DecompositionModel):
    title, Settings = "CQD-Beam", CQDBeamSettings
    rows_per_query = 330  # on average over the benchmark shapes, of which 3p needs most
    settings: CQDBeamSettings

    def reasoner(self) -> CQDBeamReasoner:
        return CQDBeamReasoner(self)

    @classmethod
    def check(
        cls,
        settings: CQDBeamSettings,
        predictor: type[EmbeddingPredictor],
        width: int,  # noqa: ARG003
    ) -> None:
        if settings.truth == "sigmoid" and not issubclass(predictor, InnerProductPredictor):
            raise SettingError(
                f"Scores of {predictor.__name__} are distances, whose sigmoids are next to "
                "nothing. Choose truth = 'calibrated' or 'softmax'."
            )
        if settings.truth == "raw" and settings.t_norm == "lukasiewicz":
            raise SettingError("'lukasiewicz' needs truth values from 0 to 1, not raw scores.")

    @classmethod
    def check_query(cls, settings: CQDBeamSettings, query: Query) -> None:
        formula, truth = _searched(query, settings.truth)
        if truth == "raw" and _has(Not, formula):
            raise UnsupportedQuery(
                "Raw scores cannot be negated", "Choose another truth, such as 'sigmoid'"
            )
        alternatives = formula.parts if isinstance(formula, Or) else (formula,)
        for part in alternatives:
            rest = [atom for out in binding_order(part, query.free).left_out for atom in atoms(out)]
            if rest:
                names = " and ".join(sorted(f"?{each.name}" for each in variables_in(rest)))
                raise UnsupportedQuery(
                    "Beam search starts from constants, and cannot judge what is said of "
                    f"{names} here: it would have to try all pairs of entities",
                    "Ask truth values: --reasoner truth-values",
                )


class CQDBeamReasoner:
    """Scores are truth values; with raw scores as truth values, any numbers."""

    name = CQDBeam.title

    def __init__(self, model: CQDBeam) -> None:
        self.model, self.settings = model, model.settings

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return torch.cat([self._scores(group) for group in groups if len(group)])

    def _scores(self, group: QueryGroup) -> Tensor:
        query, model, settings = group.template, self.model, self.settings
        self.check_query(query)
        formula, truth = _searched(query, settings.truth)
        search = Search(
            model.logic_of(query),
            LinkTruth(model.frozen, model.graph.index, truth),
            model.entities,
            len(model.graph.relations),
            settings.beam,
            settings.bindings,
        )
        return search.scores(formula, query.free, Filled(group, model.device))

    def strengths(self, scores_QE: Tensor) -> Tensor:
        if self.settings.truth == "raw":
            return scores_QE.log_softmax(1)
        return log_odds(scores_QE, _LEAST)

    def notes(self, query: Query) -> tuple[str, ...]:
        return (_UNITED,) if _searched(query, self.settings.truth)[1] != self.settings.truth else ()

    def check_query(self, query: Query) -> None:
        self.model.check_query(self.settings, query)


@lru_cache(maxsize=1024)
def _searched(query: Query, truth: Truth) -> tuple[Formula, Truth]:
    """The formula that is searched, and the truth values that its atoms get.

    The best values of variables that share no atom are independent, but not of products of raw
    scores: those may be negative.
    """
    formula = quantified(query)
    if truth == "raw" and _has(Or, formula):
        truth = "sigmoid"
    return narrowed(formula, independently=truth != "raw"), truth


def _has(kind: type[Not] | type[Or], formula: Formula) -> bool:
    return isinstance(formula, kind) or any(_has(kind, part) for part in children(formula))
