"""Derivations in the graph's own names, with what is known of each atom."""

from __future__ import annotations

from dataclasses import dataclass, field

from clmpt.answering.answers import AtomStatus, Evidence, EvidenceAtom
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query, Variable
from clmpt.reasoners.truth_values.deriving import Derivation, Link, derive
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner


@dataclass
class Explainer:
    """Explains the answers to one query; what is listed is derived together, when first asked."""

    truth: TruthValueReasoner
    query: Query
    graph: KnowledgeGraph
    trained_on: KnowledgeGraph
    listed: list[int]
    _found: dict[int, dict[int, list[Derivation]]] = field(default_factory=dict)

    def __call__(self, entity: int, most: int) -> tuple[Evidence, ...]:
        if most not in self._found:
            self._found[most] = derive(self.truth, self.query, self.listed, most)
        return tuple(self._named(one, entity) for one in self._found[most].get(entity, ()))

    def _named(self, derivation: Derivation, entity: int) -> Evidence:
        atoms = [
            self._atom(link, step.negated, step.value if number == len(step.links) - 1 else None)
            for step in derivation.steps
            for number, link in enumerate(step.links)
        ]
        return Evidence(tuple(atoms), derivation.value, self._text(entity))

    def _atom(self, link: Link, negated: bool, value: float | None) -> EvidenceAtom:
        head, tail, relation = link.head, link.tail, link.relation
        if relation >= len(self.graph.relations):
            head, tail, relation = tail, head, relation - len(self.graph.relations)
        return EvidenceAtom(
            self._text(head),
            self.graph.relations.label(relation),
            self._text(tail),
            negated,
            self._negated_status(head, relation, tail)
            if negated
            else self._status(head, relation, tail),
            value,
        )

    def _negated_status(
        self, head: int | Variable, relation: int, tail: int | Variable
    ) -> AtomStatus:
        """Absent, unless a fact that was held out from training says otherwise."""
        return "hidden" if self._status(head, relation, tail) == "hidden" else "absent"

    def _text(self, end: int | Variable) -> str:
        return f"?{end.name}" if isinstance(end, Variable) else self.graph.entities.label(end)

    def _status(self, head: int | Variable, relation: int, tail: int | Variable) -> AtomStatus:
        if isinstance(head, Variable) or isinstance(tail, Variable):
            return "predicted"
        if tail in self.trained_on.neighbours(head, relation):
            return "known"
        return "hidden" if tail in self.graph.neighbours(head, relation) else "predicted"
