"""Queries as plain values: a syntax tree, one free variable, and limits on its size.

A query knows nothing about graphs, table rows or the text it came from. Names stay names until a
graph resolves them; an inverse relation is an atom with its ends swapped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from clmpt.errors import Position, QueryError, QueryTooLarge, UnsupportedQuery

if TYPE_CHECKING:
    from clmpt.logic.normal_form import Pattern


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """An entity or relation by its name, label or IRI."""

    text: str
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Id:
    """An entity or relation by its number in one particular graph."""

    number: int


@dataclass(frozen=True, slots=True)
class Placeholder:
    """An entity or relation still to be chosen; equal placeholders get equal values."""

    name: str


Symbol: TypeAlias = Name | Id | Placeholder
Term: TypeAlias = Variable | Symbol


class _Connectives:
    """`&`, `|` and `~` between formulas, so that queries can be written in Python."""

    __slots__ = ()

    def __and__(self, other: Formula) -> And:
        return And((cast("Formula", self), other))

    def __or__(self, other: Formula) -> Or:
        return Or((cast("Formula", self), other))

    def __invert__(self) -> Formula:
        return negate(cast("Formula", self))


@dataclass(frozen=True, slots=True)
class Atom(_Connectives):
    """`relation(head, tail)`."""

    relation: Symbol
    head: Term
    tail: Term


@dataclass(frozen=True, slots=True)
class Not(_Connectives):
    body: Formula


@dataclass(frozen=True, slots=True)
class And(_Connectives):
    """Two or more formulas that all hold; nested conjunctions are flattened."""

    parts: tuple[Formula, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flatten(And, self.parts))


@dataclass(frozen=True, slots=True)
class Or(_Connectives):
    """Two or more formulas of which one holds; nested disjunctions are flattened."""

    parts: tuple[Formula, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flatten(Or, self.parts))


@dataclass(frozen=True, slots=True)
class Exists(_Connectives):
    """Some values of `variables` make `body` true."""

    variables: tuple[Variable, ...]
    body: Formula

    def __post_init__(self) -> None:
        if not self.variables:
            raise QueryError("A quantifier without a variable", "Write 'exists ?x (…)'")
        if isinstance(self.body, Exists) and not set(self.variables) & set(self.body.variables):
            object.__setattr__(self, "variables", self.variables + self.body.variables)
            object.__setattr__(self, "body", self.body.body)


Formula: TypeAlias = Atom | Not | And | Or | Exists


def _flatten(kind: type[And] | type[Or], parts: tuple[Formula, ...]) -> tuple[Formula, ...]:
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    if len(flat) < 2:
        raise QueryError(f"'{kind.__name__}' needs at least two parts", "Use the part itself")
    return tuple(flat)


def negate(formula: Formula) -> Formula:
    """The negation; a double negation cancels out."""
    return formula.body if isinstance(formula, Not) else Not(formula)


def conjunction(parts: list[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def disjunction(parts: list[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a query may be. Normal forms can explode, so these are checked before any work."""

    atoms: int = 64
    depth: int = 40
    disjuncts: int = 128


