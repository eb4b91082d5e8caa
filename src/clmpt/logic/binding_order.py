"""In which order to bind the variables of a conjunction: from the constants to what is asked for.

A part of the conjunction counts as soon as all its variables but one are bound, for that one. The
variable farthest from the target comes first, so that what is chosen early is far from the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from clmpt.logic.formula import And, Atom, Exists, Formula, Not, Or, Variable, loose_variables


@dataclass(frozen=True)
class Binding:
    """A variable to bind, and the parts that tell how good its values are. Without a variable, the
    parts tell of what is bound already."""

    variable: Variable | None
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class BindingOrder:
    """`left_out` are parts to which no constant leads."""

    bindings: tuple[Binding, ...]
    left_out: tuple[Formula, ...]


@lru_cache(maxsize=4096)
def binding_order(
    formula: Formula, target: Variable | None, known: frozenset[Variable] = frozenset()
) -> BindingOrder:
    """How to bind the variables that `formula` quantifies, then `target`, given the `known` ones.

    >>> from clmpt.logic.quantifiers import quantified
    >>> from clmpt.logic.shapes import shape
    >>> order = binding_order(quantified(shape("pi")), Variable("y"))
    >>> [(binding.variable.name, len(binding.parts)) for binding in order.bindings]
    [('x1', 1), ('y', 2)]
    """
    own: set[Variable | None] = {target}
    if isinstance(formula, Exists):
        own.update(formula.variables)
        formula = formula.body
    rest = list(formula.parts) if isinstance(formula, And) else [formula]
    distance = distances(rest, target, known)
    done, found = set(known), list[Binding]()
    while target not in done:
        near = {
            variable
            for part in rest
            for variable in loose_variables(part) - done
            if variable in own and _is_ready(part, variable, done)
        }
        if not near:
            break
        # Farthest first; ties are broken by name, not by position in the text.
        chosen = max(near, key=lambda each: (distance.get(each, len(distance)), each.name))
        found.append(Binding(chosen, tuple(part for part in rest if _is_ready(part, chosen, done))))
        rest = [part for part in rest if part not in found[-1].parts]
        done.add(chosen)
    if target not in done and (ready := [part for part in rest if _is_ready(part, None, done)]):
        found.append(Binding(None, tuple(ready)))
        rest = [part for part in rest if part not in ready]
    return BindingOrder(tuple(found), tuple(rest))


def _is_ready(part: Formula, variable: Variable | None, known: set[Variable]) -> bool:
    """Whether a part can be judged for every value of `variable`, given the `known` ones."""
    if not loose_variables(part) <= {*known, variable}:
        return False
    if isinstance(part, Atom):
        return part.head != part.tail or not isinstance(part.head, Variable)
    if isinstance(part, Not):
        return _is_ready(part.body, variable, known)
    if isinstance(part, Or):
        return all(_is_ready(each, variable, known) for each in part.parts)
    return not binding_order(part, variable, frozenset(known)).left_out


def distances(
    parts: Iterable[Formula], target: Variable | None, known: Iterable[Variable] = ()
) -> dict[Variable, int]:
    """How far variables are from `target`, in parts on the way; those it is not connected to are
    left out.

    >>> from clmpt.logic.formula import atoms
    >>> from clmpt.logic.shapes import shape
    >>> found = distances(atoms(shape("3p").body), Variable("y"))
    >>> {variable.name: steps for variable, steps in sorted(found.items(), key=lambda at: at[1])}
    {'y': 0, 'x2': 1, 'x1': 2}
    """
    if target is None:
        return {}
    ends = [loose_variables(part).difference(known) for part in parts]
    found, edge = {target: 0}, {target}
    while edge:
        beyond = {each for end in ends if end & edge for each in end} - found.keys()
        found |= dict.fromkeys(beyond, max(found.values()) + 1)
        edge = beyond
    return found
