"""Which placeholders of a shape can change places without changing the question.

Two groundings that differ only so are one query, and must be sampled only once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from math import factorial

from clmpt.logic.formula import Placeholder, Query, Symbol, Term, placeholders
from clmpt.logic.normal_form import Pattern, all_variables

_MOST = 5040  # permutations to try; a shape with more is taken to have no symmetries


def symmetries(template: Query) -> list[tuple[list[int], list[int]]]:
    """The ways to permute placeholders, as column orders, that leave a template the same query.

    >>> from clmpt.logic.shapes import shape
    >>> symmetries(shape("2i"))
    [([1, 0], [1, 0])]
    """
    entity_names, relation_names = placeholders(template)
    hidden = [v for p in template.patterns for v in all_variables(p) if v != template.free]
    hidden = list(dict.fromkeys(hidden))
    size = factorial(len(entity_names)) * factorial(len(relation_names)) * factorial(len(hidden))
    if size > _MOST:
        return []
    original = _signature(template.patterns, {})
    found = []
    for entities in permutations(entity_names):
        for relations in permutations(relation_names):
            for variables in permutations(hidden):
                renaming: dict[Term | tuple[str, Symbol], Term] = {
                    **{
                        Placeholder(a): Placeholder(b)
                        for a, b in zip(entity_names, entities, strict=True)
                    },
                    **dict(zip(hidden, variables, strict=True)),
                }
                for a, b in zip(relation_names, relations, strict=True):
                    renaming["relation", Placeholder(a)] = Placeholder(b)
                if _signature(template.patterns, renaming) == original:
                    found.append(
                        (
                            [entity_names.index(name) for name in entities],
                            [relation_names.index(name) for name in relations],
                        )
                    )
    identity = (list(range(len(entity_names))), list(range(len(relation_names))))
    return [order for order in found if order != identity]


def _signature(
    patterns: Iterable[Pattern], renaming: dict[Term | tuple[str, Symbol], Term]
) -> frozenset[object]:
    return frozenset(
        (
            frozenset(
                (
                    renaming.get(("relation", atom.relation), atom.relation),
                    renaming.get(atom.head, atom.head),
                    renaming.get(atom.tail, atom.tail),
                )
                for atom in pattern.atoms
            ),
            _signature(pattern.absent, renaming),
        )
        for pattern in patterns
    )
