"""Disjunctive normal form, and the check that every variable can be enumerated.

Solvers, samplers and models all read a `Pattern`: atoms that hold, and patterns that do not. A
negated atom is an absent pattern without variables of its own (∃¬ for the variables it shares with
the outside); a negated group is one with variables of its own (¬∃).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from clmpt.errors import QueryTooLarge, UnsafeQuery
from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Limits,
    Not,
    Query,
    Term,
    Variable,
    conjunction,
    loose_variables,
)
from clmpt.logic.formula import atoms as atoms_of


@dataclass(frozen=True, slots=True)
class Pattern:
    """Some values of `variables` make every atom true and every absent pattern false.

    Variables have one meaning throughout a pattern: quantifiers that reuse a name are renamed.
    """

    variables: tuple[Variable, ...]
    atoms: tuple[Atom, ...]
    absent: tuple[Pattern, ...] = ()


def variables_in(parts: Iterable[Atom]) -> tuple[Variable, ...]:
    """The variables of some atoms, in order of appearance."""
    terms: Iterable[Term] = (term for atom in parts for term in (atom.head, atom.tail))
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable)))


def all_variables(pattern: Pattern) -> tuple[Variable, ...]:
    """Every variable that occurs, including inside absent patterns."""
    inner = (variable for part in pattern.absent for variable in all_variables(part))
    return tuple(dict.fromkeys([*variables_in(pattern.atoms), *inner]))


def normal_form(query: Query) -> tuple[Pattern, ...]:
    """The alternatives of `query`, each safe: all its variables occur in its positive atoms."""
    found = _Normaliser(query.limits, query).alternatives(query.body, True, {})
    patterns = tuple(dict.fromkeys(_close(pattern, query.frees) for pattern in found))
    for free in query.frees:
        if not any(free in all_variables(pattern) for pattern in patterns):
            raise UnsafeQuery(
                f"The free variable ?{free.name} does not occur in the query",
                "Ask for a variable that occurs in the query",
                free.position,
            )
        for number, pattern in enumerate(patterns, 1):
            _check_free(free, pattern, f" in alternative {number}" if len(patterns) > 1 else "")
    for pattern in patterns:
        _check_safe(pattern, set(query.frees))
    return patterns


def to_formula(pattern: Pattern) -> Formula:
    """The formula that a pattern stands for, its own variables left unquantified."""
    parts: list[Formula] = list(pattern.atoms)
    for absent in pattern.absent:
        body = to_formula(absent)
        parts.append(Not(Exists(absent.variables, body) if absent.variables else body))
    return conjunction(parts)


class _Normaliser:
    def __init__(self, limits: Limits, query: Query) -> None:
        self.limits = limits
        self.bound = {*query.frees, *loose_variables(query.body)}
        self.taken = {*self.bound, *variables_in(atoms_of(query.body))}

    def alternatives(
        self, formula: Formula, positive: bool, names: dict[Variable, Variable]
    ) -> list[Pattern]:
        """Patterns whose disjunction is `formula`, or its negation if not `positive`."""
        if isinstance(formula, Atom):
            ends = (_renamed(formula.head, names), _renamed(formula.tail, names))
            atom = Atom(formula.relation, *ends)
            return [Pattern((), (atom,)) if positive else Pattern((), (), (Pattern((), (atom,)),))]
        if isinstance(formula, Not):
            return self.alternatives(formula.body, not positive, names)
        if isinstance(formula, Exists):
            inner = self.quantified(formula, names)
            return inner if positive else self.all_of([self.negated(part) for part in inner])
        parts = [self.alternatives(part, positive, names) for part in formula.parts]
        return self.all_of(parts) if isinstance(formula, And) == positive else self.any_of(parts)

    def quantified(self, formula: Exists, names: dict[Variable, Variable]) -> list[Pattern]:
        renamed = {variable: self.fresh(variable) for variable in formula.variables}
        inner = self.alternatives(formula.body, True, {**names, **renamed})
        patterns = []
        for part in inner:
            used = set(all_variables(part))
            own = tuple(variable for variable in renamed.values() if variable in used)
            patterns.append(Pattern(own + part.variables, part.atoms, part.absent))
        for written, variable in renamed.items():
            if not any(variable in part.variables for part in patterns):
                raise UnsafeQuery(
                    f"The variable ?{written.name} is quantified but never used",
                    "Drop it from the quantifier",
                    written.position,
                )
        return patterns

    def negated(self, pattern: Pattern) -> list[Pattern]:
        """The negation: ¬∃ stays whole; a conjunction without its own variables is split up."""
        if pattern.variables:
            return [Pattern((), (), (pattern,))]
        literals = [Pattern((), (), (Pattern((), (atom,)),)) for atom in pattern.atoms]
        return [*literals, *pattern.absent]

    def all_of(self, parts: list[list[Pattern]]) -> list[Pattern]:
        """Every way to pick one alternative from each part."""
        found = [Pattern((), ())]
        for part in parts:
            self.check(len(found) * len(part))
            found = [
                Pattern(
                    tuple(dict.fromkeys(left.variables + right.variables)),
                    tuple(dict.fromkeys(left.atoms + right.atoms)),
                    tuple(dict.fromkeys(left.absent + right.absent)),
                )
                for left, right in product(found, part)
            ]
        return found

    def any_of(self, parts: list[list[Pattern]]) -> list[Pattern]:
        found = list(dict.fromkeys(pattern for part in parts for pattern in part))
        self.check(len(found))
        return found

    def check(self, alternatives: int) -> None:
        if alternatives > self.limits.disjuncts:
            raise QueryTooLarge(
                f"The query has more than {self.limits.disjuncts} alternatives once every 'or' is "
                "moved outwards",
                "Ask them one by one, or allow more (--max-alternatives, or Limits in Python)",
            )

    def fresh(self, variable: Variable) -> Variable:
        """The variable itself the first time it is bound, else one with a new name."""
        chosen, number = variable, 1
        while chosen in self.bound or (chosen != variable and chosen in self.taken):
            chosen = Variable(f"{variable.name}_{number}", variable.position)
            number += 1
        self.bound.add(chosen)
        self.taken.add(chosen)
        return chosen


def _renamed(term: Term, names: dict[Variable, Variable]) -> Term:
    return names.get(term, term) if isinstance(term, Variable) else term


def _close(pattern: Pattern, frees: tuple[Variable, ...]) -> Pattern:
    """The pattern with otherwise unbound variables bound at the outermost level."""
    inner = {variable for part in pattern.absent for variable in _bound_inside(part)}
    loose = (v for v in all_variables(pattern) if v not in frees and v not in inner)
    own = tuple(dict.fromkeys([*pattern.variables, *loose]))
    return Pattern(own, pattern.atoms, pattern.absent)


def _bound_inside(pattern: Pattern) -> set[Variable]:
    return set(pattern.variables).union(*map(_bound_inside, pattern.absent))


def _check_free(free: Variable, pattern: Pattern, where: str) -> None:
    if free in variables_in(pattern.atoms):
        return
    if free in all_variables(pattern):
        raise UnsafeQuery(
            f"The free variable ?{free.name} occurs only under negation{where}",
            "Add an atom that says what it is, not only what it is not",
            free.position,
        )
    raise UnsafeQuery(
        f"The free variable ?{free.name} does not occur{where}",
        "Every alternative of an 'or' must mention it",
        free.position,
    )


def _check_safe(pattern: Pattern, outside: set[Variable]) -> None:
    positive = set(variables_in(pattern.atoms))
    for variable in pattern.variables:
        if variable not in positive:
            raise UnsafeQuery(
                f"No positive atom binds the variable ?{variable.name}",
                f"Add an atom that says what ?{variable.name} is; if no such ?{variable.name} may "
                f"exist, put '!exists ?{variable.name} (…)' around the atoms that mention it",
                variable.position,
            )
    for part in pattern.absent:
        _check_safe(part, outside | positive)
