"""Which placeholders of a shape can be swapped, or inverted, without changing the query.

Two groundings that differ only in this way are the same query, and must be sampled only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from math import factorial

from clmpt.logic.formula import Atom, Placeholder, Query, Symbol, Term, placeholders
from clmpt.logic.normal_form import Pattern, all_variables

_MOST = 5040  # permutations to try; a shape with more is treated as having no symmetries


@dataclass(frozen=True)
class Symmetry:
    """A permutation of the entity and the relation columns, and which relations it inverts."""

    entities: tuple[int, ...]
    relations: tuple[int, ...]
    inverted: tuple[bool, ...]


@lru_cache(maxsize=256)
def symmetries(template: Query) -> tuple[Symmetry, ...]:
    """The ways to permute and invert placeholder values that do not change the query.

    >>> from clmpt.logic.shapes import shape
    >>> symmetries(shape("2i"))
    (Symmetry(entities=(1, 0), relations=(1, 0), inverted=(False, False)),)
    """
    entities, relations = (tuple(map(Placeholder, names)) for names in placeholders(template))
    found = (v for pattern in template.patterns for v in all_variables(pattern))
    hidden = tuple(dict.fromkeys(v for v in found if v != template.free))
    orders = factorial(len(entities)) * factorial(len(relations)) * factorial(len(hidden))
    if orders > _MOST:
        return ()
    may_invert = (False, True) if orders * 2 ** len(relations) <= _MOST else (False,)
    original = _signature(template.patterns, _Renaming({}, {}))
    kept = {
        Symmetry(
            tuple(entities.index(entity) for entity in new_entities),
            tuple(relations.index(relation) for relation in new_relations),
            inverted,
        ): None
        for new_entities in permutations(entities)
        for new_relations in permutations(relations)
        for new_hidden in permutations(hidden)
        for inverted in product(may_invert, repeat=len(relations))
        if _signature(
            template.patterns,
            _Renaming(
                dict(zip((*entities, *hidden), (*new_entities, *new_hidden), strict=True)),
                dict(zip(relations, zip(new_relations, inverted, strict=True), strict=True)),
            ),
        )
        == original
    }
    same = Symmetry(
        tuple(range(len(entities))), tuple(range(len(relations))), (False,) * len(relations)
    )
    return tuple(symmetry for symmetry in kept if symmetry != same)


@dataclass(frozen=True)
class _Renaming:
    ends: Mapping[Term, Term]
    relations: Mapping[Symbol, tuple[Symbol, bool]]

    def __call__(self, atom: Atom) -> Atom:
        relation, inverted = self.relations.get(atom.relation, (atom.relation, False))
        head, tail = self.ends.get(atom.head, atom.head), self.ends.get(atom.tail, atom.tail)
        return Atom(relation, tail, head) if inverted else Atom(relation, head, tail)


def _signature(patterns: Iterable[Pattern], renaming: _Renaming) -> frozenset[object]:
    return frozenset(
        (frozenset(map(renaming, pattern.atoms)), _signature(pattern.absent, renaming))
        for pattern in patterns
    )
