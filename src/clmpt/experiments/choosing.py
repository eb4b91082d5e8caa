"""Which of a fitted model's reasoners answers questions: the best on held-out facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clmpt.answering.asked_model import BEAM_SEARCH
from clmpt.answering.model_folder import CHOICE, save_choice
from clmpt.experiments.costs import Work
from clmpt.experiments.stage_builders import Asked, Stage
from clmpt.pages.report_folder import is_report, read_report
from clmpt.progress import ReportProgress


def choice_stage(asked: Mapping[str, Asked], out: Path) -> Stage:
    """Keeps the name of the reasoner that did best on held-out facts, for questions."""

    def run(progress: ReportProgress) -> None:  # noqa: ARG001
        reports = {
            name: read_report(one.report) for name, one in asked.items() if is_report(one.report)
        }
        chosen = best_reasoner(reports) if reports else next(iter(asked))
        save_choice(out, chosen)

    return Stage("choice", "choosing", out / CHOICE, Work(), run)


def best_reasoner(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The best reasoner by mean MRR of those that are not worse than beam search, which is the
    predictor alone, on any average that the reports have.

    >>> best_reasoner({"hybrid": {"mean": 0.5, "Avg_p": 0.5}, "beam-search": {"mean": 0.4,
    ...                "Avg_p": 0.6}, "truth-values": {"mean": 0.45, "Avg_p": 0.7}})
    'truth-values'
    """
    least = reports.get(BEAM_SEARCH, {})
    averages = [name for name in ("mean", "Avg_p", "Avg_n") if name in least]
    fair = [
        name
        for name, report in reports.items()
        if all(report[average] >= least[average] for average in averages)
    ]
    return max(fair or reports, key=lambda name: reports[name]["mean"])
