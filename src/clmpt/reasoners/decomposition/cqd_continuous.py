"""CQD-CO (Arakelyan et al. 2021): continuous optimisation of a query.

Each variable has an embedding of its own, which gradient ascent moves to where the query is most
true. Then every entity takes the place of the free variable, and how true the query is of it is its
score. Nothing is learnt from queries, and no query's result depends on the others of its batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from clmpt.compute.chunks import rows_at_once
from clmpt.errors import SettingError
from clmpt.logic.binding_order import distances
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Not,
    Query,
    Term,
    Variable,
    atoms,
    conjunction,
    disjunction,
)
from clmpt.logic.normal_form import variables_in
from clmpt.logic.quantifiers import apart, quantified, some_not
from clmpt.logic.query_graph import NEGATED_GROUP
from clmpt.predictors.inner_products import DiagonalPredictor, InnerProductPredictor
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.decomposition_model import DecompositionModel
from clmpt.reasoners.decomposition.formula_search import Filled
from clmpt.reasoners.decomposition.fuzzy_logic import FuzzyLogic
from clmpt.reasoners.truth_values.truth_values import log_odds
from clmpt.settings import Settings, setting

# Shapes: Q queries, V variables, E entities, D width of an entity, W of a relation

_LEAST = 1e-9  # a truth value that counts as none
_SEED = 0
_NUMBERS = 16  # that a query needs for each dimension, about
_MEAN, _SQUARE, _TINY = 0.9, 0.999, 1e-8  # of Adam


@dataclass(frozen=True)
class CQDContinuousSettings(Settings):
    """How the variables' embeddings are optimised."""

    t_norm: Literal["tuned", "product", "godel"] = setting(
        "tuned", "of and; or's conorm follows. tuned: product or godel, on validation queries"
    )
    iterations: int = setting(1000, "steps of Adam for a query, at most", least=0)
    rate: float = setting(0.1, "learning rate of Adam", above=0)
    shrinkage: float = setting(0.0, "weight decay of Adam", least=0)
    tolerance: float = setting(1e-9, "change of a query's loss at which it stops", least=0)
    initial_scale: float = setting(1e-3, "scale of the initial embeddings", above=0)
    regularisation: float = setting(0.05, "weight of N3 (complex, distmult)", least=0)
    regularised: Literal["variables", "atoms"] = setting(
        "variables", "a variable counts once, or once for each of its atoms"
    )
    loss: Literal["query", "batch"] = setting(
        "query", "what is optimised, and stopped: each query apart, or the mean of a batch"
    )
    scored: Literal["query", "answer"] = setting(
        "query", "what answers are scored by: the whole query, or the atoms of its free variable"
    )


class CQDContinuous(DecompositionModel):
    title, Settings = "CQD-CO", CQDContinuousSettings
    settings: CQDContinuousSettings

    def reasoner(self) -> CQDContinuousReasoner:
        return CQDContinuousReasoner(self)

    @classmethod
    def check(
        cls,
        settings: CQDContinuousSettings,
        predictor: type[EmbeddingPredictor],
        width: int,  # noqa: ARG003
    ) -> None:
        if not issubclass(predictor, InnerProductPredictor):
            raise SettingError(
                f"{cls.title} takes sigmoids of scores, and those of {predictor.__name__} are "
                "distances. Choose a predictor such as complex, or the reasoner cqd-beam with "
                "truth = 'calibrated'."
            )
        if settings.regularisation and not issubclass(predictor, DiagonalPredictor):
            raise SettingError(
                f"{predictor.__name__} has no N3 regulariser. Set the regularisation to 0."
            )


