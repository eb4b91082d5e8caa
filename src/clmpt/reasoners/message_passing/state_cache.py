"""A cache of states that depend on relations alone, kept between batches at inference.

In its first update a free variable often receives only the existential variable's initial embedding
along a relation: the same for every query that ends in that relation. A cache belongs to one model
whose weights do not change, and to one thread at a time.
"""

from __future__ import annotations

from torch import Tensor

_MOST_NUMBERS = 2**24  # 64 MiB of embeddings in single precision
_MOST_KEYS = 2**17

Key = tuple[tuple[tuple[int, ...], ...], int]  # an update's messages and the node itself


class StateCache:
    """Numbers updates by their inputs, and stores the resulting embeddings.

    Numbers 0 and 1 are the two initial embeddings of variables, which are not stored here.
    """

    def __init__(self, like_ED: Tensor) -> None:
        width = like_ED.shape[1]
        self.most = min(_MOST_NUMBERS // max(width, 1), _MOST_KEYS)
        self.number: dict[Key, int] = {}
        self.rows_ND = like_ED.new_empty(0, width)

    def find(self, key: Key) -> tuple[int, bool]:
        """An update's number, and whether it is new; -1 if the cache is full."""
        found = self.number.get(key)
        if found is not None:
            return found, False
        if len(self.number) >= self.most:
            return -1, True
        self.number[key] = found = len(self.number) + 2
        return found, True

    def look_up(self, number_V: Tensor) -> Tensor:
        return self.rows_ND[number_V - 2]

    def store(self, number_V: Tensor, rows_VD: Tensor) -> None:
        """Stores embeddings under numbers that `find` reported as new."""
        if len(self.number) > len(self.rows_ND):
            rows = min(max(2 * len(self.number), 64), self.most)
            room = self.rows_ND.new_zeros(rows, self.rows_ND.shape[1])
            room[: len(self.rows_ND)] = self.rows_ND
            self.rows_ND = room
        self.rows_ND[number_V - 2] = rows_VD.to(self.rows_ND.dtype)
