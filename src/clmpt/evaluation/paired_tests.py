"""Is one model better than another? Paired bootstrap tests over the queries that both were asked.

Queries are drawn with replacement within each shape, and a query brings the figures of both models
with it. If a model was trained with several seeds, these are drawn too, for each model by itself:
then the result holds for training it again, and not only for the weights at hand. What is drawn is
a t-statistic, the difference over its standard error in the same resample, which keeps intervals
honest where queries or seeds are few: with three seeds much of the width is what three seeds do not
tell. Intervals are symmetric, and exclude zero where the p-value is below one minus their level.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Shapes: B resamples, b of them at once, Q queries of a shape, S seeds of a model, Z those of both
# models of a pair

Floats = npt.NDArray[np.float64]
FiguresByShape = Mapping[str, Floats]  # SQ: a row for each seed, a column for each query

RESAMPLES = 10_000
LEVEL = 0.95
_AT_ONCE = 2**20  # numbers of a table of counts
_NOTHING = 1e-9  # of a variance, or of a difference, that is only rounding


@dataclass(frozen=True)
class Tested:
    """A difference, its interval and its two-sided p-value. Both are None where there is nothing
    to estimate an error from: a single query, or differences that are all alike."""

    difference: float
    low: float | None
    high: float | None
    p: float | None


def paired_tests(
    pairs: Sequence[tuple[FiguresByShape, FiguresByShape]],
    averages: Mapping[str, Sequence[str]],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Tested]]:
    """For each pair, by how much the second is above the first: on each shape that both have, and
    on those averages all of whose shapes both have. Always the same for a seed.

    Each shape has draws of its own, so that a result does not depend on what else is tested.
    """
    found: list[dict[str, Tested]] = [{} for _ in pairs]
    weights = [_weights(first, second, resamples, seed) for first, second in pairs]
    sums: list[dict[str, _Level]] = [{} for _ in pairs]
    for shape in dict.fromkeys(name for first, _ in pairs for name in first):
        having = [
            at for at, (first, second) in enumerate(pairs) if shape in first and shape in second
        ]
        sampled = _sampled(
            [_Columns.of(*pairs[at], shape) for at in having], shape, resamples, seed
        )
        for at, level in zip(having, sampled, strict=True):
            found[at][shape] = level.tested(weights[at])
            for name, shapes in averages.items():
                if shape in shapes and all(one in pair for one in shapes for pair in pairs[at]):
                    share = level.scaled(1 / len(shapes))
                    sums[at][name] = sums[at][name] + share if name in sums[at] else share
    for at, levels in enumerate(sums):
        found[at] |= {name: level.tested(weights[at]) for name, level in levels.items()}
    return found


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values corrected for their number by Holm's method; None stays None.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    given = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, at) in enumerate(given):
        least = max(least, min(1.0, (len(given) - rank) * p))
        found[at] = least
    return found


# --- one pair on one shape ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """What is summed over drawn queries: each seed's figures, and the difference and its square."""

    figures_QZ: Floats
    difference_Q: Floats  # of the means over seeds, less its own mean

    @classmethod
    def of(cls, first: FiguresByShape, second: FiguresByShape, shape: str) -> _Columns:
        difference_Q = second[shape].mean(0) - first[shape].mean(0)
        figures_QZ = np.concatenate([first[shape], second[shape]]).T
        return cls(figures_QZ, difference_Q - difference_Q.mean())

    @property
    def summed(self) -> Floats:
        return np.column_stack([self.figures_QZ, self.difference_Q, self.difference_Q**2])


