"""A SPARQL query to its result: rows, a truth value, or triples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, overload

import numpy as np

from clmpt.display.frames import data_frame
from clmpt.display.html import as_html, html_block, html_notes, html_table
from clmpt.display.text import counted
from clmpt.errors import QueryTooLarge
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_dataset import RdfDataset, TermIds
from clmpt.graph.rdf_reading import name_of_iri
from clmpt.logic.algebra import Form, SparqlQuery
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import Blank, Iri, Literal, RdfTerm, rdf_text
from clmpt.logic.sparql_parser import as_sparql
from clmpt.sparql.evaluator import Evaluator
from clmpt.sparql.expressions import Surroundings
from clmpt.sparql.naming import NameResolver
from clmpt.sparql.paths import edges_at
from clmpt.sparql.solutions import Solutions
from clmpt.sparql.values import number_of

if TYPE_CHECKING:
    import pandas

_SHOWN = 50  # rows in a notebook
_ENDS = ("subject", "predicate", "object")

Triple = tuple[RdfTerm, RdfTerm, RdfTerm]
Row = tuple[RdfTerm | None, ...]


@dataclass(frozen=True, repr=False)
class SparqlResult:
    """The result of a query. Only what fits its form is there: rows for SELECT, `holds` for ASK,
    triples for CONSTRUCT and DESCRIBE. It iterates over the rows or the triples, and a slice is a
    result too. `notes` name what the graph does not know."""

    form: Form
    variables: tuple[str, ...] = ()
    solutions: Solutions | None = None
    terms: TermIds | None = None
    holds: bool | None = None
    triples: tuple[Triple, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        if self.solutions is not None:
            return self.solutions.rows
        return len(self.triples)

    def __bool__(self) -> bool:
        return bool(self.holds) if self.form == "ASK" else len(self) > 0

    def __repr__(self) -> str:
        if self.form == "ASK":
            return f"<{'yes' if self.holds else 'no'}>"
        if self.solutions is None:
            return f"<{counted(len(self.triples), 'triple')}>"
        return f"<{counted(len(self), 'row')} of {', '.join(self.variables)}>"

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a column for each variable: numbers as numbers, all else as text, and
        nothing (NaN or None) where a variable has no value.

        Triples have the columns subject, predicate and object, and an ASK has one cell, `answer`.
        """
        if self.form == "ASK":
            return data_frame({"answer": [self.holds]})
        names = self.variables if self.solutions is not None else _ENDS
        rows = [[plain_value(term) for term in row] for row in self]
        return data_frame({name: [row[at] for row in rows] for at, name in enumerate(names)})

    def _repr_html_(self) -> str:
        if self.solutions is None:
            lines = [" ".join(map(rdf_text, triple)) for triple in self.triples[:_SHOWN]]
            return html_block(repr(self), html_notes([*lines, *self.notes]))
        rows = [[html_cell(term) for term in row] for row in islice(self, _SHOWN)]
        more = [f"… and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        table = html_table(self.variables, rows)
        return html_block(repr(self), table, html_notes([*more, *self.notes]))

    @cached_property
    def rows_NC(self) -> Ints:
        """The ids of the terms, row by row; -1 where there is none."""
        assert self.solutions is not None
        return self.solutions.matrix(list(self.solutions.columns))

    def __iter__(self) -> Iterator[Row]:
        """The rows of a SELECT, or the triples."""
        return (
            iter(self.triples) if self.solutions is None else map(self._row, self.rows_NC.tolist())
        )

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> SparqlResult: ...

    def __getitem__(self, at: int | slice) -> Row | SparqlResult:
        if self.solutions is None:
            if isinstance(at, slice):
                return replace(self, triples=self.triples[at])
            return self.triples[at]
        if isinstance(at, slice):
            return replace(self, solutions=self.solutions.take(at))
        return self._row(self.rows_NC[at].tolist())

    def _row(self, ids: list[int]) -> Row:
        assert self.terms is not None
        return tuple(None if one < 0 else self.terms.term(one) for one in ids)


def plain_value(term: RdfTerm | None) -> object:
    """A term for a table: a number, a text, or None where there is no term. A name that only our
    export would write as an IRI is itself."""
    if term is None:
        return None
    number = number_of(term)
    if number is None:
        return name_of_iri(term.text) if isinstance(term, Iri) else str(term)
    return number.value if isinstance(number.value, int) else float(number.value)


def html_cell(term: RdfTerm | None) -> str:
    return "" if term is None else as_html(str(plain_value(term)))


def answer_sparql(
    query: SparqlQuery | str, graph: KnowledgeGraph, base: str = "", union: bool = False
) -> SparqlResult:
    """The result of a SPARQL query on a graph, as the standard defines it.

    Names that the graph does not have match nothing; the notes name them. `base` resolves relative
    IRIs of the query, by default as in the graph's own file. With `union`, the default graph also
    has what is in named graphs.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Orwell", "read", "We")])
    >>> answer_sparql("ASK { :Orwell :wrote :We }", graph).holds
    False
    >>> [row[0].text for row in answer_sparql("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", graph)]
    ['2']
    """
    base = base or (graph.rdf.base if graph.rdf else "")
    query = as_sparql(query, base)
    evaluator = evaluator_for(query, graph, base, union)
    try:
        return _Run(query, evaluator.dataset, evaluator).result()
    except RecursionError:
        raise QueryTooLarge("The query is nested too deeply", "Flatten it") from None


def evaluator_for(
    query: SparqlQuery, graph: KnowledgeGraph, base: str = "", union: bool = False
) -> Evaluator:
    """What evaluates the parts of a query on a graph."""
    dataset = RdfDataset.of(graph, union)
    names = NameResolver(dataset)
    index, graphs = dataset.default, tuple(dataset.graph_ids)
    if query.has_dataset:
        index = dataset.merged([names.term(iri) for iri in query.default_graphs])
        named = [names.term(iri) for iri in query.named_graphs]
        graphs = tuple(dict.fromkeys(number for number in named if number in graphs))
    return Evaluator(
        dataset, names, index, graphs, Surroundings(names.terms, query.base or base, names.term)
    )


@dataclass(frozen=True)
class _Run:
    query: SparqlQuery
    dataset: RdfDataset
    evaluator: Evaluator

    def result(self) -> SparqlResult:
        query = self.query
        if query.form == "ASK":
            select = query.select
            modified = select.grouped or select.having or select.offset or select.limit == 0
            found = (
                self.evaluator.select(select)
                if modified
                else self.evaluator.solutions(select.where, frozenset())
            )
            return SparqlResult("ASK", holds=found.rows > 0, notes=self.notes)
        solutions = self.evaluator.select(query.select)
        if query.form == "SELECT":
            names = tuple(variable.name for variable in query.select.names)
            return SparqlResult("SELECT", names, solutions, self.evaluator.terms, notes=self.notes)
        made = self.constructed if query.form == "CONSTRUCT" else self.described
        triples = tuple(dict.fromkeys(made(solutions)))
        return SparqlResult(query.form, triples=triples, notes=self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        found = list(self.evaluator.names.notes)
        empty = not self.evaluator.index.triples and not self.query.has_dataset
        if empty and self.dataset.graph_ids:
            found.append(
                "All statements are in named graphs: ask them with GRAPH, or all at once with "
                "--union."
            )
        return tuple(found)

    def constructed(self, solutions: Solutions) -> Iterator[Triple]:
        """The template filled with each solution; its blank nodes are new each time."""
        variables = list(solutions.columns)
        rows = solutions.matrix(variables).tolist()
        template = [
            (self._meant(one.subject), self._meant(one.predicate, True), self._meant(one.object))
            for one in self.query.template
        ]
        for row in rows:
            values = dict(zip(variables, row, strict=True))
            fresh: dict[Variable, Blank] = {}
            for ends in template:
                filled = tuple(self._filled(end, values, fresh) for end in ends)
                if _is_triple(filled):
                    yield filled  # type: ignore[misc]

    def _meant(self, term: object, as_predicate: bool = False) -> object:
        names = self.evaluator.names
        return names.in_template(term, as_predicate) if isinstance(term, Iri) else term

    def _filled(
        self, term: object, values: dict[Variable, int], fresh: dict[Variable, Blank]
    ) -> RdfTerm | None:
        if not isinstance(term, Variable):
            return term  # type: ignore[return-value]
        if term.name.startswith("."):
            if term not in fresh:
                fresh[term] = self.evaluator.surroundings.blank()
            return fresh[term]
        number = values.get(term, -1)
        return None if number < 0 else self.evaluator.terms.term(number)

    def described(self, solutions: Solutions) -> Iterator[Triple]:
        """All statements about each resource, and about the blank nodes that they lead to."""
        wanted: list[int] = []
        named = self.query.described
        for one in solutions.columns if named is None else named:
            if isinstance(one, Variable):
                wanted += solutions.column(one).tolist()
            else:
                wanted.append(self.evaluator.names.term(one))
        terms, seen = self.evaluator.terms, set[int]()
        while wanted := [one for one in dict.fromkeys(wanted) if one >= 0 and one not in seen]:
            seen.update(wanted)
            node = np.array(wanted, np.int64)
            row, relation, target = edges_at(self.evaluator.index, node, True)
            wanted = []
            predicate = self.dataset.predicate_terms_P[relation]
            for s, p, o in zip(
                node[row].tolist(), predicate.tolist(), target.tolist(), strict=True
            ):
                yield terms.term(s), terms.term(p), terms.term(o)
                if isinstance(terms.term(o), Blank):
                    wanted.append(o)


def _is_triple(ends: tuple[RdfTerm | None, ...]) -> bool:
    subject, predicate, object_ = ends
    return (
        subject is not None
        and object_ is not None
        and not isinstance(subject, Literal)
        and isinstance(predicate, Iri)
    )
