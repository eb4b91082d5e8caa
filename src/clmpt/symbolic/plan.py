"""How to answer a pattern, decided once per shape: a list of steps over tables of bindings.

Variables are eliminated one by one. A variable next to a constant starts a table; a table grows
along an atom, is filtered by negated parts, and forgets a variable once nothing needs it. Nothing
here touches a graph, and no step knows the name of a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from clmpt.logic.formula import Variable
from clmpt.symbolic.skeleton import Signature, Skeleton, Slot, SlotEdge, skeleton_for, with_slots

MANY_VARIABLES = 100  # from here on, the first variable that is narrow enough goes next


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


class _WaitingEdges:
    """The atoms between two variables that no step has used yet, in order."""

    def __init__(self, edges: Sequence[SlotEdge]) -> None:
        self.variables = {edge: edge.variables for edge in edges}
        self.at: dict[Variable, dict[SlotEdge, frozenset[Variable]]] = {}
        for edge, variables in self.variables.items():
            for variable in variables:
                self.at.setdefault(variable, {})[edge] = variables

    def at_variable(self, variable: Variable) -> dict[SlotEdge, frozenset[Variable]]:
        return self.at.get(variable, {})

    def remove(self, edge: SlotEdge) -> None:
        for variable in self.variables.pop(edge):
            del self.at[variable][edge]

    def near(self, variable: Variable) -> frozenset[Variable]:
        """The variable and those that it shares an atom with."""
        return frozenset({variable}).union(*self.at_variable(variable).values())

    def within(self, columns: set[Variable]) -> list[SlotEdge]:
        found = {
            edge
            for variable in columns
            for edge, variables in self.at_variable(variable).items()
            if variables <= columns
        }
        return sorted(found, key=lambda edge: edge.relation)


class _Planner:
    def __init__(self, skeleton: Skeleton, outputs: tuple[Variable, ...]) -> None:
        self.outputs = outputs
        self.entity_slots = skeleton.entity_slots
        self.steps: list[Step] = [Check(edge) for edge in skeleton.edges if not edge.variables]
        self.tables: dict[int, set[Variable]] = {}
        self.waiting = _WaitingEdges([e for e in skeleton.edges if len(e.variables) == 2])
        self.loops = [
            e for e in skeleton.edges if isinstance(e.head, Variable) and e.head == e.tail
        ]
        self.unary = [
            edge for edge in skeleton.edges if len(edge.variables) == 1 and edge not in self.loops
        ]
        positive = frozenset[Variable]().union(*(edge.variables for edge in skeleton.edges))
        self.refusals = [(part.variables & positive, part) for part in skeleton.absent]
        self.variables = sorted(positive, key=lambda variable: variable.name)
        self.hidden = [v for v in self.variables if v not in outputs]
        self.made = 0

    def run(self) -> Plan:
        for variable in self.variables:
            edges = tuple(edge for edge in self.unary if variable in edge.variables)
            if edges:
                self.filter(self.new_table({variable}, Seed(self.made, variable, edges)))
        self.scan_the_unreached()
        self.refuse_without_variables()
        while self.hidden:
            chosen = self.next_to_go()
            if chosen is not None:
                self.eliminate(chosen)
            else:
                self.grow_any()
        while self.waiting.variables:
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
            edges = (e for e, ends in self.waiting.variables.items() if ends & missing)
            edge = loops[0] if loops else next(edges)
            (self.loops if loops else self.waiting).remove(edge)
            self.filter(self.new_table(set(edge.variables), Scan(self.made, edge)))

    def unreached(self) -> set[Variable]:
        reached = set().union(*self.tables.values()) if self.tables else set()
        new = list(reached)
        while new:
            grown = self.waiting.near(new.pop()) - reached
            reached |= grown
            new += grown
        return set(self.variables) - reached

    def filter(self, table: int) -> None:
        """Adds every filter that needs only the table's own variables."""
        columns = self.tables[table]
        for loop in [loop for loop in self.loops if loop.head in columns]:
            self.loops.remove(loop)
            self.steps.append(Filter(table, loop))
        for edge in self.waiting.within(columns):
            self.waiting.remove(edge)
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
        inner = plan_for(with_slots(part, slots), ())
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

    def next_to_go(self) -> Variable | None:
        """The hidden variable whose elimination takes the narrowest table, if one can go."""
        best = None
        for variable in self.hidden:
            if width := self.width(variable):
                best = min(best or (width, variable), (width, variable))
                if width[0] <= 2 and len(self.hidden) > MANY_VARIABLES:
                    break
        return best and best[1]

    def width(self, variable: Variable) -> tuple[int, bool, int, str] | None:
        """How many columns the table will have when the variable goes: fewer is better. None if it
        cannot go yet, because it, or what it is negated with, is too far from all tables."""
        near = self.waiting.near(variable)
        holders = self.holders(variable)
        tables = holders or [t for t, columns in self.tables.items() if near & columns][:1]
        outer = [outer for outer, _ in self.refusals if variable in outer]
        far = frozenset[Variable]().union(*outer) - near
        if not tables or not all(map(self.holders, far)):
            return None
        columns = near.union(*(self.tables[table] for table in tables), *outer)
        return len(columns), not holders, len(holders), variable.name

    def eliminate(self, variable: Variable) -> None:
        if not self.holders(variable):
            self.reach(variable)
        table = self.join(self.holders(variable))
        while edges := self.waiting.at_variable(variable):
            self.grow(table, next(iter(edges)), variable)
        for outer, _ in [r for r in self.refusals if variable in r[0]]:
            for other in sorted(outer - self.tables[table], key=lambda v: v.name):
                if other not in self.tables[table]:
                    table = self.join([table, *self.holders(other)])
        columns = self.tables[table] - {variable}
        keep = tuple(sorted(columns, key=lambda v: v.name))
        last = self.steps[-1]
        if isinstance(last, Grow) and last.start == variable:
            self.steps[-1] = replace(last, leave=True)
        self.steps.append(Forget(table, keep))  # the only step that can make rows equal
        self.tables[table] = set(keep)
        self.hidden.remove(variable)

    def reach(self, variable: Variable) -> None:
        """Grows a table by a variable that is an atom away."""
        table, edge, start = next(
            (table, edge, start)
            for table, columns in self.tables.items()
            for edge, ends in self.waiting.at_variable(variable).items()
            for start in ends & columns
        )
        self.grow(table, edge, start)

    def grow_any(self) -> None:
        table, edge, start = next(
            (table, edge, start)
            for edge, ends in self.waiting.variables.items()
            for table, columns in self.tables.items()
            for start in ends & columns
        )
        self.grow(table, edge, start)

    def finish(self) -> Plan:
        if not self.tables:
            return Plan(tuple(self.steps), self.outputs, None)
        table = self.join(list(self.tables))
        return Plan(tuple(self.steps), self.outputs, table)
