"""Chunk sizes for scoring all entities in limited memory."""

from __future__ import annotations

SCORES_AT_ONCE = 2**25  # 128 MiB in single precision


def rows_at_once(width: int, numbers: int = SCORES_AT_ONCE) -> int:
    """How many rows of this width fit into `numbers`; at least one.

    >>> rows_at_once(14_505), rows_at_once(10**9)
    (2313, 1)
    """
    return max(1, numbers // max(width, 1))
