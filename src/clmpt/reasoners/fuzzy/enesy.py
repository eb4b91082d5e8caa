"""ENeSy (Xu et al., NeurIPS 2022): an embedding and a fuzzy set for each variable, entangled.

A link predictor leads from an embedding to an embedding, the facts from a fuzzy set to a fuzzy set.
After each relation the entities that the embedding resembles join the fuzzy set, and the embedding
becomes a mean over it, so that each can correct the other. Logic is that of fuzzy sets alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.errors import SettingError
from clmpt.logic.formula import Query
from clmpt.logic.operator_tree import Anchor, Intersect, Negate, Operator, Project, Unite
from clmpt.predictors.predictor import EmbeddingPredictor, look_up
from clmpt.reasoners.dropout import KEYS_PER_QUERY
from clmpt.reasoners.fuzzy.fact_edges import FactEdges, rows_backwards
from clmpt.reasoners.fuzzy.partwise import PartwiseReasoner
from clmpt.reasoners.model import Basis, Candidates, Cost
from clmpt.reasoners.operators.candidate_losses import is_wrong, joint_loss, separate_loss
from clmpt.reasoners.operators.networks import Layers
from clmpt.reasoners.operators.operator_model import OperatorModel
from clmpt.reasoners.operators.program import (
    OperatorBatch,
    OperatorStep,
    run_steps,
    united_disjuncts,
)
from clmpt.reasoners.reasoner import Reasoner
from clmpt.settings import Settings, setting

# Shapes: N rows of a step, Q queries, K candidates, E entities, D width of the predictor,
# X = D + E, S rows of the table of relations, M pairs of a row and an edge

_LEAST = 1e-10  # membership that is not told from none
_EVERYTHING = 10.0  # what a negation is taken from is this much over all entities
_PROJECTIONS = 2.0  # of an average training query, for plans
_PER_PROJECTION = 3  # matrix products over all entities
_PASSES = 4  # over a fuzzy set, for each of these


@dataclass(frozen=True)
class ENeSySettings(Settings):
    hidden: int = setting(64, "hidden width of the network that weighs entities", least=1)
    temperature: float = setting(1.0, "of the softmax that turns scores into a set", above=0)
    margin: float = setting(0.0, "margin γ: added to the predictor's scores in the loss", least=0)
    objective: Literal["logistic", "softmax"] = setting(
        "logistic", "each candidate is judged alone, as published, or all of a query together"
    )
    consistency: float = setting(
        1.0, "weight in the loss of embeddings that turn into sets and back", least=0
    )
    ensemble: float = setting(
        0.5, "share of the embedding in a score; the rest is the fuzzy set's", least=0, most=1
    )
    frozen: bool = setting(False, "do not train the predictor's embeddings further")


class ENeSy(OperatorModel):
    """Sets are [embedding | membership of each entity]_NX; memberships add up to 1."""

    title = "ENeSy"
    Settings = ENeSySettings
    operators = frozenset({Intersect, Unite, Negate})
    labelled = ("frozen",)
    rows_per_query = 8
    predictor: EmbeddingPredictor
    settings: ENeSySettings
    directed_S: Tensor  # the predictor's number of each row's relation

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        self.predictor.requires_grad_(not settings.frozen)
        inverse_R = self._inverse_rows()
        self.edges = FactEdges(basis.graph, inverse_R, self.relation_rows)
        added_S = rows_backwards(inverse_R, self.relation_rows)[len(inverse_R) :]
        directed_S = np.concatenate([np.arange(len(inverse_R)), added_S + len(inverse_R)])
        self.register_buffer("directed_S", torch.from_numpy(directed_S), persistent=False)
        self.width = self.predictor.entities_ED.shape[1]
        self.weigher = Layers(self.width, settings.hidden, 1, 1, generator)

    @classmethod
    def trees(cls, settings: Any, query: Query) -> tuple[Operator, ...]:  # noqa: ARG003
        return united_disjuncts(query)

    # --- the operators ----------------------------------------------------------------------------

    def forward(self, batch: OperatorBatch, compared: bool = False) -> tuple[Tensor, Tensor]:
        """sets_QX of all answers; and how unlike its embeddings become when they turn into sets and
        back, as the mean over each query's projections, if that is to be `compared`."""
        with torch.autocast(self.device.type, enabled=False):
            return self._run(batch, compared)

    def _run(self, batch: OperatorBatch, compared: bool) -> tuple[Tensor, Tensor]:
        weight_E = functional.softplus(self.weigher(self.predictor.entities_ED))[:, 0]
        lost_Q, counts_Q = weight_E.new_zeros(batch.queries), weight_E.new_zeros(batch.queries)

        def computed(step: OperatorStep, parts: list[Tensor]) -> Tensor:
            nonlocal lost_Q, counts_Q
            if step.operator is Anchor:
                single_NE = functional.one_hot(step.id_N, self.entities).to(weight_E.dtype)
                return torch.cat([look_up(self.predictor.entities_ED, step.id_N), single_NE], 1)
            if step.operator is Project:
                near_ND, resembled_NE, found_NX = self.project(parts[0], step.id_N, weight_E)
                if compared:
                    owner_N = step.key_N // KEYS_PER_QUERY
                    lost_N = self.lost(near_ND, self.embedded(resembled_NE, weight_E))
                    lost_Q = lost_Q.index_add(0, owner_N, lost_N)
                    counts_Q = counts_Q.index_add(0, owner_N, torch.ones_like(lost_N))
                return found_NX
            members = [self.halves(part_NX)[1] for part_NX in parts]
            member_NE = _LOGIC[step.operator](members)
            return torch.cat([self.embedded(member_NE, weight_E), member_NE], 1)

        set_QX = run_steps(batch, computed)
        return set_QX, lost_Q / counts_Q.clamp_min(1)

    def project(
        self, set_NX: Tensor, relation_N: Tensor, weight_E: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What relations lead to: embeddings, the fuzzy sets of what they resemble, and sets_NX of
        both and the facts, entangled."""
        near_ND, member_NE = self.halves(set_NX)
        relation_NW = self.predictor.directed(self.directed_S[relation_N])
        near_ND = self.predictor.project(near_ND, relation_NW)  # eq:enesy-project-neural
        resembled_NE = self.resembled(near_ND)
        led_to_NE = normalised(self.led_to(member_NE, relation_N))
        member_NE = normalised(led_to_NE + resembled_NE)  # eq:enesy-entangle
        found_NX = torch.cat([self.embedded(member_NE, weight_E), member_NE], 1)
        return near_ND, resembled_NE, found_NX

    def resembled(self, near_ND: Tensor) -> Tensor:
        """The fuzzy sets of the entities that embeddings resemble."""
        return (self.scored(near_ND) / self.settings.temperature).softmax(1)  # eq:enesy-resemble

    def led_to(self, member_NE: Tensor, relation_N: Tensor) -> Tensor:
        """What the facts lead to: the sum of memberships of all heads of a tail."""
        owner_M, edge_M = self.edges.of_relations(relation_N)
        source_M = owner_M * self.entities + self.edges.source_X[edge_M]
        target_M = owner_M * self.entities + self.edges.target_X[edge_M]
        walked_M = member_NE.flatten().index_select(0, source_M)
        found = torch.zeros_like(member_NE).flatten().index_add(0, target_M, walked_M)
        return found.view_as(member_NE)  # eq:enesy-project-symbolic

    def embedded(self, member_NE: Tensor, weight_E: Tensor) -> Tensor:
        """The mean embedding of a fuzzy set's members, some of which weigh more."""
        return normalised(member_NE * weight_E) @ self.predictor.entities_ED  # eq:enesy-embed

    def lost(self, near_ND: Tensor, again_ND: Tensor) -> Tensor:
        """-log σ of how well embeddings match what becomes of them."""
        match_N = self.predictor.match(near_ND, again_ND) + self.settings.margin
        return -functional.logsigmoid(match_N)  # eq:enesy-consistency

    def halves(self, set_NX: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings and the memberships of sets."""
        return set_NX[:, : self.width], set_NX[:, self.width :]

    def scored(self, near_ND: Tensor) -> Tensor:
        return self.predictor.match_all(near_ND, self.predictor.entities_ED)

    # --- scores and the loss ----------------------------------------------------------------------

    def scores(self, batch: OperatorBatch) -> Tensor:
        near_QD, member_QE = self.halves(self(batch)[0])
        resembled_QE = self.resembled(near_QD)
        return torch.lerp(member_QE, resembled_QE, self.settings.ensemble)  # eq:enesy-score

    def loss(
        self,
        batch: OperatorBatch,
        candidates: Candidates,
        generator: torch.Generator,  # noqa: ARG002
    ) -> Tensor:
        if candidates.by_rows:
            raise SettingError(
                f"{self.title} looks at all entities in each step. Choose entity_rows = 'all', or "
                "frozen = true."
            )
        weight = self.settings.consistency
        set_QX, lost_Q = self(batch, compared=weight > 0)
        near_QD, member_QE = self.halves(set_QX)
        scores_QE = self.scored(near_QD) + self.settings.margin
        positive_Q1 = candidates.positive_Q[:, None]
        found_Q = member_QE.gather(1, positive_Q1)[:, 0].clamp_min(_LEAST)
        missed_Q = -functional.logsigmoid(found_Q.log())
        rest_Q = missed_Q + weight * lost_Q
        if candidates.weight_Q is not None:
            rest_Q = rest_Q * candidates.weight_Q
        neural = self.candidate_loss(scores_QE, batch, candidates)
        whole: Tensor = (2 * neural + rest_Q.mean()) / (3 + weight)  # eq:enesy-loss
        return whole

    def candidate_loss(
        self, scores_QE: Tensor, batch: OperatorBatch, candidates: Candidates
    ) -> Tensor:
        """The loss of the embeddings: the positive against the negatives, or all entities."""
        negative_QK, other_QK = candidates.negative_QK, scores_QE
        if negative_QK is not None:
            other_QK = scores_QE.gather(1, negative_QK.expand(batch.queries, -1))
        scores_QK = torch.cat([scores_QE.gather(1, candidates.positive_Q[:, None]), other_QK], 1)
        wrong_QK = is_wrong(batch.answers, negative_QK, self.entities, scores_QE.device)
        judged = separate_loss if self.settings.objective == "logistic" else joint_loss
        return judged(scores_QK, wrong_QK, candidates.weight_Q)

    # --- the rest of the interface ----------------------------------------------------------------

    def reasoner(self) -> Reasoner:
        return PartwiseReasoner(self)

    @classmethod
    def label(cls, settings: Any) -> str:
        return f"{cls.title} (frozen)" if settings.frozen else cls.title

    @classmethod
    def trains_entities(cls, settings: Any) -> bool:
        return not settings.frozen

    def cost(self, batch: OperatorBatch) -> Cost:
        steps = [step for step in batch.steps if step.operator is not Anchor]
        rows = sum(
            len(step.id_N) * (_PER_PROJECTION if step.operator is Project else 1) for step in steps
        )
        weighing = 2.0 * self.entities * self.width * self.settings.hidden
        return Cost(2.0 * rows * self.entities * self.width + weighing)

    @classmethod
    def expected_cost_per_entity(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        rows = _PROJECTIONS * _PER_PROJECTION
        return Cost(2.0 * rows * width, 3 * 4 * _PASSES * rows, kept=4 * _PASSES * rows)


def normalised(member_NE: Tensor) -> Tensor:
    """Memberships that add up to 1, or all 0.

    >>> normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    return member_NE / member_NE.sum(1, keepdim=True).clamp_min(_LEAST)


def _all_of(members: Sequence[Tensor]) -> Tensor:
    """The product, as a softmax of sums of logarithms: a product of small shares vanishes."""
    logs = [member_NE.clamp_min(_LEAST).log() for member_NE in members]
    return torch.stack(logs).sum(0).softmax(1)  # eq:enesy-intersect


def _any_of(members: Sequence[Tensor]) -> Tensor:
    return normalised(torch.stack(list(members)).sum(0))  # eq:enesy-unite


def _none_of(members: Sequence[Tensor]) -> Tensor:
    (member_NE,) = members
    return normalised(
        functional.relu(_EVERYTHING / member_NE.shape[1] - member_NE)
    )  # eq:enesy-negate


_LOGIC = {Intersect: _all_of, Unite: _any_of, Negate: _none_of}
