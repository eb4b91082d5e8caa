"""AdamW that can leave the rows alone that a step has nothing to do with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# Shapes: U rows of a step, D width


class RowAdamW(torch.optim.AdamW):
    """AdamW; of a sparse gradient only the rows are updated, as by torch.optim.SparseAdam, and only
    they decay. So a step's time does not depend on the size of the table.

    >>> table = torch.zeros(3, 2, requires_grad=True)
    >>> optimizer = RowAdamW([table], lr=0.5)
    >>> torch.nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum().backward()
    >>> optimizer.step()
    >>> table.detach().tolist()  # Adam's first step is the learning rate
    [[0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        assert closure is None
        aside = [
            (group, table, table.grad)
            for group in self.param_groups
            for table in group["params"]
            if table.grad is not None and table.grad.is_sparse
        ]
        for _, table, _ in aside:
            table.grad = None
        super().step()
        for group, table, gradient in aside:
            self._update_rows(group, table, gradient.coalesce())
            table.grad = gradient

    def _update_rows(self, group: dict[str, Any], table: Tensor, gradient: Tensor) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        state["step"] += 1
        row_U, slope_UD = gradient.indices()[0], gradient.values()
        first, second = group["betas"]
        mean_UD = state["exp_avg"][row_U].lerp_(slope_UD, 1 - first)
        square_UD = state["exp_avg_sq"][row_U].lerp_(slope_UD.square(), 1 - second)
        state["exp_avg"][row_U], state["exp_avg_sq"][row_U] = mean_UD, square_UD
        done = float(state["step"])
        size_UD = (square_UD / (1 - second**done)).sqrt_().add_(group["eps"])
        rows_UD = table[row_U] * (1 - group["lr"] * group["weight_decay"])
        table[row_U] = rows_UD - group["lr"] / (1 - first**done) * mean_UD / size_UD


def clip_gradients(parameters: Iterable[Tensor], most: float) -> None:
    """Scales gradients down so that their norm is at most `most`, sparse ones included."""
    found = [parameter.grad for parameter in parameters if parameter.grad is not None]
    values = [grad._values() if grad.is_sparse else grad for grad in found]
    norm = torch.nn.utils.get_total_norm(values)
    for value in values:
        value.mul_((most / (norm + 1e-6)).clamp_max(1))
