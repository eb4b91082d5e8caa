"""Random groundings of a shape: values for its placeholders such that the query has an answer.

A grounding is a random walk through the graph along the query's atoms, from the free variable
outwards, for thousands of queries at once. As in BetaE's protocol, a step first picks one of the
available relations and then one of its neighbours, each with equal probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from clmpt.errors import SamplingError
from clmpt.graph.edges import AnyInts, Bools, Ints, expand
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import (
    Atom,
    Placeholder,
    Query,
    Symbol,
    Term,
    Variable,
    atoms,
    placeholders,
)
from clmpt.logic.normal_form import Pattern, all_variables, variables_in
from clmpt.sampling.symmetries import symmetries
from clmpt.symbolic.engine import Engine, SlotValues
from clmpt.symbolic.plan import planned
from clmpt.symbolic.skeleton import signature_of


@dataclass(frozen=True)
class Grounding:
    """Values for a template's placeholders, one row per query."""

    entities: Ints
    relations: Ints

    def __len__(self) -> int:
        return len(self.entities)

    def take(self, rows: AnyInts | Bools) -> Grounding:
        return Grounding(self.entities[rows], self.relations[rows])


class Grounder:
    """Draws groundings of one template from one graph."""

    def __init__(self, template: Query, graph: KnowledgeGraph) -> None:
        self.template, self.graph, self.index = template, graph, graph.index
        self.keys, self.starts = self.index.by_entity
        self.entity_names, self.relation_names = placeholders(template)
        if not self.entity_names and not self.relation_names:
            raise SamplingError(
                f"'{template}' has no placeholders, so there is nothing to sample. "
                "Write $r1, $s1, … for each relation or entity to be chosen."
            )
        self.positive = _in_walking_order(
            list(dict.fromkeys(a for p in template.patterns for a in p.atoms)), template.free
        )
        self.with_edges = np.flatnonzero(np.diff(self.starts))
        self.symmetries = symmetries(template)
        for atom in atoms(template.body):  # rejects names that the graph lacks before any walk
            for end in (atom.head, atom.tail):
                if not isinstance(end, Variable | Placeholder):
                    graph.entities.resolve(end)
            if not isinstance(atom.relation, Placeholder):
                graph.relations.resolve(atom.relation)

    @cached_property
    def middles(self) -> Ints:
        """Where the keys of each entity change from forward to backward."""
        forward = self.index.keys_K1[self.keys] < self.index.relations * self.index.entities
        before = np.concatenate([[0], np.cumsum(forward)])
        middles: Ints = self.starts[:-1] + np.diff(before[self.starts])
        return middles

    @property
    def is_enumerable(self) -> bool:
        """Whether this is a single atom: it has one grounding per (entity, relation) pair."""
        atom = self.positive[0]
        ends = {type(atom.head), type(atom.tail)}
        return (
            len(self.positive) == 1
            and ends == {Variable, Placeholder}
            and isinstance(atom.relation, Placeholder)
            and not any(pattern.absent for pattern in self.template.patterns)
        )

    def all(self) -> Grounding:
        """Every grounding of an enumerable template."""
        keys = np.asarray(self.index.keys_K1[:-1])
        relation, entity = keys // self.index.entities, keys % self.index.entities
        if isinstance(self.positive[0].tail, Placeholder):
            relation = self.index.inverse(relation)
        if self.graph.has_both_directions:
            named = relation < self.index.relations
            entity, relation = entity[named], relation[named]
        return Grounding(entity[:, None], self.plain(relation)[:, None])

    def draw(self, count: int, rng: np.random.Generator) -> Grounding:
        """Up to `count` groundings: walks that fail are dropped, not retried."""
        walk = _Walk(self, count, rng)
        walk.follow(self.positive, self.template.free)
        walk.keep(~self.turns_back(walk, self.positive))
        # A part that several alternatives negate is grounded once, by a match of the first of them.
        patterns = reversed(self.template.patterns)
        for absent, pattern in {a: p for p in patterns for a in p.absent}.items():
            self.ground_absent(walk, pattern, absent)
        walk.keep(~self.repeats_an_atom(walk))
        found = Grounding(
            walk.columns(self.entity_names, "entity"), walk.columns(self.relation_names, "relation")
        )
        return self.canonical(Grounding(found.entities, self.plain(found.relations)))

    def ground_absent(self, walk: _Walk, pattern: Pattern, absent: Pattern) -> None:
        """Grounds a negated part so that it removes a match of the positive part."""
        outer = tuple(v for v in all_variables(absent) if v in variables_in(pattern.atoms))
        signature, entities, relations = signature_of(Pattern((), pattern.atoms))
        batch = SlotValues(walk.symbols(entities, "entity"), walk.symbols(relations, "relation"))
        matches = Engine(self.index).run(planned(signature, outer)[1], batch)
        order = np.argsort(matches.query_N, kind="stable")
        start = np.searchsorted(matches.query_N[order], np.arange(len(walk)))
        stop = np.searchsorted(matches.query_N[order], np.arange(len(walk)), "right")
        chosen = walk.choose(start, stop)
        alive = stop > start
        before = dict(walk.values)
        witness = order[np.where(alive, chosen, 0)] if len(order) else np.zeros(len(walk), np.int64)
        for variable in outer:
            column = matches.columns[variable].astype(np.int64)
            walk.values[variable] = (
                column[witness] if len(column) else np.zeros(len(walk), np.int64)
            )
        walk.saved = {variable: before[variable] for variable in outer}
        walk.keep(alive)
        start_at = outer[0] if outer else self.template.free
        walk.follow(_in_walking_order(list(_all_atoms(absent)), start_at), start_at)
        walk.keep(~self.turns_back(walk, absent.atoms, outer))
        walk.restore()

    # --- degenerate queries -----------------------------------------------------------------

    def turns_back(
        self, walk: _Walk, steps_of: Sequence[Atom], outer: tuple[Variable, ...] = ()
    ) -> Bools:
        """Whether a path goes back along the edge it came by.

        In a chain it is enough that the relation is the inverse of the one just used (as in BetaE);
        where branches meet, or where the shape itself has the same relation in both places, the
        step must also lead back to the entity it came from.
        """
        bad = np.zeros(len(walk), np.bool_)
        for variable in variables_in(steps_of):
            if variable == self.template.free or variable in outer:
                continue
            touching = [atom for atom in steps_of if variable in (atom.head, atom.tail)]
            for one, other in combinations(touching, 2):
                same_relation, same_end = self.alike(walk, one, other, variable)
                in_a_chain = len(touching) == 2 and one.relation != other.relation
                bad |= same_relation if in_a_chain else same_relation & same_end
        return bad

    def repeats_an_atom(self, walk: _Walk) -> Bools:
        """Whether two atoms that constrain the same variables have become the same atom."""
        bad = np.zeros(len(walk), np.bool_)
        every = [
            *self.positive,
            *(a for p in self.template.patterns for n in p.absent for a in n.atoms),
        ]
        for one, other in combinations(dict.fromkeys(every), 2):
            for variable in {one.head, one.tail} & {other.head, other.tail}:
                if isinstance(variable, Variable):
                    bad |= self.same_step(walk, one, other, variable)
        return bad

    def same_step(self, walk: _Walk, one: Atom, other: Atom, variable: Variable) -> Bools:
        far = [atom.tail if atom.head == variable else atom.head for atom in (one, other)]
        if any(isinstance(end, Variable) for end in far) and far[0] != far[1]:
            return np.zeros(len(walk), np.bool_)
        same_relation, same_end = self.alike(walk, one, other, variable)
        return same_relation & same_end

    def alike(self, walk: _Walk, one: Atom, other: Atom, variable: Variable) -> tuple[Bools, Bools]:
        """Whether two atoms leave a variable by the same relation, and for the same entity."""
        relation, end = walk.outward(one, variable)
        other_relation, other_end = walk.outward(other, variable)
        return self.plain(relation) == self.plain(other_relation), end == other_end

    def plain(self, relation: Ints) -> Ints:
        """The relations, with inverses that the graph has as relations replaced by those."""
        half = self.index.relations
        inverse = self.graph.inverse_ids[relation % half]
        return np.where((relation >= half) & (inverse >= 0), inverse, relation)

    # --- a canonical form for queries that differ only in the order of their parts ----------

    def canonical(self, found: Grounding) -> Grounding:
        """The least of all orders; rows with identical parts are dropped."""
        given = best = np.hstack([found.entities, found.relations])
        doubled = np.zeros(len(given), np.bool_)
        for symmetry in self.symmetries:
            relations = found.relations[:, symmetry.relations]
            turned = self.plain(self.index.inverse(relations))
            relations = np.where(np.array(symmetry.inverted, np.bool_), turned, relations)
            other = np.hstack([found.entities[:, symmetry.entities], relations])
            differs = other != best
            first = np.argmax(differs, axis=1)
            rows = np.arange(len(best))
            smaller = differs.any(axis=1) & (other[rows, first] < best[rows, first])
            best = np.where(smaller[:, None], other, best)
            if not any(symmetry.inverted):
                doubled |= (other == given).all(axis=1)
        best = best[~doubled]
        split = len(self.entity_names)
        return Grounding(best[:, :split], best[:, split:])


