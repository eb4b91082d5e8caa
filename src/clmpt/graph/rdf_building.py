"""Statements of RDF files to a graph: what a model learns from, labels, and all the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.edges import Bools, Ints, build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.rdf_reading import SAME_AS, RdfCollector, RdfOptions, name_of_iri
from clmpt.graph.rdf_statements import IRI, LITERAL, NAME, RdfStatements, distinct_named
from clmpt.logic.formula import Name
from clmpt.logic.iris import iri_of
from clmpt.logic.rdf_terms import literal_in

# Shapes: S statements, T terms of the files, E entities, R relations


@dataclass
class RdfBuild:
    """The statements of a collector on their way into a graph; `left_out` counts literals."""

    collector: RdfCollector
    texts: list[str] = field(init=False)
    kinds_T: npt.NDArray[np.uint8] = field(init=False)
    model_S: Bools = field(init=False)
    label_S: Bools = field(init=False)
    entity_T: Ints = field(init=False)  # the id of a term among entities, or -1
    relation_T: Ints = field(init=False)
    same_T: Ints = field(init=False)  # the term that stands for each one among entities
    left_out: int = 0
    spoken: set[str] = field(default_factory=set)  # languages of labels

    def __post_init__(self) -> None:
        rows_S5, options = self.collector.rows_S5, self.collector.options
        self.texts, self.kinds_T = list(self.collector.ids), self.collector.kinds_T()
        literal_S = self.kinds_T[rows_S5[:, 3]] == LITERAL
        predicate_S = rows_S5[:, 2]
        numbers = self.collector.numbers
        self.label_S = literal_S & np.isin(predicate_S, numbers(options.label_properties))
        kept_S = ~np.isin(predicate_S, numbers(options.leave_out)) & ~self.label_S
        self.model_S = kept_S & (~literal_S | options.literals)
        self.model_S[list(self.collector.unlearned)] = False
        self.same_T = np.arange(len(self.texts))
        if options.same_as:
            self._merge(rows_S5, numbers([SAME_AS]))
        self.left_out = int((literal_S & ~self.label_S & ~self.model_S).sum())
        self.entity_T = np.full(len(self.texts), -1, np.int64)
        self.relation_T = np.full(len(self.texts), -1, np.int64)

    def _merge(self, rows_S5: npt.NDArray[np.int32], same_as: list[int]) -> None:
        """Finds the first of all terms that owl:sameAs connects, directly or not."""
        said_S = np.isin(rows_S5[:, 2], same_as) & (self.kinds_T[rows_S5[:, 3]] != LITERAL)
        same = self.same_T
        for one, other in rows_S5[said_S][:, [1, 3]].tolist():
            first, second = sorted((_root(same, one), _root(same, other)))
            same[second] = first
        for term in np.unique(rows_S5[said_S][:, [1, 3]]).tolist():
            same[term] = _root(same, term)
        self.model_S &= ~said_S

    def add_to(self, builder: GraphBuilder) -> None:
        """Adds triples and labels to a builder."""
        rows_S5 = self.collector.rows_S5[self.model_S].copy()
        rows_S5[:, [1, 3]] = self.same_T[rows_S5[:, [1, 3]]]
        kinds: dict[str, int] = {}
        for term in _in_order(rows_S5[:, [1, 3]]):
            self.entity_T[term] = self._named(term, builder.entity_ids, kinds)
        for term in _in_order(rows_S5[:, [2]]):
            name = name_of_iri(self.texts[term])
            self.relation_T[term] = builder.relation_ids.setdefault(name, len(builder.relation_ids))
        for number, split in enumerate(self.collector.splits):
            rows = rows_S5[rows_S5[:, 4] == number]
            ids = (
                self.entity_T[rows[:, 1]],
                self.relation_T[rows[:, 2]],
                self.entity_T[rows[:, 3]],
            )
            builder.add_ids(split, np.stack(ids, axis=1).astype(np.int32))
        self._add_labels(builder)
        for term in self.merged.tolist():
            name, text = self._name(term), self.texts[term]
            builder.aliases += [(name, text), (name, builder.label_of(text))]

    @property
    def merged(self) -> Ints:
        """The terms for which another one stands."""
        return np.flatnonzero(self.same_T != np.arange(len(self.texts)))

    def _name(self, term: int) -> str:
        """The name of the entity that a term is."""
        return name_of_iri(self.texts[self.same_T[term]])

    def _named(self, term: int, ids: dict[str, int], kinds: dict[str, int]) -> int:
        text, kind = self.texts[term], int(self.kinds_T[term])
        name = name_of_iri(text) if kind == IRI else text
        kind = NAME if name != text else kind
        before = kinds.setdefault(name, kind if name not in ids or kind in (NAME, IRI) else NAME)
        if before != kind:
            raise DataError(f"{name} is both the name of a thing and a literal or blank node.")
        return ids.setdefault(name, len(ids))

    def _add_labels(self, builder: GraphBuilder) -> None:
        options = self.collector.options
        properties = self.collector.numbers(options.label_properties)
        rows = self.collector.rows_S5[self.label_S]
        best: dict[str, tuple[tuple[int, int], str]] = {}
        found: list[tuple[str, str]] = []
        for _, subject, predicate, object_, _ in rows.tolist():
            literal = literal_in(self.texts[object_])
            if literal is None or not literal.text:
                continue
            self.spoken.add(literal.language)
            name = self._name(subject)
            rank = (
                language_rank(literal.language, options.languages),
                properties.index(predicate),
            )
            if name not in best or rank < best[name][0]:
                best[name] = (rank, literal.text)
            found.append((name, literal.text))
            if (
                self.kinds_T[object_] == LITERAL
                and options.literals
                and self.entity_T[object_] >= 0
            ):
                builder.labels.setdefault(self.texts[object_], literal.text)
        builder.labels.update({name: text for name, (_, text) in best.items()})
        builder.aliases += [(name, text) for name, text in found if best[name][1] != text]
        if options.literals:
            for term in np.flatnonzero((self.entity_T >= 0) & (self.kinds_T == LITERAL)).tolist():
                literal = literal_in(self.texts[term])
                if literal is not None:
                    builder.labels.setdefault(self.texts[term], literal.text)

    @property
    def unused_languages(self) -> list[str]:
        """The languages that were asked for and that no label has."""
        wanted = self.collector.options.languages
        if wanted == RdfOptions().languages:
            return []
        return [tag for tag in wanted if all(language_rank(one, (tag,)) for one in self.spoken)]

    # --- all statements ---------------------------------------------------------------------------

    @property
    def says_more(self) -> bool:
        """Whether there is more in the files than triples between named things."""
        rows_S5 = self.collector.rows_S5
        return (
            not self.model_S.all()
            or bool((rows_S5[:, 0] >= 0).any())
            or bool((self.kinds_T != IRI).any())
            or any(iri_of(Name(name_of_iri(text))) != text for text in self.texts)
        )

    def statements(self, graph: KnowledgeGraph, builder: GraphBuilder) -> RdfStatements:
        """All statements, and the triples that a builder has from other files."""
        entities, relations = len(graph.entities), len(graph.relations)
        if builder.rows:
            self._recognise(self.entity_T, builder.entity_ids)
            self._recognise(self.relation_T, builder.relation_ids)
        kinds_E = np.full(entities, NAME, np.uint8)
        known = self.entity_T >= 0
        kinds_E[self.entity_T[known]] = [
            NAME if kind == IRI and name_of_iri(self.texts[term]) != self.texts[term] else kind
            for term, kind in zip(np.flatnonzero(known).tolist(), self.kinds_T[known], strict=True)
        ]
        rest = np.flatnonzero(~known)
        term_T = self.entity_T.copy()
        term_T[rest] = entities + np.arange(len(rest))
        rows_S5 = self.collector.rows_S5
        used = np.unique(rows_S5[:, 2])
        further = used[self.relation_T[used] < 0]
        predicate_T = self.relation_T.copy()
        predicate_T[further] = relations + np.arange(len(further))
        own = [iri_of(Name(name)) for name in graph.relations.names]
        for term in np.flatnonzero(self.relation_T >= 0).tolist():
            own[self.relation_T[term]] = self.texts[term]
        others = [iri for iri in own if iri not in self.collector.ids]  # of files that are not RDF
        sizes = entities + len(rest) + len(others), relations + len(further)
        bit_C = np.array([1 << graph.splits.index(name) for name in self.collector.splits])
        mapped = np.empty((len(rows_S5), 5), np.int32)
        mapped[:, 0] = np.where(rows_S5[:, 0] < 0, -1, term_T[rows_S5[:, 0]])
        mapped[:, 1], mapped[:, 3] = term_T[rows_S5[:, 1]], term_T[rows_S5[:, 3]]
        mapped[:, 2] = predicate_T[rows_S5[:, 2]]
        mapped[:, 4] = bit_C[rows_S5[:, 4]] if len(bit_C) else 0
        default = mapped[mapped[:, 0] < 0]
        parts = [
            np.concatenate([default[(default[:, 4] & (1 << n)) != 0][:, 1:4], builder.added(split)])
            for n, split in enumerate(graph.splits)
        ]
        return RdfStatements(
            kinds_E,
            NameTable.of(
                [
                    *(_nt(self.texts[term], int(self.kinds_T[term])) for term in rest.tolist()),
                    *(f"<{iri}>" for iri in others),
                ]
            ),
            NameTable.of([*own, *(self.texts[term] for term in further.tolist())]),
            build_index(*sizes, parts),
            distinct_named(mapped[mapped[:, 0] >= 0]),
            self.collector.base,
            self._same(term_T, sizes[0]),
        )

    def _recognise(self, id_T: Ints, ids: dict[str, int]) -> None:
        """Finds the names that other files use, too, among the IRIs without an id."""
        for term in np.flatnonzero((id_T < 0) & (self.kinds_T == IRI)).tolist():
            id_T[term] = ids.get(name_of_iri(self.texts[term]), -1)

    def _same(self, term_T: Ints, size: int) -> npt.NDArray[np.int32] | None:
        """The term that stands for each stored one; None if none are the same."""
        if not self.merged.size:
            return None
        same = np.arange(size, dtype=np.int32)
        same[term_T] = term_T[self.same_T]
        return same


def _root(same_T: Ints, term: int) -> int:
    while same_T[term] != term:
        same_T[term] = same_T[same_T[term]]
        term = int(same_T[term])
    return term


def language_rank(language: str, wanted: tuple[str, ...]) -> int:
    """Wanted languages in their order, then none, then all others; en also stands for en-GB."""
    for rank, tag in enumerate(wanted):
        if language == tag or language.startswith(tag + "-"):
            return rank
    return len(wanted) + bool(language)


def _nt(text: str, kind: int) -> str:
    return f"<{text}>" if kind == IRI else text


def _in_order(rows: npt.NDArray[np.int32]) -> list[int]:
    """The distinct numbers in an array, in order of appearance."""
    found, first = np.unique(rows.reshape(-1), return_index=True)
    ordered: list[int] = found[np.argsort(first)].tolist()
    return ordered
