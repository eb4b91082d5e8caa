"""How much is held in memory at once while all entities are scored."""

from __future__ import annotations

SCORES_AT_ONCE = 2**25  # 128 MiB in single precision


def rows_at_once(width: int, numbers: int = SCORES_AT_ONCE) -> int:
    """How many rows of a width fit into so many numbers, at least one.

    >>> rows_at_once(14_505), rows_at_once(10**9)
    (2313, 1)
    """
    return max(1, numbers // max(width, 1))
