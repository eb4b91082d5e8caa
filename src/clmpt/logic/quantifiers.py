"""Quantifiers where a model needs them: written out, moved inwards, or turned round.

Fuzzy logic reads a formula as it is written, so its shape matters to models built on it. Meaning is
kept by all of this but `some_not`, which says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from clmpt.logic.formula import (
    And,
    Atom,
    Exists,
    Formula,
    Not,
    Or,
    Query,
    Term,
    Variable,
    children,
    conjunction,
    disjunction,
    loose_variables,
    negate,
)


def quantified(query: Query) -> Formula:
    """The query with every quantifier written out and no variable bound twice. What an *and* or an
    *or* repeats counts once.

    >>> from clmpt.logic.parser import parse
    >>> query = parse("?y : r(?x, ?y) & exists ?x (s(a, ?x) & t(?x, ?y))")
    >>> print(Query(query.free, quantified(query)))
    ?y : r(?x, ?y) & exists ?x_1 (s(a, ?x_1) & t(?x_1, ?y))
    """
    body = _without_repeats(query.body)
    outer = tuple(sorted(loose_variables(body) - set(query.frees), key=lambda each: each.name))
    return apart(some(outer, body))


def apart(formula: Formula) -> Formula:
    """The formula with no variable bound twice."""
    return _apart(formula, {}, loose_variables(formula))


def some(variables: Iterable[Variable], body: Formula) -> Formula:
    """Some values of those `variables` that occur in `body` make it true."""
    used = loose_variables(body)
    own = tuple(variable for variable in variables if variable in used)
    return Exists(own, body) if own else body


def _without_repeats(formula: Formula) -> Formula:
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return negate(_without_repeats(formula.body))
    if isinstance(formula, Exists):
        return Exists(formula.variables, _without_repeats(formula.body))
    kind, found = type(formula), dict[Hashable, Formula]()
    for part in map(_without_repeats, formula.parts):
        for each in part.parts if isinstance(part, kind) else (part,):
            found.setdefault(_in_any_order(each), each)
    return kind(tuple(found.values())) if len(found) > 1 else next(iter(found.values()))


def _in_any_order(formula: Formula) -> Hashable:
    """Equal for formulas that differ in the order of parts alone."""
    if isinstance(formula, Atom):
        return formula
    bound = frozenset(formula.variables) if isinstance(formula, Exists) else None
    return type(formula), bound, frozenset(map(_in_any_order, children(formula)))


def _apart(formula: Formula, names: Mapping[Variable, Variable], taken: set[Variable]) -> Formula:
    """The formula with variables renamed that are `taken`."""
    if isinstance(formula, Atom):
        return Atom(formula.relation, _named(formula.head, names), _named(formula.tail, names))
    if isinstance(formula, Not):
        return Not(_apart(formula.body, names, taken))
    if isinstance(formula, And | Or):
        return type(formula)(tuple(_apart(part, names, taken) for part in formula.parts))
    own = {variable: _fresh(variable, taken) for variable in formula.variables}
    return some(own.values(), _apart(formula.body, {**names, **own}, taken))


def _named(term: Term, names: Mapping[Variable, Variable]) -> Term:
    return names.get(term, term) if isinstance(term, Variable) else term


def _fresh(variable: Variable, taken: set[Variable]) -> Variable:
    chosen, number = variable, 1
    while chosen in taken:
        chosen, number = Variable(f"{variable.name}_{number}", variable.position), number + 1
    taken.add(chosen)
    return chosen


def narrowed(formula: Formula, independently: bool) -> Formula:
    """Quantifiers moved inwards: into every alternative of an *or*, and into the one part that has
    the variable. If `independently`, parts that share no variable get quantifiers of their own.

    >>> from clmpt.logic.shapes import shape
    >>> print(Query(Variable("y"), narrowed(quantified(shape("pi")), True)))
    ?y : exists ?x1 ($r1($s1, ?x1) & $r2(?x1, ?y)) & $r3($s2, ?y)
    """
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return Not(narrowed(formula.body, independently))
    if isinstance(formula, And | Or):
        return type(formula)(tuple(narrowed(part, independently) for part in formula.parts))
    variables, body = formula.variables, narrowed(formula.body, independently)
    if isinstance(body, Or):
        parts = [narrowed(some(variables, part), independently) for part in body.parts]
        return disjunction(parts)
    if not isinstance(body, And):
        return some(variables, body)
    parts = list(body.parts)
    for variable in variables:
        having = [place for place, part in enumerate(parts) if variable in loose_variables(part)]
        if len(having) == 1 and isinstance(parts[having[0]], Or | Exists):
            parts[having[0]] = narrowed(Exists((variable,), parts[having[0]]), independently)
    if not independently:
        return some(variables, conjunction(parts))
    return conjunction(
        [some(variables, conjunction(group)) for group in sharing(parts, set(variables))]
    )


def sharing(parts: Iterable[Formula], variables: set[Variable]) -> list[list[Formula]]:
    """Parts grouped by those of the `variables` that they share."""
    groups: list[tuple[set[Variable], list[Formula]]] = []
    for part in parts:
        shared = loose_variables(part) & variables
        touching = [group for group in groups if group[0] & shared]
        groups = [group for group in groups if not group[0] & shared]
        names = shared.union(*(group[0] for group in touching))
        groups.append((names, [*(p for group in touching for p in group[1]), part]))
    return [group for _, group in groups]


def some_not(formula: Formula) -> Formula:
    """*Not* at atoms only. *No x such that* becomes *some x such that not*, by negating what leads
    out of the group: the reading of models that have one value for each variable.

    >>> from clmpt.logic.shapes import shape
    >>> print(Query(Variable("y"), some_not(quantified(shape("pni")))))
    ?y : exists ?x1 ($r1($s1, ?x1) & !$r2(?x1, ?y)) & $r3($s2, ?y)
    """
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Exists):
        return Exists(formula.variables, some_not(formula.body))
    if isinstance(formula, And | Or):
        return type(formula)(tuple(some_not(part) for part in formula.parts))
    inner = formula.body
    if isinstance(inner, Atom):
        return formula
    if isinstance(inner, Not):
        return some_not(inner.body)
    if isinstance(inner, Exists):
        return _none_of(inner.variables, inner.body)
    parts = [some_not(Not(part)) for part in inner.parts]
    return disjunction(parts) if isinstance(inner, And) else conjunction(parts)


def _none_of(variables: tuple[Variable, ...], body: Formula) -> Formula:
    if isinstance(body, Or):
        return conjunction([_none_of(variables, part) for part in body.parts])
    parts = body.parts if isinstance(body, And) else (body,)
    stays = [
        bool(loose_variables(part)) and loose_variables(part) <= {*variables} for part in parts
    ]
    if all(stays):
        stays = [False] * len(parts)
    turned = [
        some_not(part if inside else Not(part)) for part, inside in zip(parts, stays, strict=True)
    ]
    return some(variables, conjunction(turned))
