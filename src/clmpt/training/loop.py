"""The training loop: validates, logs, keeps the best weights, and can be interrupted."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.devices import forget_peak_memory, peak_memory, work_clock
from clmpt.compute.row_shards import RowShard
from clmpt.compute.threads import step_threads, torch_threads
from clmpt.errors import DataError, Diverged
from clmpt.storage.run_folder import RunFolder
from clmpt.training.state import load_state, save_state

SAVE_SECONDS = 120.0  # the most work that a kill can lose


@dataclass
class Tally:
    """A run's counters, saved with its weights."""

    steps_done: int = 0
    loss_sum: float = 0.0  # since the last log entry
    seconds: float = 0.0  # including before interruptions
    processor: float = 0.0  # seconds of the steps alone; see `work_clock`
    best: float | None = None  # validation MRR
    best_epoch: float = 0
    worse: int = 0  # validations since the best
    memory: int = 0  # peak, in bytes


@dataclass(frozen=True)
class Validation:
    """Validation figures. `plain` is for the log."""

    mrr: float
    plain: dict[str, Any]


@dataclass(frozen=True)
class TrainingStep:
    """The progress of a run. `loss` is the mean since the last log entry; `valid` is set only
    right after a validation."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    seconds: float
    best: float | None
    valid: Validation | None


class Learner(Protocol):
    """Something that learns in steps, such as `Pretrainer` and `Trainer`."""

    steps: int
    steps_per_epoch: int
    steps_done: int

    @property
    def products_per_step(self) -> float:
        """Operations of matrix products, roughly; 0 if unknown."""

    @property
    def is_sane(self) -> bool: ...
    @property
    def last_learning_rate(self) -> float: ...
    def step(self) -> Tensor: ...
    def mean_loss(self, loss_sum: float, steps: int) -> float: ...
    def state(self) -> dict[str, Tensor]: ...
    @property
    def shards(self) -> Mapping[str, RowShard]:
        """Those tensors of the state of which each process has some rows."""

    def restore(self, state: Mapping[str, Tensor], steps_done: int) -> None: ...
    def whole(self) -> AbstractContextManager[None]:
        """While it lasts, every process has all that is validated and written to files."""


@dataclass(frozen=True)
class Course:
    """When to log and validate, and how to keep the best weights."""

    epochs: int
    patience: int
    log_steps: int
    validate_steps: int
    validate: Callable[[], Validation] | None
    keep: Callable[[dict[str, Any]], None]
    device: torch.device
    save_seconds: float = SAVE_SECONDS


def follow(run: RunFolder, learner: Learner, course: Course) -> Generator[TrainingStep, None, None]:
    """Runs the learner to its last step, resuming an interrupted run.

    Meanwhile PyTorch uses as many threads as a step is worth, and never more than before.
    """
    loop = _Loop(run, learner, course)
    forget_peak_memory(course.device)
    threads = step_threads(learner.products_per_step)
    alone = distributed.held_by_one(run.alone())
    with alone, torch_threads(threads), _deferred_signals() as stop_requested:
        loop.restore()
        while loop.has_next:
            now = loop.step()
            paused = time.perf_counter()
            try:
                yield now
            except GeneratorExit:
                loop.save()
                raise
            loop.started += time.perf_counter() - paused  # what the caller does is not training
            if distributed.any_of(stop_requested() or loop.is_save_due):
                loop.save()
                if distributed.any_of(stop_requested()):
                    if stop_requested():
                        return  # the signal is raised now
                    raise KeyboardInterrupt  # another process was told to stop
        if not learner.steps:
            loop.pause(0.0)
        loop.finish()


class _Loop:
    def __init__(self, run: RunFolder, learner: Learner, course: Course) -> None:
        self.run, self.learner, self.course = run, learner, course
        self.tally = Tally()
        self.started = self.saved = time.perf_counter()

    def restore(self) -> None:
        if (found := load_state(self.run, self.learner.shards)) is not None:
            tensors, remembered = found
            self.tally = _tally(remembered, self.run.path)
            self.learner.restore(tensors, self.tally.steps_done)
        self.started = time.perf_counter() - self.tally.seconds

    @property
    def has_next(self) -> bool:
        return (
            self.tally.steps_done < self.learner.steps and self.tally.worse < self.course.patience
        )

    @property
    def is_save_due(self) -> bool:
        return time.perf_counter() - self.saved > self.course.save_seconds

    def step(self) -> TrainingStep:
        learner, tally, course = self.learner, self.tally, self.course
        before = work_clock(course.device)
        loss, valid = float(learner.step()), None
        tally.processor += work_clock(course.device) - before
        if not math.isfinite(loss):
            raise _diverged(f"The loss became {loss} at step {learner.steps_done}", self.run.path)
        tally.steps_done = learner.steps_done
        tally.loss_sum += loss
        tally.seconds = time.perf_counter() - self.started
        since = (tally.steps_done - 1) % course.log_steps + 1
        mean_loss = learner.mean_loss(tally.loss_sum, since)
        if since == course.log_steps or tally.steps_done == learner.steps:
            valid = self.pause(mean_loss)
        return TrainingStep(
            tally.steps_done,
            learner.steps,
            math.ceil(tally.steps_done / learner.steps_per_epoch),
            course.epochs,
            mean_loss,
            tally.seconds,
            tally.best,
            valid,
        )

    def pause(self, loss: float) -> Validation | None:
        """Validates if due, keeps the weights if they are the best so far, and logs."""
        learner, tally, course = self.learner, self.tally, self.course
        done = learner.steps_done
        epoch = _plain_number(done / learner.steps_per_epoch)
        tally.loss_sum, valid = 0.0, None
        due = done % course.validate_steps == 0 or done == learner.steps
        if due and course.validate:
            valid = course.validate()
            tally.seconds = time.perf_counter() - self.started
            if tally.best is None or valid.mrr > tally.best:
                tally.best, tally.worse = valid.mrr, 0
            else:
                tally.worse += 1
        if not learner.is_sane:
            raise _diverged(f"The weights had diverged by epoch {epoch}", self.run.path)
        if due and tally.worse == 0:
            tally.best_epoch = epoch
            course.keep({"epoch": epoch, "valid": valid.plain if valid else None})
        distributed.by_one(self.run.log)(
            epoch=epoch,
            step=done,
            loss=loss,
            learning_rate=learner.last_learning_rate,
            seconds=round(tally.seconds, 3),
            valid=valid.plain if valid else None,
        )
        return valid

    def save(self) -> None:
        tally = self.tally
        tally.seconds = time.perf_counter() - self.started
        tally.memory = max(tally.memory, peak_memory(self.course.device))
        save_state(self.run, self.learner.state(), asdict(tally), self.learner.shards)
        self.saved = time.perf_counter()

    def finish(self) -> None:
        self.tally.memory = max(self.tally.memory, peak_memory(self.course.device))
        distributed.by_one(self.run.finish)(asdict(self.tally))
        distributed.wait_for_all()


def _plain_number(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)


def _diverged(what: str, out: Path) -> Diverged:
    return Diverged(
        f"{what}. Earlier results are kept in '{out}'. Try a lower learning rate, in a new folder."
    )


def _tally(remembered: dict[str, Any], out: Path) -> Tally:
    found = {field.name: remembered.get(field.name, field.default) for field in fields(Tally)}
    for name, value in found.items():
        fits = isinstance(value, int | float) and value >= 0
        if not fits and (name, value) != ("best", None):
            raise DataError(f"The state in '{out}' is damaged. Remove the folder to start again.")
    return Tally(**found)


@contextmanager
def _deferred_signals() -> Iterator[Callable[[], bool]]:
    """Defers Ctrl-C and SIGTERM until the block is left, which checks for them between steps; a
    second one stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked:
            signal.default_int_handler(number, frame)
        asked.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        signal.raise_signal(asked[0])  # now it has its usual effect
