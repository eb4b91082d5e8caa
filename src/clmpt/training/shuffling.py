"""The order of an epoch: a list, or computed where it is needed if there are too many facts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clmpt.graph.edges import Ints

_Words = npt.NDArray[np.uint64]
_LISTED = 2**22  # numbers; up to here a list takes a fraction of a second, and is looked up faster
_ROUNDS = 6
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, as in Knuth's hashing


def shuffled(count: int, random: np.random.Generator) -> Ints | Shuffled:
    """A random order of the numbers below `count`, of which parts can be had."""
    return random.permutation(count) if count <= _LISTED else Shuffled(count, random)


class Shuffled:
    """A random order that takes no memory.

    A Feistel network is a permutation of the numbers of an even number of bits, whatever its round
    function. A result that is not below `count` goes through it again (Black and Rogaway 2002).

    >>> order = Shuffled(5, np.random.default_rng(0))
    >>> sorted(order[0:5].tolist())
    [0, 1, 2, 3, 4]
    >>> order[3:9].tolist() == order[0:5].tolist()[3:]
    True
    """

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.count = count
        self._half = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))  # bits
        self._keys = random.integers(2**64, size=_ROUNDS, dtype=np.uint64)

    def __getitem__(self, part: slice) -> Ints:
        found = self._through(np.arange(*part.indices(self.count), dtype=np.uint64))
        while len(outside := np.flatnonzero(found >= self.count)):
            found[outside] = self._through(found[outside])
        return found.astype(np.int64)

    def _through(self, word: _Words) -> _Words:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = word >> self._half, word & mask
        for key in self._keys:
            mixed = (right + key) * _ODD  # wraps around
            mixed = ((mixed ^ (mixed >> np.uint64(32))) * _ODD) >> (np.uint64(64) - self._half)
            left, right = right, left ^ mixed
        found: _Words = (left << self._half) | right
        return found
