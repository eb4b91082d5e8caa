"""Exact answers by name, for people; `solve` gives ids, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from clmpt.display.frames import data_frame
from clmpt.display.html import as_html, html_block, html_notes, html_table
from clmpt.display.text import counted
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.parser import as_query
from clmpt.symbolic.solver import EXACTLY, solve, solve_rows

if TYPE_CHECKING:
    import pandas

_SHOWN, _ROWS = 5, 50  # answers, as text and in a notebook

Member = TypeVar("Member")
Own = TypeVar("Own", bound="_Exact[Any]")


@dataclass(frozen=True, eq=False, repr=False)
class _Exact(Set[Member]):
    """A set that iterates in a fixed order, in which it can be indexed; a slice is such a set."""

    query: Query
    graph: KnowledgeGraph
    ids: tuple[Any, ...]

    @property
    def names(self) -> tuple[Member, ...]:
        raise NotImplementedError

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[Member]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Member: ...

    @overload
    def __getitem__(self: Own, at: slice) -> Own: ...

    def __getitem__(self: Own, at: int | slice) -> Any:
        return replace(self, ids=self.ids[at]) if isinstance(at, slice) else self.names[at]

    @cached_property
    def _members(self) -> frozenset[Member]:
        return frozenset(self.names)

    @classmethod
    def _from_iterable(cls, names: Iterable[Member]) -> frozenset[Member]:  # type: ignore[override]
        """Unions and intersections are plain sets: they answer no question."""
        return frozenset(names)

    def _table(self, headers: Sequence[str], columns: Sequence[Sequence[str]], noun: str) -> str:
        rows = [[as_html(cell) for cell in row] for row in zip(*columns, strict=True)][:_ROWS]
        rest = len(self) - len(rows)
        notes = [counted(len(self), noun) + (f", {rest:,} not shown" if rest else "")]
        return html_block(str(self.query), html_table(headers, rows), html_notes(notes))


@dataclass(frozen=True, eq=False, repr=False)
class ExactAnswers(_Exact[str]):
    """The names of the entities that answer a question, as a set that iterates in the order of
    their labels. `ids` and `labels` are in the same order.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Orwell", "wrote",
    ...                                      "Animal Farm"), ("Zamyatin", "wrote", "We")])
    >>> found = graph.solve("?x : wrote(Orwell, ?x)")
    >>> list(found), found[0], "We" in found, found | {"We"} == {"1984", "Animal Farm", "We"}
    (['1984', 'Animal Farm'], '1984', False, True)
    """

    ids: tuple[int, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.graph.entities.names[number] for number in self.ids)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What to show a user: the labels, or names where there are none."""
        return tuple(self.graph.labels(self.ids))

    def __repr__(self) -> str:
        more = ", …" if len(self) > _SHOWN else ""
        shown = ", ".join(map(repr, self.labels[:_SHOWN]))
        return f"<{counted(len(self), 'answer')}{': ' * bool(self)}{shown}{more}>"

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with the columns label, name and id."""
        return data_frame({"label": self.labels, "name": self.names, "id": self.ids})

    def _repr_html_(self) -> str:
        labelled = self.names != self.labels
        columns = [self.labels, self.names] if labelled else [self.labels]
        return self._table(["answer", "name"][: len(columns)], columns, "answer")


@dataclass(frozen=True, eq=False, repr=False)
class ExactRows(_Exact[tuple[str, ...]]):
    """The answers to a question about several variables: rows of names, in the order of their
    labels. `ids` and `labels` are in the same order.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Orwell", "read", "We")])
    >>> graph.solve("?who, ?what : wrote(?who, ?what) | read(?who, ?what)")
    <2 rows of who, what: ('Orwell', '1984'), ('Orwell', 'We')>
    """

    ids: tuple[tuple[int, ...], ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.query.frees)

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        names = self.graph.entities.names
        return tuple(tuple(names[number] for number in row) for row in self.ids)

    @cached_property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self.graph.labels(row)) for row in self.ids)

    def __repr__(self) -> str:
        more = ", …" if len(self) > _SHOWN else ""
        shown = ", ".join(map(repr, self.labels[:_SHOWN]))
        of = f"{counted(len(self), 'row')} of {', '.join(self.variables)}"
        return f"<{of}{': ' * bool(self)}{shown}{more}>"

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with the columns 'x label', 'x name' and 'x id' for each variable ?x."""
        return data_frame(
            {
                f"{variable} {part}": [row[at] for row in rows]
                for at, variable in enumerate(self.variables)
                for part, rows in (("label", self.labels), ("name", self.names), ("id", self.ids))
            }
        )

    def _repr_html_(self) -> str:
        headers: list[str] = []
        columns: list[list[str]] = []
        for at, variable in enumerate(self.variables):
            labels, names = ([row[at] for row in rows] for rows in (self.labels, self.names))
            labelled = labels != names
            headers += [variable, "name"] if labelled else [variable]
            columns += [labels, names] if labelled else [labels]
        return self._table(headers, columns, "row")


def exact_answers(question: str | Query, graph: KnowledgeGraph) -> ExactAnswers | ExactRows:
    """See `KnowledgeGraph.solve`. A LIMIT in the question counts."""
    query = as_query(question, EXACTLY)
    label, names = graph.entities.label, graph.entities.names
    if len(query.frees) > 1:
        rows = map(tuple, solve_rows(query, graph).tolist())
        found = sorted(rows, key=lambda row: [(label(number), names[number]) for number in row])
        return ExactRows(query, graph, tuple(found[: query.limit]))
    ids = sorted(solve(query, graph), key=lambda number: (label(number), names[number]))
    return ExactAnswers(query, graph, tuple(ids[: query.limit]))
