"""Missing links, by hand and by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Atom, Query, Variable, atoms
from clmpt.logic.normal_form import Pattern
from clmpt.logic.parser import parse_formula
from clmpt.queries.templates import abstract
from clmpt.symbolic.missing_links import hardness
from strategies import ENTITIES, graphs, queries
from toy import films


def missing_links(graph: KnowledgeGraph, query: Query) -> dict[str, tuple[int, bool]]:
    template, entities, relations = abstract(query)
    found = hardness(
        template,
        graph,
        ("train",),
        np.array([[graph.entities.resolve(symbol) for symbol in entities]], np.int64).reshape(
            1, -1
        ),
        np.array([[graph.relations.resolve(symbol) for symbol in relations]], np.int64),
    )
    names = [graph.entities.names[entity] for entity in found.answers.entities.tolist()]
    both = zip(found.missing.tolist(), found.all_missing.tolist(), strict=True)
    return dict(zip(names, both, strict=True))


def test_missing_links_counted_by_hand() -> None:
    graph = films()
    # Tanaka and Kyo: through Ugetsu, all known. Mifune: through Oharu, a missing link.
    found = missing_links(graph, parse_formula("?a : directed(Mizoguchi, ?f) & starred(?a, ?f)"))
    assert found == {"Kyo": (0, False), "Tanaka": (0, False), "Mifune": (1, False)}
    # Sansho won and Tanaka starred in it: both links are missing, and there is no other way.
    both = missing_links(graph, parse_formula("?f : won(?f, Lion) & starred(Tanaka, ?f)"))
    assert both == {"Ugetsu": (0, False), "Sansho": (2, True)}
    # Either way is enough: the cheaper one counts.
    either = missing_links(graph, parse_formula("?f : won(?f, Lion) | directed(Mizoguchi, ?f)"))
    assert either["Sansho"] == (0, False)
    # Negated parts cost nothing.
    neither = missing_links(graph, parse_formula("?a : starred(?a, Oharu) & !starred(?a, Ugetsu)"))
    assert neither == {"Mifune": (1, True)}


def brute_force(graph: KnowledgeGraph, query: Query) -> dict[str, tuple[int, bool]]:
    """Every assignment of every variable, for graphs of six entities."""
    full = {tuple(row) for row in graph.triples().tolist()}
    known = {tuple(row) for row in graph.triples("train").tolist()}
    ids = {name: number for number, name in enumerate(graph.entities.names)}
    relation_ids = {name: number for number, name in enumerate(graph.relations.names)}

    def edge(atom: Atom, values: dict[Variable, int]) -> tuple[int, int, int]:
        ends = [
            values[end] if isinstance(end, Variable) else ids[end.text]  # type: ignore[union-attr]
            for end in (atom.head, atom.tail)
        ]
        return ends[0], relation_ids[atom.relation.text], ends[1]  # type: ignore[union-attr]

    def matches(pattern: Pattern, outer: dict[Variable, int]) -> list[dict[Variable, int]]:
        own = [variable for variable in pattern.variables if variable not in outer]
        found = []
        for chosen in product(range(len(ENTITIES)), repeat=len(own)):
            values = {**outer, **dict(zip(own, chosen, strict=True))}
            if all(edge(atom, values) in full for atom in pattern.atoms) and not any(
                matches(absent, values) for absent in pattern.absent
            ):
                found.append(values)
        return found

    best: dict[str, tuple[int, bool]] = {}
    for entity, name in enumerate(graph.entities.names):
        costs = [
            (sum(edge(atom, values) not in known for atom in pattern.atoms), len(pattern.atoms))
            for pattern in query.patterns
            for values in matches(pattern, {query.free: entity})
        ]
        if costs:
            best[name] = (min(cost for cost, _ in costs), all(cost == size for cost, size in costs))
    return best


@settings(max_examples=150)
@given(graphs(splits=("train", "test")), queries())
def test_missing_links_counted_by_brute_force(graph: KnowledgeGraph, query: Query) -> None:
    if any(len(pattern.variables) > 3 or len(pattern.absent) > 3 for pattern in query.patterns):
        return
    written = list(atoms(query.body))
    if len(query.patterns) > 6 or len(set(written)) < len(written):
        return  # an atom written twice is one link here and two in its template
    assert missing_links(graph, query) == brute_force(graph, query)
