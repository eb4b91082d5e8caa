"""Link predictors, and the base class of those with an embedding per entity and relation.

An embedding predictor projects an entity's embedding along a relation and matches the result
against the entity at the other end. Projecting, reversing a relation and matching define the
scoring function; everything else follows from them, including the paper's one-hop inference ρ.
A predictor that cannot reverse a relation has a row for the inverse of each, and uses that.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.compute.row_shards import RowShard
from clmpt.errors import DataError, SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.queries.links import inverse_rows
from clmpt.registry import PREDICTORS
from clmpt.settings import Pretraining, read_table

TABLES = "entities_ED", "relations_SW"  # its parameters with a row for each name
CALIBRATION = "calibration_SC"  # its buffer; folders of before have none
_COEFFICIENTS = 4  # see calibration.py

_DRAWN_AT_ONCE = 2**16  # rows of an initial table
_OTHER_WEIGHTS = 2**32 - 1  # their block of random numbers: no table has so many

# For distance-based scores trained with Adam; the defaults of `Pretraining` suit inner products.
DISTANCE_DEFAULTS = {"learning_rate": 1e-3, "initial_scale": 0.05, "epochs": 100, "batch": 512}

# Shapes: E entities, D width of an entity, W width of a relation, R relations of the graph,
# S rows of the relation table (R, plus inverses missing from the graph), A atoms, B questions,
# N distinct relations of these, C coefficients of calibration


class LinkPredictor(Protocol):
    """What reasoners and evaluation need from a predictor. Relations are rows of its table."""

    @property
    def entities_ED(self) -> Tensor: ...
    @property
    def relations_SW(self) -> Tensor: ...
    @property
    def shard(self) -> RowShard:
        """The entities that this process scores, if several have a part of the table each."""

    def score(self, head_A: Tensor, relation_A: Tensor, tail_A: Tensor) -> Tensor:
        """How plausible each triple is; comparable within a question, not across questions."""

    def score_tails(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        """scores_BE of every entity as the tail."""

    def score_heads(self, relation_B: Tensor, tail_B: Tensor) -> Tensor:
        """scores_BE of every entity as the head, with the same relation embedding."""

    def score_answers(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        """scores_BE of every entity as the answer to a one-hop question, in either direction."""

    def infer(
        self,
        source_AD: Tensor,
        relation_A: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        """The paper's ρ: the embedding that an atom implies for the node at its other end."""


