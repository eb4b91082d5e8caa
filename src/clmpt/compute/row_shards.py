"""Tables whose rows are divided among the processes, in contiguous shards.

A step needs a few rows of such a table: every process gives those that it has, and gets the sum of
their gradients. The table itself never travels. In a single process a shard is the whole table and
everything here an ordinary look-up.

Not DTensor's own operators: they have no look-up with a sparse gradient and no log-sum-exp over
shards. Shards are those of DTensor, though, so that checkpoints can be divided anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute import distributed

# Shapes: N rows of a shard, A rows to look up, D width

_BYTES_AT_ONCE = 2**26  # of rows that are sent to be written


@dataclass(frozen=True)
class RowShard:
    """Which rows this process has of a table with `count` rows in `parts` shards."""

    count: int
    start: int
    stop: int
    parts: int = 1

    @classmethod
    def whole(cls, count: int) -> RowShard:
        return cls(count, 0, count)

    @classmethod
    def own(cls, count: int) -> RowShard:
        """
        >>> RowShard.own(10)
        RowShard(count=10, start=0, stop=10, parts=1)
        """
        rows = distributed.own_rows(count)
        return cls(count, rows.start, rows.stop, distributed.processes())

    @property
    def most(self) -> int:
        """The rows of the largest shard: the same in every process."""
        return -(-self.count // self.parts)

    def within(self, start: int, stop: int) -> slice:
        """Which of the rows from `start` to `stop` are in this shard, counted from `start`.

        >>> RowShard(10, 4, 8, 3).within(6, 10)
        slice(0, 2, None)
        """
        first = min(max(self.start, start), stop) - start
        return slice(first, max(min(self.stop, stop) - start, first))

    def has(self, row_A: Tensor) -> Tensor:
        return (row_A >= self.start) & (row_A < self.stop)

    def look_up(self, table_ND: Tensor, row_A: Tensor, sparse: bool = False) -> Tensor:
        """Rows of the whole table, of which `table_ND` is this process's shard.

        All processes must ask for the same rows. Each may use them for another part of the loss:
        gradients are summed. With `sparse`, that of the table has the rows that were asked for.
        """
        if self.parts == 1:
            return functional.embedding(row_A, table_ND, sparse=sparse)
        found_AD: Tensor = _LookUp.apply(table_ND, row_A, self, sparse)  # type: ignore[no-untyped-call]
        return found_AD

    def parts_of(self, table_ND: Tensor) -> Iterator[Tensor]:
        """The whole table, piece by piece, in the process that writes files; nothing in the others,
        which must iterate all the same."""
        if self.parts == 1:
            yield table_ND
            return
        at_once = max(1, _BYTES_AT_ONCE // max(table_ND[:1].nbytes, 1))
        rows = [distributed.rows_of(self.count, number) for number in range(self.parts)]
        for number, own in enumerate(rows):
            for start in range(own.start, own.stop, at_once):
                size = min(at_once, own.stop - start)
                piece = distributed.sent_to_first(
                    table_ND[self.within(start, start + size)]
                    if own.start == self.start
                    else table_ND.new_empty(size, *table_ND.shape[1:]),
                    number,
                )
                if piece is not None:
                    yield piece


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table_ND: Tensor, row_A: Tensor, shard: RowShard, sparse: bool) -> Tensor:
        at = shard.has(row_A).nonzero().squeeze(1)
        found_AD = table_ND.new_zeros(len(row_A), table_ND.shape[1])
        found_AD[at] = table_ND[row_A[at] - shard.start]
        distributed.add_up(found_AD)
        ctx.save_for_backward(row_A, at)
        ctx.shard, ctx.sparse, ctx.shape = shard, sparse, table_ND.shape
        return found_AD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        row_A, at = ctx.saved_tensors
        slope_AD = distributed.total(grads[0].contiguous())[at]
        row = row_A[at] - ctx.shard.start
        if ctx.sparse:
            found = distributed.rows_tensor(row, slope_AD, ctx.shape)
        else:
            found = torch.ops.aten.embedding_dense_backward(slope_AD, row, ctx.shape[0], -1, False)
        return found, None, None, None
