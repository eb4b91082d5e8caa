"""How to answer a pattern, decided once per shape: a list of steps over tables of bindings.

Variables are eliminated one by one. A variable next to a constant starts a table; a table grows
along an atom, is filtered by negated parts, and forgets a variable once nothing needs it. Nothing
here touches a graph, and no step knows the name of a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


# --- the steps ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """Keep the queries for which an atom between two constants holds."""

    edge: SlotEdge


@dataclass(frozen=True, slots=True)
class Seed:
    """Start `table` with the values of `variable` that all these atoms with constants allow."""

    table: int
    variable: Variable
    edges: tuple[SlotEdge, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Start `table` with every pair that an atom between variables allows."""

    table: int
    edge: SlotEdge


@dataclass(frozen=True, slots=True)
class Join:
    """Replace `table` by its join with `other` on the variables they share."""

    table: int
    other: int


@dataclass(frozen=True, slots=True)
class Grow:
    """Follow an atom from a variable of the table to one that it lacks.

    `leave` says that the start is no longer needed, so its column is left out.
    """

    table: int
    edge: SlotEdge
    start: Variable
    stop: Variable
    leave: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which an atom holds, or those for which it does not."""

    table: int
    edge: SlotEdge
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Refuse:
    """Drop the rows for which a sub-plan finds a match.

    The sub-plan is given the row's values of `outer` as constants, from slot `first_slot` on.
    A negative table stands for the queries themselves. `part` is what the sub-plan was made from,
    with the outer variables still variables.
    """

    table: int
    outer: tuple[Variable, ...]
    first_slot: int
    plan: Plan
    part: Skeleton


@dataclass(frozen=True, slots=True)
class Forget:
    """Keep only these variables, each combination once."""

    table: int
    keep: tuple[Variable, ...]


Step: TypeAlias = Check | Seed | Scan | Join | Grow | Filter | Refuse | Forget


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps that end in one table with the columns `outputs`, or none if there are no variables."""

    steps: tuple[Step, ...]
    outputs: tuple[Variable, ...]
    table: int | None


@lru_cache(maxsize=4096)
def plan_for(skeleton: Skeleton, outputs: tuple[Variable, ...]) -> Plan:
    """The steps for all bindings of `outputs` that make a skeleton true."""
    return _Planner(skeleton, outputs).run()


@lru_cache(maxsize=4096)
def planned(signature: Signature, outputs: tuple[Variable, ...]) -> tuple[Skeleton, Plan]:
    """The skeleton and the plan of a signature, cached by the signature alone."""
    skeleton = skeleton_for(signature)
    return skeleton, plan_for(skeleton, outputs)


