"""Exact answers by name, for people; `solve` gives ids, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from clmpt.display.frames import data_frame
from clmpt.display.html import as_html, html_block, html_notes, html_table
from clmpt.display.text import counted
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.symbolic.solver import solve

if TYPE_CHECKING:
    import pandas

_SHOWN, _ROWS = 5, 50  # answers, as text and in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class ExactAnswers(Set[str]):
    """The names of the entities that answer a question, as a set that iterates in the order of
    their labels. `ids` and `labels` are in the same order.

    >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984"), ("Orwell", "wrote",
    ...                                      "Animal Farm"), ("Zamyatin", "wrote", "We")])
    >>> found = graph.solve("?x : wrote(Orwell, ?x)")
    >>> list(found), "We" in found, found | {"We"} == {"1984", "Animal Farm", "We"}
    (['1984', 'Animal Farm'], False, True)
    """

    query: Query
    graph: KnowledgeGraph
    ids: tuple[int, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.graph.entities.names[number] for number in self.ids)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What to show a user: the labels, or names where there are none."""
        return tuple(self.graph.labels(self.ids))

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.ids)

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
        rows = [[as_html(cell) for cell in row] for row in zip(*columns, strict=True)][:_ROWS]
        table = html_table(["answer", "name"][: len(columns)], rows)
        rest = len(self) - len(rows)
        notes = [counted(len(self), "answer") + (f", {rest:,} not shown" if rest else "")]
        return html_block(str(self.query), table, html_notes(notes))

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.names)

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        """Unions and intersections are plain sets: they answer no question."""
        return frozenset(names)


def exact_answers(question: str | Query, graph: KnowledgeGraph) -> ExactAnswers:
    """See `KnowledgeGraph.solve`. A LIMIT in the question counts."""
    query = parse(question) if isinstance(question, str) else question
    found = solve(query, graph)
    names = graph.entities.names
    ids = sorted(found, key=lambda number: (graph.entities.label(number), names[number]))
    return ExactAnswers(query, graph, tuple(ids[: query.limit]))