class EmbeddingPredictor(nn.Module, ABC):
    """A predictor with a table of entities and one of relations.

    It may have other weights, whose sizes follow from the widths of the tables: `__init__` makes
    them with factory functions of the tables (`new_zeros`), so that a stored predictor's size can
    be checked before it is loaded, and `initialise` fills them.
    `inverse_R` is the row of each relation's inverse, or -1: then its own embedding is reversed.
    `calibration_SC` turns scores into probabilities (see calibration.py); 0 until fitted.
    While several processes pre-train it, each has the rows of the entity table that `shard` says,
    and scores these entities; `relation_shard` says which relations it has, by default all.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}  # that replace those of `Pretraining`
    has_penalty: ClassVar[bool] = False  # whether ρ has a closed form with a penalty
    objective: ClassVar[str] = "self-adversarial"  # see objectives.py
    predicts_relations: ClassVar[bool] = False  # whether it has `score_relations`
    entities_ED: nn.Parameter
    relations_SW: nn.Parameter
    inverse_R: Tensor
    calibration_SC: Tensor
    shard: RowShard
    relation_shard: RowShard

    def __init__(self, entities_ED: Tensor, relations_SW: Tensor, inverse_R: Tensor) -> None:
        super().__init__()
        self.shard = RowShard.whole(len(entities_ED))
        self.relation_shard = RowShard.whole(len(relations_SW))
        self.entities_ED = nn.Parameter(entities_ED)
        self.relations_SW = nn.Parameter(relations_SW)
        self.register_buffer("inverse_R", inverse_R)
        self.register_buffer(
            CALIBRATION, relations_SW.new_zeros(len(relations_SW), _COEFFICIENTS).detach()
        )
        self.has_all_inverses = bool((inverse_R >= 0).all())
        self.check_widths(entities_ED.shape[1], relations_SW.shape[1])
        if not (self.has_all_inverses or self.can_reverse()):
            raise DataError(
                f"{type(self).__name__} cannot reverse a relation, so the inverse of each needs a "
                "row of its own: give all relations, then all their inverses in the same order."
            )

    @classmethod
    def for_graph(cls, graph: KnowledgeGraph, settings: Pretraining) -> EmbeddingPredictor:
        """An untrained predictor with a row per relation and per inverse missing from the graph.

        The same seed gives the same numbers on every device and for any number of processes, each
        of which has its shard of the entities, and draws little more than that.
        """
        inverse_R = inverse_rows(graph)
        rows = max(len(graph.relations), int(inverse_R.max(initial=-1)) + 1)
        shard = RowShard.own(len(graph.entities))
        entities_ED = torch.empty(shard.stop - shard.start, cls.width(settings.rank))
        for block, start in enumerate(range(0, max(shard.count, 1), _DRAWN_AT_ONCE)):
            stop = min(start + _DRAWN_AT_ONCE, shard.count)
            inside = shard.within(start, stop)
            if block and inside.start == inside.stop:
                continue
            drawn = settings.rank, settings.initial_scale, _generator(settings.seed, block)
            block_ED, found_SW = cls.initial(stop - start, 0 if block else rows, *drawn)
            if not block:
                relations_SW = found_SW
            at = max(start - shard.start, 0)
            entities_ED[at : at + inside.stop - inside.start] = block_ED[inside]
        made = cls(entities_ED, relations_SW, torch.from_numpy(inverse_R))
        made.initialise(_generator(settings.seed, _OTHER_WEIGHTS))
        made.shard = shard
        if settings.divided == "tables":
            made.relation_shard = own = RowShard.own(rows)
            made.relations_SW = nn.Parameter(relations_SW[own.start : own.stop].clone())
        return made

    def initialise(self, generator: torch.Generator) -> None:
        """Gives the weights besides the tables, if there are any, their first values."""

    def own_part(self) -> EmbeddingPredictor:
        """With this process's shard of the entities only, the rest shared with the original."""
        part = copy.copy(self)
        part.shard = shard = RowShard.own(len(self.entities_ED))
        rows_ED = self.entities_ED.detach()[shard.start : shard.stop]
        part._parameters = {**self._parameters, "entities_ED": nn.Parameter(rows_ED, False)}
        return part

    def embeddings(self, entity_A: Tensor, sparse: bool = False) -> Tensor:
        """Rows of the entity table; see `RowShard.look_up`."""
        return self.shard.look_up(self.entities_ED, entity_A, sparse)

    # --- the scoring function ---------------------------------------------------------------------

    @classmethod
    def width(cls, rank: int) -> int:
        """The number of real numbers in an entity's embedding."""
        return rank

    @classmethod
    def other_numbers(cls, rows: int, rank: int) -> int:
        """How many numbers there are besides the entities' embeddings: of relations, with so many
        rows, and of other weights; for plans."""
        return rows * cls.width(rank)

    @classmethod
    def products(cls, rank: int) -> float:  # noqa: ARG003
        """Operations of matrix products to project an embedding, at most; for plans."""
        return 0.0

    @classmethod
    @abstractmethod
    def initial(
        cls, entities: int, rows: int, rank: int, scale: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Randomly initialised tables of entities and relations; `scale` is their magnitude."""

    @abstractmethod
    def check_widths(self, entity_width: int, relation_width: int) -> None:
        """Rejects tables whose widths do not fit together."""

    @abstractmethod
    def project(self, source_AD: Tensor, relation_AW: Tensor) -> Tensor:
        """A head's embedding, projected along a relation."""

    def reverse(self, relation_AW: Tensor) -> Tensor:
        """The relation that projects a tail to its head. A predictor without one leaves this out:
        then all inverses have rows of their own."""
        raise NotImplementedError

    @abstractmethod
    def match(self, projected_AD: Tensor, entity_AD: Tensor) -> Tensor:
        """How well a projected embedding matches an entity."""

    @abstractmethod
    def match_all(self, projected_BD: Tensor, entities_ED: Tensor) -> Tensor:
        """`match` of every row with every entity."""

    def project_along(self, source_AD: Tensor, relations_NW: Tensor, relation_A: Tensor) -> Tensor:
        """`project`, along rows of a table. Where relations are wide, so that looking one up for
        each embedding takes much memory, a predictor does this by relation."""
        return self.project(source_AD, look_up(relations_NW, relation_A))

    # --- derived from it --------------------------------------------------------------------------

    @classmethod
    def can_reverse(cls) -> bool:
        return cls.reverse is not EmbeddingPredictor.reverse

    def score(self, head_A: Tensor, relation_A: Tensor, tail_A: Tensor) -> Tensor:
        projected_AD = self.project_along(self.embeddings(head_A), self.relations_SW, relation_A)
        return self.match(projected_AD, self.embeddings(tail_A))  # eq:score

    def score_tails(self, head_B: Tensor, relation_B: Tensor) -> Tensor:
        projected_BD = self.project_along(self.embeddings(head_B), self.relations_SW, relation_B)
        return self.match_all(projected_BD, self.entities_ED)

    def score_heads(self, relation_B: Tensor, tail_B: Tensor) -> Tensor:
        tail_BD, relation_BW = self.embeddings(tail_B), look_up(self.relations_SW, relation_B)
        if self.can_reverse():
            projected_BD = self.project(tail_BD, self.reverse(relation_BW))
            return self.match_all(projected_BD, self.entities_ED)
        row_E = torch.zeros(len(self.entities_ED), dtype=torch.int64, device=tail_B.device)
        scores_BE = tail_BD.new_empty(len(tail_B), len(row_E))
        for at, (relation_W, tail_D) in enumerate(zip(relation_BW, tail_BD, strict=True)):
            projected_ED = self.project_along(self.entities_ED, relation_W[None], row_E)
            scores_BE[at] = self.match(projected_ED, tail_D[None])
        return scores_BE

    def score_answers(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        projected_BD = self.follow(self.embeddings(entity_B), directed_B)
        return self.match_all(projected_BD, self.entities_ED)

    def follow(self, source_BD: Tensor, directed_B: Tensor) -> Tensor:
        """Embeddings, each projected along a directed relation."""
        return self.project_along(source_BD, *self.distinct(directed_B))

    def distinct(self, directed_B: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings of distinct directed relations, and which of them each one has."""
        found_N, place_B = torch.unique(directed_B, return_inverse=True)
        return self.directed(found_N), place_B

    def directed(self, directed_B: Tensor) -> Tensor:
        """Embeddings of directed relations: a number r + R stands for the inverse of relation r.

        An inverse with a row of its own uses that row.
        """
        relation_BW = self.relation_shard.look_up(self.relations_SW, self.rows(directed_B))
        if self.has_all_inverses:
            return relation_BW
        relations = len(self.inverse_R)
        reversed_B = (directed_B >= relations) & (self.inverse_R[directed_B % relations] < 0)
        return torch.where(reversed_B[:, None], self.reverse(relation_BW), relation_BW)

    def rows(self, directed_B: Tensor) -> Tensor:
        """The rows of directed relations: an inverse has its own row, or shares the relation's."""
        relation_B = directed_B % len(self.inverse_R)
        inverse_B = self.inverse_R[relation_B]
        takes_inverse_B = (directed_B >= len(self.inverse_R)) & (inverse_B >= 0)
        return torch.where(takes_inverse_B, inverse_B, relation_B)

    def opposite(self, row_A: Tensor) -> Tensor:
        """The rows of the inverses of what has these rows, if all inverses have one."""
        opposite_S = self.inverse_R.new_zeros(self.relation_shard.count)
        opposite_S[self.inverse_R] = torch.arange(len(self.inverse_R), device=row_A.device)
        opposite_S[: len(self.inverse_R)] = self.inverse_R
        return opposite_S[row_A]

    def infer(
        self,
        source_AD: Tensor,
        relation_A: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        if not self.can_reverse():
            relation_A = torch.where(to_head_A, self.opposite(relation_A), relation_A)
        found_N, place_A = torch.unique(relation_A, return_inverse=True)
        relations_NW = look_up(self.relations_SW, found_N)
        return self.rho(source_AD, relations_NW, place_A, to_head_A, negated_A, penalty)

    def rho(
        self,
        source_AD: Tensor,
        relations_NW: Tensor,
        relation_A: Tensor,
        to_head_A: Tensor,
        negated_A: Tensor,
        penalty: float | None = None,
    ) -> Tensor:
        """ρ for each atom, from the embedding at one end; the masks select one of the four cases.

        Without `reverse`, the caller has chosen the rows of inverses for atoms that go to the head.
        `penalty` is λ of the closed form; at 0 the denominator is 1, as in the paper's runs.
        """
        if self.can_reverse():
            relation_A = relation_A + len(relations_NW) * to_head_A
            relations_NW = torch.cat([relations_NW, self.reverse(relations_NW)])
        projected_AD = self.project_along(source_AD, relations_NW, relation_A)  # eq:rho
        if penalty is not None:
            projected_AD = self.shortened(projected_AD, penalty)
        return torch.where(negated_A[:, None], -projected_AD, projected_AD)  # eq:rho-negated

    def shortened(self, projected_AD: Tensor, penalty: float) -> Tensor:  # noqa: ARG002
        """The maximiser of the score minus λ‖·‖³, which exists only for inner products."""
        raise SettingError(
            f"{type(self).__name__} has no closed form with a penalty: its best match is the "
            "projected embedding itself. Set the penalty to 0."
        )


def look_up(table_ND: Tensor, row_A: Tensor) -> Tensor:
    """Rows of a table. Unlike with indexing, gradients are summed in a deterministic order."""
    return functional.embedding(row_A, table_ND)


def _generator(seed: int, block: int) -> torch.Generator:
    """Random numbers for a block of an initial table; the first has the relations too."""
    if block:
        seed = int(np.random.default_rng([seed, block]).integers(2**63))
    return torch.Generator().manual_seed(seed)


def fresh_predictor(graph: KnowledgeGraph, settings: Pretraining) -> EmbeddingPredictor:
    """An untrained predictor of the class named in the settings."""
    return PREDICTORS.find(settings.model).for_graph(graph, settings)


def read_pretraining(given: Mapping[str, Any]) -> Pretraining:
    """Settings for the predictor named in `given`, based on that predictor's defaults.

    >>> read_pretraining({"model": "transe", "rank": 50}).learning_rate
    0.001
    >>> read_pretraining({"rnak": 50})
    Traceback (most recent call last):
    clmpt.errors.SettingError: There is no setting 'rnak'. Did you mean 'rank'?
    """
    model = given.get("model", "complex")
    if not isinstance(model, str):
        raise SettingError(f"'model' must be of type str, not {model!r}.")
    kind = PREDICTORS.find(model)
    chosen = read_table(Pretraining, {**kind.defaults, **given})
    _check_candidates(kind, chosen)
    if chosen.relation_weight and chosen.divided == "tables":
        raise SettingError(
            "divided = 'tables' and 'relation_weight' cannot be combined: to predict relations, "
            "every process needs all of them. Choose divided = 'entities'."
        )
    return chosen


def _check_candidates(kind: type[EmbeddingPredictor], settings: Pretraining) -> None:
    if settings.group and not settings.candidates:
        raise SettingError("'group' says which questions share candidates. Set 'candidates' too.")
    if settings.relation_weight and not kind.predicts_relations:
        raise SettingError(
            f"'{settings.model}' cannot predict relations, so 'relation_weight' is not for it. "
            "Leave it at 0."
        )
    if not settings.candidates:
        return
    if kind.objective != "softmax":
        raise SettingError(
            f"'{settings.model}' always draws its negatives, so 'candidates' is not for it. Set "
            "'negatives' instead."
        )
    if settings.relation_weight:
        raise SettingError(
            "'candidates' and 'relation_weight' cannot be combined: relations are only predicted "
            "where all entities are scored. Set one of them to 0."
        )


def check_same_width(model: str, entity_width: int, relation_width: int) -> None:
    if entity_width != relation_width:
        raise DataError(
            f"{model} needs entities and relations of the same width, not {entity_width} and "
            f"{relation_width}."
        )