class _Planner:
    def __init__(self, skeleton: Skeleton, outputs: tuple[Variable, ...]) -> None:
        self.outputs = outputs
        self.entity_slots = skeleton.entity_slots
        self.steps: list[Step] = [Check(edge) for edge in skeleton.edges if not edge.variables]
        self.tables: dict[int, set[Variable]] = {}
        self.waiting = [edge for edge in skeleton.edges if len(edge.variables) == 2]
        self.loops = [
            e for e in skeleton.edges if isinstance(e.head, Variable) and e.head == e.tail
        ]
        self.unary = [
            edge for edge in skeleton.edges if len(edge.variables) == 1 and edge not in self.loops
        ]
        positive = frozenset[Variable]().union(*(edge.variables for edge in skeleton.edges))
        self.refusals = [(part.variables & positive, part) for part in skeleton.absent]
        self.variables = sorted(positive, key=lambda variable: variable.name)
        self.made = 0

    def run(self) -> Plan:
        for variable in self.variables:
            edges = tuple(edge for edge in self.unary if variable in edge.variables)
            if edges:
                self.filter(self.new_table({variable}, Seed(self.made, variable, edges)))
        self.scan_the_unreached()
        self.refuse_without_variables()
        while hidden := [v for v in self.variables if v not in self.outputs]:
            ready = [v for v in hidden if self.holders(v) and self.can_finish(v)]
            if ready:
                self.eliminate(min(ready, key=self.width))
            else:
                self.grow_any()
        while self.waiting:
            self.grow_any()
        return self.finish()

    # --- building blocks --------------------------------------------------------------------------

    def new_table(self, columns: set[Variable], step: Step) -> int:
        self.steps.append(step)
        self.tables[self.made] = columns
        self.made += 1
        return self.made - 1

    def holders(self, variable: Variable) -> list[int]:
        return [table for table, columns in self.tables.items() if variable in columns]

    def scan_the_unreached(self) -> None:
        """A component without constants starts from all pairs of one of its atoms."""
        while missing := self.unreached():
            loops = [loop for loop in self.loops if loop.head in missing]
            edge = (loops or [e for e in self.waiting if e.variables & missing])[0]
            (self.loops if loops else self.waiting).remove(edge)
            self.filter(self.new_table(set(edge.variables), Scan(self.made, edge)))

    def unreached(self) -> set[Variable]:
        reached = set().union(*self.tables.values()) if self.tables else set()
        while grown := {
            variable
            for edge in self.waiting
            if edge.variables & reached
            for variable in edge.variables - reached
        }:
            reached |= grown
        return set(self.variables) - reached

    def filter(self, table: int) -> None:
        """Adds every filter that needs only the table's own variables."""
        columns = self.tables[table]
        for pool in (self.loops, self.waiting):
            for edge in [edge for edge in pool if edge.variables <= columns]:
                pool.remove(edge)
                self.steps.append(Filter(table, edge))
        for refusal in [r for r in self.refusals if r[0] and r[0] <= columns]:
            self.refusals.remove(refusal)
            self.steps.append(self.refuse(table, *refusal))

    def refuse(self, table: int, outer: frozenset[Variable], part: Skeleton) -> Filter | Refuse:
        """A negated atom is a filter; in a larger part, the outer variables become constants."""
        if outer and len(part.edges) == 1 and not part.absent and part.variables <= outer:
            return Filter(table, part.edges[0], holds=False)
        order = tuple(sorted(outer, key=lambda variable: variable.name))
        slots = {variable: Slot(self.entity_slots + at) for at, variable in enumerate(order)}
        inner = plan_for(_with_slots(part, slots), ())
        return Refuse(table, order, self.entity_slots, inner, part)

    def refuse_without_variables(self) -> None:
        for refusal in [r for r in self.refusals if not r[0]]:
            self.refusals.remove(refusal)
            self.steps.append(self.refuse(-1, *refusal))

    def join(self, tables: Sequence[int]) -> int:
        first, *others = tables
        for other in others:
            self.steps.append(Join(first, other))
            self.tables[first] |= self.tables.pop(other)
        self.filter(first)
        return first

    def grow(self, table: int, edge: SlotEdge, start: Variable) -> None:
        (stop,) = edge.variables - {start}
        self.waiting.remove(edge)
        self.steps.append(Grow(table, edge, start, stop))
        self.tables[table].add(stop)
        self.filter(table)

    # --- elimination ------------------------------------------------------------------------------

    def can_finish(self, variable: Variable) -> bool:
        """Whether all variables that it is negated with are in tables or share an atom with it."""
        near = frozenset[Variable]().union(*self.edges_at(variable))
        return all(
            other in near or self.holders(other)
            for outer, _ in self.refusals
            if variable in outer
            for other in outer
        )

    def edges_at(self, variable: Variable) -> list[frozenset[Variable]]:
        return [edge.variables for edge in self.waiting if variable in edge.variables]

    def width(self, variable: Variable) -> tuple[int, int, str]:
        """How many columns the table will have when the variable goes; fewer is better."""
        columns = frozenset({variable}).union(
            *(self.tables[table] for table in self.holders(variable)),
            *self.edges_at(variable),
            *(outer for outer, _ in self.refusals if variable in outer),
        )
        return len(columns), len(self.holders(variable)), variable.name

    def eliminate(self, variable: Variable) -> None:
        table = self.join(self.holders(variable))
        while edges := [edge for edge in self.waiting if variable in edge.variables]:
            self.grow(table, edges[0], variable)
        for outer, _ in [r for r in self.refusals if variable in r[0]]:
            for other in sorted(outer - self.tables[table], key=lambda v: v.name):
                if other not in self.tables[table]:
                    table = self.join([table, *self.holders(other)])
        keep = tuple(v for v in self.variables if v in self.tables[table] and v != variable)
        last = self.steps[-1]
        if isinstance(last, Grow) and last.start == variable:
            self.steps[-1] = replace(last, leave=True)
        self.steps.append(Forget(table, keep))  # the only step that can make rows equal
        self.tables[table] = set(keep)
        self.variables.remove(variable)

    def grow_any(self) -> None:
        table, edge, start = next(
            (table, edge, start)
            for edge in self.waiting
            for table, columns in self.tables.items()
            for start in edge.variables & columns
        )
        self.grow(table, edge, start)

    def finish(self) -> Plan:
        if not self.tables:
            return Plan(tuple(self.steps), self.outputs, None)
        table = self.join(list(self.tables))
        return Plan(tuple(self.steps), self.outputs, table)


def _with_slots(part: Skeleton, slots: dict[Variable, Slot]) -> Skeleton:
    def end(old: End) -> End:
        return slots.get(old, old) if isinstance(old, Variable) else old

    edges = tuple(SlotEdge(edge.relation, end(edge.head), end(edge.tail)) for edge in part.edges)
    return Skeleton(edges, tuple(_with_slots(inner, slots) for inner in part.absent))