class CQDContinuousReasoner:
    """Scores are truth values."""

    name = CQDContinuous.title

    def __init__(self, model: CQDContinuous) -> None:
        self.model, self.settings = model, model.settings

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        width = self.model.frozen.entities_ED.shape[1]
        step = rows_at_once(max(self.model.entities, _NUMBERS * width))
        return torch.cat(
            [
                self.scores_from(group.take(slice(start, start + step)))
                for group in groups
                for start in range(0, len(group), step)
            ]
        )

    @torch.no_grad()
    def scores_from(self, group: QueryGroup, start_QVD: Tensor | None = None) -> Tensor:
        """scores_QE, from other initial embeddings of the variables if they are given: in the order
        in which a query names them."""
        query, entities_ED = group.template, self.model.frozen.entities_ED.detach()
        plan = _planned(query)
        problem = _Problem(plan, self.model.frozen, Filled(group, entities_ED.device))
        if start_QVD is None:
            # The same for all variables, so that neither their names nor their order matters.
            drawn_D = torch.randn(
                entities_ED.shape[1], generator=torch.Generator().manual_seed(_SEED)
            )
            start_QVD = drawn_D.to(entities_ED).mul(self.settings.initial_scale)
            start_QVD = start_QVD.repeat(len(group), len(plan.variables), 1)
        logic = self.model.logic_of(query)
        if len(plan.variables) > 1:
            start_QVD = self._optimised(problem, logic, start_QVD)
        formula = plan.formula
        if self.settings.scored == "answer":
            formula = _about(formula, query.free) or formula
        scores_QE = logic.truth(formula, problem.of_entities(formula, start_QVD, query.free))
        return scores_QE.contiguous()

    def _optimised(self, problem: _Problem, logic: FuzzyLogic, start_QVD: Tensor) -> Tensor:
        """Embeddings of the variables after gradient descent: AdamW, apart for each query."""
        settings, value_QVD = self.settings, start_QVD
        mean_QVD, square_QVD = torch.zeros_like(value_QVD), torch.zeros_like(value_QVD)
        active_Q = torch.ones(1, dtype=torch.bool, device=value_QVD.device)
        before_Q = torch.full_like(active_Q, torch.inf, dtype=value_QVD.dtype)
        for step in range(1, settings.iterations + 1):
            with torch.enable_grad():
                value_QVD.requires_grad_()
                loss_Q = self._loss(problem, logic, value_QVD)
                if settings.loss == "batch":
                    loss_Q = loss_Q.mean()[None]
                (slope_QVD,) = torch.autograd.grad(loss_Q.sum(), value_QVD)
            value_QVD, loss_Q = value_QVD.detach(), loss_Q.detach()
            mean_QVD.lerp_(slope_QVD, 1 - _MEAN)
            square_QVD.mul_(_SQUARE).addcmul_(slope_QVD, slope_QVD, value=1 - _SQUARE)
            size_QVD = square_QVD.sqrt().div_((1 - _SQUARE**step) ** 0.5).add_(_TINY)
            moved_QVD = value_QVD * (1 - settings.rate * settings.shrinkage)
            moved_QVD.addcdiv_(mean_QVD, size_QVD, value=-settings.rate / (1 - _MEAN**step))
            value_QVD = torch.where(active_Q[:, None, None], moved_QVD, value_QVD)
            active_Q = active_Q & ((loss_Q - before_Q).abs() > settings.tolerance)
            if not bool(active_Q.any()):
                break
            before_Q = loss_Q
        return value_QVD

    def _loss(self, problem: _Problem, logic: FuzzyLogic, value_QVD: Tensor) -> Tensor:
        truth_Q = logic.truth(problem.plan.formula, problem.of_values(value_QVD))
        if not self.settings.regularisation:
            return -truth_Q
        assert isinstance(problem.predictor, DiagonalPredictor)
        size_QV = problem.predictor.cubed_moduli(value_QVD).sum(-1)
        if self.settings.regularised == "atoms":
            size_QV = size_QV * size_QV.new_tensor(problem.plan.occurrences)
        return -truth_Q + self.settings.regularisation * size_QV.sum(1)  # eq:cqd-objective

    def strengths(self, scores_QE: Tensor) -> Tensor:
        return log_odds(scores_QE, _LEAST)

    def notes(self, query: Query) -> tuple[str, ...]:
        has_groups = any(part.variables for pattern in query.patterns for part in pattern.absent)
        return (NEGATED_GROUP,) if has_groups else ()


# --- a query, laid out ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hop:
    """An atom read towards the free variable."""

    source: Term
    end: Term
    backwards: bool


@dataclass(frozen=True)
class _Plan:
    formula: Formula
    variables: tuple[Variable, ...]
    occurrences: tuple[int, ...]  # of each variable, in atoms
    hops: Mapping[Atom, _Hop]


