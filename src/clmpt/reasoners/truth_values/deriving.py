"""Why an answer has its value: the atoms of its best derivation, each with its truth value.

The product of the values is the derivation's. An atom is read in the direction in which the plan
reads it, so that the values are those that were multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from clmpt.graph.edges import Ints
from clmpt.logic.formula import Query, Variable
from clmpt.reasoners.truth_values.rows import Values
from clmpt.reasoners.truth_values.truth_values import Derivations, TruthValueReasoner
from clmpt.reasoners.truth_values.value_engine import ValueEngine, ValueRun, reads_forwards
from clmpt.reasoners.truth_values.value_tables import ValueTable
from clmpt.symbolic.plan import Check, Filter, Forget, Grow, Join, Plan, Refuse, Scan, Seed
from clmpt.symbolic.skeleton import Skeleton, Slot, SlotEdge


@dataclass(frozen=True)
class Link:
    """`relation(head, tail)` between entities; a variable of a negated part stays one."""

    relation: int
    head: int | Variable
    tail: int | Variable


@dataclass(frozen=True)
class Step:
    """Links that hold together, or do not if `negated`, and the truth value of that.

    A positive step and a negated atom have one link; a negated group (¬∃) can have more.
    """

    links: tuple[Link, ...]
    negated: bool
    value: float


@dataclass(frozen=True)
class Derivation:
    """One way to fill all variables for an answer; its value is the product over the steps."""

    answer: int
    filled: dict[Variable, int]
    steps: tuple[Step, ...]

    @property
    def value(self) -> float:
        return prod(step.value for step in self.steps)


def derive(
    reasoner: TruthValueReasoner, query: Query, answers: list[int], most: int = 1
) -> dict[int, list[Derivation]]:
    """Up to `most` derivations of each answer to a query over ids, the best first. Answers of
    value 0 have none."""
    found: dict[int, list[Derivation]] = {answer: [] for answer in answers}
    for alternative in reasoner.derivations(query, most):
        free_N = alternative.table.columns[alternative.part.free]
        for row in np.flatnonzero(np.isin(free_N, answers)).tolist():
            one = _derivation(reasoner.engine, alternative, row)
            if one not in found[one.answer]:  # two alternatives may rest on the same facts
                found[one.answer].append(one)
    for derivations in found.values():
        derivations.sort(key=lambda one: -one.value)
        del derivations[most:]
    return found


def _derivation(engine: ValueEngine, found: Derivations, row: int) -> Derivation:
    one = found.table.take(np.array([row]))
    columns = {**one.decided, **one.columns}
    filled = {variable: int(column[0]) for variable, column in columns.items()}
    everything = ValueTable(np.zeros(1, np.int64), columns, np.ones(1, np.float32), {})
    run = ValueRun(engine, found.part.plan, found.slots, np.ones(1, np.bool_))
    steps = tuple(_steps(run, found, everything))
    return Derivation(filled[found.part.free], filled, steps)


def _steps(run: ValueRun, found: Derivations, row: ValueTable) -> Iterator[Step]:
    for step, edge, forwards in readings(found.part.plan):
        value = float(_value(run, row, edge, forwards)[0])
        negated = isinstance(step, Filter) and not step.holds
        if negated:
            value = float(run.engine.negated(np.array([value], np.float32))[0])
        yield Step((_link(run, edge, row),), negated, value)
    for step in found.part.plan.steps:
        if isinstance(step, Refuse):
            found_N = run.refused(step, row)
            links = tuple(_link(run, edge, row) for edge in _edges(step.part))
            yield Step(links, True, float(run.engine.negated(found_N)[0]))


def _edges(part: Skeleton) -> Iterator[SlotEdge]:
    yield from part.edges
    for inner in part.absent:
        yield from _edges(inner)


def _link(run: ValueRun, edge: SlotEdge, row: ValueTable) -> Link:
    def end(term: Slot | Variable) -> int | Variable:
        if isinstance(term, Slot):
            return int(run.batch.entities_BS[0, term.number])
        return int(row.columns[term][0]) if term in row.columns else term

    return Link(int(run.batch.relations_BR[0, edge.relation]), end(edge.head), end(edge.tail))


def _value(run: ValueRun, row: ValueTable, edge: SlotEdge, forwards: bool) -> Values:
    ends = [_end(run, term, row) for term in (edge.head, edge.tail)]
    near, far = ends if forwards else ends[::-1]
    fine = isinstance(edge.head if forwards else edge.tail, Slot)
    rows, row_N = run.rows(near, run.directed(edge, forwards), np.ones(1, np.bool_), fine)
    return rows.at(row_N, far, run.entities)


def _end(run: ValueRun, term: Slot | Variable, row: ValueTable) -> Ints:
    if isinstance(term, Slot):
        return run.batch.entities_BS[:, term.number]
    return np.asarray(row.columns[term], np.int64)


def readings(plan: Plan) -> Iterator[tuple[object, SlotEdge, bool]]:
    """Each step that reads an atom, the atom, and whether it is read from head to tail."""
    order: dict[int, list[Variable]] = {}
    for step in plan.steps:
        if isinstance(step, Check):
            yield step, step.edge, True
        elif isinstance(step, Seed):
            order[step.table] = [step.variable]
            for edge in step.edges:
                yield step, edge, isinstance(edge.head, Slot)
        elif isinstance(step, Scan):
            ends = (step.edge.head, step.edge.tail)
            order[step.table] = list(dict.fromkeys(v for v in ends if isinstance(v, Variable)))
            yield step, step.edge, True
        elif isinstance(step, Grow):
            order[step.table].append(step.stop)
            yield step, step.edge, step.edge.head == step.start
        elif isinstance(step, Filter):
            yield step, step.edge, reads_forwards(step.edge, order[step.table])
        elif isinstance(step, Join):
            order[step.table] = list(dict.fromkeys(order[step.table] + order[step.other]))
        elif isinstance(step, Forget):
            order[step.table] = list(step.keep)
