"""Every error a user can meet, as one small tree.

Each says what was wrong, where, and what to do next. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text; both numbers start at 1."""

    line: int
    column: int

    def __str__(self) -> str:
        where = f"column {self.column}"
        return where if self.line == 1 else f"line {self.line}, {where}"


class ClmptError(Exception):
    """The base of all errors that are the input's fault, not ours."""


class QueryError(ClmptError):
    """A question that cannot be asked; `position` points into its text where that is known."""

    def __init__(self, problem: str, way_out: str = "", position: Position | None = None) -> None:
        self.problem, self.way_out, self.position = problem, way_out, position
        place = f" at {position}" if position else ""
        advice = f" {way_out}{'' if way_out[-1] in '.?!' else '.'}" if way_out else ""
        super().__init__(f"{problem}{place}.{advice}")


class QuerySyntaxError(QueryError):
    """Text that is no query."""


class UnsupportedQuery(QueryError):
    """A query that is well formed but outside EFO-1, or not expressible in the asked-for form."""


class UnsafeQuery(QueryError):
    """A variable that no positive atom binds, so that its values cannot be enumerated."""


class QueryTooLarge(QueryError):
    """A query over the limits on atoms, depth or alternatives."""


class UnknownName(QueryError):
    """An entity or relation that the graph does not have."""

    def __init__(
        self, kind: str, name: str, near: Sequence[str] = (), position: Position | None = None
    ) -> None:
        self.kind, self.name, self.near = kind, name, tuple(near)
        quoted = [f"'{other}'" for other in near]
        hint = (
            f"Did you mean {' or '.join(quoted)}?" if quoted else f"The graph has no such {kind}."
        )
        super().__init__(f"Unknown {kind} '{name}'", hint, position)


class AmbiguousName(QueryError):
    """A label that several entities or relations share."""

    def __init__(
        self,
        kind: str,
        name: str,
        candidates: Sequence[str],
        total: int,
        position: Position | None = None,
    ) -> None:
        self.kind, self.name, self.candidates = kind, name, tuple(candidates)
        shown = ", ".join(f"'{candidate}'" for candidate in candidates)
        more = f" and {total - len(candidates)} more" if total > len(candidates) else ""
        super().__init__(
            f"Ambiguous label '{name}': {total} {kind} names have it",
            f"Use one of these instead: {shown}{more}.",
            position,
        )


class DataError(ClmptError):
    """A file or folder that is not what it should be."""


class UnsafePickle(DataError):
    """A pickle that asks for more than plain containers, numbers and text."""


class UnknownSplit(ClmptError):
    """A split that the graph does not have."""


class SamplingError(ClmptError):
    """A shape that cannot be sampled."""


class SettingError(ClmptError):
    """A setting that is unknown, out of range, or does not go with another."""


class WrongGraph(DataError):
    """A model that was made for a graph with other names."""


class TrainingError(ClmptError):
    """Training that cannot go on."""
