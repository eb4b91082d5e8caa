"""The rows of a table with the largest inner products, without reading the whole table.

An inverted file: rows are grouped around centroids, and a look-up reads the groups whose centroids
match best, as 8-bit codes. What it finds is scored again with the rows themselves, so scores are
exact; only which rows are found is approximate. faiss reads the codes; it is optional.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.errors import MissingLibrary

# Shapes: E rows (entities), D width, L lists, B questions, K found rows, S sampled rows

FOUND = 1024  # rows that a look-up returns
SAMPLED = 4096  # rows that stand for those that are not found
_GATHERED = 2**25  # numbers of found rows copied at once


@dataclass(frozen=True)
class Lists:
    """A table as an inverted file: `entity_E` and `code_ED` list by list, `size_L` rows in each.

    A code c stands for low + (c + ½) / 255 · span. A look-up reads `probes` of the lists.
    """

    centroids_LD: Tensor
    size_L: Tensor
    entity_E: Tensor
    code_ED: Tensor
    low_D: Tensor
    span_D: Tensor
    probes: int

    @property
    def bytes(self) -> int:
        tensors = (self.centroids_LD, self.size_L, self.entity_E, self.code_ED)
        return sum(tensor.nbytes for tensor in tensors)


@dataclass(frozen=True)
class Found:
    """What a look-up found, in no order: -1 and -∞ where there were fewer rows than asked for."""

    entity_BK: Tensor
    score_BK: Tensor


class NearestNeighbours:
    """Searches a table, or if `unit` its normalised rows. Thread-safe."""

    def __init__(self, table_ED: Tensor, lists: Lists, unit: bool = False) -> None:
        self.table_ED, self.lists, self.unit = table_ED.detach(), lists, unit
        self.index, self._borrowed = _inverted_file(lists)
        count = min(SAMPLED, len(table_ED))
        drawn = np.random.default_rng(len(table_ED)).choice(len(table_ED), count, replace=False)
        self.sample_S = torch.from_numpy(np.sort(drawn))
        self.sampled_SD = self._rows(self.sample_S)

    def __len__(self) -> int:
        return len(self.table_ED)

    def search(self, question_BD: Tensor, most: int = FOUND, probes: int = 0) -> Found:
        """The `most` best rows of each question that are in the lists read, by exact scores."""
        most = min(most, len(self))
        plain_BD = question_BD.float().contiguous().numpy()
        _, entity_BK = self.index.search(
            plain_BD, most, params=_faiss().SearchParametersIVF(nprobe=probes or self.lists.probes)
        )
        found_BK = torch.from_numpy(entity_BK)
        score_BK = torch.empty(found_BK.shape, dtype=question_BD.dtype)
        step = max(1, _GATHERED // max(1, most * self.table_ED.shape[1]))
        for start in range(0, len(found_BK), step):
            part = slice(start, start + step)
            rows_BKD = self._rows(found_BK[part].clamp_min(0))
            score_BK[part] = (rows_BKD @ question_BD[part, :, None]).squeeze(2)
        return Found(found_BK, score_BK.masked_fill_(found_BK < 0, -torch.inf))

    def normaliser(self, question_BD: Tensor, found: Found) -> Tensor:
        """The logarithm of the sum of all rows' exponentiated scores. After Mussmann and Ermon
        (2017): what was found counts as it is; of all else, the sampled rows that were not found
        stand for as many as there are."""
        tail_BS = question_BD @ self.sampled_SD.T
        found_BK = found.entity_BK
        at_BK = torch.searchsorted(self.sample_S, found_BK.clamp_min(0))
        at_BK = at_BK.clamp_max(len(self.sample_S) - 1)
        row_X, column_X = ((self.sample_S[at_BK] == found_BK) & (found_BK >= 0)).nonzero().T
        tail_BS[row_X, at_BK[row_X, column_X]] = -torch.inf
        others_B = len(self) - (found_BK >= 0).sum(1)
        return torch.logaddexp(found.score_BK.logsumexp(1), _scaled(tail_BS, others_B))

    def scores(self, question_BD: Tensor, also: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """scores_BE of what is found and of the sampled rows; -∞ elsewhere. `also` has questions
        and rows that have their scores too."""
        found = self.search(question_BD)
        scores_BE = question_BD.new_full((len(question_BD), len(self)), -torch.inf)
        if also is not None:
            row_X, entity_X = also
            scores_BE[row_X, entity_X] = (self._rows(entity_X) * question_BD[row_X]).sum(1)
        scores_BE[:, self.sample_S] = question_BD @ self.sampled_SD.T
        row_X, column_X = (found.entity_BK >= 0).nonzero().T
        scores_BE[row_X, found.entity_BK[row_X, column_X]] = found.score_BK[row_X, column_X]
        return scores_BE

    def log_softmax(self, scores_BE: Tensor) -> Tensor:
        """The logarithm of the softmax over all rows, from what `scores` gave, or from the maximum
        of several. Sampled rows below the `FOUND` best stand for all that are below them."""
        return scores_BE - torch.stack([self._log_sum(scores_E) for scores_E in scores_BE])[:, None]

    def _log_sum(self, scores_E: Tensor) -> Tensor:
        if len(scores_E) <= max(FOUND, SAMPLED):  # all rows were found, or sampled
            return scores_E.logsumexp(0)
        known_X = scores_E[torch.from_numpy(np.flatnonzero(scores_E.numpy() > -np.inf))]
        best_K = known_X.topk(min(FOUND, len(known_X))).values
        tail_S = scores_E[self.sample_S]
        tail_S = tail_S.masked_fill(tail_S >= best_K[-1], -torch.inf)
        others = torch.tensor([len(scores_E) - len(best_K)])
        return torch.logaddexp(best_K.logsumexp(0), _scaled(tail_S[None], others)[0])

    def _rows(self, entity: Tensor) -> Tensor:
        rows = self.table_ED[entity]
        return functional.normalize(rows, dim=-1) if self.unit else rows


def _scaled(tail_BS: Tensor, others_B: Tensor) -> Tensor:
    """The log-sum of `others` scores of which some finite ones are a sample."""
    count_B = tail_BS.isfinite().sum(1).clamp_min(1)
    return tail_BS.logsumexp(1) + (others_B / count_B).log()


def has_faiss() -> bool:
    try:
        need_faiss()
    except MissingLibrary:
        return False
    return True


def need_faiss() -> None:
    _faiss()


def _faiss() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the bindings, about Python's newest versions
            return importlib.import_module("faiss")
    except ImportError:
        raise MissingLibrary("faiss", "an index", "'clmpt[index]'") from None


def _inverted_file(lists: Lists) -> tuple[Any, Any]:
    """The lists as faiss has them, made from plain arrays: it reads no file. The second value is
    what the first only borrows."""
    faiss = _faiss()
    faiss.omp_set_num_threads(torch.get_num_threads())
    count, width = lists.centroids_LD.shape
    coarse = faiss.IndexFlatIP(width)
    coarse.add(lists.centroids_LD.contiguous().numpy())
    kind, metric = faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexIVFScalarQuantizer(coarse, width, count, kind, metric, False)
    trained = np.concatenate([lists.low_D.numpy(), lists.span_D.numpy()])
    faiss.copy_array_to_vector(np.ascontiguousarray(trained), index.sq.trained)
    index.is_trained = True
    stored = faiss.ArrayInvertedLists(count, width)
    entity_E = lists.entity_E.contiguous().numpy()
    code_ED = lists.code_ED.contiguous().numpy()
    start = 0
    for number, size in enumerate(lists.size_L.tolist()):
        own = slice(start, start + size)
        if size:
            ids, codes = faiss.swig_ptr(entity_E[own]), faiss.swig_ptr(code_ED[own])
            stored.add_entries(number, size, ids, codes)
        start += size
    index.replace_invlists(stored, False)
    index.ntotal = len(entity_E)
    return index, (coarse, stored)
