"""Questions that fit a graph: sampled from it, of several shapes, with few answers."""

from __future__ import annotations

from clmpt.budget import Budget
from clmpt.errors import ClmptError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.logic.formula import Name, Query, Symbol, atoms
from clmpt.logic.parser import parse
from clmpt.queries.templates import instantiate
from clmpt.sampling.sampler import Protocol, Sampler

# The likelier that someone would ask it, the earlier.
_TEMPLATES = (
    "?x : $r1(?x, $e1)",
    "?x : $r1(?x, $e1) & $r2(?x, $e2)",
    "?x : $r1(?y, ?x) & $r2(?y, $e1)",
    "?x : $r1(?x, $e1) & !$r2(?x, $e2)",
    "?x : $r1(?x, $e1) | $r2(?x, $e2)",
    "?x : $r1(?y, ?x) & $r2(?y, $e1) & !$r3(?y, $e2)",
)
_TRIES = 32  # of a template; the best one is taken
_SECONDS = 2.0  # for a template
_MOST = 100  # answers
_WANTED = 5  # answers: enough to look at, and few enough to check
_LETTERS = 40  # as many count like one answer too many


def example_questions(graph: KnowledgeGraph, seed: int = 1) -> list[str]:
    """One question of each template that the graph's facts can fill, about different relations
    where there are enough."""
    split = train_split(graph)
    found, used = [], set[Symbol]()
    with Sampler(graph) as sampler:
        for text in _TEMPLATES if graph.view(split).index.triples else ():
            template, known = parse(text), Protocol((split,), (split,), _MOST)
            try:
                with Budget(seconds=_SECONDS):
                    group = sampler.sample(template, known, _TRIES, seed)
            except ClmptError:  # this graph has no such question, or none that is quickly found
                continue
            rows, inverse_from = (
                zip(group.entities, group.relations, strict=True),
                len(graph.relations),
            )
            queries = [_worded(instantiate(template, *row, inverse_from), graph) for row in rows]
            if queries:
                sizes = dict(zip(queries, group.easy.counts.tolist(), strict=True))
                best = min(queries, key=lambda query: _dislike(query, sizes[query], used))
                used |= set(_relations(best))
                found.append(str(best))
    return found


def _dislike(query: Query, answers: int, used: set[Symbol]) -> float:
    relations = _relations(query)
    again = sum(one in used for one in relations) + len(relations) - len(set(relations))
    return 5 * again + abs(answers - _WANTED) + len(str(query)) / _LETTERS


def _relations(query: Query) -> list[Symbol]:
    return [atom.relation for atom in atoms(query.body)]


def _worded(query: Query, graph: KnowledgeGraph) -> Query:
    """With names that a user would write instead of ids."""
    return query.replace(
        lambda symbol: Name(graph.entities.spelling(graph.entities.resolve(symbol))),
        lambda symbol: Name(graph.relations.spelling(graph.relations.resolve(symbol))),
    )
