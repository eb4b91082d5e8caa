"""evaluate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clmpt.answering.probabilities import LISTED, by_hops, said_and_true
from clmpt.cli.output import (
    TerminalTable,
    show_json,
    show_table,
    tell,
    told_if_repeated,
    write_once,
)
from clmpt.cli.progress_bars import progress_bar
from clmpt.compute import distributed
from clmpt.errors import SettingError
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.reliability import BINS, Reliability
from clmpt.evaluation.report import Report
from clmpt.experiments.evaluating import Candidate, chosen_groups
from clmpt.pages.reliability_diagram import reliability_svg
from clmpt.pages.report_folder import is_report, report_table, save_report
from clmpt.storage.files import refuse_existing


def evaluate_model(options: argparse.Namespace) -> None:
    if not options.links and not options.queries:
        raise SettingError("Choose what to evaluate on: --links, --queries SOURCE or both.")
    if options.report and not is_report(Path(options.report)):  # else it is compared, after all
        refuse_existing(Path(options.report))
    if options.svg and not Path(options.svg).is_file():
        refuse_existing(Path(options.svg))
    if options.calibration and not options.queries:
        raise SettingError("--calibration is measured on queries: --queries SOURCE")
    if options.svg and not options.calibration:
        raise SettingError("--svg draws what --calibration measures. Add --calibration.")
    if options.limit and not options.links:
        raise SettingError("--limit draws questions for --links. Add --links.")
    if options.index and not options.queries:
        raise SettingError("--index answers queries: --queries SOURCE")
    candidate = Candidate.open(
        *(options.checkpoint, options.graph, options.device, options.trust, options.reasoner),
        *(options.known or (), options.index),
    )
    shown: dict[str, Any] = {}
    links: dict[str, Figures] = {}
    report: Report | None = None
    if options.links:
        with progress_bar() as show:
            links = candidate.links(options.split, show, options.limit)
        shown["links"] = [{"split": name, **found.as_plain()} for name, found in links.items()]
    if options.calibration:
        _show_calibration(options, candidate.name, _measure_calibration(options, candidate))
        return
    if options.queries:
        report = _measure_queries(options, candidate)
        shown["queries"] = report.as_plain()
    if options.json:
        show_json(shown)
    else:
        _show_tables(options, candidate, links, report)
    if report and options.report:
        distributed.by_one(_save)(report, Path(options.report))


def _save(report: Report, path: Path) -> None:
    with told_if_repeated(path):
        save_report(report, path)


def _show_tables(
    options: argparse.Namespace,
    candidate: Candidate,
    links: dict[str, Figures],
    report: Report | None,
) -> None:
    if links:
        headers = ["links of", "MRR", "Hits@1", "Hits@3", "Hits@10", "over"]
        rows = [_row(name, figures) for name, figures in links.items()]
        show_table(
            TerminalTable(f"{candidate.predictor}, filtered, ties at mean rank", headers, rows)
        )
    if report:
        table = report_table(report)
        title = f"{report.model}: MRR and Hits × 100"
        show_table(TerminalTable(title, table.headers, table.rows))
        for note in report.notes:
            tell(note)
        if options.known:
            tell(f"Facts that the reasoner may use: {' + '.join(options.known)}.")


def _measure_calibration(options: argparse.Namespace, candidate: Candidate) -> list[Reliability]:
    if candidate.weights is None:
        raise SettingError("The exact solver has no probabilities to measure.")
    queries, _ = candidate.queries(options.queries, options.split or "test")
    groups, asked = chosen_groups(queries, options.shapes or ()), candidate.asked()
    with progress_bar() as show:
        said = said_and_true(asked, groups, candidate.known_facts, show)
    return by_hops(said)


def _measure_queries(options: argparse.Namespace, candidate: Candidate) -> Report:
    source, split = Path(options.queries), options.split or "test"
    if options.split and not options.links and not source.is_dir():
        raise SettingError(f"--split is for benchmark folders; '{source}' is a single file.")
    with progress_bar() as show:
        return candidate.report(source, split, options.shapes or (), show)


def _show_calibration(options: argparse.Namespace, name: str, found: list[Reliability]) -> None:
    title = f"{name}: what is said to be likely, and what is true"
    if options.json:
        show_json({"calibration": [one.as_plain() for one in found]})
    else:
        _show_bins(title, found)
    if options.svg:
        distributed.by_one(write_once)(Path(options.svg), reliability_svg(title, found))


def _show_bins(title: str, found: list[Reliability]) -> None:
    rows = [(one.name, f"{one.error:.3f}", one.count) for one in found]
    show_table(TerminalTable(title, ["hops", "expected calibration error", "answers"], rows))
    bins = [
        (f"{b.least:.0%} to {b.least + 1 / BINS:.0%}", f"{b.said:.1%}", f"{b.true:.1%}", b.count)
        for b in found[0].bins
    ]
    show_table(TerminalTable("", ["probability", "said", "true", "answers"], bins))
    tell(
        f"The {LISTED} likeliest predictions of each query; true if they follow from the full "
        "graph."
    )


def _row(name: str, figures: Figures) -> tuple[object, ...]:
    hits = (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
    return name, f"{figures.mrr:.4f}", *(f"{value:.4f}" for value in hits), figures.count
