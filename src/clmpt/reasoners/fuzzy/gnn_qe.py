"""GNN-QE (Zhu et al., ICML 2022): a graph network for the relations of a query, logic in between.

A set is a probability for every entity. A relation leads from one set to another by message passing
over the whole graph; *and*, *or* and *not* are those of product logic. There are no embeddings of
entities: all that the model knows of them is the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.compute.chunks import rows_at_once
from clmpt.errors import WrongGraph
from clmpt.graph.stored_names import NameMatch
from clmpt.logic.operator_tree import Anchor, Intersect, Negate, Project, Unite
from clmpt.predictors.predictor import look_up
from clmpt.reasoners.dropout import NO_DROPOUT, Dropout, SetDropout
from clmpt.reasoners.fuzzy.fact_edges import FactEdges
from clmpt.reasoners.fuzzy.graph_layer import GraphLayer, recomputed
from clmpt.reasoners.fuzzy.incoming import Dropped, IncomingEdges, Passing
from clmpt.reasoners.fuzzy.partwise import PartwiseReasoner
from clmpt.reasoners.fuzzy.walked_edges import WalkedEdges
from clmpt.reasoners.model import Basis, Candidates, Cost
from clmpt.reasoners.operators.candidate_losses import is_wrong
from clmpt.reasoners.operators.networks import uniform
from clmpt.reasoners.operators.operator_model import OperatorModel
from clmpt.reasoners.operators.program import OperatorBatch, OperatorStep, run_steps
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.token_sets import linear
from clmpt.settings import Settings, setting

# Shapes: N rows of a step, B of them at a time, Q queries, E entities, D width, S rows of the table
# of relations, X edges; T entities of a block

_AT_ONCE = 2**22  # numbers in the states of all entities that are computed together
_LEAST = 1e-10  # so that no probability has infinite odds
_PROJECTIONS, _EDGES = 2.0, 5.0  # of an average training query, and of an entity, for plans
_PASSES = 12  # how often a message or a state is read or written


@dataclass(frozen=True)
class GNNQESettings(Settings):
    rank: int = setting(16, "numbers per entity and set", least=1)
    layers: int = setting(2, "rounds of message passing", least=1, most=64)
    states: Literal["last", "all"] = setting("last", "of the layers, that probabilities come from")
    drop: float = setting(
        0.25, "probability that an edge that a query could walk is left out", least=0, below=1
    )
    temperature: float = setting(
        0.2, "of the softmax by which high scores weigh more among negatives", above=0
    )
    weighting: Literal["queries", "answers"] = setting(
        "queries", "all queries count the same in the loss, or all answers"
    )


class GNNQE(OperatorModel):
    """Sets are probabilities_NE. In training the exact set of what facts lead to stands beside
    them, as [probabilities | exact], if edges are dropped."""

    title = "GNN-QE"
    Settings = GNNQESettings
    needs_predictor = False
    rows_per_query = 30  # its network costs as much as that
    operators = frozenset({Intersect, Unite, Negate})
    usual_union = "operator"
    settings: GNNQESettings

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        width, inverse_R = settings.rank, self._inverse_rows()
        self.edges = FactEdges(basis.graph, inverse_R, self.relation_rows)
        self.incoming = IncomingEdges(self.edges)
        self.walked = WalkedEdges(self.edges, inverse_R, self.relation_rows)
        self.relations_SD = uniform(self.relation_rows, width, width**-0.5, generator)
        self.layers = nn.ModuleList(
            GraphLayer(width, self.relation_rows, generator) for _ in range(settings.layers)
        )
        seen = width * (1 + (settings.layers if settings.states == "all" else 1))
        self.hidden = linear(seen, seen, generator)
        self.odds = linear(seen, 1, generator)

    # --- the operators ----------------------------------------------------------------------------

    def forward(self, batch: OperatorBatch, dropout: Dropout = NO_DROPOUT) -> Tensor:
        """probabilities_QE of all answers, and the exact sets beside them if edges are dropped."""

        def computed(step: OperatorStep, parts: list[Tensor]) -> Tensor:
            if step.operator is Anchor:
                single_NE = functional.one_hot(step.id_N, self.entities).to(self.relations_SD.dtype)
                return torch.cat([single_NE] * (2 if dropout.threshold else 1), 1)
            if step.operator is Project:
                own = dropout.of_sets(step.key_N, ((1, len(step.key_N)),))
                return self.project(parts[0], step, own)
            if step.operator is Negate:
                return 1 - parts[0]  # eq:gnn-qe-not
            return reduce(_or if step.operator is Unite else _and, parts)

        with torch.autocast(self.device.type, enabled=False):
            return run_steps(batch, computed)

    def project(self, set_NE: Tensor, step: OperatorStep, dropout: SetDropout) -> Tensor:
        """What relations lead to. No gradient goes through a set, so only the projections that come
        last in a query have any."""
        member_NE, *exact = torch.split(set_NE.detach(), self.entities, 1)
        dropped = None
        if exact:
            exact[0], dropped = self.walked.walk(
                self.edges, self.incoming, exact[0], step.id_N, dropout
            )
        order_N = torch.argsort(step.last_N, stable=True)
        rows_at_a_time = rows_at_once(self.entities * self.settings.rank, _AT_ONCE)
        found = []
        for row_B in _runs(order_N, step.last_N, rows_at_a_time):
            own = dropped and dropped.of_sets(row_B, len(member_NE))
            learns = torch.is_grad_enabled() and bool(step.last_N[row_B[0]])
            with torch.set_grad_enabled(learns):
                found.append(self.led_to(member_NE[row_B], step.id_N[row_B], own))
        return torch.cat([torch.cat(found)[torch.argsort(order_N)], *exact], 1)

    def led_to(self, member_BE: Tensor, relation_B: Tensor, dropped: Dropped | None) -> Tensor:
        """probabilities_BE of what relations lead to from sets."""
        query_BD = look_up(self.relations_SD, relation_B)
        passing = Passing.of(self.incoming, member_BE.T.contiguous(), dropped)
        states = [passing.member_TB[..., None] * query_BD]
        for number, layer in enumerate(self.layers):
            states.append(layer(states[-1], query_BD, passing if number else passing.near()))
        seen_EBD = torch.cat(states[1:], -1) if self.settings.states == "all" else states[-1]
        weights = (*self.hidden.parameters(), *self.odds.parameters())
        rows_at_a_time = rows_at_once(query_BD.numel())
        odds = [
            recomputed(_odds, state_TBD, query_BD, *weights)
            for state_TBD in torch.split(seen_EBD, rows_at_a_time)
        ]
        return torch.cat(odds).sigmoid().T  # eq:gnn-qe-probability

    # --- scores and the loss ----------------------------------------------------------------------

    def scores(self, batch: OperatorBatch) -> Tensor:
        return log_odds_of(self(batch))

    def loss(
        self, batch: OperatorBatch, candidates: Candidates, generator: torch.Generator
    ) -> Tensor:
        """All known answers against all other entities, or against the negatives given."""
        dropout = Dropout(self.settings.drop, generator, candidates.first)
        scores_QE = log_odds_of(self(batch, dropout)[:, : self.entities])
        unknown_QE = is_wrong(batch.answers, None, self.entities, scores_QE.device)
        wrong_QE = unknown_QE
        if candidates.negative_QK is not None:
            drawn_QK = candidates.negative_QK.expand(batch.queries, -1)
            wrong_QE = torch.zeros_like(unknown_QE).scatter(1, drawn_QK, True) & unknown_QE
        loss_Q = membership_loss(scores_QE, ~unknown_QE, wrong_QE, self.settings.temperature)
        if self.settings.weighting == "answers":
            counts_Q = torch.from_numpy(batch.answers.counts).to(loss_Q)
            loss_Q = loss_Q * counts_Q / (candidates.mean_answers or counts_Q.mean())
        return loss_Q.mean()

    # --- the rest of the interface ----------------------------------------------------------------

    def reasoner(self) -> Reasoner:
        return PartwiseReasoner(self)

    @classmethod
    def check_newer(cls, match: NameMatch) -> None:
        """New entities are welcome; relations must be the same, in the same order."""
        if not np.array_equal(match.relation_R, np.arange(len(match.relation_R))):
            raise WrongGraph(
                f"{cls.title} knows the relations that it was trained on, in their order, and the "
                "newer graph has others. Train one on the newer graph."
            )

    @classmethod
    def summary(cls, settings: Any) -> str:
        return f"rank {settings.rank}, {settings.layers} layer{'s' * (settings.layers != 1)}"

    @classmethod
    def products_per_entity(cls, settings: GNNQESettings) -> float:
        """Operations of matrix products for each entity and projection."""
        inside = settings.rank * (1 + (settings.layers if settings.states == "all" else 1))
        return 26.0 * settings.layers * settings.rank**2 + 2 * inside**2

    def cost(self, batch: OperatorBatch) -> Cost:
        rows = sum(len(step.id_N) for step in batch.steps if step.operator is Project)
        places = self.entities + len(self.edges.row_X)
        numbers = places * self.settings.layers * self.settings.rank
        products = self.entities * self.products_per_entity(self.settings)
        return Cost(rows * products, 4.0 * _PASSES * rows * numbers)

    @classmethod
    def expected_cost_per_entity(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        states = 4.0 * _PROJECTIONS * settings.layers * settings.rank  # bytes
        moved = 3 * _PASSES * (1 + _EDGES) * states
        return Cost(_PROJECTIONS * cls.products_per_entity(settings), moved, kept=2 * states)


def _runs(order_N: Tensor, last_N: Tensor, most: int) -> list[Tensor]:
    """Rows in order, so many at a time, and never those that learn with others."""
    others = len(order_N) - int(last_N.sum())
    parts = torch.split(order_N, [others, len(order_N) - others])
    return [rows for part in parts for rows in torch.split(part, most) if len(rows)]


def _odds(state_TBD: Tensor, query_BD: Tensor, *weights: Tensor) -> Tensor:
    """Log-odds of being reached, from states of entities and the embedding of the relation."""
    map_HS, bias_H, map_1H, bias_1 = weights
    width = query_BD.shape[1]
    own_BH = functional.linear(query_BD, map_HS[:, -width:], bias_H)
    hidden_TBH = functional.linear(state_TBD, map_HS[:, :-width]) + own_BH
    return functional.linear(functional.relu(hidden_TBH), map_1H, bias_1)[..., 0]


def _and(left: Tensor, right: Tensor) -> Tensor:
    return left * right  # eq:gnn-qe-and


def _or(left: Tensor, right: Tensor) -> Tensor:
    return left + right - left * right  # eq:gnn-qe-or


def log_odds_of(probability: Tensor) -> Tensor:
    return ((probability + _LEAST) / (1 - probability + _LEAST)).log()  # eq:gnn-qe-score


def membership_loss(
    scores_QE: Tensor, right_QE: Tensor, wrong_QE: Tensor, temperature: float
) -> Tensor:
    """The binary cross entropy of each query: the mean of the answers', and that of the others',
    weighted by the softmax of their scores, half and half.

    >>> right = torch.tensor([[True, False, False]])
    >>> found = membership_loss(torch.tensor([[0.0, 0.0, -99.0]]), right, ~right, 0.2)
    >>> round(float(found), 4)  # log 2: the last entity weighs nothing
    0.6931
    """
    right = right_QE.to(scores_QE.dtype)
    right = right / right.sum(1, keepdim=True).clamp_min(1)
    near_QE = (scores_QE.detach() / temperature).masked_fill(~wrong_QE, -torch.inf)
    wrong = near_QE.softmax(1).nan_to_num(0)  # of a query that all entities answer
    missed_QE = right * functional.softplus(-scores_QE) + wrong * functional.softplus(scores_QE)
    return missed_QE.sum(1) / (right + wrong).sum(1)  # eq:gnn-qe-loss
