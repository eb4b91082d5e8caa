"""From a row of a shape to a query over ids, by filling in placeholders, and back."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from clmpt.errors import ClmptError, DataError
from clmpt.graph.edges import AnyInts, Ints
from clmpt.logic.formula import (
    Atom,
    Formula,
    Id,
    Placeholder,
    Query,
    Symbol,
    Term,
    atoms,
    map_atoms,
    placeholders,
)
from clmpt.logic.shapes import shape
from clmpt.queries.store import QueryGroup


def instantiate(template: Query, entities: AnyInts, relations: AnyInts, inverse_from: int) -> Query:
    """A template with ids for its placeholders; relation ids from `inverse_from` on are inverses.

    >>> from clmpt.logic.shapes import shape
    >>> print(instantiate(shape("2p"), np.array([7]), np.array([1, 13]), 10))
    ?y : #1(#7, ?x1) & #3(?y, ?x1)
    """
    entity_names, relation_names = placeholders(template)
    entity_ids = dict(zip(entity_names, entities.tolist(), strict=True))
    relation_ids = dict(zip(relation_names, relations.tolist(), strict=True))

    def fill(term: Any) -> Any:
        return Id(entity_ids[term.name]) if isinstance(term, Placeholder) else term

    def ground(atom: Atom) -> Formula:
        head, tail = fill(atom.head), fill(atom.tail)
        if not isinstance(atom.relation, Placeholder):
            return Atom(atom.relation, head, tail)
        number = relation_ids[atom.relation.name]
        if number < inverse_from:
            return Atom(Id(number), head, tail)
        return Atom(Id(number - inverse_from), tail, head)

    return Query(template.free, map_atoms(template.body, ground), None, template.limits)


def abstract(query: Query) -> tuple[Query, list[Symbol], list[Symbol]]:
    """A query's template, with the entities and relations that its placeholders stand for.

    >>> from clmpt.logic.parser import parse_formula
    >>> template, entities, relations = abstract(parse_formula("?y : r(a, ?y) & r(b, ?y)"))
    >>> print(template, [e.text for e in entities], [r.text for r in relations])
    ?y : $r1($s1, ?y) & $r2($s2, ?y) ['a', 'b'] ['r', 'r']
    """
    entities: list[Symbol] = []
    relations: list[Symbol] = []

    def noted(symbol: Symbol, seen: list[Symbol], letter: str) -> Symbol:
        seen.append(symbol)
        return Placeholder(f"{letter}{len(seen)}")

    template = query.replace(
        lambda symbol: noted(symbol, entities, "s"), lambda symbol: noted(symbol, relations, "r")
    )
    return template, entities, relations


def fitted(
    query: Query, shape_text: str | None, inverse_from: int
) -> tuple[Query, list[int], list[int]]:
    """A query over ids as a row of the shape it was written for, or of its own if it does not fit.

    An atom of the shape may be reversed in the query; its relation is then an inverse.

    >>> from clmpt.logic.parser import parse_formula
    >>> template, entities, relations = fitted(parse_formula("?y : #3(?y, #7)"), "1p", 10)
    >>> print(template, entities, relations)
    ?y : $r1($s1, ?y) [7] [13]
    """
    try:
        template = shape(shape_text) if shape_text else None
    except ClmptError:
        template = None
    if template is not None and (found := _fit(template, query, inverse_from)):
        return template, *found
    own, entities, relations = abstract(query)
    return own, [_number(symbol) for symbol in entities], [_number(r) for r in relations]


def _number(symbol: Symbol) -> int:
    assert isinstance(symbol, Id), "names are resolved earlier"
    return symbol.number


def _fit(template: Query, query: Query, inverse_from: int) -> tuple[list[int], list[int]] | None:
    values: dict[tuple[str, str], int] = {}
    pairs = zip_longest(atoms(template.body), atoms(query.body))
    for form, atom in pairs:
        if form is None or atom is None:
            return None
        for head, tail, shift in (
            (atom.head, atom.tail, 0),
            (atom.tail, atom.head, inverse_from),
        ):
            relation = _number(atom.relation) + shift
            found = _ends(form, head, tail)
            if found is not None:
                new = {("s", name): value for name, value in found.items()}
                if isinstance(form.relation, Placeholder):
                    new["r", form.relation.name] = relation
                elif form.relation != atom.relation or shift:
                    continue
                if all(values.get(key, value) == value for key, value in new.items()):
                    values.update(new)
                    break
        else:
            return None
    entity_names, relation_names = placeholders(template)
    entities = [values["s", name] for name in entity_names]
    relations = [values["r", name] for name in relation_names]
    row = (np.array(entities), np.array(relations))
    return (entities, relations) if instantiate(template, *row, inverse_from) == query else None


def _ends(form: Atom, head: Term, tail: Term) -> dict[str, int] | None:
    """The placeholders' values if an atom's ends fit a template's."""
    found: dict[str, int] = {}
    for wanted, given in ((form.head, head), (form.tail, tail)):
        if isinstance(wanted, Placeholder) and isinstance(given, Id):
            found[wanted.name] = given.number
        elif wanted != given:
            return None
    return found


def filled(symbol: Symbol, group: QueryGroup, kind: Literal["entities", "relations"]) -> Ints:
    """What a symbol of a group's template stands for in each of its queries."""
    if isinstance(symbol, Placeholder):
        entity_names, relation_names = placeholders(group.template)
        if kind == "entities":
            return group.entities[:, entity_names.index(symbol.name)].astype(np.int64)
        return group.relations[:, relation_names.index(symbol.name)].astype(np.int64)
    if not isinstance(symbol, Id):
        raise DataError(f"'{symbol.text}' is a name, not an id. Bind the query to a graph first.")
    return np.full(len(group), symbol.number)
