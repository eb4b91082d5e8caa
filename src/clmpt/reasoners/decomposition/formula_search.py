"""Beam search for the best values of a formula's variables, under any fuzzy logic.

Variables are bound one by one, in the order of `logic/binding_order.py`; only the best ways to bind
them are kept (the beam). A part of a conjunction may be a formula of its own, which is searched for
every way to bind the variables around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from clmpt.compute.chunks import rows_at_once
from clmpt.graph.edges import Ints
from clmpt.logic.binding_order import Binding, binding_order
from clmpt.logic.formula import Atom, Formula, Not, Or, Symbol, Term, Variable
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.decomposition.fuzzy_logic import FuzzyLogic

# Shapes: n rows that a search starts from, w ways to bind variables for each, P = n w, C candidates
# of each row, k those that are kept, E entities (or 1, where the truth is the same for all)


class Filled:
    """What the symbols of a group's template stand for in its queries."""

    def __init__(self, group: QueryGroup, device: torch.device) -> None:
        self.group, self.device = group, device
        self._found: dict[tuple[Symbol, bool], Tensor] = {}

    def ids(self, symbol: Symbol, is_relation: bool = False) -> Tensor:
        found = self._found.get((symbol, is_relation))
        if found is None:
            id_Q: Ints = filled(symbol, self.group, "relations" if is_relation else "entities")
            found = self._found[symbol, is_relation] = torch.from_numpy(id_Q).to(self.device)
        return found


@dataclass(frozen=True)
class Bound:
    """P ways to bind some variables, each for one of a group's queries."""

    filled: Filled
    query_P: Tensor
    entity_P: Mapping[Variable, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.query_P)

    def entity(self, term: Term) -> Tensor:
        if isinstance(term, Variable):
            return self.entity_P[term]
        return self.filled.ids(term)[self.query_P]

    def relation(self, symbol: Symbol) -> Tensor:
        return self.filled.ids(symbol, is_relation=True)[self.query_P]

    def take(self, row_P: Tensor | slice) -> Bound:
        taken = {variable: entity_P[row_P] for variable, entity_P in self.entity_P.items()}
        return replace(self, query_P=self.query_P[row_P], entity_P=taken)

    def bind(self, variable: Variable, entity_P: Tensor) -> Bound:
        return replace(self, entity_P={**self.entity_P, variable: entity_P})


@dataclass(frozen=True)
class _Ways:
    """As many ways for each of n rows, and how true each is so far."""

    rows: int
    bound: Bound
    score_P: Tensor | None = None

    @property
    def each(self) -> int:
        return len(self.bound) // self.rows

    def some(self, first: int, count: int) -> _Ways:
        """`count` of the ways of each row."""
        if count >= self.each:
            return self
        device = self.bound.query_P.device
        way_w = torch.arange(first, min(first + count, self.each), device=device)
        row_P = (way_w + self.each * torch.arange(self.rows, device=device)[:, None]).flatten()
        score_P = None if self.score_P is None else self.score_P[row_P]
        return _Ways(self.rows, self.bound.take(row_P), score_P)


