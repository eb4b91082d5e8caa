"""Random small graphs and random safe queries, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import (
    Atom,
    Exists,
    Formula,
    Name,
    Not,
    Query,
    Variable,
    conjunction,
    disjunction,
)

ENTITIES = [f"e{number}" for number in range(6)]
RELATIONS = ["r0", "r1", "r2"]

triples = st.tuples(
    st.sampled_from(ENTITIES), st.sampled_from(RELATIONS), st.sampled_from(ENTITIES)
)


@st.composite
def graphs(draw: st.DrawFn, splits: tuple[str, ...] = ("facts",)) -> KnowledgeGraph:
    """Every entity and relation name exists, whether or not a triple uses it."""
    builder = GraphBuilder(ENTITIES, RELATIONS)
    for split in splits:
        for triple in draw(st.lists(triples, min_size=1, max_size=25)):
            builder.add(split, *triple)
    return builder.build()


@st.composite
def atoms_over(draw: st.DrawFn, ends: list[Variable], include: Variable | None = None) -> Atom:
    """An atom whose ends are some of the variables, or constants; one end is `include`."""
    relation = Name(draw(st.sampled_from(RELATIONS)))
    constants = [Name(entity) for entity in ENTITIES]
    first = include or draw(st.sampled_from([*ends, *constants[:2]]))
    second = draw(st.sampled_from([*ends, *ends, *constants]))
    pair = (first, second) if draw(st.booleans()) else (second, first)
    return Atom(relation, *pair)


@st.composite
def groups(
    draw: st.DrawFn, outer: list[Variable], own: list[Variable], depth: int, negation: bool = True
) -> Formula:
    """A conjunction that binds `own` positively, with negated parts and alternatives."""
    ends = outer + own
    parts: list[Formula] = [draw(atoms_over(ends, include=variable)) for variable in own]
    if not own:
        parts.append(draw(atoms_over(ends)))
    parts += draw(st.lists(atoms_over(ends), max_size=2))
    for _ in range(draw(st.integers(0, 2)) if depth else 0):
        parts.append(draw(further_parts(ends, depth - 1, negation)))
    return conjunction(draw(st.permutations(parts)))


@st.composite
def further_parts(draw: st.DrawFn, bound: list[Variable], depth: int, negation: bool) -> Formula:
    negated = ["not atom", "not group", "not exists"] if negation else []
    kind = draw(st.sampled_from([*negated, "or", "exists"]))
    if kind == "not atom":
        return Not(draw(atoms_over(bound)))
    if kind == "or":
        return disjunction([draw(groups(bound, [], depth, negation)) for _ in range(2)])
    if kind == "not group":
        return Not(draw(groups(bound, [], 0)))
    # Some names are reused on purpose: an inner quantifier shadows an outer variable.
    own = Variable(draw(st.sampled_from(["z", "w", *(v.name for v in bound)])))
    outer = [v for v in bound if v != own]
    inner = Exists((own,), draw(groups(outer, [own], depth, negation)))
    return Not(inner) if kind == "not exists" else inner


@st.composite
def queries(draw: st.DrawFn, negation: bool = True) -> Query:
    """A safe query of a random shape: trees, cycles, loops, unions, nested negation."""
    free = Variable("y")
    bodies = []
    for _ in range(draw(st.integers(1, 2))):
        hidden = [Variable(f"x{number}") for number in range(draw(st.integers(0, 2)))]
        bodies.append(draw(groups([], [free, *hidden], 2, negation)))
    return Query(free, disjunction(bodies))


@st.composite
def trees(draw: st.DrawFn, target: Variable, depth: int, negation: bool) -> Formula:
    """What a tree of set operators can say of a variable."""
    kinds = ["leaf", "hop", "and", "or", *(["and not"] if negation else [])]
    kind = draw(st.sampled_from(kinds)) if depth else "leaf"
    relation = Name(draw(st.sampled_from(RELATIONS)))
    if kind in ("leaf", "hop"):
        bound = Variable(f"{target.name}{depth}")
        source = Name(draw(st.sampled_from(ENTITIES))) if kind == "leaf" else bound
        ends = (source, target) if draw(st.booleans()) else (target, source)
        atom = Atom(relation, *ends)
        if kind == "leaf":
            return atom
        return Exists((bound,), conjunction([atom, draw(trees(bound, depth - 1, negation))]))
    parts = [draw(trees(target, depth - 1, negation)) for _ in range(draw(st.integers(2, 3)))]
    if kind == "and not":
        parts[-1] = Not(parts[-1])
    return disjunction(parts) if kind == "or" else conjunction(parts)


@st.composite
def tree_queries(draw: st.DrawFn, negation: bool = False) -> Query:
    """A query that is a tree of set operators, as embedding models need it."""
    free = Variable("y")
    return Query(free, draw(trees(free, 2, negation)))
