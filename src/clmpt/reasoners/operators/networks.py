"""Small networks that the operators of several models are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.token_sets import linear

# Shapes: N rows, k parts, D width

Activation = Callable[[Tensor], Tensor]


class Layers(nn.Module):
    """Hidden layers `layer1`, `layer2`, …, and `layer0` after them.

    >>> network = Layers(4, 8, 2, 3, torch.Generator().manual_seed(0))
    >>> network(torch.ones(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        inside: int,
        hidden: int,
        layers: int,
        outside: int,
        generator: torch.Generator,
        activation: Activation = functional.relu,
    ) -> None:
        super().__init__()
        self.layers, self.activation = layers, activation
        for number in range(1, layers + 1):
            width = inside if number == 1 else hidden
            self.add_module(f"layer{number}", linear(width, hidden, generator))
        self.layer0 = linear(hidden, outside, generator)

    def forward(self, value_ND: Tensor, dropout: SetDropout | None = None) -> Tensor:
        for number in range(1, self.layers + 1):
            value_ND = self.activation(self.get_submodule(f"layer{number}")(value_ND))
            if dropout is not None:
                value_ND = dropout.of_members(value_ND)
        found_ND: Tensor = self.layer0(value_ND)
        return found_ND


class Attention(nn.Module):
    """Logits of the parts of an intersection, number by number."""

    def __init__(
        self,
        inside: int,
        hidden: int,
        outside: int,
        generator: torch.Generator,
        activation: Activation = functional.relu,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.layer1 = linear(inside, hidden, generator)
        self.layer2 = linear(hidden, outside, generator)

    def forward(self, part_kND: Tensor) -> Tensor:
        logits_kND: Tensor = self.layer2(self.activation(self.layer1(part_kND)))
        return logits_kND

    def shrinking(self, part_kND: Tensor) -> Tensor:
        """Factors between 0 and 1 from all parts together, as a deep set."""
        together_ND = self.activation(self.layer1(part_kND)).mean(0)
        factor_ND: Tensor = self.layer2(together_ND).sigmoid()
        return factor_ND


def attended(value_kND: Tensor, logits_kND: Tensor) -> Tensor:
    """The mean of k values, weighted by the softmax of their logits.

    >>> attended(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1))
    tensor([2.])
    """
    return (logits_kND.softmax(0) * value_kND).sum(0)


def uniform(rows: int, width: int, bound: float, generator: torch.Generator) -> nn.Parameter:
    """A table whose numbers are uniform between -bound and bound."""
    return nn.Parameter((2 * torch.rand(rows, width, generator=generator) - 1) * bound)
