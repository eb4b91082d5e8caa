"""Every error a user can see.

Each says what was wrong, where, and what to do next. Anything else that escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LONGEST = 80  # characters of a name in a message


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        where = f"column {self.column}"
        return where if self.line == 1 else f"line {self.line}, {where}"


def cut(name: str) -> str:
    """A name for a message: a long one is cut.

    >>> cut("x" * 100_000)[79:]
    'x… (100,000 characters)'
    """
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}… ({len(name):,} characters)"


class ClmptError(Exception):
    """The base of all errors that are the input's fault, not ours."""


class QueryError(ClmptError):
    """A query that cannot be answered; `position` is the place in its text, if known."""

    def __init__(self, problem: str, way_out: str = "", position: Position | None = None) -> None:
        self.problem, self.way_out, self.position = problem, way_out, position
        place = f" at {position}" if position else ""
        advice = f" {way_out}{'' if way_out[-1] in '.?!' else '.'}" if way_out else ""
        super().__init__(f"{problem}{place}.{advice}")


class QuerySyntaxError(QueryError):
    """Text that is not a query."""


class UnsupportedQuery(QueryError):
    """A well-formed query outside EFO-1, or one that the requested language cannot express."""


class UnsafeQuery(QueryError):
    """A variable that no positive atom binds, so its values cannot be enumerated."""


class QueryTooLarge(QueryError):
    """A query over the limits on atoms, depth or alternatives."""


class UnknownName(QueryError):
    """An entity or relation that the graph does not have."""

    def __init__(
        self, kind: str, name: str, near: Sequence[str] = (), position: Position | None = None
    ) -> None:
        self.kind, self.name, self.near = kind, name, tuple(near)
        quoted = [f"'{cut(other)}'" for other in near]
        hint = (
            f"Did you mean {' or '.join(quoted)}?" if quoted else f"The graph has no such {kind}."
        )
        super().__init__(f"Unknown {kind} '{cut(name)}'", hint, position)


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
        shown = ", ".join(f"'{cut(candidate)}'" for candidate in candidates)
        more = f" and {total - len(candidates)} more" if total > len(candidates) else ""
        super().__init__(
            f"Ambiguous label '{cut(name)}': {total} {kind} names share it",
            f"Use one of these instead: {shown}{more}.",
            position,
        )


class BadQuestions(ClmptError):
    """Some of many questions that cannot be asked; `problems` has the error of each, by its index,
    which counts from 0 as Python does."""

    def __init__(self, problems: Mapping[int, ClmptError], total: int, listed: int = 5) -> None:
        self.problems = dict(problems)
        lines = [f"question {index + 1}: {error}" for index, error in self.problems.items()]
        more = [f"and {len(lines) - listed:,} more"] if len(lines) > listed else []
        super().__init__(
            f"{len(lines):,} of {total:,} questions cannot be asked, so none was: "
            + "; ".join([*lines[:listed], *more])
        )


class DataError(ClmptError):
    """A file or folder that is missing, damaged or not of the expected kind."""


class AlreadyFinished(DataError):
    """A run that was asked for again; there is nothing left to do."""


class PeerFailed(ClmptError):
    """Another process of the same run failed, and has said why."""


class UnsafePickle(DataError):
    """A pickle of anything but plain containers, numbers and text."""


class UnknownSplit(ClmptError):
    """A split that the graph does not have."""


class SamplingError(ClmptError):
    """A shape that cannot be sampled."""


class SettingError(ClmptError):
    """A setting that is unknown, out of range, or in conflict with another."""


class WrongGraph(DataError):
    """A model that was made for a graph with different names."""


class OutOfBudget(ClmptError):
    """Work that was stopped because it exceeded its limit of time or memory."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"It would exceed {limit}. Ask for less, or allow more.")


class Cancelled(ClmptError):
    """Work that nobody waits for any more."""

    def __init__(self) -> None:
        super().__init__("It was cancelled.")


class Overloaded(ClmptError):
    """More questions at once than a service takes; `seconds` is when to try again."""

    def __init__(self, seconds: int = 1) -> None:
        self.seconds = seconds
        super().__init__(f"Too many questions are waiting. Try again in {seconds} s.")


class MissingLibrary(ClmptError):
    """An optional library that is not installed; `extra` is what installs it, if not itself."""

    def __init__(self, library: str, purpose: str, extra: str = "") -> None:
        super().__init__(
            f"{library} is not installed, which {purpose} needs. Install it: "
            f"pip install {extra or library}"
        )


class TrainingError(ClmptError):
    """Training that cannot continue."""


class Diverged(TrainingError):
    """Training whose loss is no number any more: with these settings it always ends so."""
