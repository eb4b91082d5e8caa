"""Dropout whose randomness is the caller's, so that a step can be repeated bit by bit."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_LEVELS = 2**16  # a probability is rounded to a multiple of 1 / _LEVELS


class Dropout:
    """Zeroes numbers with some probability and scales the rest up, anew with every call.

    Sixteen random bits a number: PyTorch's own draws more, and takes several times as long.

    >>> dropout = Dropout(0.25, torch.Generator().manual_seed(0))
    >>> dropped = dropout(torch.ones(3, 3))
    >>> sorted({round(number, 3) for number in dropped.flatten().tolist()})
    [0.0, 1.333]
    """

    def __init__(self, probability: float, generator: torch.Generator | None = None) -> None:
        self.threshold, self.generator = round(probability * _LEVELS), generator
        self.scale = _LEVELS / (_LEVELS - self.threshold)

    def __call__(self, values: Tensor) -> Tensor:
        return values * self._mask(values) if self.threshold else values

    def relu(self, values: Tensor) -> Tensor:
        """The same of the positive part; only the result is kept for the gradient."""
        if not self.threshold:
            return functional.relu(values)
        found: Tensor = _DroppedRelu.apply(values, self._mask(values), self.scale)  # type: ignore[no-untyped-call]
        return found

    def _mask(self, values: Tensor) -> Tensor:
        """Zeros, and the scale where a number is kept."""
        words = torch.empty(math.ceil(values.numel() / 4), dtype=torch.int64, device=values.device)
        bits = words.random_(-(2**63), None, generator=self.generator).view(torch.int16)
        kept = bits[: values.numel()].view(values.shape) >= self.threshold - _LEVELS // 2
        return kept.to(values.dtype).mul_(self.scale)


class _DroppedRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:
        result = functional.relu(values).mul_(mask)
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (result,), (grad,) = ctx.saved_tensors, grads
        return torch.where(result > 0, grad * ctx.scale, 0), None, None


NO_DROPOUT = Dropout(0.0)
