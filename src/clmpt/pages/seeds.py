"""Several seeds of one variant: means and standard deviations of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmpt.pages.curves import is_number
from clmpt.pages.entry import Entry


@dataclass(frozen=True)
class SeedGroup:
    """The entries of one variant, one for each seed of training."""

    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        return f"{self.entries[0].family}, {len(self.entries)} seeds"

    @property
    def seeds(self) -> list[int]:
        return [entry.seed for entry in self.entries if entry.seed is not None]

    def mean_of(self, column: str, measure: str = "mrr") -> tuple[float, float] | None:
        """The mean and the standard deviation over seeds of an average or a shape's figure; None
        unless all entries have it."""
        found = [entry.figure(column, measure) for entry in self.entries]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            return None
        return float(np.mean(values)), float(np.std(values, ddof=1))

    def as_plain(self) -> dict[str, Any]:
        report = self.entries[0].report
        columns = [name for name in ("Avg_p", "Avg_n", "mean") if is_number(report.get(name))]
        columns += [str(row["shape"]) for row in report["shapes"]]
        means = {column: self.mean_of(column) for column in columns}
        return {
            "name": self.entries[0].family,
            "seeds": self.seeds,
            "mrr": {
                name: {"mean": mean[0], "deviation": mean[1]}
                for name, mean in means.items()
                if mean
            },
        }


def seed_groups(entries: Sequence[Entry]) -> list[SeedGroup]:
    """The variants that there are with two seeds or more."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.variant:
            found.setdefault(entry.variant, []).append(entry)
    return [
        SeedGroup(tuple(sorted(group, key=lambda entry: entry.seed or 0)))
        for group in found.values()
        if len(group) > 1
    ]


def with_deviation(mean: float, deviation: float | None) -> str:
    """Times 100, with the standard deviation over seeds if there is one.

    >>> with_deviation(0.2801, 0.0023), with_deviation(0.5, None)
    ('28.0 ± 0.2', '50.0')
    """
    spread = "" if deviation is None else f" ± {100 * deviation:.1f}"
    return f"{100 * mean:.1f}{spread}"
