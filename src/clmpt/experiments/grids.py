"""Several values for settings on the command line, `--set batch=64,128`, and the grid they span."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clmpt.display.text import counted
from clmpt.errors import SettingError
from clmpt.experiments.recipes import assigned
from clmpt.storage.files import toml_value

MOST_TRIALS = 1_000
Point = tuple[str, ...]  # an assignment for each axis, such as 'training.batch=64'

_SWEPT_TABLES = ("pretraining", "reasoning", "training")
_REASONS = {
    "seed": "a seed is not chosen but averaged over: --seeds 0 1 2",
    "device": "the result does not depend on it",
    "divided": "the result does not depend on it",
    "validation_queries": "trials are compared on the same validation queries",
}
# A quoted text, or anything without commas; quotes within are taken as they are.
_PIECE = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,]*?)\s*(,|$)""")


def listed_values(text: str) -> list[str]:
    """The values of a list with commas between them; quotes keep a value with commas together.

    >>> listed_values('1, 2'), listed_values('"a, b"')
    (['1', '2'], ['"a, b"'])
    """
    found, at = [], 0
    while True:
        piece = _PIECE.match(text, at)
        assert piece  # the last alternative takes anything
        found.append(piece[1])
        if not piece[2]:
            return found
        at = piece.end()


@dataclass(frozen=True)
class Grid:
    """All combinations of the values of some settings; `axes` has the assignments of each."""

    axes: tuple[Point, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(map(len, self.axes))

    def point(self, number: int) -> Point:
        """One of the points, the last axis changing fastest.

        >>> Grid((("a=1", "a=2"), ("b=x", "b=y"))).point(1)
        ('a=1', 'b=y')
        """
        found = []
        for axis in reversed(self.axes):
            number, at = divmod(number, len(axis))
            found.append(axis[at])
        return tuple(reversed(found))

    def points(self, trials: int | None = None, seed: int = 0) -> list[Point]:
        """All points, or some that are drawn at random; more trials begin with the same ones."""
        if trials is None or trials >= self.size:
            if self.size > MOST_TRIALS:
                raise SettingError(
                    f"The grid has {counted(self.size, 'point')}, and {MOST_TRIALS:,} trials are "
                    "the most. Draw some of them: --trials N"
                )
            return [self.point(number) for number in range(self.size)]
        if trials > MOST_TRIALS:
            raise SettingError(f"--trials must be at most {MOST_TRIALS:,}, not {trials:,}.")
        drawn = _drawn(self.size, seed)
        return [self.point(next(drawn)) for _ in range(trials)]


def _drawn(size: int, seed: int) -> Iterator[int]:
    """Numbers below `size` at random, none of them twice."""
    random, seen = np.random.default_rng(seed), set[int]()
    while True:
        number = int(random.integers(size))
        if number not in seen:
            seen.add(number)
            yield number


def grid_of(changes: Sequence[str], reasoner: str) -> tuple[list[str], Grid]:
    """The changes with a single value, and the grid of the others."""
    fixed, axes, seen = [], [], set[tuple[str, str]]()
    for change in changes:
        table, name, _ = assigned(change, reasoner)
        key, _, text = change.partition("=")
        values = listed_values(text)
        if len(values) == 1:
            fixed.append(change)
            continue
        _check_axis(change, table, name, values)
        if (table, name) in seen:
            raise SettingError(f"'{table}.{name}' is given several values twice.")
        seen.add((table, name))
        axes.append(tuple(f"{key.strip()}={value}" for value in values))
    for change in fixed:
        table, name, _ = assigned(change, reasoner)
        if (table, name) in seen:
            raise SettingError(f"'{table}.{name}' is given one value and several.")
    return fixed, Grid(tuple(axes))


def _check_axis(change: str, table: str, name: str, values: Sequence[str]) -> None:
    if "" in values:
        raise SettingError(
            f"'{change}' has an empty value. Write values with commas between them: "
            "training.batch=64,128. Quote a value that has commas itself."
        )
    if table not in _SWEPT_TABLES:
        known = ", ".join(f"[{name}]" for name in _SWEPT_TABLES)
        raise SettingError(
            f"'{table}.{name}' cannot have several values: trials differ in settings of {known}. "
            "Quote a value that has commas."
        )
    if name in _REASONS:
        raise SettingError(f"'{table}.{name}' cannot have several values: {_REASONS[name]}.")
    plain = [toml_value(value) for value in values]
    for at, value in enumerate(plain):
        if value in plain[:at]:
            raise SettingError(f"'{change}' has the value {values[at]} twice.")
