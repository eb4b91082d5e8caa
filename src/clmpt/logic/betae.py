"""BetaE's nested tuples: `(anchor, (r1, r2))`, -2 for negation, -1 for union.

A tuple's structure, with 'e', 'r', 'n' and 'u' for the numbers, is what BetaE files use as keys.
Reading goes through the structure alone, so a structure nobody named is read all the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from clmpt.errors import QuerySyntaxError, UnsupportedQuery
from clmpt.logic.formula import (
    Atom,
    Exists,
    Formula,
    Id,
    Limits,
    Placeholder,
    Query,
    Symbol,
    Variable,
    conjunction,
    disjunction,
    negate,
)
from clmpt.logic.operator_tree import (
    Anchor,
    Intersect,
    Negate,
    NotATree,
    Operator,
    Project,
    Unite,
    tree_of,
)

Nested: TypeAlias = Any  # a tuple of tuples and ints (a query) or letters (a structure)

UNION, NEGATION = -1, -2
_DEEPEST, _LARGEST = 10, 200
_LETTERS = frozenset("rnu")

Branch: TypeAlias = tuple[Formula, list[Variable]]  # a formula and the variables it hides


def structure_of(nested: Nested) -> Nested:
    """The key under which BetaE files a query.

    >>> structure_of(((74, (59,)), (4694, (240, -2))))
    (('e', ('r',)), ('e', ('r', 'n')))
    """

    return _letters(nested, 0)


def _letters(part: Nested, depth: int) -> Nested:
    _check_tuple(part, depth)
    return tuple(
        _entity_letter(inner)
        if isinstance(inner, int)
        else tuple(map(_operation_letter, inner))
        if _is_operations(inner)
        else _letters(inner, depth + 1)
        for inner in part
    )


def _entity_letter(number: int) -> str:
    if number < 0:
        raise _not_betae(number)
    return "e"


def _operation_letter(number: Any) -> str:
    if not isinstance(number, int) or number < NEGATION:
        raise _not_betae(number)
    return {UNION: "u", NEGATION: "n"}.get(number, "r")


def template_of(structure: Nested) -> Query:
    """A structure as a query with placeholders $s1, $r1, … in the order BetaE writes its numbers.

    >>> print(template_of((("e", ("r",)), ("e", ("r", "n")))))
    ?y : $r1($s1, ?y) & !$r2($s2, ?y)
    """
    return _Reader(lambda kind, count: Placeholder(f"{'s' if kind == 'e' else 'r'}{count}")).read(
        structure
    )


def from_betae(nested: Nested) -> Query:
    """The query that a tuple of ids says, with BetaE's meaning: a negated branch is ¬∃.

    >>> print(from_betae(((29661, (19, 21, -2)), (808, (19,)))))
    ?y : !exists ?x1 (#19(#29661, ?x1) & #21(?x1, ?y)) & #19(#808, ?y)
    """
    structure = structure_of(nested)
    numbers = iter(numbers_of(nested))
    return _Reader(lambda _kind, _count: Id(next(numbers))).read(structure)


def from_betae_text(text: str, limits: Limits | None = None) -> Query:
    """The query of a tuple written out, as in `(12, (3, 4))`."""
    if not re.fullmatch(r"[\d(),\s-]{1,2000}", text):
        raise _not_betae(text.strip())
    try:
        nested = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _not_betae(text.strip()) from None
    found = from_betae(nested)
    return Query(found.free, found.body, None, limits or Limits())


def numbers_of(nested: Nested) -> list[int]:
    """The entity and relation ids of a tuple, in order, without the operators."""
    if isinstance(nested, int):
        return [nested] if nested >= 0 else []
    return [number for part in nested for number in numbers_of(part)]


def kinds_of(structure: Nested) -> list[str]:
    """For each number of a query of this structure whether it is an entity ('e') or relation ('r').

    >>> kinds_of((("e", ("r", "r", "n")), ("e", ("r",))))
    ['e', 'r', 'r', 'e', 'r']
    """
    if isinstance(structure, str):
        return [structure] if structure in ("e", "r") else []
    return [kind for part in structure for kind in kinds_of(part)]


class _Reader:
    """Turns a structure into a formula; `symbol` supplies each entity and relation in turn."""

    def __init__(self, symbol: Callable[[str, int], Symbol]) -> None:
        self.symbol, self.hidden = symbol, 0
        self.counts = {"e": 0, "r": 0}

    def read(self, structure: Nested) -> Query:
        free = Variable("y")
        return Query(free, self.branch(structure, free, 0)[0])

    def next(self, kind: str) -> Symbol:
        self.counts[kind] += 1
        return self.symbol(kind, self.counts[kind])

    def fresh(self) -> Variable:
        self.hidden += 1
        return Variable(f"x{self.hidden}")

    def branch(self, structure: Nested, target: Variable, depth: int) -> Branch:
        """What puts `target` among the entities that `structure` denotes."""
        _check_tuple(structure, depth)
        *parts, last = structure
        if len(parts) == 1 and _is_operations(last) and last != ("u",):
            return self.chain(parts[0], last, target, depth)
        union = last == ("u",)
        found = [self.branch(part, target, depth + 1) for part in (parts if union else structure)]
        formulas = [formula for formula, _ in found]
        hidden = [variable for _, variables in found for variable in variables]
        return (disjunction(formulas) if union else conjunction(formulas)), hidden

    def chain(self, start: Nested, steps: Nested, target: Variable, depth: int) -> Branch:
        """Relations and negations applied one after the other, from `start` to `target`."""
        hops = steps.count("r")
        from_entity = start == "e"
        if set(steps) - {"r", "n"} or (from_entity and steps[:1] != ("r",)):
            raise _not_betae((start, steps))
        stops = [self.fresh() for _ in range(hops - from_entity)] + [target]
        if from_entity:
            anchor = self.next("e")
            formula: Formula = Atom(self.next("r"), anchor, stops[0])
            hidden: list[Variable] = []
            steps = steps[1:]
        else:
            formula, hidden = self.branch(start, stops[0], depth + 1)
        reached = 0
        for step in steps:
            if step == "r":
                hop = Atom(self.next("r"), stops[reached], stops[reached + 1])
                formula = conjunction([formula, hop])
                hidden = [*hidden, stops[reached]]
                reached += 1
            else:
                formula = negate(Exists(tuple(hidden), formula) if hidden else formula)
                hidden = []
        return formula, hidden


def to_betae(query: Query, inverse: Callable[[int], int] | None = None) -> Nested:
    """The nested tuple of a query over ids, where BetaE's form has one.

    `inverse` gives the id of a relation's inverse, for atoms written against the walking direction.

    >>> to_betae(from_betae((((7, (1,)), (8, (2, -2))), (3,))))
    (((7, (1,)), (8, (2, -2))), (3,))
    """
    try:
        return _nested(tree_of(query.body, query.free), inverse)
    except NotATree as reason:
        raise _no_tuple(str(reason)) from None


def _nested(node: Operator, inverse: Callable[[int], int] | None) -> Nested:
    if isinstance(node, Unite):
        return (*(_nested(part, inverse) for part in node.parts), (UNION,))
    if isinstance(node, Intersect):
        return tuple(_nested(part, inverse) for part in node.parts)
    if isinstance(node, Negate):
        return _append(_nested(node.of, inverse), NEGATION)
    assert isinstance(node, Project), "a tree starts with a projection"
    relation = _number(node.relation)
    if node.backwards:
        if inverse is None:
            raise _no_tuple("it follows a relation backwards and no inverse is known")
        relation = inverse(relation)
    if isinstance(node.of, Anchor):
        return (_number(node.of.entity), (relation,))
    return _append(_nested(node.of, inverse), relation)


def _append(nested: Nested, operation: int) -> Nested:
    start, last = nested[0], nested[-1]
    if len(nested) == 2 and _is_operations(last) and last != (UNION,):
        return (start, (*last, operation))
    return (nested, (operation,))


def _number(symbol: Symbol | Variable) -> int:
    if not isinstance(symbol, Id):
        raise UnsupportedQuery(
            "The query has no BetaE tuple: its names are not yet resolved to ids",
            "Say which graph's ids to use (--graph FOLDER, or graph.bind in Python)",
        )
    return symbol.number


def _is_operations(part: Nested) -> bool:
    return isinstance(part, tuple) and all(
        isinstance(step, int) or step in _LETTERS for step in part
    )


def _check_tuple(part: Nested, depth: int) -> None:
    if not isinstance(part, tuple) or not 2 <= len(part) <= _LARGEST or depth > _DEEPEST:
        raise _not_betae(part)


def _not_betae(part: Nested) -> QuerySyntaxError:
    text = repr(part) if not isinstance(part, tuple) else "a part of it"
    return QuerySyntaxError(
        f"This is no BetaE query: {text[:60]} is out of place",
        "Expected nested tuples such as (anchor, (r1, r2)), with -2 for negation and -1 for union",
    )


def _no_tuple(reason: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"The query has no BetaE tuple: {reason}", "Use its formula text instead"
    )