@dataclass(frozen=True)
class Search:
    """`links` gives truth_PE of every entity as the answer to one-hop questions: an entity and a
    directed relation. The `beam` best values of a variable are kept for each way to bind those
    before it, and the `most` best ways in all.
    """

    logic: FuzzyLogic
    links: Callable[[Tensor, Tensor], Tensor]
    entities: int
    relations: int
    beam: int
    most: int

    def scores(self, formula: Formula, free: Variable, asked: Filled) -> Tensor:
        """truth_QE of every entity as `free`, in every query of a group."""
        alternatives = formula.parts if isinstance(formula, Or) else (formula,)
        bound = Bound(asked, torch.arange(len(asked.group), device=asked.device))
        found = self.logic.any_of([self.best(part, free, bound) for part in alternatives])
        return found if found.shape[1] == self.entities else found.repeat(1, self.entities)

    def best(self, formula: Formula, target: Variable | None, bound: Bound) -> Tensor:
        """truth_nE of every entity as `target`, with the best values of all other variables."""
        bindings = binding_order(formula, target, frozenset(bound.entity_P)).bindings
        ways = min(self.most, self.beam ** max(1, len(bindings) - 1))
        step = rows_at_once(ways * self.entities)
        found = []
        for start in range(0, len(bound), step):
            part = bound.take(slice(start, start + step))
            found.append(self._best(bindings, target, _Ways(len(part), part)))
        return torch.cat(found)

    def _best(self, bindings: tuple[Binding, ...], target: Variable | None, ways: _Ways) -> Tensor:
        for binding in bindings[:-1]:
            ways = self._extended(binding, ways)
        last, found = bindings[-1], []
        for _, some, truth_PE in self._judged(last, ways):
            truth_nwE = self._joined(some, truth_PE).view(ways.rows, -1, truth_PE.shape[1])
            found.append(truth_nwE.amax(1))
        best_nE = torch.stack(found).amax(0)  # eq:cqd-beam
        if last.variable is None or last.variable == target:
            return best_nE
        return best_nE.amax(1, keepdim=True)

    def _extended(self, binding: Binding, ways: _Ways) -> _Ways:
        """The best ways to bind one variable more."""
        assert binding.variable is not None
        values, codes = [], []
        for first, some, truth_PE in self._judged(binding, ways):
            value_nC, code_nC = self._candidates(some, truth_PE)
            values.append(value_nC)
            codes.append(code_nC + self.entities * first)
        value_nk, code_nk = torch.cat(values, 1), torch.cat(codes, 1)
        if value_nk.shape[1] > self.most:
            value_nk, kept_nk = value_nk.topk(self.most, 1)
            code_nk = code_nk.gather(1, kept_nk)
        row_n1 = torch.arange(ways.rows, device=code_nk.device)[:, None]
        row_P = (code_nk // self.entities + ways.each * row_n1).flatten()
        bound = ways.bound.take(row_P).bind(binding.variable, (code_nk % self.entities).flatten())
        return _Ways(ways.rows, bound, value_nk.flatten())

    def _candidates(self, ways: _Ways, truth_PE: Tensor) -> tuple[Tensor, Tensor]:
        """The truth of candidates, and which they are: way · E + entity."""
        if self.beam >= self.most:
            truth_nC = self._joined(ways, truth_PE).view(ways.rows, -1)
            found = truth_nC.topk(min(self.most, truth_nC.shape[1]), 1)
            return found.values, found.indices
        # By what is said of the value itself: joined by a minimum, many values are worth the same.
        best = truth_PE.topk(min(self.beam, self.entities), 1)
        way_P1 = torch.arange(len(truth_PE), device=truth_PE.device)[:, None] % ways.each
        code_PC = best.indices + self.entities * way_P1
        value_PC = self._joined(ways, best.values)
        return value_PC.view(ways.rows, -1), code_PC.view(ways.rows, -1)

    def _joined(self, ways: _Ways, truth_PC: Tensor) -> Tensor:
        """The truth of values together with that of the ways that lead to them."""
        if ways.score_P is None:
            return truth_PC
        return self.logic.both(ways.score_P[:, None], truth_PC)

    def _judged(self, binding: Binding, ways: _Ways) -> Iterator[tuple[int, _Ways, Tensor]]:
        """truth_PE of all values of a variable, for some ways of each row at a time: the number of
        the first of them, the ways, the values."""
        at_once = rows_at_once(ways.rows * self.entities)
        for first in range(0, ways.each, at_once):
            some = ways.some(first, at_once)
            parts = [self.truth(part, binding.variable, some.bound) for part in binding.parts]
            yield first, some, self.logic.all_of(parts)

    def truth(self, formula: Formula, target: Variable | None, bound: Bound) -> Tensor:
        """truth_PE of a formula, with every entity as `target` and the best values of the variables
        that it quantifies."""
        if isinstance(formula, Atom):
            return self._link(formula, target, bound)
        if isinstance(formula, Not):
            return self.logic.negated(self.truth(formula.body, target, bound))
        if isinstance(formula, Or):
            return self.logic.any_of([self.truth(each, target, bound) for each in formula.parts])
        return self.best(formula, target, bound)

    def _link(self, atom: Atom, target: Variable | None, bound: Bound) -> Tensor:
        backwards = atom.head == target
        source, end = (atom.tail, atom.head) if backwards else (atom.head, atom.tail)
        relation_P = bound.relation(atom.relation) + self.relations * backwards
        truth_PE = self.links(bound.entity(source), relation_P % (2 * self.relations))
        return truth_PE if end == target else truth_PE.gather(1, bound.entity(end)[:, None])
