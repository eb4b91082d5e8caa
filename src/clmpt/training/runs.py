"""`pretrain` and `train`: start a run, or resume an interrupted one."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.devices import find_device
from clmpt.compute.row_shards import RowShard
from clmpt.compute.tensor_files import checksum
from clmpt.compute.threads import step_threads
from clmpt.errors import DataError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import FULL, OBSERVED, has_facts, train_split
from clmpt.graph.stored_names import StoredNames
from clmpt.predictors.calibration import calibrate, hidden_share, is_calibrated
from clmpt.predictors.carrying_over import carry_over
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor
from clmpt.predictors.predictor_folder import StoredPredictor, open_predictor, replace_predictor
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.links import links_of
from clmpt.queries.refusals import expressed, sort_out
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.answer_calibration import AnswerCalibration, calibrate_answers
from clmpt.reasoners.model import Basis, GradientModel, ReasonerModel, build_model
from clmpt.reasoners.reasoner_folder import (
    StoredWeights,
    has_calibrations,
    open_reasoner,
    replace_reasoner,
    save_calibrations,
)
from clmpt.reasoners.starting import start_from
from clmpt.registry import PREDICTORS, REASONERS
from clmpt.sampling.sampler import MOST_HARD, Protocol, sample
from clmpt.settings import Pretraining, Reasoning, Training, without_device
from clmpt.storage.run_folder import RunFolder
from clmpt.training.loop import SAVE_SECONDS, Course, Learner, TrainingStep, Validation, follow
from clmpt.training.pacing import paced
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.stepping import random_of
from clmpt.training.trainer import Trainer

_VALID_QUERIES = "valid.queries"
_VALIDATION = 4  # a purpose of random numbers; see trainer.py


def pretrain(
    graph: KnowledgeGraph,
    settings: Pretraining,
    out: str | Path,
    source: str = "",
    save_seconds: float = SAVE_SECONDS,
    start: StoredPredictor | None = None,
) -> Generator[TrainingStep, None, None]:
    """Trains a predictor in the folder `out`, or resumes the run interrupted there.

    A generator that yields after every step: nothing happens until it is iterated. Trains on the
    split 'train' (or the first) and keeps the best epoch on 'valid', or the last one without such
    a split. With `start` the embeddings of all names that it has start from there; the graph may
    have grown since. Ctrl-C and leaving the loop save the state first; after a kill, the run
    resumes from the last saved state, and ends with bit for bit the same weights.
    """
    facts = train_split(graph)
    predictor = fresh_predictor(graph, settings).to(find_device(settings.device))
    if start is not None:
        carry_over(start.predictor, predictor, start.names.match(graph))
    learner = Pretrainer(predictor, links_of(graph, facts), settings)
    identity: dict[str, Any] = {"kind": "pretraining", "settings": without_device(settings)}
    identity |= {"train_split": facts, "graph": graph.identity}
    if start is not None:
        identity["start"] = checksum(start.predictor.parameters())
    fill = StoredNames.of(graph).save
    run = _begun_together(Path(out), identity, settings.divided, source, fill)

    def validate() -> Validation:
        limit, seed = settings.validation_links, settings.seed
        found = evaluate_links(learner.result, graph, "valid", limit=limit, seed=seed)
        return Validation(found.mrr, found.as_plain())

    def keep(about: dict[str, Any]) -> None:
        same = {"settings": asdict(settings), "graph": graph.identity}
        replace_predictor(run.path, learner.result, {**same, **about})

    course = Course(
        settings.epochs,
        settings.patience,
        learner.steps_per_epoch,
        learner.steps_per_epoch * settings.validate_every,
        validate if has_facts(graph, "valid") else None,
        keep,
        learner.device,
        save_seconds,
    )
    yield from follow(run, learner, course)
    _calibrate_stored(run.path, graph, settings)
    distributed.wait_for_all()


def _begun_together(
    out: Path, identity: dict[str, Any], divided: str, source: str, fill: Callable[[Path], None]
) -> RunFolder:
    """The run's folder, which one of the processes makes."""
    distributed.agree(repr((identity, divided)), "the settings or the graph")
    return distributed.in_turn(lambda: RunFolder.begin(out, identity, source, fill))