@dataclass(frozen=True)
class _Level:
    """A shape or an average: the mean figure of each seed, and the variance of the difference that
    is due to queries; as measured, and in every resample."""

    mean_Z: Floats
    variance: float
    mean_BZ: Floats
    variance_B: Floats

    def scaled(self, share: float) -> _Level:
        return _Level(
            share * self.mean_Z,
            share**2 * self.variance,
            share * self.mean_BZ,
            share**2 * self.variance_B,
        )

    def __add__(self, other: _Level) -> _Level:
        return _Level(
            self.mean_Z + other.mean_Z,
            self.variance + other.variance,
            self.mean_BZ + other.mean_BZ,
            self.variance_B + other.variance_B,
        )

    def tested(self, weights: _Weights) -> Tested:
        none_1Z = np.concatenate([np.ones_like(part[:1]) for part in weights.parts], axis=1)
        (difference,), (of_seeds,) = weights.estimated(self.mean_Z[None], none_1Z)
        error = float(np.sqrt(self.variance + of_seeds))
        if not error > 0:  # also if it is not a number
            is_equal = error == 0 and abs(difference) < _NOTHING
            return Tested(difference, *((0.0, 0.0, 1.0) if is_equal else (None, None, None)))
        drawn_B, of_seeds_B = weights.estimated(self.mean_BZ, weights.drawn_BZ)
        shift_B, error_B = np.abs(drawn_B - difference), np.sqrt(self.variance_B + of_seeds_B)
        shift_B[shift_B < _NOTHING] = 0.0
        # A resample without spread says nothing of the error: the interval takes it as the widest.
        without = np.where(shift_B > 0, np.inf, 0.0)
        t_B = np.divide(shift_B, error_B, out=without, where=error_B > 0)
        p = (1 + np.count_nonzero(t_B >= abs(difference) / error)) / (len(t_B) + 1)
        rank = int(np.ceil(LEVEL * (len(t_B) + 1))) - 1
        reach = float(np.sort(t_B)[rank]) * error if rank < len(t_B) else np.inf
        low, high = max(difference - reach, -1.0), min(difference + reach, 1.0)
        return Tested(float(difference), low, high, float(p))


def _sampled(columns: Sequence[_Columns], shape: str, resamples: int, seed: int) -> list[_Level]:
    """Every pair's figures on the same draws of a shape's queries; pairs have the same queries."""
    if not columns:
        return []
    random = np.random.default_rng([seed, zlib.crc32(shape.encode())])
    queries = len(columns[0].difference_Q)
    table = np.concatenate([one.summed for one in columns], axis=1)
    step = max(1, _AT_ONCE // queries)
    drawn = [
        _counts(random, min(step, resamples - start), queries) @ table
        for start in range(0, resamples, step)
    ]
    means = np.concatenate(drawn) / queries
    found, start = [], 0
    for one in columns:
        stop = start + one.figures_QZ.shape[1]
        variance = _of_mean((one.difference_Q**2).mean(), queries)
        left_B = means[:, stop + 1] - means[:, stop] ** 2
        left_B[left_B < _NOTHING * (one.difference_Q**2).mean()] = 0.0
        variance_B = _of_mean(left_B, queries)
        found.append(
            _Level(one.figures_QZ.mean(0), float(variance), means[:, start:stop], variance_B)
        )
        start = stop + 2
    return found


def _of_mean(variance_B: Floats, queries: int) -> Floats:
    """The variance of a mean over so many queries; not a number for a single one."""
    return variance_B / (queries - 1) if queries > 1 else variance_B * np.nan


def _counts(random: np.random.Generator, resamples: int, queries: int) -> Floats:
    """How often each query is drawn in each resample."""
    drawn_bQ = random.integers(0, queries, (resamples, queries))
    drawn_bQ += queries * np.arange(resamples)[:, None]
    counts = np.bincount(drawn_bQ.ravel(), minlength=resamples * queries)
    return counts.reshape(resamples, queries).astype(np.float64)


# --- seeds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weights:
    """How often each seed is drawn: of the first model, then of the second."""

    parts: tuple[Floats, Floats]

    @property
    def drawn_BZ(self) -> Floats:
        return np.concatenate(self.parts, axis=1)

    def estimated(self, mean_BZ: Floats, weight_BZ: Floats) -> tuple[Floats, Floats]:
        """The difference of the means over the drawn seeds, and its variance due to seeds."""
        split = self.parts[0].shape[1]
        first_B, spread_B = _over_seeds(mean_BZ[:, :split], weight_BZ[:, :split])
        second_B, other_B = _over_seeds(mean_BZ[:, split:], weight_BZ[:, split:])
        return second_B - first_B, spread_B + other_B


def _over_seeds(mean_BS: Floats, weight_BS: Floats) -> tuple[Floats, Floats]:
    """The mean over drawn seeds and its variance, which is zero for a single seed."""
    seeds = mean_BS.shape[1]
    mean_B = (weight_BS * mean_BS).sum(1) / seeds
    spread_B = (weight_BS * (mean_BS - mean_B[:, None]) ** 2).sum(1)
    return mean_B, spread_B / (seeds * (seeds - 1)) if seeds > 1 else np.zeros(len(mean_B))


def _weights(first: FiguresByShape, second: FiguresByShape, resamples: int, seed: int) -> _Weights:
    sizes = [len(next(iter(one.values()))) if one else 1 for one in (first, second)]
    return _Weights(
        (
            _counts(np.random.default_rng([seed, 1]), resamples, sizes[0]),
            _counts(np.random.default_rng([seed, 2]), resamples, sizes[1]),
        )
    )
