"""The stages of `fit` and `reproduce`.

A stage has a name, the path of its result, a cost estimate and a function that runs it. Plans print
lists of stages, runs perform them, and a finished stage is not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from clmpt.answering.asked_model import open_model
from clmpt.compute import distributed
from clmpt.compute.devices import find_device, forget_peak_memory, peak_memory, work_clock
from clmpt.errors import DataError
from clmpt.evaluation.measuring import evaluate
from clmpt.experiments.costs import Work, measuring_work
from clmpt.experiments.evaluating import conditions
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.pages.report_folder import save_report
from clmpt.predictors.predictor_folder import (
    StoredPredictor,
    open_predictor,
    predictor_is_whole,
)
from clmpt.progress import Progress, ReportProgress, as_one_stage, part_of
from clmpt.queries.store import QuerySet
from clmpt.reasoners.reasoner_folder import StoredWeights, reasoner_is_whole
from clmpt.settings import Pretraining, Reasoning, Training
from clmpt.storage.run_folder import is_finished
from clmpt.training.loop import TrainingStep
from clmpt.training.runs import pretrain, train


@dataclass(frozen=True)
class Stage:
    """`role` is the key of the result in an experiment's record: 'predictor', 'report', …"""

    role: str
    name: str
    path: Path
    work: Work
    run: Callable[[ReportProgress], None]
    check: Callable[[Path], bool] = Path.exists
    is_shared: bool = False  # if there are several processes, all work on it, not just one

    @property
    def is_done(self) -> bool:
        return self.check(self.path)

    @property
    def is_begun(self) -> bool:
        return self.path.exists() and not self.is_done


def perform(stages: Sequence[Stage], progress: ReportProgress) -> None:
    """Runs the stages that are not finished, in order."""
    for stage in stages:
        if distributed.made_by_one(lambda stage=stage: stage.is_done):  # type: ignore[misc]
            continue
        if stage.is_shared:
            stage.run(progress)
        else:
            distributed.made_by_one(partial(stage.run, progress))
        distributed.wait_for_all()


def renamed(stage: Stage, name: str) -> Stage:
    """The stage under another name, for plans and for progress."""

    def run(progress: ReportProgress) -> None:
        stage.run(lambda now: progress(replace(now, stage=name)))

    return replace(stage, name=name, run=run)


# --- models ---------------------------------------------------------------------------------------


def predictor_stage(
    graph: KnowledgeGraph,
    settings: Pretraining,
    path: Path,
    source: str,
    work: Work,
    name: str = "pre-training",
    start: Callable[[], StoredPredictor | None] = lambda: None,
) -> Stage:
    def run(progress: ReportProgress) -> None:
        follow_steps(name, pretrain(graph, settings, path, source, start=start()), progress)

    return Stage("predictor", name, path, work, run, _trained(predictor_is_whole), is_shared=True)


def reasoner_stage(
    graph: KnowledgeGraph,
    queries: Path,
    valid: Path | None,
    predictor: Path | None,
    chosen: tuple[Pretraining, Reasoning, Training],
    path: Path,
    source: str,
    work: Work,
    start: Callable[[], StoredWeights | None] = lambda: None,
) -> Stage:
    """Trains on `queries` and keeps the best weights on `valid`, or on sampled queries."""
    name, (before, reasoning, settings) = "training", chosen

    def run(progress: ReportProgress) -> None:
        found = QuerySet.open(queries)
        asked = QuerySet(tuple(group for group in found.groups if len(group)), found.about)
        if not asked.groups:
            raise DataError("The graph is too small: no query could be sampled from it.")
        given = open_predictor(predictor, trust=[before.model]).predictor if predictor else None
        held_out = QuerySet.open(valid) if valid else None
        steps = train(
            *(graph, given, asked, reasoning, settings, path, source, held_out),
            start=start(),
            calibrating=as_one_stage(progress, name),
        )
        follow_steps(name, steps, progress)

    return Stage("reasoner", name, path, work, run, _trained(reasoner_is_whole), is_shared=True)


def _trained(is_whole: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Whether a run is finished and has its weights."""

    def check(path: Path) -> bool:
        if is_finished(path) and not is_whole(path):
            raise DataError(
                f"'{path}' is damaged. Remove that folder and run the same command again."
            )
        return is_finished(path)

    return check


def follow_steps(name: str, steps: Iterator[TrainingStep], progress: ReportProgress) -> None:
    """Takes the steps of a run to its end and reports them."""
    with closing(steps):  # type: ignore[type-var]
        for now in steps:
            best = f", validation MRR {now.best:.3f}" if now.best is not None else ""
            progress(Progress(name, now.step, now.steps, f"loss {now.loss:.3f}{best}"))


TRAINED = ""  # the reasoner that a checkpoint was trained as

# --- figures --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The data for reports: queries and how many there are at most, their graph, its observed
    splits; and the classes that a checkpoint may import."""

    queries: Path
    count: int
    graph: KnowledgeGraph
    observed: tuple[str, ...]
    device: str
    trust: Sequence[str]
    about: dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a report is about: a checkpoint, and which of its reasoners; where it goes."""

    role: str
    name: str  # of the stage
    weights: Path
    reasoner: str
    report: Path
    rows: int = 1  # how often all entities are scored for a query


def report_stages(measured: Measured, width: int, asked: Sequence[Asked]) -> list[Stage]:
    """A report on each reasoner that is asked for."""
    size = (len(measured.graph.entities), width, measured.count)
    return [_report_stage(one, measured, measuring_work(*size, one.rows)) for one in asked]


def _report_stage(asked: Asked, measured: Measured, work: Work) -> Stage:
    """A report of a reasoner, with the time and memory of the evaluation."""

    def run(progress: ReportProgress) -> None:
        groups = [group for group in QuerySet.open(measured.queries).groups if len(group)]
        total, device = sum(map(len, groups)), find_device(measured.device)
        started, before = time.perf_counter(), work_clock(device)
        forget_peak_memory(device)
        opened, _ = open_model(
            *(asked.weights, measured.graph, device, measured.trust, asked.reasoner or None)
        )
        report = evaluate(
            opened.reasoner,
            groups,
            graph=measured.graph,
            observed=measured.observed,
            about=measured.about,
            progress=part_of(progress, asked.name, 0, total),
            conditions=conditions(measured.graph, [train_split(measured.graph)]),
        )
        seconds = round(time.perf_counter() - started, 1)
        processor = round(work_clock(device) - before, 3)
        costs = {"seconds": seconds, "processor": processor, "memory": peak_memory(device)}
        distributed.by_one(save_report)(report, asked.report, costs)

    return Stage(asked.role, asked.name, asked.report, work, run, is_shared=True)