class _Walk:
    """Values of variables and placeholders for many walks at once; failed ones are dropped."""

    def __init__(self, grounder: Grounder, count: int, rng: np.random.Generator) -> None:
        self.grounder, self.index, self.rng, self.count = grounder, grounder.index, rng, count
        self.values: dict[Term | tuple[str, Symbol], Ints] = {}
        self.saved: dict[Variable, Ints] = {}

    def __len__(self) -> int:
        return self.count

    def keep(self, rows: Bools) -> None:
        self.values = {key: value[rows] for key, value in self.values.items()}
        self.saved = {key: value[rows] for key, value in self.saved.items()}
        self.count = int(rows.sum())

    def restore(self) -> None:
        """Restores the values of variables that were set for a negated part."""
        for variable, value in self.saved.items():
            self.values[variable] = value
        self.saved = {}

    def choose(self, start: AnyInts, stop: AnyInts) -> Ints:
        """A random position in each range; meaningless where the range is empty."""
        chosen = start + (self.rng.random(len(start)) * (stop - start)).astype(np.int64)
        return chosen.astype(np.int64, copy=False)

    def follow(self, path: list[Atom], first: Variable) -> None:
        if first not in self.values and not any(self.known(a.head, a.tail) for a in path[:1]):
            self.values[first] = self.anywhere()
        for atom in path:
            self.step(atom)

    def anywhere(self) -> Ints:
        """A random entity that has edges, for each walk."""
        entities = self.grounder.with_edges
        return entities[self.rng.integers(len(entities), size=self.count)]

    def known(self, *ends: Term) -> bool:
        return any(self.value(end) is not None for end in ends)

    def value(self, end: Term) -> Ints | None:
        if isinstance(end, Variable | Placeholder):
            return self.values.get(end)
        return np.full(self.count, self.grounder.graph.entities.resolve(end))

    def relation(self, symbol: Symbol) -> Ints | None:
        if isinstance(symbol, Placeholder):
            return self.values.get(("relation", symbol))
        return np.full(self.count, self.grounder.graph.relations.resolve(symbol))

    def step(self, atom: Atom) -> None:
        head, tail, relation = (
            self.value(atom.head),
            self.value(atom.tail),
            self.relation(atom.relation),
        )
        if head is None and tail is None:
            head = self.values[atom.head] = self.anywhere()
        forward = head is not None
        near, far = (head, tail) if forward else (tail, head)
        assert near is not None
        if relation is None and far is not None:
            directed, found = self.connecting(near, far, forward)
        elif relation is None:
            directed, found = self.any_relation(near, forward)
        else:
            directed = relation if forward else self.index.inverse(relation)
            found = np.ones(self.count, np.bool_)
        start, stop = self.index.ranges(near, directed)
        if far is None:
            chosen, found = self.choose(start, stop), found & (stop > start)
            reached = self.index.neighbours_X[np.where(found, chosen, 0)].astype(np.int64)
            self.values[atom.tail if forward else atom.head] = reached
        else:
            found = found & self.index.find(start, stop, far)[1] if self.count else found
        if isinstance(atom.relation, Placeholder):
            self.values["relation", atom.relation] = (
                directed if forward else self.index.inverse(directed)
            )
        self.keep(found)

    def key_range(self, near: Ints, forward: bool) -> tuple[Ints, Ints]:
        """Where the keys of the relations that may be chosen at an entity start and stop.

        If the graph has both directions as relations, only those; else all, in either direction.
        """
        start, stop = self.grounder.starts[near], self.grounder.starts[near + 1]
        if not self.grounder.graph.has_both_directions:
            return start, stop
        middle = self.grounder.middles[near]
        return (start, middle) if forward else (middle, stop)

    def relation_of(self, place: AnyInts) -> Ints:
        found: Ints = self.index.keys_K1[self.grounder.keys[place]] // self.index.entities
        return found

    def any_relation(self, near: Ints, forward: bool) -> tuple[Ints, Bools]:
        start, stop = self.key_range(near, forward)
        found = stop > start
        return self.relation_of(np.where(found, self.choose(start, stop), 0)), found

    def connecting(self, near: Ints, far: Ints, forward: bool) -> tuple[Ints, Bools]:
        """A random relation among those that lead from each entity to its counterpart."""
        row, place = expand(*self.key_range(near, forward))
        key = self.grounder.keys[place]
        bounds = self.index.offsets_K2.astype(np.int64)
        _, leads = self.index.find(bounds[key], bounds[key + 1], far[row])
        row, place = row[leads], place[leads]
        start = np.searchsorted(row, np.arange(self.count))
        stop = np.searchsorted(row, np.arange(self.count), "right")
        found = stop > start
        chosen = np.where(found, self.choose(start, stop), 0)
        picked = place[chosen] if len(place) else np.zeros(self.count, np.int64)
        return self.relation_of(picked), found

    def outward(self, atom: Atom, variable: Variable) -> tuple[Ints, Ints]:
        """An atom as seen from one of its ends: the relation that leads away, and its target."""
        relation = self.relation(atom.relation)
        forward = atom.head == variable
        end = self.value(atom.tail if forward else atom.head)
        assert relation is not None
        assert end is not None
        return relation if forward else self.index.inverse(relation), end

    def columns(self, names: tuple[str, ...], kind: str) -> Ints:
        return self.symbols(tuple(Placeholder(name) for name in names), kind)

    def symbols(self, symbols: Sequence[Symbol], kind: str) -> Ints:
        read = self.relation if kind == "relation" else self.value
        found = [read(symbol) for symbol in symbols]
        filled = [value for value in found if value is not None]
        assert len(filled) == len(symbols)
        return np.stack(filled, axis=1) if filled else np.empty((self.count, 0), np.int64)


def _all_atoms(pattern: Pattern) -> Iterable[Atom]:
    yield from pattern.atoms
    for absent in pattern.absent:
        yield from _all_atoms(absent)


def _in_walking_order(unordered: list[Atom], first: Variable) -> list[Atom]:
    """Atoms ordered so that each touches an earlier one, from fixed constants or else `first`."""
    fixed = {
        end
        for atom in unordered
        for end in (atom.head, atom.tail)
        if not isinstance(end, Variable | Placeholder)
    }
    reached: set[Term] = set(fixed) or {first}
    ordered: list[Atom] = []
    waiting = list(unordered)
    while waiting:
        touching = [atom for atom in waiting if {atom.head, atom.tail} & reached]
        atom = (touching or waiting)[0]
        waiting.remove(atom)
        ordered.append(atom)
        reached |= {atom.head, atom.tail}
    return ordered
