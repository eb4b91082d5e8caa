"""The trials of a sweep as a table, with the one that validation chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clmpt.pages.curves import is_number
from clmpt.pages.page import Table

CHOSEN_ON_VALIDATION = (
    "Chosen by the mean MRR of validation queries over their shapes. Test queries were answered by "
    "the chosen one alone."
)
_CHOSEN = "chosen"


def trials_table(trials: Sequence[dict[str, Any]]) -> Table:
    """A row for each trial, the chosen one marked: it has the key `chosen`.

    >>> one = {"changes": ["rank=8"], "validation": 0.25, "epoch": 3, "seconds": 90, "chosen": True}
    >>> trials_table([one]).rows
    [['1', '8', '25.00', '3', '1.5', 'chosen']]
    """
    names = [str(change).partition("=")[0] for change in trials[0]["changes"]]
    headers = ["trial", *names, "validation MRR × 100", "epoch", "minutes", ""]
    rows = []
    for number, trial in enumerate(trials, 1):
        values = [str(change).partition("=")[2] for change in trial["changes"]]
        minutes = f"{trial['seconds'] / 60:.1f}" if is_number(trial.get("seconds")) else "–"
        figures = [f"{100 * float(trial['validation']):.2f}", str(trial.get("epoch")), minutes]
        if trial.get("diverged"):
            figures = ["diverged", "–", "–"]
        rows.append([str(number), *values, *figures, _CHOSEN if trial.get(_CHOSEN) else ""])
    return Table(headers, rows)


def at_the_edge(trials: Sequence[dict[str, Any]]) -> list[str]:
    """The chosen values that are the largest or the smallest of those tried: others beyond them
    might be better.

    >>> tried = [{"changes": [f"rate={rate}", "norm=pre"]} for rate in ("1e-3", "3e-3", "1e-2")]
    >>> at_the_edge([*tried[:2], {**tried[2], "chosen": True}])
    ['rate=1e-2']
    >>> at_the_edge([tried[0], {**tried[1], "chosen": True}, tried[2]])
    []
    """
    chosen = next((trial["changes"] for trial in trials if trial.get(_CHOSEN)), ())
    found = []
    for at, change in enumerate(chosen):
        numbers = (_number(trial["changes"][at]) for trial in trials)
        tried, own = {number for number in numbers if number is not None}, _number(change)
        if len(tried) > 1 and own in (min(tried), max(tried)):
            found.append(str(change))
    return found


def _number(change: object) -> float | None:
    try:
        return float(str(change).partition("=")[2])
    except ValueError:
        return None
