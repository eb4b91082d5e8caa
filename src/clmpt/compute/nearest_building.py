"""Makes an inverted file of a table: k-means, 8-bit codes. The same for a seed."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute.nearest import Lists
from clmpt.progress import Progress, ReportProgress, silent

# Shapes: E rows (entities), D width, L lists, N rows of a sample or a chunk

_PER_LIST = 40  # rows that k-means looks at, for each list
_ROUNDS = 8
_AT_ONCE = 2**24  # numbers of a chunk


def build_lists(
    table_ED: Tensor, unit: bool = False, seed: int = 0, progress: ReportProgress = silent
) -> Lists:
    """The table's rows in lists, normalised if `unit`. Centroids minimise the squared distance,
    so that lists are of similar size whatever the rows' lengths; a look-up compares centroids by
    inner product, as it does rows. All lists are read until `probes` is chosen."""
    table_ED = table_ED.detach()
    count = max(1, min(round(2 * math.sqrt(len(table_ED))), len(table_ED)))
    random = np.random.default_rng([seed, len(table_ED)])
    drawn = np.sort(random.choice(len(table_ED), min(_PER_LIST * count, len(table_ED)), False))
    sample_ND = _part(table_ED, torch.from_numpy(drawn), unit)
    centroids_LD = _k_means(sample_ND, count, random, progress)
    low_D, high_D = _bounds(table_ED, unit)
    span_D = (high_D - low_D).clamp_min(1e-12)
    list_E = torch.empty(len(table_ED), dtype=torch.int64)
    code_ED = torch.empty(table_ED.shape, dtype=torch.uint8)
    step = max(1, _AT_ONCE // count)
    for start in range(0, len(table_ED), step):
        part = slice(start, start + step)
        rows_ND = _part(table_ED, part, unit)
        list_E[part] = _nearest(rows_ND, centroids_LD)
        code_ED[part] = ((rows_ND - low_D) / span_D * 255).clamp_(0, 255).to(torch.uint8)
        progress(Progress("filling the lists", min(start + step, len(table_ED)), len(table_ED)))
    order_E = list_E.argsort(stable=True)
    size_L = list_E.bincount(minlength=count)
    return Lists(centroids_LD, size_L, order_E, code_ED[order_E], low_D, span_D, count)


def _k_means(
    sample_ND: Tensor, count: int, random: np.random.Generator, progress: ReportProgress
) -> Tensor:
    """Lloyd's algorithm; a list that loses all its rows keeps its centroid."""
    first = np.sort(random.choice(len(sample_ND), count, replace=False))
    centroids_LD = sample_ND[torch.from_numpy(first)]
    for number in range(_ROUNDS):
        progress(Progress("finding centroids", number, _ROUNDS))
        list_N = _nearest(sample_ND, centroids_LD)
        sum_LD = torch.zeros_like(centroids_LD).index_add_(0, list_N, sample_ND)
        size_L1 = list_N.bincount(minlength=count)[:, None]
        centroids_LD = torch.where(size_L1 > 0, sum_LD / size_L1.clamp_min(1), centroids_LD)
    progress(Progress("finding centroids", _ROUNDS, _ROUNDS))
    return centroids_LD


def _nearest(rows_ND: Tensor, centroids_LD: Tensor) -> Tensor:
    half_L = (centroids_LD**2).sum(1) / 2
    step = max(1, _AT_ONCE // len(centroids_LD))
    found = [(part @ centroids_LD.T).sub_(half_L).argmax(1) for part in torch.split(rows_ND, step)]
    return torch.cat(found)


def _bounds(table_ED: Tensor, unit: bool) -> tuple[Tensor, Tensor]:
    step = max(1, _AT_ONCE // max(table_ED.shape[1], 1))
    parts = [
        _part(table_ED, slice(start, start + step), unit).aminmax(dim=0)
        for start in range(0, len(table_ED), step)
    ]
    low, high = (torch.stack(found) for found in zip(*parts, strict=True))
    return low.amin(0), high.amax(0)


def _part(table_ED: Tensor, rows: slice | Tensor, unit: bool) -> Tensor:
    found_ND = table_ED[rows].float()
    return functional.normalize(found_ND, dim=-1) if unit else found_ND