def _calibrate_stored(folder: Path, graph: KnowledgeGraph, settings: Pretraining) -> None:
    """Calibrates the best weights, once. If a kill prevents it, `train` makes up for it. Of the
    stored table each process looks at its own rows."""
    stored = open_predictor(folder, trust=[settings.model])
    calibrate(stored.predictor.own_part(), graph, settings.seed)
    about = {key: value for key, value in stored.about.items() if key not in ("format", "model")}
    replace_predictor(folder, stored.predictor, about)


def train(
    graph: KnowledgeGraph,
    predictor: EmbeddingPredictor | None,
    queries: QuerySet,
    reasoning: Reasoning,
    settings: Training,
    out: str | Path,
    source: str = "",
    valid: QuerySet | None = None,
    save_seconds: float = SAVE_SECONDS,
    start: StoredWeights | None = None,
    calibrating: ReportProgress = silent,
) -> Generator[TrainingStep, None, None]:
    """Trains a reasoner in the folder `out`, or resumes the run interrupted there.

    The predictor is taken over: trainable embeddings change in place. Keeps the best weights on
    `valid`, by default queries of the same shapes sampled from the split 'valid'; without it, the
    last weights. With `settings.minutes` it measures some steps first, to know how many to take.
    With `start` it has a trained model's weights at first. After the last step the answers are
    calibrated, which `calibrating` follows. See also `pretrain`.
    """
    out, device = Path(out), find_device(settings.device)
    for group in (*queries.groups, *(valid.groups if valid else ())):
        group.check(len(graph.entities), 2 * len(graph.relations))
    identity = _identity(graph, predictor, queries, valid, (reasoning, settings, start))
    basis = _basis(graph, predictor, settings, device)
    model = build_model(basis, reasoning, settings.seed).to(device)
    start_from(model, start, graph)
    expressible = partial(model.check_query, reasoning.settings)
    groups, left_out = expressed(model.title, expressible, queries.groups)
    learner = _learner(model, groups, settings)

    def fill(folder: Path) -> None:
        StoredNames.of(graph).save(folder)
        _validation_queries(graph, queries, valid, settings).save(folder / _VALID_QUERIES)

    run = _begun_together(out, identity, settings.divided, source, fill)
    learner, settings = _paced(out, learner, groups, settings)
    asked, _ = sort_out(expressible, QuerySet.open(out / _VALID_QUERIES).groups)

    def keep(about: dict[str, Any]) -> None:
        same = {"training": asdict(settings), "graph": graph.identity, "left_out": left_out}
        with learner.whole():
            distributed.by_one(replace_reasoner)(out, model, {**same, **about})

    check = partial(_validated, learner, model, asked) if asked else None
    yield from follow(run, learner, _course(learner, settings, check, keep, device, save_seconds))
    distributed.by_one(_calibrate_answers)(out, graph, asked, reasoning, device, calibrating)
    distributed.wait_for_all()


def _validated(learner: Learner, model: ReasonerModel, asked: Sequence[QueryGroup]) -> Validation:
    with learner.whole():
        model.eval()
        model.tune(asked)
        report = evaluate(model.reasoner(), asked)
    by_shape = {shape.name: shape.figures.mrr for shape in report.shapes}
    return Validation(report.mean, {"mrr": report.mean, "shapes": by_shape})


def _calibrate_answers(
    out: Path,
    graph: KnowledgeGraph,
    asked: Sequence[QueryGroup],
    reasoning: Reasoning,
    device: torch.device,
    progress: ReportProgress,
) -> None:
    """Calibrates the answers of the best weights, once."""
    if asked and not has_calibrations(out):
        best = open_reasoner(out, graph, device, [reasoning.reasoner]).model
        save_calibrations(out, _calibrations(best, asked, hidden_share(graph), progress))


def _basis(
    graph: KnowledgeGraph,
    predictor: EmbeddingPredictor | None,
    settings: Training,
    device: torch.device,
) -> Basis:
    if predictor is not None and not is_calibrated(predictor):  # converted, or made before
        calibrate(predictor, graph, settings.seed)
    return Basis(graph.view(train_split(graph)), predictor.to(device) if predictor else None)


