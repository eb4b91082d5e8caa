"""Indexes made and measured: how much is read, how much of the best is found, how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute.nearest import Lists, NearestNeighbours
from clmpt.compute.nearest_building import build_lists
from clmpt.progress import Progress, ReportProgress, silent

# Shapes: E rows (entities), D width, B questions, K best rows, N rows of a chunk

RECALLED = 100  # best rows of a question, by which `probes` are chosen
_TIMED = 20  # questions
_AT_ONCE = 2**24  # numbers of a chunk


@dataclass(frozen=True)
class IndexMeasured:
    """The size of an index, the shares of the best 10 and 100 rows that it finds, and the
    milliseconds that a question takes without and with it."""

    rows: int
    width: int
    lists: int
    probes: int
    recall_at_10: float
    recall_at_100: float
    exact_ms: float
    index_ms: float
    build_seconds: float
    bytes: int

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def measured_lists(
    table_ED: Tensor,
    unit: bool,
    question_BD: Tensor,
    target: float,
    seed: int = 0,
    progress: ReportProgress = silent,
) -> tuple[Lists, IndexMeasured]:
    """The table's lists. Every other question chooses how many are read: the fewest, doubling,
    with a recall of `target`; it is measured on the others."""
    begin = time.perf_counter()
    lists = build_lists(table_ED, unit, seed, progress)
    seconds = time.perf_counter() - begin
    best_BK = best_exactly(table_ED, unit, question_BD, progress)
    nearest = NearestNeighbours(table_ED, lists, unit)
    lists = replace(lists, probes=_probes(nearest, question_BD[::2], best_BK[::2], target))
    nearest.lists = lists
    asked_BD, best_BK = question_BD[1::2], best_BK[1::2]
    exact_ms, index_ms = _milliseconds(nearest, asked_BD)
    return lists, IndexMeasured(
        len(table_ED),
        table_ED.shape[1],
        len(lists.size_L),
        lists.probes,
        recall(nearest, asked_BD, best_BK[:, :10], lists.probes),
        recall(nearest, asked_BD, best_BK, lists.probes),
        exact_ms,
        index_ms,
        seconds,
        lists.bytes,
    )


def best_exactly(
    table_ED: Tensor, unit: bool, question_BD: Tensor, progress: ReportProgress = silent
) -> Tensor:
    """best_BK: the best rows of each question, in their order, in one pass over the table."""
    best_BK = question_BD.new_empty(len(question_BD), 0)
    row_BK = torch.empty(len(question_BD), 0, dtype=torch.int64)
    step = max(1, _AT_ONCE // max(len(question_BD), table_ED.shape[1]))
    for start in range(0, len(table_ED), step):
        rows_ND = table_ED[start : start + step]
        rows_ND = functional.normalize(rows_ND, dim=-1) if unit else rows_ND
        scores = torch.cat([best_BK, question_BD @ rows_ND.T], 1)
        numbers = torch.arange(start, start + len(rows_ND)).expand(len(question_BD), -1)
        best_BK, at_BK = scores.topk(min(RECALLED, scores.shape[1]), 1)
        row_BK = torch.cat([row_BK, numbers], 1).gather(1, at_BK)
        progress(Progress("searching exactly", min(start + step, len(table_ED)), len(table_ED)))
    return row_BK


def recall(nearest: NearestNeighbours, question_BD: Tensor, best_BK: Tensor, probes: int) -> float:
    """The share of the best rows that are found."""
    found_BF = nearest.search(question_BD, probes=probes).entity_BK
    hits = [torch.isin(best, found) for best, found in zip(best_BK, found_BF, strict=True)]
    return float(torch.stack(hits).float().mean())


def _probes(nearest: NearestNeighbours, question_BD: Tensor, best_BK: Tensor, target: float) -> int:
    lists, probes = len(nearest.lists.size_L), 1
    while probes < lists and recall(nearest, question_BD, best_BK, probes) < target:
        probes = min(2 * probes, lists)
    return probes


def _milliseconds(nearest: NearestNeighbours, question_BD: Tensor) -> tuple[float, float]:
    """Per question, one at a time: all scores and the best of them; a search."""
    table_ED, most = nearest.table_ED, min(RECALLED, len(nearest))
    asked = question_BD[:_TIMED, None]
    return (
        _median(lambda one_1D: (one_1D @ table_ED.T).topk(most), asked[:5]),
        _median(nearest.search, asked),
    )


def _median(work: Callable[[Tensor], object], asked: Sequence[Tensor] | Tensor) -> float:
    taken = []
    for one_1D in asked:
        begin = time.perf_counter()
        work(one_1D)
        taken.append(1000 * (time.perf_counter() - begin))
    return median(taken)
