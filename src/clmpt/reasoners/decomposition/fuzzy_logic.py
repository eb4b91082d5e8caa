"""Fuzzy logic: truth values of formulas from those of their atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from clmpt.logic.formula import And, Atom, Formula, Not, Or

_CERTAIN = 1 - 1e-6  # keeps the negation of what is certain from a logarithm of 0


@dataclass(frozen=True)
class FuzzyLogic:
    """A t-norm, the t-conorm that belongs to it, and negation, on truth values of some scale."""

    both: Callable[[Tensor, Tensor], Tensor]
    either: Callable[[Tensor, Tensor], Tensor]
    negated: Callable[[Tensor], Tensor]

    def all_of(self, parts: list[Tensor]) -> Tensor:
        return reduce(self.both, parts)

    def any_of(self, parts: list[Tensor]) -> Tensor:
        return reduce(self.either, parts)

    def truth(self, formula: Formula, atoms: Mapping[Atom, Tensor]) -> Tensor:
        """The truth of a formula, given its atoms' and one value for each variable."""
        if isinstance(formula, Atom):
            return atoms[formula]
        if isinstance(formula, Not):
            return self.negated(self.truth(formula.body, atoms))
        if isinstance(formula, And | Or):
            parts = [self.truth(part, atoms) for part in formula.parts]
            return self.all_of(parts) if isinstance(formula, And) else self.any_of(parts)
        return self.truth(formula.body, atoms)


def _complement(value: Tensor) -> Tensor:
    return 1 - value  # eq:fuzzy-not


def _probabilistic_sum(left: Tensor, right: Tensor) -> Tensor:
    return left + right - left * right  # eq:t-conorm


LOGICS = {
    "product": FuzzyLogic(torch.mul, _probabilistic_sum, _complement),  # eq:t-norm
    "godel": FuzzyLogic(torch.minimum, torch.maximum, _complement),
    "lukasiewicz": FuzzyLogic(
        lambda left, right: (left + right - 1).clamp_min(0),
        lambda left, right: (left + right).clamp_max(1),
        _complement,
    ),
}

# On logarithms of likelihoods: the product, and the likelier of two alternatives.
LOG_LIKELIHOODS = FuzzyLogic(
    torch.add, torch.maximum, lambda log: torch.log1p(-log.exp() * _CERTAIN)
)
