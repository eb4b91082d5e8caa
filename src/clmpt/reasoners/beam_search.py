"""Beam search over a link predictor, in the manner of CQD-Beam (Arakelyan et al. 2021).

Not trained on queries: the baseline to beat. Variables are bound one by one, starting farthest from
the free variable; only the most likely bindings are kept (the beam). An atom's likelihood is the
predictor's softmax over all entities; atoms are assumed independent.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from clmpt.compute.chunks import rows_at_once
from clmpt.logic.formula import Query, Variable
from clmpt.logic.query_graph import QueryGraph, query_graphs
from clmpt.predictors.predictor import LinkPredictor
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled

# Shapes: n queries, k bindings kept for each, E entities, P = n k

_CERTAIN = 1 - 1e-6  # keeps negated atoms from having likelihood 0


class BeamSearch:
    """Scores are log-likelihoods.

    Atoms that would have to be tried for every pair of entities are ignored, with a note: those of
    variables that no path from a constant to the free variable reaches, and those between an entity
    and itself.
    """

    name = "beam search"

    def __init__(self, predictor: LinkPredictor, relations: int, beam: int = 16) -> None:
        self.predictor, self.relations, self.beam = predictor, relations, beam
        self.device = predictor.entities_ED.device
        self.entities = len(predictor.entities_ED)

    @torch.no_grad()
    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        step = rows_at_once(self.beam * self.entities)
        return torch.cat(
            [
                self._scores(group.take(slice(start, start + step)))
                for group in groups
                for start in range(0, len(group), step)
            ]
        )

    def _scores(self, group: QueryGroup) -> Tensor:
        graphs = query_graphs(group.template).alternatives
        return torch.stack([self._alternative(graph, group) for graph in graphs]).amax(0)

    def _alternative(self, graph: QueryGraph, group: QueryGroup) -> Tensor:
        queries = len(group)
        entity_Pv = {
            node: torch.from_numpy(filled(term, group, "entities")).to(self.device)
            for node, term in enumerate(graph.terms)
            if not isinstance(term, Variable)
        }  # the entity of each node, in each binding so far
        relation_n = [
            torch.from_numpy(filled(edge.relation, group, "relations")).to(self.device)
            for edge in graph.edges
        ]
        score_P = torch.zeros(queries, device=self.device)
        ways = 1
        for node in _order(graph):
            likely_PE = self._likely(graph, node, entity_Pv, relation_n, ways)
            total_nkE = (score_P[:, None] + likely_PE).view(queries, ways, -1)
            if node == graph.free:
                return total_nkE.amax(1)
            best = total_nkE.flatten(1).topk(min(self.beam, total_nkE[0].numel()), 1)
            way_nk = best.indices // self.entities
            kept_P = (way_nk + ways * torch.arange(queries, device=self.device)[:, None]).flatten()
            ways, score_P = best.values.shape[1], best.values.flatten()
            entity_Pv = {other: found_P[kept_P] for other, found_P in entity_Pv.items()}
            entity_Pv[node] = (best.indices % self.entities).flatten()
        return torch.zeros(queries, self.entities, device=self.device)

    def notes(self, query: Query) -> tuple[str, ...]:
        graphs = query_graphs(query)
        left_out = sum(_left_out(graph) for graph in graphs.alternatives)
        if not left_out:
            return graphs.notes
        return (*graphs.notes, f"{left_out} atoms that no constant leads to are ignored.")

    def _likely(
        self,
        graph: QueryGraph,
        node: int,
        entity_Pv: dict[int, Tensor],
        relation_n: list[Tensor],
        ways: int,
    ) -> Tensor:
        """The log-likelihood of every entity for a node, from atoms whose other end is bound."""
        total_PE = torch.zeros(1, self.entities, device=self.device)
        for edge, relation in zip(graph.edges, relation_n, strict=True):
            if node == edge.tail and edge.head in entity_Pv:
                source, backwards = edge.head, 0
            elif node == edge.head and edge.tail in entity_Pv:
                source, backwards = edge.tail, self.relations
            else:
                continue
            directed_P = ((relation + backwards) % (2 * self.relations)).repeat_interleave(ways)
            scores_PE = self.predictor.score_answers(entity_Pv[source], directed_P)
            log_PE = scores_PE.log_softmax(1)
            if edge.negated:
                log_PE = torch.log1p(-log_PE.exp() * _CERTAIN)
            total_PE = total_PE + log_PE
        return total_PE


def _order(graph: QueryGraph) -> list[int]:
    """The variables in binding order, each next to a bound node; the free variable last."""
    known = {node for node in range(len(graph.terms)) if graph.is_constant(node)}
    found: list[int] = []
    while graph.free not in known:
        near = {
            node
            for edge in graph.edges
            for node, other in ((edge.head, edge.tail), (edge.tail, edge.head))
            if node not in known and other in known
        }
        if not near:
            break
        # Farthest first; ties are broken by name, not by position in the text.
        node = max(near, key=lambda node: (graph.distance[node], str(graph.terms[node])))
        found.append(node)
        known.add(node)
    return found


def _left_out(graph: QueryGraph) -> int:
    known = {*_order(graph), *(n for n in range(len(graph.terms)) if graph.is_constant(n))}
    return sum(
        edge.head == edge.tail or not {edge.head, edge.tail} <= known for edge in graph.edges
    )