@lru_cache(maxsize=1024)
def _planned(query: Query) -> _Plan:
    formula = apart(some_not(quantified(query)))
    found = tuple(dict.fromkeys(atoms(formula)))
    variables = variables_in(found)
    distance: dict[Term, float] = {variable: len(variables) for variable in variables}
    distance.update(distances(found, query.free).items())
    hops = {}
    for atom in found:
        head, tail = (distance.get(end, torch.inf) for end in (atom.head, atom.tail))
        ends = (atom.head, atom.tail) if head >= tail else (atom.tail, atom.head)
        hops[atom] = _Hop(*ends, head < tail)
    ends_of_all = [end for atom in found for end in (atom.head, atom.tail)]
    return _Plan(formula, variables, tuple(map(ends_of_all.count, variables)), hops)


def _about(formula: Formula, variable: Variable) -> Formula | None:
    """The part of a formula whose atoms have a variable; None if none has."""
    if isinstance(formula, Atom):
        return formula if variable in (formula.head, formula.tail) else None
    if isinstance(formula, Not | Exists):
        body = _about(formula.body, variable)
        return body and (Not(body) if isinstance(formula, Not) else body)
    kept = [part for each in formula.parts if (part := _about(each, variable)) is not None]
    if not kept:
        return None
    return conjunction(kept) if isinstance(formula, And) else disjunction(kept)


class _Problem:
    """The queries of a group: constants and relations looked up."""

    def __init__(self, plan: _Plan, predictor: EmbeddingPredictor, asked: Filled) -> None:
        self.plan, self.predictor = plan, predictor
        self.constant: dict[Term, Tensor] = {
            end: predictor.embeddings(asked.ids(end)).detach()
            for hop in plan.hops.values()
            for end in (hop.source, hop.end)
            if not isinstance(end, Variable)
        }
        relations = len(predictor.inverse_R)
        self.relation = {}
        for atom, hop in plan.hops.items():
            directed_Q = asked.ids(atom.relation, is_relation=True) + relations * hop.backwards
            self.relation[atom] = predictor.directed(directed_Q % (2 * relations)).detach()

    def of_values(self, value_QVD: Tensor) -> dict[Atom, Tensor]:
        """truth_Q of each atom, with these embeddings of the variables."""
        value = self._values(value_QVD)
        return {
            atom: self._score(atom, value[hop.source], value[hop.end]).sigmoid()  # eq:cqd-atom
            for atom, hop in self.plan.hops.items()
        }

    def of_entities(
        self, formula: Formula, value_QVD: Tensor, free: Variable
    ) -> dict[Atom, Tensor]:
        """truth_QE of the atoms of `formula`, with every entity as the free variable."""
        value, entities_ED = self._values(value_QVD), self.predictor.entities_ED.detach()
        found = {}
        for atom in atoms(formula):
            hop = self.plan.hops[atom]
            if hop.source == free:
                scores_QE = self._loops(atom, entities_ED)
            elif hop.end == free:
                projected_QD = self.predictor.project(value[hop.source], self.relation[atom])
                scores_QE = self.predictor.match_all(projected_QD, entities_ED)
            else:
                scores_QE = self._score(atom, value[hop.source], value[hop.end])[:, None]
            found[atom] = scores_QE.sigmoid()
        return found

    def _values(self, value_QVD: Tensor) -> dict[Term, Tensor]:
        numbered = enumerate(self.plan.variables)
        return {**self.constant, **{each: value_QVD[:, number] for number, each in numbered}}

    def _score(self, atom: Atom, source_QD: Tensor, end_QD: Tensor) -> Tensor:
        projected_QD = self.predictor.project(source_QD, self.relation[atom])
        return self.predictor.match(projected_QD, end_QD)

    def _loops(self, atom: Atom, entities_ED: Tensor) -> Tensor:
        """scores_QE of links between each entity and itself."""
        entities, width = entities_ED.shape
        found = []
        for relation_CW in torch.split(self.relation[atom], rows_at_once(entities * width)):
            source_AD = entities_ED.repeat(len(relation_CW), 1)
            relation_AW = relation_CW.repeat_interleave(entities, 0)
            projected_AD = self.predictor.project(source_AD, relation_AW)
            found.append(self.predictor.match(projected_AD, source_AD).view(-1, entities))
        return torch.cat(found)
