"""Beam search over a link predictor alone, in the manner of CQD-Beam (Arakelyan et al. 2021).

Not trained on queries: the baseline to beat. An atom's likelihood is the predictor's softmax over
all entities; atoms are assumed independent. The published method, with its own ways to judge and to
join atoms, is `decomposition/cqd_beam.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from clmpt.logic.binding_order import binding_order
from clmpt.logic.formula import Atom, Formula, Not, Query, Variable, conjunction
from clmpt.logic.quantifiers import some
from clmpt.logic.query_graph import QueryGraph, query_graphs
from clmpt.predictors.predictor import LinkPredictor
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.formula_search import Filled, Search
from clmpt.reasoners.decomposition.fuzzy_logic import LOG_LIKELIHOODS

# Shapes: P ways to bind variables, E entities


class BeamSearch:
    """Scores are log-likelihoods.

    Atoms that would have to be tried for every pair of entities are ignored, with a note: those of
    variables that no path from a constant to the free variable reaches, and those between an entity
    and itself.
    """

    name = "beam search"

    def __init__(self, predictor: LinkPredictor, relations: int, beam: int = 16) -> None:
        self.predictor = predictor
        entities = len(predictor.entities_ED)
        self.search = Search(LOG_LIKELIHOODS, self.links, entities, relations, beam, beam)

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return torch.cat([self._scores(group) for group in groups if len(group)])

    def _scores(self, group: QueryGroup) -> Tensor:
        graphs = query_graphs(group.template).alternatives
        asked = Filled(group, self.predictor.entities_ED.device)
        return torch.stack([self._alternative(graph, asked) for graph in graphs]).amax(0)

    def _alternative(self, graph: QueryGraph, asked: Filled) -> Tensor:
        formula, free = _formula(graph), _free(graph)
        if not binding_order(formula, free).bindings:  # no constant: all are as likely
            return torch.zeros(len(asked.group), self.search.entities, device=asked.device)
        return self.search.scores(formula, free, asked)

    def links(self, entity_P: Tensor, directed_P: Tensor) -> Tensor:
        return self.predictor.score_answers(entity_P, directed_P).log_softmax(1)

    def notes(self, query: Query) -> tuple[str, ...]:
        graphs = query_graphs(query)
        orders = [binding_order(_formula(graph), _free(graph)) for graph in graphs.alternatives]
        left_out = sum(len(order.left_out) for order in orders)
        if not left_out:
            return graphs.notes
        return (*graphs.notes, f"{left_out} atoms that no constant leads to are ignored.")


def _formula(graph: QueryGraph) -> Formula:
    """An alternative as a formula."""
    parts: list[Formula] = []
    for edge in graph.edges:
        atom = Atom(edge.relation, graph.terms[edge.head], graph.terms[edge.tail])
        parts.append(Not(atom) if edge.negated else atom)
    variables = [term for term in graph.terms[1:] if isinstance(term, Variable)]
    return some(variables, conjunction(parts))


def _free(graph: QueryGraph) -> Variable:
    free = graph.terms[graph.free]
    assert isinstance(free, Variable)
    return free