@dataclass(frozen=True, init=False)
class Query:
    """`{ frees | body }`: the entities that make `body` true when substituted for `frees`.

    Most questions ask for one variable, `free`; those that ask for several have rows as answers.

    Every other variable is existential; one that no quantifier in `body` binds is quantified around
    all of it, so `!r(?x, ?y)` says that *some* ?x is not related, and `!exists ?x (r(?x, ?y))` that
    *none* is. `limit` is how many answers a listing shows; it is not part of the question.

    >>> y, x = Variable("y"), Variable("x")
    >>> query = Query(y, Atom(Name("directed"), Name("Mizoguchi"), x) & Atom(Name("cast"), x, y))
    >>> print(query)
    ?y : directed(Mizoguchi, ?x) & cast(?x, ?y)
    """

    frees: tuple[Variable, ...]
    body: Formula
    limit: int | None = field(default=None, compare=False)
    limits: Limits = field(default=Limits(), compare=False, repr=False)

    def __init__(
        self,
        free: Variable | tuple[Variable, ...],
        body: Formula,
        limit: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        frees = (free,) if isinstance(free, Variable) else tuple(dict.fromkeys(free))
        for name, value in (
            ("frees", frees),
            ("body", body),
            ("limit", limit),
            ("limits", limits or Limits()),
        ):
            object.__setattr__(self, name, value)
        self._check()

    @property
    def free(self) -> Variable:
        """The one variable that is asked for."""
        if len(self.frees) > 1:
            names = " ".join(f"?{variable.name}" for variable in self.frees)
            raise UnsupportedQuery(
                f"The question asks for {len(self.frees)} variables at once ({names})",
                "Here it must be one",
                self.frees[1].position,
            )
        return self.frees[0]

    def _check(self) -> None:
        _check_size(self.body, self.limits)
        _check_names(self)
        object.__setattr__(self, "body", _simple(self.body))
        while isinstance(self.body, Exists) and not set(self.frees) & set(self.body.variables):
            unused = set(self.body.variables) - loose_variables(self.body.body)
            if unused:
                break  # the normal form reports which
            object.__setattr__(self, "body", self.body.body)
        _ = self.patterns  # rejects a query without a safe normal form right away

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.frees, self.body))

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The disjunctive normal form: alternatives without 'or'; their union is the query."""
        from clmpt.logic.normal_form import normal_form

        return normal_form(self)

    def disjuncts(self) -> tuple[Query, ...]:
        """One query without 'or' per alternative; an answer to any of them is an answer to this.

        An alternative repeats atoms, and may nest them deeper. So its limits are as wide as it
        needs: what can be answered as a whole is never refused in parts.
        """
        from clmpt.logic.normal_form import to_formula

        return tuple(
            Query(self.frees, body, None, _wide_enough(self.limits, body))
            for body in map(to_formula, self.patterns)
        )

    def replace(
        self, entity: Callable[[Symbol], Symbol], relation: Callable[[Symbol], Symbol]
    ) -> Query:
        """The same question with every constant and relation mapped."""
        body = map_atoms(
            self.body,
            lambda atom: Atom(
                relation(atom.relation),
                atom.head if isinstance(atom.head, Variable) else entity(atom.head),
                atom.tail if isinstance(atom.tail, Variable) else entity(atom.tail),
            ),
        )
        return Query(self.frees, body, self.limit, self.limits)

    def __str__(self) -> str:
        from clmpt.logic.printing import formula_text

        return formula_text(self)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def _repr_html_(self) -> str:
        from clmpt.display.html import html_block, html_picture
        from clmpt.logic.drawing import draw_svg

        return html_block(str(self), html_picture(draw_svg(self), str(self)))


def map_atoms(formula: Formula, change: Callable[[Atom], Formula]) -> Formula:
    if isinstance(formula, Atom):
        return change(formula)
    if isinstance(formula, Not):
        return Not(map_atoms(formula.body, change))
    if isinstance(formula, Exists):
        return Exists(formula.variables, map_atoms(formula.body, change))
    return type(formula)(tuple(map_atoms(part, change) for part in formula.parts))


def atoms(formula: Formula) -> Iterator[Atom]:
    """All atoms, negated or not, in the order they are written."""
    if isinstance(formula, Atom):
        yield formula
    else:
        for child in children(formula):
            yield from atoms(child)


def placeholders(template: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a template's entity and relation placeholders, in order of appearance."""
    entities: dict[str, None] = {}
    relations: dict[str, None] = {}
    for atom in atoms(template.body):
        for term in (atom.head, atom.tail):
            if isinstance(term, Placeholder):
                entities[term.name] = None
        if isinstance(atom.relation, Placeholder):
            relations[atom.relation.name] = None
    return tuple(entities), tuple(relations)


def loose_variables(formula: Formula) -> set[Variable]:
    """The variables that no quantifier in `formula` binds."""
    if isinstance(formula, Atom):
        return {term for term in (formula.head, formula.tail) if isinstance(term, Variable)}
    found: set[Variable] = set().union(*map(loose_variables, children(formula)))
    return found - set(formula.variables) if isinstance(formula, Exists) else found


def children(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, Atom):
        return ()
    return formula.parts if isinstance(formula, And | Or) else (formula.body,)


def _simple(formula: Formula) -> Formula:
    """The formula with double negations cancelled, as its printed text would parse."""
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return negate(_simple(formula.body))
    if isinstance(formula, Exists):
        return Exists(formula.variables, _simple(formula.body))
    return type(formula)(tuple(_simple(part) for part in formula.parts))


def _check_names(query: Query) -> None:
    """Variables and placeholders must be words, or their text would not parse back."""
    words = [*query.frees, *(end for atom in atoms(query.body) for end in (atom.head, atom.tail))]
    words += [atom.relation for atom in atoms(query.body)]
    for word in words:
        if isinstance(word, Variable | Placeholder) and not re.fullmatch(r"\w+", word.name):
            raise QueryError(
                f"{word.name!r} cannot name a variable or placeholder",
                "Use letters, digits and underscores",
            )


def _wide_enough(limits: Limits, body: Formula) -> Limits:
    """The limits, or what a formula of our own needs."""
    try:
        _check_size(body, limits)
    except QueryTooLarge:
        return Limits(sys.maxsize, sys.maxsize, limits.disjuncts)
    return limits


def _check_size(body: Formula, limits: Limits) -> None:
    """Runs before anything recursive does; hence the explicit stack."""
    stack, found = [(body, 1)], 0
    while stack:
        formula, depth = stack.pop()
        found += isinstance(formula, Atom)
        if depth > limits.depth:
            raise QueryTooLarge(
                f"The query is nested more than {limits.depth} levels deep",
                "Write it with fewer parentheses",
            )
        if found > limits.atoms:
            raise QueryTooLarge(
                f"The query has more than {limits.atoms} atoms",
                "Ask it in parts, or allow more (--max-atoms, or Limits in Python)",
            )
        stack.extend((child, depth + 1) for child in children(formula))
