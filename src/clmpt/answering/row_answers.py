"""Rows as plain values: what a user gets from questions about several variables and from SPARQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

from clmpt.answering.answers import Status, in_percent
from clmpt.display.frames import data_frame
from clmpt.display.text import counted
from clmpt.logic.algebra import Form
from clmpt.logic.formula import Query
from clmpt.logic.rdf_terms import RdfTerm
from clmpt.sparql.answering import plain_value

if TYPE_CHECKING:
    import pandas

_SHOWN = 3  # rows in a line


def _sure(status: Status | None, probability: float | None) -> str:
    """What is said of a row after its cells."""
    if status is None:
        return ""
    certain = probability is None or status == "known"
    return f": {status}" if certain else f": {status}, {in_percent(probability or 0.0)}"


@dataclass(frozen=True)
class LikelyRow:
    """An entity for each variable that was asked for, and how likely they go together."""

    entities: tuple[int, ...]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    score: float
    status: Status
    probability: float | None

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.labels))
        return f"<LikelyRow {shown}{_sure(self.status, self.probability)}>"

    @property
    def known(self) -> bool:
        return self.status in ("known", "hidden")


@dataclass(frozen=True)
class LikelyRows:
    """Certain rows first, then the likeliest."""

    query: Query
    rows: tuple[LikelyRow, ...]
    known: int  # number of rows that follow from the graph's facts, shown or not
    notes: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.query.frees)

    def __iter__(self) -> Iterator[LikelyRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> LikelyRow: ...

    @overload
    def __getitem__(self, at: slice) -> LikelyRows: ...

    def __getitem__(self, at: int | slice) -> LikelyRow | LikelyRows:
        return replace(self, rows=self.rows[at]) if isinstance(at, slice) else self.rows[at]

    def __str__(self) -> str:
        lines = [
            f"{'' if one.probability is None else in_percent(one.probability):>8}  "
            f"{one.status:<9}  {', '.join(one.labels)}"
            for one in self.rows
        ]
        return "\n".join([str(self.query), *lines])

    def __repr__(self) -> str:
        more = ", …" if len(self) > _SHOWN else ""
        shown = ", ".join(f"{one.labels} ({one.status})" for one in self.rows[:_SHOWN])
        return f"<{counted(len(self), 'row')} to {str(self.query)!r}: {shown or 'none'}{more}>"

    def _repr_html_(self) -> str:
        from clmpt.answering.showing import likely_rows_html

        return likely_rows_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with the columns 'x label', 'x name' and 'x id' for each variable ?x, and
        probability, score and status."""
        columns: dict[str, list[object]] = {}
        for at, variable in enumerate(self.variables):
            columns[f"{variable} label"] = [one.labels[at] for one in self.rows]
            columns[f"{variable} name"] = [one.names[at] for one in self.rows]
            columns[f"{variable} id"] = [one.entities[at] for one in self.rows]
        for name in ("probability", "score", "status"):
            columns[name] = [getattr(one, name) for one in self.rows]
        return data_frame(columns)


@dataclass(frozen=True)
class LikelyCells:
    """A row of a result: a term for each variable, None where there is none.

    Its probability and status are None if it sums up several rows, as counts do.
    """

    cells: tuple[RdfTerm | None, ...]
    ids: tuple[int, ...]  # of entities; -1 for other terms
    probability: float | None
    status: Status | None

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.cells))
        return f"<LikelyCells {shown}{_sure(self.status, self.probability)}>"


@dataclass(frozen=True)
class LikelyResult:
    """The result of a SPARQL query over what is likely. `probability` is that of an ASK."""

    form: Form
    variables: tuple[str, ...]
    rows: tuple[LikelyCells, ...]
    probability: float | None
    notes: tuple[str, ...]

    @property
    def status(self) -> Status | None:
        """Of an ASK: known if it follows from the graph's facts."""
        if self.probability is None:
            return None
        return "known" if self.probability == 1 else "predicted"

    def __iter__(self) -> Iterator[LikelyCells]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> LikelyCells: ...

    @overload
    def __getitem__(self, at: slice) -> LikelyResult: ...

    def __getitem__(self, at: int | slice) -> LikelyCells | LikelyResult:
        return replace(self, rows=self.rows[at]) if isinstance(at, slice) else self.rows[at]

    def __repr__(self) -> str:
        if self.form == "ASK":
            return f"<ASK{_sure(self.status, self.probability)}>"
        return f"<{counted(len(self), 'row')} of {', '.join(self.variables)}>"

    def _repr_html_(self) -> str:
        from clmpt.answering.showing import likely_result_html

        return likely_result_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a column for each variable, probability and status; an ASK has one row.

        Numbers are numbers, all else is text.
        """
        ranked = [self] if self.form == "ASK" else self.rows
        columns: dict[str, list[object]] = {
            variable: [plain_value(row.cells[at]) for row in self.rows]
            for at, variable in enumerate(self.variables)
        }
        columns["probability"] = [one.probability for one in ranked]
        columns["status"] = [one.status for one in ranked]
        return data_frame(columns)
