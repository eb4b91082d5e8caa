"""Training in a run folder: validated, logged, kept at its best, and safe to stop."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.devices import find_device, forget_peak_memory, peak_memory
from clmpt.errors import DataError, TrainingError
from clmpt.evaluation.ranks import evaluate_links
from clmpt.evaluation.report import evaluate
from clmpt.graph.benchmark_folders import FULL, OBSERVED, train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.models import fresh_predictor
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.links import links_of
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.models import fresh_reasoner
from clmpt.reasoners.reasoner import NeuralReasoner
from clmpt.sampling import sampler as sampling
from clmpt.settings import Pretraining, Reasoning, Training, without_device
from clmpt.storage.run_folder import RunFolder
from clmpt.training.checkpoint import save_reasoner, save_vocabulary, save_weights
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.stepping import checksum, random_of
from clmpt.training.trainer import Trainer

SAVE_SECONDS = 120.0  # how much work a kill can cost
_VALID_QUERIES = "valid.queries"
_VALIDATION = 4  # what random numbers are for; see neural/training.py


@dataclass
class Tally:
    """What a run remembers besides its weights; saved with them."""

    steps_done: int = 0
    loss_sum: float = 0.0  # since the last entry in the log
    seconds: float = 0.0  # over all its parts
    best: float | None = None  # validation MRR
    best_epoch: float = 0
    worse: int = 0  # validations since the best
    memory: int = 0  # bytes held at most


@dataclass(frozen=True)
class Validation:
    """How a model does on what it is chosen by. `plain` is for the log."""

    mrr: float
    plain: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a run is. `loss` is the mean since the last entry in the log; `valid` is there when
    just made."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    seconds: float
    best: float | None
    valid: Validation | None


class Steps(Protocol):
    """Training by steps, such as `Pretrainer` and `Trainer`."""

    steps: int
    steps_per_epoch: int
    steps_done: int
    optimizer: torch.optim.Optimizer

    @property
    def is_sane(self) -> bool: ...
    def step(self) -> Tensor: ...
    def mean_loss(self, loss_sum: float, steps: int) -> float: ...
    def state(self) -> dict[str, Tensor]: ...
    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None: ...


@dataclass(frozen=True)
class _Course:
    """What is done between steps: when to log, to validate, and how to keep the best."""

    epochs: int
    patience: int
    log_steps: int
    validate_steps: int
    validate: Callable[[], Validation] | None
    keep: Callable[[dict[str, Any]], None]
    device: torch.device


def pretrain(
    graph: KnowledgeGraph,
    settings: Pretraining,
    out: str | Path,
    source: str = "",
    save_seconds: float = SAVE_SECONDS,
) -> Generator[Progress, None, None]:
    """Trains a predictor into the folder `out`, or goes on with the run that was stopped there.

    Yields after every step; nothing happens until it is iterated. Trains on the split 'train' (or
    the first) and keeps what does best on 'valid'; without such a split, the last epoch. Ctrl-C
    and leaving the loop save first, and after a kill the state saved last is gone on with: the
    weights end up the same, bit by bit, as without a stop.
    """
    facts = train_split(graph)
    predictor = fresh_predictor(graph, settings).to(find_device(settings.device))
    trainer = Pretrainer(predictor, links_of(graph, facts), settings)
    identity = {
        "kind": "pretraining",
        "settings": without_device(settings),
        "train_split": facts,
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
    }
    run = RunFolder.begin(
        Path(out),
        identity,
        source,
        lambda folder: save_vocabulary(folder, graph.entities.names, graph.relations.names),
    )

    def validate() -> Validation:
        found = evaluate_links(trainer.result, graph, "valid")
        return Validation(found.mrr, found.as_plain())

    def keep(about: dict[str, Any]) -> None:
        same = {"settings": asdict(settings), "graph": identity["graph"]}
        save_weights(run.path, trainer.result, {**same, **about})

    course = _Course(
        settings.epochs,
        settings.patience,
        trainer.steps_per_epoch,
        trainer.steps_per_epoch * settings.validate_every,
        validate if has_facts(graph, "valid") else None,
        keep,
        predictor.entities_ED.device,
    )
    yield from _follow(run, trainer, course, save_seconds)


def train(
    graph: KnowledgeGraph,
    predictor: EmbeddingPredictor,
    queries: QuerySet,
    reasoning: Reasoning,
    settings: Training,
    out: str | Path,
    source: str = "",
    valid: QuerySet | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Generator[Progress, None, None]:
    """Trains a reasoner into the folder `out`, or goes on with the run that was stopped there.

    The predictor is taken over: with trainable tables it changes. What does best on `valid` is
    kept; without it, on queries of the same shapes sampled from the graph's split 'valid', and
    without such a split the last weights. Of the rest `pretrain` tells.
    """
    out = Path(out)
    for group in (*queries.groups, *(valid.groups if valid is not None else ())):
        group.check(len(graph.entities), 2 * len(graph.relations))
    identity = {
        "kind": "training",
        "reasoning": asdict(reasoning),
        "settings": without_device(settings),
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
        "predictor": {"model": predictor.name, "weights": checksum(predictor.parameters())},
        "queries": queries.checksum,
        "valid": valid.checksum if valid is not None else None,
    }
    model = fresh_reasoner(predictor.to(find_device(settings.device)), reasoning, settings.seed)
    trainer = Trainer(model, queries.groups, settings)

    def fill(folder: Path) -> None:
        save_vocabulary(folder, graph.entities.names, graph.relations.names)
        chosen = _validation_queries(graph, queries, valid, settings)
        QuerySet(tuple(chosen), {"graph": graph.fingerprint}).save(folder / _VALID_QUERIES)

    run = RunFolder.begin(out, identity, source, fill)
    asked = QuerySet.open(out / _VALID_QUERIES).groups

    def validate() -> Validation:
        report = evaluate(NeuralReasoner(model), asked, reasoning.reasoner)
        by_shape = {shape.name: shape.figures.mrr for shape in report.shapes}
        return Validation(report.mean, {"mrr": report.mean, "shapes": by_shape})

    def keep(about: dict[str, Any]) -> None:
        same = {"training": asdict(settings), "graph": identity["graph"]}
        save_reasoner(out, model, {**same, **about})

    interval = settings.validate_every or trainer.steps_per_epoch
    epochs = math.ceil(trainer.steps / trainer.steps_per_epoch)
    course = _Course(
        epochs,
        settings.patience,
        interval,
        interval,
        validate if asked else None,
        keep,
        trainer.device,
    )
    yield from _follow(run, trainer, course, save_seconds)


def _validation_queries(
    graph: KnowledgeGraph, queries: QuerySet, valid: QuerySet | None, settings: Training
) -> list[QueryGroup]:
    """A fixed number of queries of each shape that have hard answers."""
    chosen = []
    if valid is not None:
        for number, group in enumerate(valid.groups):
            rows = np.flatnonzero(group.hard.counts)
            random = random_of(settings.seed, _VALIDATION, number)
            chosen.append(
                group.take(np.sort(random.permutation(rows)[: settings.validation_queries]))
            )
    elif has_facts(graph, "valid") and has_facts(graph, "train"):
        protocol = sampling.Protocol(OBSERVED["valid"], FULL["valid"], sampling.MOST_HARD)
        for group in queries.groups:
            count = settings.validation_queries
            chosen.append(sampling.sample(group.template, graph, protocol, count, settings.seed))
    chosen = [group for group in chosen if len(group)]
    if valid is not None and not chosen:
        raise DataError(
            "The validation queries have no hard answers to choose by. Sample some from the split "
            "'valid'."
        )
    return chosen


def has_facts(graph: KnowledgeGraph, split: str) -> bool:
    return split in graph.splits and graph.view(split).index.triples > 0


# --- any training ---------------------------------------------------------------------------------


def _follow(
    run: RunFolder, trainer: Steps, course: _Course, save_seconds: float
) -> Generator[Progress, None, None]:
    tally = Tally()
    if (found := run.load_state()) is not None:
        tensors, remembered = found
        tally = _tally(remembered, run.path)
        trainer.restore(tensors, tally.steps_done)
    clock = time.perf_counter() - tally.seconds
    saved = time.perf_counter()

    forget_peak_memory(course.device)

    def save() -> None:
        nonlocal saved
        tally.seconds = time.perf_counter() - clock
        tally.memory = max(tally.memory, peak_memory(course.device))
        run.save_state(trainer.state(), asdict(tally))
        saved = time.perf_counter()

    with run.alone(), _ctrl_c_noted() as stop_asked:
        while tally.steps_done < trainer.steps and tally.worse < course.patience:
            loss, valid = float(trainer.step()), None
            if not math.isfinite(loss):
                raise _exploded(f"The loss became {loss} at step {trainer.steps_done}", run.path)
            tally.steps_done = trainer.steps_done
            tally.loss_sum += loss
            tally.seconds = time.perf_counter() - clock
            since = (tally.steps_done - 1) % course.log_steps + 1
            mean_loss = trainer.mean_loss(tally.loss_sum, since)
            if since == course.log_steps or tally.steps_done == trainer.steps:
                valid = _pause(run, trainer, tally, course, mean_loss)
            if time.perf_counter() - saved > save_seconds:
                save()
            try:
                yield Progress(
                    tally.steps_done,
                    trainer.steps,
                    math.ceil(tally.steps_done / trainer.steps_per_epoch),
                    course.epochs,
                    mean_loss,
                    tally.seconds,
                    tally.best,
                    valid,
                )
            except GeneratorExit:
                save()
                raise
            if stop_asked():
                save()
                raise KeyboardInterrupt
    tally.memory = max(tally.memory, peak_memory(course.device))
    run.finish(asdict(tally))


def _pause(
    run: RunFolder, trainer: Steps, tally: Tally, course: _Course, loss: float
) -> Validation | None:
    """Validates where it is time to, keeps the weights if they are the best so far, and logs."""
    done = trainer.steps_done
    epoch = _plain_number(done / trainer.steps_per_epoch)
    tally.loss_sum, valid = 0.0, None
    due = done % course.validate_steps == 0 or done == trainer.steps
    if due and course.validate:
        valid = course.validate()
        if tally.best is None or valid.mrr > tally.best:
            tally.best, tally.worse = valid.mrr, 0
        else:
            tally.worse += 1
    if not trainer.is_sane:
        raise _exploded(f"Weights grew beyond all measure by epoch {epoch}", run.path)
    if due and tally.worse == 0:
        tally.best_epoch = epoch
        course.keep({"epoch": epoch, "valid": valid.plain if valid else None})
    run.log(
        epoch=epoch,
        step=done,
        loss=loss,
        learning_rate=trainer.optimizer.param_groups[0]["lr"],
        seconds=round(tally.seconds, 3),
        valid=valid.plain if valid else None,
    )
    return valid


def _plain_number(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)


def _exploded(what: str, out: Path) -> TrainingError:
    return TrainingError(
        f"{what}. What was saved before that is kept in '{out}'. Try a lower learning rate, in a "
        "new folder."
    )


def _tally(remembered: dict[str, Any], out: Path) -> Tally:
    found = {field.name: remembered.get(field.name, field.default) for field in fields(Tally)}
    for name, value in found.items():
        fits = isinstance(value, int | float) and value >= 0
        if not fits and (name, value) != ("best", None):
            raise DataError(f"The state in '{out}' is damaged. Remove the folder to start anew.")
    return Tally(**found)


@contextmanager
def _ctrl_c_noted() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noted, for the loop to look at between steps; a second one breaks at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = threading.Event()

    def note(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