def _calibrations(
    model: ReasonerModel, asked: Sequence[QueryGroup], share: float, progress: ReportProgress
) -> dict[str, AnswerCalibration]:
    """The calibration of a model's answers and of those of its parts, by name."""
    own = {REASONERS.name_of(type(model)): model.reasoner(), **model.parts()}
    queries = sum(map(len, asked))

    def followed(number: int, name: str) -> ReportProgress:
        stage, before = f"probabilities of {name}", number * queries
        return lambda now: progress(Progress(stage, before + now.done, len(own) * queries))

    return {
        name: calibrate_answers(part, asked, share, followed(number, name))
        for number, (name, part) in enumerate(own.items())
    }


def _course(
    learner: Learner,
    settings: Training,
    validate: Callable[[], Validation] | None,
    keep: Callable[[dict[str, Any]], None],
    device: torch.device,
    save_seconds: float,
) -> Course:
    interval = settings.validate_every or learner.steps_per_epoch
    epochs = math.ceil(learner.steps / learner.steps_per_epoch)
    patience = settings.patience
    return Course(epochs, patience, interval, interval, validate, keep, device, save_seconds)


def _identity(
    graph: KnowledgeGraph,
    predictor: EmbeddingPredictor | None,
    queries: QuerySet,
    valid: QuerySet | None,
    chosen: tuple[Reasoning, Training, StoredWeights | None],
) -> dict[str, Any]:
    """What identifies a run: it resumes only if all of this is unchanged."""
    reasoning, settings, start = chosen
    stands_on = None
    if predictor is not None:
        model = PREDICTORS.name_of(type(predictor))
        stands_on = {"model": model, "weights": checksum(predictor.parameters())}
    return {
        "kind": "training",
        "reasoning": reasoning.as_plain(),
        "settings": without_device(settings),
        "graph": graph.identity,
        "predictor": stands_on,
        "queries": queries.checksum,
        "valid": valid.checksum if valid is not None else None,
        **({"start": start.checksum} if start else {}),
    }


def _learner(model: ReasonerModel, groups: Sequence[QueryGroup], settings: Training) -> Learner:
    if isinstance(model, GradientModel):
        return Trainer(model, groups, settings)
    return _NoSteps()


def _paced(
    out: Path, learner: Learner, groups: Sequence[QueryGroup], settings: Training
) -> tuple[Learner, Training]:
    """With as many steps as the time that is given allows."""
    if not settings.minutes or not isinstance(learner, Trainer):
        return learner, settings
    threads = step_threads(learner.products_per_step)
    chosen = paced(out, learner.model, groups, settings, threads)
    return Trainer(learner.model, groups, chosen), chosen


class _NoSteps:
    """For a model that takes no training steps: it is only tuned on validation queries."""

    steps, steps_per_epoch, steps_done = 0, 1, 0
    is_sane, last_learning_rate, products_per_step = True, 0.0, 0.0

    def step(self) -> Tensor:
        return torch.zeros(())

    def mean_loss(self, loss_sum: float, steps: int) -> float:
        return loss_sum / max(steps, 1)

    def state(self) -> dict[str, Tensor]:
        return {}

    @property
    def shards(self) -> dict[str, RowShard]:
        return {}

    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None:
        """Nothing to restore."""

    def whole(self) -> AbstractContextManager[None]:
        return nullcontext()


def _validation_queries(
    graph: KnowledgeGraph, queries: QuerySet, valid: QuerySet | None, settings: Training
) -> QuerySet:
    """A fixed number of queries with hard answers, for each shape."""
    chosen: list[QueryGroup] = []
    if not settings.validation_queries:
        valid = None
    elif valid is not None:
        for number, group in enumerate(valid.groups):
            rows = np.flatnonzero(group.hard.counts)
            random = random_of(settings.seed, _VALIDATION, number)
            chosen.append(
                group.take(np.sort(random.permutation(rows)[: settings.validation_queries]))
            )
    elif has_facts(graph, "valid") and has_facts(graph, "train"):
        protocol = Protocol(OBSERVED["valid"], FULL["valid"], MOST_HARD)
        for group in queries.groups:
            count = settings.validation_queries
            chosen.append(sample(group.template, graph, protocol, count, settings.seed))
    chosen = [group for group in chosen if len(group)]
    if valid is not None and not chosen:
        raise DataError(
            "The validation queries have no hard answers. Sample some from the split 'valid'."
        )
    return QuerySet(tuple(chosen), {"graph": graph.fingerprint})
