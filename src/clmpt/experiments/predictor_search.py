"""`fit` chooses the regularisation of its predictor on validation links.

It is the setting that graphs differ in most. Each value is tried in a run of its own with fewer
epochs; the best is then trained in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clmpt.experiments.costs import pretraining_work
from clmpt.experiments.stage_builders import Stage, predictor_stage
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import ReportProgress
from clmpt.settings import Pretraining
from clmpt.storage.run_folder import is_finished, read_summary

REGULARISATIONS = (0.05, 0.01, 0.02, 0.1)  # in the order in which they are tried
_SHARE = 4  # a trial has one epoch in so many, and at most
_EPOCHS = 10


def search_stages(
    graph: KnowledgeGraph, settings: Pretraining, tries: int, out: Path, path: Path, source: str
) -> list[Stage]:
    """A trial for each value of the regularisation; none for a single one, and none once the
    predictor in `path` is trained."""
    found = []
    for value in REGULARISATIONS[:tries] if tries > 1 else ():
        tried = trial(settings, value)
        work = pretraining_work(graph, tried)
        name = f"trying regularisation {value}"
        stage = predictor_stage(graph, tried, _folder(out, value), source, work, name)
        found.append(replace(stage, role=name, check=_tried(stage, path)))
    return found


def _tried(stage: Stage, predictor: Path) -> Callable[[Path], bool]:
    return lambda path: is_finished(predictor) or stage.check(path)


def chosen_predictor_stage(
    graph: KnowledgeGraph, settings: Pretraining, tries: int, out: Path, path: Path, source: str
) -> Stage:
    """Pre-training with the regularisation that did best in its trial."""
    work = pretraining_work(graph, settings)
    plain = predictor_stage(graph, settings, path, source, work)
    if tries == 1:
        return plain

    def run(progress: ReportProgress) -> None:
        best = replace(settings, regularisation=best_regularisation(tries, out))
        predictor_stage(graph, best, path, source, work).run(progress)

    return replace(plain, run=run)


def best_regularisation(tries: int, out: Path) -> float:
    """By the validation MRR of the trials; the first of equals."""
    figures = {value: _validation(_folder(out, value)) for value in REGULARISATIONS[:tries]}
    return max(figures, key=lambda value: figures[value])


def trial(settings: Pretraining, regularisation: float) -> Pretraining:
    epochs = max(1, min(_EPOCHS, settings.epochs // _SHARE))
    return replace(settings, regularisation=regularisation, epochs=epochs)


def _validation(folder: Path) -> float:
    best = read_summary(folder).get("best")
    return float(best) if isinstance(best, int | float) else 0.0


def _folder(out: Path, value: float) -> Path:
    return out / "trials" / f"regularisation-{value}"
