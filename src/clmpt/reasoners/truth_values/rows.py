"""Rows of truth values: how true r(a, ·) is for every entity, sparse, computed when asked for.

A known fact has value 1. Any other atom has the predictor's probability, or 0 if that is below the
threshold. Rows are computed together as one matrix product per chunk, or looked up in an index that
finds their best entries, and remembered up to a limit of memory; nothing of size entities ×
entities exists.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clmpt.budget import check_budget
from clmpt.compute.chunks import rows_at_once
from clmpt.compute.nearest import FOUND, NearestNeighbours
from clmpt.graph.edges import AnyInts, Bools, EdgeIndex, Ints, positions
from clmpt.predictors.calibration import Sharpening
from clmpt.predictors.carrying_over import is_unknown
from clmpt.predictors.inner_products import InnerProductPredictor
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.store import QueryGroup

# Shapes: N lookups, U distinct rows, X entries of all rows, B rows of a chunk, E entities,
# D width

Values: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SparseRows:
    """Rows with their entries concatenated; entities ascend within a row, values are above 0."""

    offsets_U1: Ints
    entity_X: AnyInts
    value_X: Values

    def __len__(self) -> int:
        return len(self.offsets_U1) - 1

    @property
    def counts_U(self) -> Ints:
        return np.diff(self.offsets_U1)

    @classmethod
    def of(cls, dense_UE: Values) -> SparseRows:
        """The entries above 0 of dense rows."""
        row_X, entity_X = np.nonzero(dense_UE)
        counts = np.bincount(row_X, minlength=len(dense_UE))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls(offsets, entity_X.astype(np.int32), dense_UE[row_X, entity_X])

    def take(self, row_N: AnyInts) -> SparseRows:
        count_N = self.counts_U[row_N]
        at = positions(self.offsets_U1[row_N], count_N)
        return SparseRows(
            np.concatenate([[0], np.cumsum(count_N)]), self.entity_X[at], self.value_X[at]
        )

    def at(self, row_N: AnyInts, target_N: AnyInts, entities: int) -> Values:
        """The value of each target in its row; 0 where there is no entry."""
        if not len(self.entity_X):
            return np.zeros(len(row_N), np.float32)
        owner_X = np.repeat(np.arange(len(self)), self.counts_U)
        code_X = owner_X * np.int64(entities) + self.entity_X
        code_N = row_N * np.int64(entities) + target_N
        at_N = np.minimum(np.searchsorted(code_X, code_N), len(code_X) - 1)
        found_N: Values = np.where(code_X[at_N] == code_N, self.value_X[at_N], np.float32(0))
        return found_N


class TruthRows(Protocol):
    """Where an engine gets its truth values from."""

    @property
    def index(self) -> EdgeIndex:
        """The known facts."""

    def rows(self, entity_U: Ints, directed_U: Ints, fine: bool = False) -> SparseRows:
        """Rows of distinct (entity, directed relation) pairs, known facts included; `fine` ones
        have a lower threshold."""


def known_rows(index: EdgeIndex, entity_U: AnyInts, directed_U: AnyInts) -> SparseRows:
    """The same rows from the known facts alone."""
    start_U, stop_U = index.ranges(entity_U, directed_U)
    count_U = (stop_U - start_U).astype(np.int64)
    entity_X = index.neighbours_X[positions(start_U, count_U)]
    offsets = np.concatenate([[0], np.cumsum(count_U)])
    return SparseRows(offsets, entity_X, np.ones(len(entity_X), np.float32))


def joined(parts: list[SparseRows]) -> SparseRows:
    count_U = np.concatenate([np.empty(0, np.int64), *(part.counts_U for part in parts)])
    return SparseRows(
        np.concatenate([[0], np.cumsum(count_U)]),
        np.concatenate([np.empty(0, np.int32), *(part.entity_X for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.value_X for part in parts)]),
    )


class PredictedRows:
    """Truth values of a predictor and the facts that it was trained on. Thread-safe."""

    def __init__(
        self,
        predictor: EmbeddingPredictor,
        index: EdgeIndex,
        sharpening: Sharpening,
        threshold: float,
        fine_threshold: float,
        memory: int,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.predictor, self.index, self.sharpening = predictor, index, sharpening
        self.thresholds, self.memory = (threshold, fine_threshold), memory
        self.table_ED = predictor.entities_ED.detach().to(precision)
        self.reflexive_R = _reflexive(index)
        self.unknown_E = is_unknown(predictor.entities_ED)
        self.unknown_S = is_unknown(predictor.relations_SW)
        self.has_unknown = bool(self.unknown_E.any() or self.unknown_S.any())
        self.nearest: NearestNeighbours | None = None
        self.computed = 0  # how many rows were computed rather than remembered
        self._kept: OrderedDict[int, tuple[AnyInts, Values]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def rows(self, entity_U: Ints, directed_U: Ints, fine: bool = False) -> SparseRows:
        code_U = ((directed_U * np.int64(self.index.entities) + entity_U) * 2 + fine).tolist()
        found: dict[int, tuple[AnyInts, Values]] = {}
        with self._lock:
            for code in code_U:
                kept = self._kept.get(code)
                if kept is not None:
                    self._kept.move_to_end(code)
                    found[code] = kept
        missing = np.array([code not in found for code in code_U], np.bool_)
        wanted = np.flatnonzero(missing)
        wanted = wanted[np.argsort(directed_U[wanted], kind="stable")]
        for at, row in self._computed(entity_U[wanted], directed_U[wanted], fine):
            code = code_U[wanted[at]]
            found[code] = row
            self._keep(code, row)
        parts = [found[code] for code in code_U]
        counts = np.array([len(entities) for entities, _ in parts], np.int64)
        return SparseRows(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([np.empty(0, np.int32), *(entities for entities, _ in parts)]),
            np.concatenate([np.empty(0, np.float32), *(values for _, values in parts)]),
        )

    def _keep(self, code: int, row: tuple[AnyInts, Values]) -> None:
        with self._lock:
            if code in self._kept:
                return
            self._kept[code] = row
            self._bytes += row[0].nbytes + row[1].nbytes + 200
            while self._bytes > self.memory and self._kept:
                _, (entities, values) = self._kept.popitem(last=False)
                self._bytes -= entities.nbytes + values.nbytes + 200

    def _computed(
        self, entity_U: Ints, directed_U: Ints, fine: bool
    ) -> Iterator[tuple[int, tuple[AnyInts, Values]]]:
        self.computed += len(entity_U)
        width = FOUND if self.nearest else self.index.entities
        step = rows_at_once(width, 2**24)
        for start in range(0, len(entity_U), step):
            part = slice(start, start + step)
            check_budget(4 * min(step, len(entity_U)) * width)
            found = self._chunk(entity_U[part], directed_U[part], self.thresholds[fine])
            for at in range(len(found)):
                inside = slice(found.offsets_U1[at], found.offsets_U1[at + 1])
                # Copied, or a remembered row would keep its whole chunk alive.
                yield start + at, (found.entity_X[inside].copy(), found.value_X[inside].copy())

    @torch.no_grad()
    def _chunk(self, entity_B: Ints, directed_B: Ints, threshold: float) -> SparseRows:
        device = self.predictor.entities_ED.device
        start_B, stop_B = self.index.ranges(entity_B, directed_B)
        known_B = torch.from_numpy((stop_B - start_B).astype(np.int64)).to(device)
        asked_B, source_B = (torch.from_numpy(one).to(device) for one in (directed_B, entity_B))
        terms = self.sharpening.terms(self.predictor, asked_B, known_B)
        least_B = self.sharpening.least(threshold, *terms)
        likely = self._searched if self.nearest else self._scanned
        row_X, entity_X, log_X = likely(source_B, asked_B, least_B)
        if self.sharpening.kind == "calibrated":
            reflexive_B = torch.from_numpy(self.reflexive_R[directed_B % self.index.relations])
            kept_X = (entity_X != source_B[row_X]) | reflexive_B.to(device)[row_X]
            row_X, entity_X, log_X = row_X[kept_X], entity_X[kept_X], log_X[kept_X]
        value_X = self.sharpening.values(log_X, terms[0][row_X], terms[1][row_X])
        return _with_facts(
            row_X.cpu().numpy(),
            entity_X.cpu().numpy(),
            value_X.float().cpu().numpy(),
            known_rows(self.index, entity_B, directed_B),
            self.index.entities,
        )

    def _scanned(
        self, entity_B: Tensor, directed_B: Tensor, least_B: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Row, entity and log-softmax of all entries that reach their row's least."""
        scores_BE = self._scores(entity_B, directed_B)
        if self.has_unknown:
            scores_BE[:, self.unknown_E] = -torch.inf
        normaliser_B = scores_BE.logsumexp(1)
        cut_B = normaliser_B + least_B
        if self.has_unknown:
            unknown_B = self.unknown_S[self.predictor.rows(directed_B)] | self.unknown_E[entity_B]
            cut_B = torch.where(unknown_B, torch.inf, cut_B)
        row_X, entity_X = _above(scores_BE, cut_B)
        return row_X, entity_X, scores_BE[row_X, entity_X] - normaliser_B[row_X]

    def _searched(
        self, entity_B: Tensor, directed_B: Tensor, least_B: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same of what an index finds."""
        assert self.nearest is not None
        projected_BD = self._projected(entity_B, directed_B)
        found = self.nearest.search(projected_BD)
        log_BK = found.score_BK - self.nearest.normaliser(projected_BD, found)[:, None]
        row_X, column_X = (log_BK >= least_B[:, None]).nonzero().T
        return row_X, found.entity_BK[row_X, column_X], log_BK[row_X, column_X]

    def _scores(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        if self.table_ED.dtype == self.predictor.entities_ED.dtype:
            return self.predictor.score_answers(entity_B, directed_B)
        projected_BD = self._projected(entity_B, directed_B)
        return self.predictor.match_all(projected_BD.to(self.table_ED.dtype), self.table_ED).float()

    def _projected(self, entity_B: Tensor, directed_B: Tensor) -> Tensor:
        return self.predictor.follow(self.predictor.entities_ED[entity_B], directed_B)

    # --- what an index is made of: see indexing.py ------------------------------------------------

    index_name, unit = "links", False

    @property
    def searches(self) -> tuple[PredictedRows, ...]:
        """Itself, if its scores are inner products of rows that are all known, as they are."""
        plain = self.table_ED.dtype == self.predictor.entities_ED.dtype
        fits = isinstance(self.predictor, InnerProductPredictor) and plain and not self.has_unknown
        return (self,) if fits else ()

    @torch.no_grad()
    def searched_for(self, group: QueryGroup) -> Tensor:
        """The embeddings that the group's first entities and relations imply."""
        entity_B, directed_B = (
            torch.from_numpy(ids[:, 0].astype(np.int64))
            for ids in (group.entities, group.relations)
        )
        return self._projected(entity_B, directed_B)


def _reflexive(index: EdgeIndex) -> Bools:
    """Which relations lead from some entity to itself. All others never do: a predictor of
    symmetric relations would have it that everybody is married to himself."""
    triples = index.forward_triples()
    found_R = np.zeros(index.relations, np.bool_)
    found_R[triples[triples[:, 0] == triples[:, 2], 1]] = True
    return found_R


def _above(scores_BE: Tensor, cut_B: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of scores that reach their row's cut."""
    reached_BE = scores_BE >= cut_B[:, None]
    if scores_BE.is_cpu:  # NumPy finds them several times faster than torch
        flat = torch.from_numpy(np.flatnonzero(reached_BE.numpy()))
    else:
        flat = reached_BE.flatten().nonzero().squeeze(1)
    width = scores_BE.shape[1]
    return flat // width, flat % width


def _with_facts(
    row_X: Ints, entity_X: Ints, value_X: Values, known: SparseRows, entities: int
) -> SparseRows:
    """Predicted entries, and 1 for known facts."""
    code_X = row_X * np.int64(entities) + entity_X
    owner_K = np.repeat(np.arange(len(known)), known.counts_U)
    known_K = owner_K * np.int64(entities) + known.entity_X
    at_X = np.searchsorted(known_K, code_X)
    predicted_X = np.append(known_K, -1)[at_X] != code_X
    code = np.concatenate([code_X[predicted_X], known_K])
    value = np.concatenate([value_X[predicted_X], known.value_X])
    order = np.argsort(code, kind="stable")
    code, value = code[order], value[order]
    row = code // entities
    counts = np.bincount(row, minlength=len(known))
    return SparseRows(
        np.concatenate([[0], np.cumsum(counts)]),
        (code - row * entities).astype(np.int32),
        value.astype(np.float32),
    )
