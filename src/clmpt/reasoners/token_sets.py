"""What updates are made of: linear maps, and sets of tokens by size."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Shapes: T tokens, U updates, D width, s size of a set

Sizes = tuple[tuple[int, int], ...]  # (size of a set, how many) in the order of the tokens


def sets_of(token_TD: Tensor, sizes: Sizes) -> list[Tensor]:
    """The sets of each size as one tensor_UsD, without copying."""
    parts = torch.split(token_TD, [size * count for size, count in sizes])
    return [
        part.view(-1, size, part.shape[1]) for part, (size, _) in zip(parts, sizes, strict=True)
    ]


def linear(
    inside: int, outside: int, generator: torch.Generator, bias: bool = True, maps: int = 1
) -> nn.Linear:
    """A linear map, or several side by side, each with its own Xavier-uniform weights."""
    made = nn.Linear(inside, outside * maps, bias)
    for part in made.weight.data.chunk(maps):
        nn.init.xavier_uniform_(part, generator=generator)
    if bias:
        nn.init.zeros_(made.bias)
    return made
