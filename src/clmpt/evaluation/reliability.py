"""How well probabilities hold: of what is said to be 70 to 80 per cent likely, how much is true?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.evaluation.ranks import Floats
from clmpt.graph.edges import Bools

# Shapes: X answers, B bins

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Answers of similar probability: how likely they were said to be, and how many are true."""

    least: float
    said: float
    true: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """`error` is the expected calibration error: the mean over answers of |said - true| of their
    bin."""

    name: str
    bins: tuple[Bin, ...]
    error: float
    count: int

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


def reliability(name: str, chance_X: Floats, true_X: Bools, bins: int = BINS) -> Reliability:
    """
    >>> found = reliability("all", np.array([0.1, 0.9, 0.9]), np.array([False, True, False]))
    >>> [(one.said, one.true, one.count) for one in found.bins]
    [(0.1, 0.0, 1), (0.9, 0.5, 2)]
    >>> round(found.error, 3)  # a third of 0.1 and two thirds of 0.4
    0.3
    """
    number_X: npt.NDArray[np.int64] = np.minimum((chance_X * bins).astype(np.int64), bins - 1)
    found, error = [], 0.0
    for number in np.unique(number_X).tolist():
        own_X = number_X == number
        said, true = float(chance_X[own_X].mean()), float(true_X[own_X].mean())
        found.append(Bin(number / bins, said, true, int(own_X.sum())))
        error += abs(said - true) * int(own_X.sum())
    return Reliability(name, tuple(found), error / max(len(chance_X), 1), len(chance_X))
