"""What models with set operators share: running a batch's steps, scores, the loss.

A model's own file says what a set is (a point, a box, a distribution, …), how each operator changes
it and how near an entity is to it. Sets are rows of a tensor, so a batch mixes queries of all
shapes; of a query's disjuncts the best counts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.compute.chunks import rows_at_once
from clmpt.logic.operator_tree import Anchor, Intersect, Negate, Operator, Project, Unite
from clmpt.predictors.predictor import look_up
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.dropout import NO_DROPOUT, Dropout, SetDropout
from clmpt.reasoners.model import Basis, Candidates, Cost, ModelReasoner
from clmpt.reasoners.operators.candidate_losses import is_wrong, joint_loss, separate_loss
from clmpt.reasoners.operators.operator_model import OperatorModel
from clmpt.reasoners.operators.program import OperatorBatch, OperatorStep, run_steps
from clmpt.reasoners.reasoner import Reasoner
from clmpt.settings import Settings, setting

# Shapes: N rows of a step, G graphs (disjuncts), Q queries, K candidates, U rows that are looked
# up, E entities, R rows of the relation table, W width of a row, F numbers that are compared,
# X numbers of a set, C a chunk

_AT_ONCE, _GRAPHS_AT_ONCE = 2**18, 16  # numbers and sets of a chunk of comparisons
_STEPS = 4  # projections of an average training query


@dataclass(frozen=True)
class OperatorSettings(Settings):
    """What all of them have."""

    rank: int = setting(128, "numbers per entity, of each kind that a model has", least=1)

    @property
    def drops(self) -> float:
        """The probability of dropout."""
        return 0.0

    @property
    def sorts(self) -> bool:
        """Whether the parts of an intersection are sorted, where their order matters."""
        return False


@dataclass(frozen=True)
class MarginSettings(OperatorSettings):
    """Of models whose scores are a margin less a distance."""

    margin: float = setting(24.0, "margin γ: the score of an entity at distance 0", above=0)
    objective: Literal["logistic", "softmax"] = setting(
        "logistic", "each candidate is judged alone, as published, or all of a query together"
    )


@dataclass(frozen=True)
class NetworkSettings(MarginSettings):
    """Of models whose projection is a network, and that negate."""

    hidden: int = setting(256, "hidden width of a network", least=1)
    layers: int = setting(2, "hidden layers of a network", least=1, most=64)
    dropout: float = setting(0.0, "dropout probability in networks", least=0, below=1)
    union: Literal["disjunctive", "de-morgan"] = setting(
        "disjunctive", "the best of the disjuncts counts, or a | b is !(!a & !b)"
    )

    @property
    def drops(self) -> float:
        return self.dropout

    def products(self, inside: int, outside: int) -> float:
        """Operations of a network's matrix products, by its ends in widths of an entity."""
        ends = (inside + outside) * self.rank
        return 2.0 * self.hidden * (ends + (self.layers - 1) * self.hidden)


