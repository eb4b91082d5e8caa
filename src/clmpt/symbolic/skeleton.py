"""A pattern without its constants: what all queries of one shape have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

from clmpt.logic.formula import Symbol, Term, Variable
from clmpt.logic.normal_form import Pattern


@dataclass(frozen=True, slots=True)
class Slot:
    """A constant whose value differs from query to query."""

    number: int


End: TypeAlias = Slot | Variable


@dataclass(frozen=True, slots=True)
class SlotEdge:
    """An atom with its relation and constants abstracted to slots."""

    relation: int
    head: End
    tail: End

    @property
    def variables(self) -> frozenset[Variable]:
        return frozenset(end for end in (self.head, self.tail) if isinstance(end, Variable))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A pattern without its constants: what two queries of one shape have in common."""

    edges: tuple[SlotEdge, ...]
    absent: tuple[Skeleton, ...]

    @property
    def variables(self) -> frozenset[Variable]:
        own = frozenset().union(*(edge.variables for edge in self.edges))
        return own.union(*(part.variables for part in self.absent))

    @property
    def entity_slots(self) -> int:
        ends = (end for edge in self.edges for end in (edge.head, edge.tail))
        own = [end.number + 1 for end in ends if isinstance(end, Slot)]
        return max([0, *own, *(part.entity_slots for part in self.absent)])


def is_anchored(part: Skeleton) -> bool:
    """Whether constants of its own lead to all variables of a part's positive atoms."""
    reached: set[object] = set()
    edges = list(part.edges)
    while True:
        grown = {
            end
            for edge in edges
            for end, other in ((edge.head, edge.tail), (edge.tail, edge.head))
            if end not in reached and (isinstance(end, Slot) or other in reached)
        }
        if not grown:
            break
        reached |= grown
    positive = {end for edge in edges for end in (edge.head, edge.tail)}
    return positive <= reached and part.variables <= positive


Signature: TypeAlias = tuple[Any, ...]  # (((end, end), …), (Signature, …)); ends are int or str


def signature_of(pattern: Pattern) -> tuple[Signature, list[Symbol], list[Symbol]]:
    """A pattern's shape as plain tuples, cheap to make and to hash, with its constants in order."""
    entities: list[Symbol] = []
    relations: list[Symbol] = []

    def end(term: Term) -> int | str:
        if isinstance(term, Variable):
            return term.name
        entities.append(term)
        return len(entities) - 1

    def part(inner: Pattern) -> Signature:
        relations.extend(atom.relation for atom in inner.atoms)
        ends = tuple((end(atom.head), end(atom.tail)) for atom in inner.atoms)
        return ends, tuple(part(absent) for absent in inner.absent)

    return part(pattern), entities, relations


@lru_cache(maxsize=4096)
def skeleton_for(signature: Signature) -> Skeleton:
    """The skeleton of a signature; relations are numbered in the order of the atoms."""
    numbers = count()

    def end(value: int | str) -> End:
        return Slot(value) if isinstance(value, int) else Variable(value)

    def part(inner: Signature) -> Skeleton:
        edges = tuple(SlotEdge(next(numbers), end(head), end(tail)) for head, tail in inner[0])
        return Skeleton(edges, tuple(part(absent) for absent in inner[1]))

    return part(signature)


def with_slots(part: Skeleton, slots: dict[Variable, Slot]) -> Skeleton:
    """A part with constants in place of some of its variables."""

    def end(old: End) -> End:
        return slots.get(old, old) if isinstance(old, Variable) else old

    edges = tuple(SlotEdge(edge.relation, end(edge.head), end(edge.tail)) for edge in part.edges)
    return Skeleton(edges, tuple(with_slots(inner, slots) for inner in part.absent))
