"""A query as a tree of set operators: project, intersect, unite, negate.

This is how embedding models such as GQE, Query2box and BetaE compute: from the constants upwards,
one set of entities per node. A query with a cycle, or with two atoms between the same variables, is
no such tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from clmpt.errors import UnsupportedQuery
from clmpt.logic.formula import (
    Atom,
    Exists,
    Formula,
    Not,
    Or,
    Query,
    Symbol,
    Variable,
    conjunction,
    loose_variables,
)
from clmpt.logic.quantifiers import sharing


@dataclass(frozen=True)
class Anchor:
    """The set of one entity."""

    entity: Symbol


@dataclass(frozen=True)
class Project:
    """All that a relation leads to from a set; `backwards` follows it from tail to head."""

    relation: Symbol
    backwards: bool
    of: Operator


@dataclass(frozen=True)
class Intersect:
    """What is in all of the sets."""

    parts: tuple[Operator, ...]


@dataclass(frozen=True)
class Unite:
    """What is in any of the sets."""

    parts: tuple[Operator, ...]


@dataclass(frozen=True)
class Negate:
    """All entities that are not in a set."""

    of: Operator


Operator: TypeAlias = Anchor | Project | Intersect | Unite | Negate


class NotATree(Exception):
    """Why a query has no tree of set operators."""


@lru_cache(maxsize=4096)
def operator_tree(query: Query) -> Operator:
    """
    >>> from clmpt.logic.shapes import shape
    >>> tree = operator_tree(shape("2in"))
    >>> [type(part).__name__ for part in tree.parts]
    ['Project', 'Negate']
    """
    try:
        return tree_of(query.body, query.free)
    except NotATree as reason:
        raise UnsupportedQuery(
            f"The query is not a tree of set operators: {reason}",
            "Ask a model that is not limited to trees, such as CLMPT, truth values or CQD",
        ) from None


def tree_of(formula: Formula, target: Variable) -> Operator:
    """The set of entities that `formula` allows as `target`."""
    if isinstance(formula, Exists):
        return tree_of(formula.body, target)
    if isinstance(formula, Or):
        return Unite(tuple(tree_of(part, target) for part in formula.parts))
    if isinstance(formula, Not):
        return Negate(tree_of(formula.body, target))
    if isinstance(formula, Atom):
        return _projection([formula], target)
    parts = list(dict.fromkeys(formula.parts))  # an atom that is repeated counts once
    groups = sharing(parts, loose_variables(formula) - {target})
    if len(groups) > 1:
        return Intersect(tuple(tree_of(conjunction(group), target) for group in groups))
    return tree_of(parts[0], target) if len(parts) == 1 else _projection(parts, target)


def _projection(parts: list[Formula], target: Variable) -> Operator:
    hops = [p for p in parts if isinstance(p, Atom) and target in (p.head, p.tail)]
    if len(hops) != 1:
        if hops:
            why = "in a cycle, or by two atoms from the same variable"
            raise NotATree(f"?{target.name} is reached {why}")
        raise NotATree(f"no positive atom of a branch leads to ?{target.name}")
    hop = hops[0]
    rest = [part for part in parts if part is not hop]
    source, backwards = (hop.head, False) if hop.tail == target else (hop.tail, True)
    if not isinstance(source, Variable):
        if rest:
            raise NotATree("a branch has a part that does not lead to its end")
        return Project(hop.relation, backwards, Anchor(source))
    if not rest or source == target:
        raise NotATree(f"?{source.name} starts a branch, and only constants can")
    return Project(hop.relation, backwards, tree_of(conjunction(rest), source))
