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