class SetOperatorModel(OperatorModel):
    """Sets of entities as rows_NX, and operators on them."""

    needs_predictor = False
    operators: ClassVar[frozenset[type[Operator]]] = frozenset({Intersect, Negate})
    settings: OperatorSettings

    def __init__(self, basis: Basis, settings: Any, generator: torch.Generator) -> None:
        super().__init__(basis, settings)
        self.add_tables(self.entities, self.relation_rows, generator)

    @abstractmethod
    def add_tables(self, entities: int, relations: int, generator: torch.Generator) -> None:
        """Sets `entities_EW`, and all other parameters."""

    entities_EW: nn.Parameter

    # --- the operators ----------------------------------------------------------------------------

    def anchor(self, row_NW: Tensor) -> Tensor:
        """The sets of single entities, from their rows of the table."""
        return row_NW

    @abstractmethod
    def project(
        self, set_NX: Tensor, relation_N: Tensor, step: OperatorStep, dropout: SetDropout
    ) -> Tensor:
        """What relations lead to from sets."""

    @abstractmethod
    def intersect(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        """What is in all of k sets."""

    def negate(self, set_NX: Tensor, dropout: SetDropout) -> Tensor:
        """What is not in a set."""
        raise NotImplementedError

    def unite(self, part_kNX: Tensor, dropout: SetDropout) -> Tensor:
        """What is in any of k sets."""
        raise NotImplementedError

    def compared(self, row_UW: Tensor) -> Tensor:
        """What `match` needs of entities, as row_UF: computed once for each of them."""
        return row_UW

    @abstractmethod
    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        """scores_GK of entities as members of sets. The G of the rows may be 1: compared with all
        sets."""

    # --- queries in, scores out -------------------------------------------------------------------

    def forward(
        self, batch: OperatorBatch, anchor_NW: Tensor | None = None, dropout: Dropout = NO_DROPOUT
    ) -> Tensor:
        """sets_GX of all disjuncts. `anchor_NW` are the rows of all anchors, if the caller has
        them."""

        def computed(step: OperatorStep, parts: list[Tensor]) -> Tensor:
            if step.operator is Anchor:
                rows_NW = look_up(self.entities_EW, step.id_N) if anchor_NW is None else anchor_NW
                return self.anchor(rows_NW)
            return self.applied(step, parts, dropout.of_sets(step.key_N, ((1, len(step.key_N)),)))

        return run_steps(batch, computed)

    def applied(self, step: OperatorStep, parts: list[Tensor], dropout: SetDropout) -> Tensor:
        if step.operator is Project:
            return self.project(parts[0], step.id_N, step, dropout)
        if step.operator is Negate:
            return self.negate(parts[0], dropout)
        part_kNX = torch.stack(parts)
        if self.settings.sorts:
            order_kNX = step.order_kN.view(*step.order_kN.shape, *[1] * (part_kNX.dim() - 2))
            part_kNX = part_kNX.gather(0, order_kNX.expand_as(part_kNX))
        return (self.unite if step.operator is Unite else self.intersect)(part_kNX, dropout)

    def scores(self, batch: OperatorBatch, row_EF: Tensor | None = None) -> Tensor:
        """`row_EF` is what `compared` makes of all entities, if the caller has it."""
        row_EF = self.compared(self.entities_EW) if row_EF is None else row_EF
        set_GX = self(batch)
        return self.of_queries(self.match_all(set_GX, row_EF), set_GX, batch)

    def of_queries(self, scores_GK: Tensor, set_GX: Tensor, batch: OperatorBatch) -> Tensor:
        """scores_QK from those of the disjuncts, of which the best counts."""
        return best_alternative(scores_GK, batch.query_G, batch.queries)

    def match_all(self, set_GX: Tensor, row_EF: Tensor) -> Tensor:
        """scores_GE, in chunks that stay in a processor's cache."""
        graphs = max(1, min(len(set_GX), _GRAPHS_AT_ONCE))
        step = rows_at_once(graphs * row_EF.shape[1], _AT_ONCE)
        scored = [
            torch.cat(
                [self.match(set_CX, rows_CF[None]) for rows_CF in torch.split(row_EF, step)], 1
            )
            for set_CX in torch.split(set_GX, graphs)
        ]
        return torch.cat(scored)

    def reasoner(self) -> Reasoner:
        return _OperatorReasoner(self)

    # --- the loss ---------------------------------------------------------------------------------

    def loss(
        self, batch: OperatorBatch, candidates: Candidates, generator: torch.Generator
    ) -> Tensor:
        dropout = Dropout(self.settings.drops, generator, candidates.first)
        entity_N = [step.id_N for step in batch.steps if step.operator is Anchor]
        rows = _Rows(self.entities_EW, torch.cat(entity_N), candidates)
        set_GX = self(batch, rows.anchor_NW, dropout)
        scores_GK = self.candidate_scores(set_GX, rows, batch)
        scores_QK = self.of_queries(scores_GK, set_GX, batch)
        negative_QK = candidates.negative_QK
        wrong_QK = is_wrong(batch.answers, negative_QK, self.entities, scores_QK.device)
        return self.loss_of_scores(scores_QK, wrong_QK, candidates)

    def candidate_scores(self, set_GX: Tensor, rows: _Rows, batch: OperatorBatch) -> Tensor:
        """scores_GK: of the positive, then of the negatives."""
        row_UF = self.compared(rows.row_UW)
        positive_G1 = rows.positive_Q[batch.query_G, None]
        if rows.negative_QK is None:
            scores_GE = self.match_all(set_GX, row_UF)
            return torch.cat([scores_GE.gather(1, positive_G1), scores_GE], 1)
        if len(rows.negative_QK) == 1:
            own_G1 = self.match(set_GX, look_up(row_UF, positive_G1))
            negative_KF = look_up(row_UF, rows.negative_QK[0])
            return torch.cat([own_G1, self.match_all(set_GX, negative_KF)], 1)
        candidate_GK = torch.cat([positive_G1, rows.negative_QK[batch.query_G]], 1)
        return self.match(set_GX, look_up(row_UF, candidate_GK))

    @abstractmethod
    def loss_of_scores(self, scores_QK: Tensor, wrong_QK: Tensor, candidates: Candidates) -> Tensor:
        """The mean loss, from the scores of the positive and the negatives after it."""

    # --- the rest of the interface ----------------------------------------------------------------

    @classmethod
    def summary(cls, settings: Any) -> str:
        return f"rank {settings.rank}"

    @classmethod
    def products_per_row(cls, settings: Any) -> float:  # noqa: ARG003
        """Operations of matrix products to project, or intersect, one set."""
        return 0.0

    def cost(self, batch: OperatorBatch) -> Cost:
        rows = sum(len(step.id_N) for step in batch.steps if step.operator is not Anchor)
        return Cost(rows * self.products_per_row(self.settings))

    @classmethod
    def expected_cost(cls, settings: Any, width: int) -> Cost:  # noqa: ARG003
        return Cost(_STEPS * cls.products_per_row(settings), 4 * 8 * _STEPS * settings.rank)


class MarginModel(SetOperatorModel):
    """A model whose scores are a margin less a distance."""

    settings: MarginSettings

    @property
    def bound(self) -> float:
        """Of the numbers that tables start with."""
        return (self.settings.margin + 2) / self.settings.rank

    def loss_of_scores(self, scores_QK: Tensor, wrong_QK: Tensor, candidates: Candidates) -> Tensor:
        loss = separate_loss if self.settings.objective == "logistic" else joint_loss
        return loss(scores_QK, wrong_QK, candidates.weight_Q)


class ByProducts(MarginModel):
    """A model whose scores are an inner product and a number for each set and each entity.

    So are those of divergences between distributions of an exponential family, and all entities
    are scored by one matrix product. A divergence is a small difference of large products, so
    these are never in half precision.
    """

    @abstractmethod
    def of_sets(self, set_GX: Tensor) -> tuple[Tensor, Tensor]:
        """What the product takes of sets, and the numbers of their own."""

    @abstractmethod
    def of_entities(self, row_UW: Tensor) -> tuple[Tensor, Tensor]:
        """The same of entities."""

    def compared(self, row_UW: Tensor) -> Tensor:
        with torch.autocast(row_UW.device.type, enabled=False):
            factor_UX, own_U = self.of_entities(row_UW)
            return torch.cat([factor_UX, own_U[:, None]], 1)

    def match(self, set_GX: Tensor, row_GKF: Tensor) -> Tensor:
        with torch.autocast(set_GX.device.type, enabled=False):
            factor_GX, own_G = self.of_sets(set_GX.to(row_GKF.dtype))
            product_GK = (row_GKF[..., :-1] @ factor_GX[:, :, None])[..., 0]
            return product_GK + row_GKF[..., -1] + own_G[:, None]

    def match_all(self, set_GX: Tensor, row_EF: Tensor) -> Tensor:
        with torch.autocast(set_GX.device.type, enabled=False):
            factor_GX, own_G = self.of_sets(set_GX.to(row_EF.dtype))
            return factor_GX @ row_EF[:, :-1].T + row_EF[:, -1] + own_G[:, None]


class _OperatorReasoner(ModelReasoner):
    """Keeps what is compared of all entities."""

    def __init__(self, model: SetOperatorModel) -> None:
        super().__init__(model)
        with torch.no_grad():
            self.row_EF = model.compared(model.entities_EW)

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        assert isinstance(self.model, SetOperatorModel)
        return self.model.scores(self.model.lay_out(groups).to(self.model.device), self.row_EF)


class _Rows:
    """Rows of the entity table that a step needs, looked up once, so that it has one gradient."""

    def __init__(self, table_EW: Tensor, anchor_N: Tensor, candidates: Candidates) -> None:
        self.positive_Q, self.negative_QK = candidates.positive_Q, candidates.negative_QK
        if candidates.negative_QK is None:
            self.row_UW, self.anchor_NW = table_EW, look_up(table_EW, anchor_N)
            return
        parts = [anchor_N, candidates.positive_Q, candidates.negative_QK.flatten()]
        found_U, place = torch.unique(torch.cat(parts), return_inverse=True)
        self.row_UW = functional.embedding(found_U, table_EW)
        anchor, self.positive_Q, negative = torch.split(place, [len(part) for part in parts])
        self.anchor_NW = look_up(self.row_UW, anchor)
        self.negative_QK = negative.view_as(candidates.negative_QK)
