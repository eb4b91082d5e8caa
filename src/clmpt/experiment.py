"""Pre-training in a run folder: validated, logged, kept at its best, and safe to stop."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from clmpt.config import Pretraining
from clmpt.errors import DataError, TrainingError
from clmpt.evaluation import Figures, evaluate_links
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.links import links_of
from clmpt.neural.checkpoint import save_vocabulary, save_weights
from clmpt.neural.devices import find_device
from clmpt.neural.predictors.models import fresh_predictor
from clmpt.neural.predictors.pretraining import Pretrainer
from clmpt.run_folder import RunFolder

SAVE_SECONDS = 120.0  # how much work a kill can cost


@dataclass
class Tally:
    """What a run remembers besides its tables; saved with them."""

    steps_done: int = 0
    loss_sum: float = 0.0  # of the epoch so far
    seconds: float = 0.0  # over all its parts
    best: float | None = None  # validation MRR
    best_epoch: int = 0
    worse: int = 0  # validations since the best


@dataclass(frozen=True)
class Progress:
    """How far a run is. `loss` is the mean of the epoch so far; `valid` is there when just made."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    seconds: float
    best: float | None
    valid: Figures | None


def pretrain(
    graph: KnowledgeGraph,
    settings: Pretraining,
    out: str | Path,
    source: str = "",
    save_seconds: float = SAVE_SECONDS,
) -> Iterator[Progress]:
    """Trains a predictor into the folder `out`, or goes on with the run that was stopped there.

    Yields after every step; nothing happens until it is iterated. Trains on the split 'train' (or
    the first) and keeps what does best on 'valid'; without such a split, the last epoch. Ctrl-C
    and leaving the loop save first, and after a kill the state saved last is gone on with: the
    weights end up the same, bit by bit, as without a stop.
    """
    out = Path(out)
    train_split = "train" if "train" in graph.splits else graph.splits[0]
    predictor = fresh_predictor(graph, settings).to(find_device(settings.device))
    trainer = Pretrainer(predictor, links_of(graph, train_split), settings)
    run = _open_run(graph, settings, out, train_split, source)
    tally = Tally()
    if (found := run.load_state()) is not None:
        tensors, remembered = found
        tally = _tally(remembered, out)
        trainer.restore(tensors, tally.steps_done)
    clock = time.perf_counter() - tally.seconds
    saved = time.perf_counter()

    def save() -> None:
        nonlocal saved
        tally.seconds = time.perf_counter() - clock
        run.save_state(trainer.state(), asdict(tally))
        saved = time.perf_counter()

    with run.alone(), _ctrl_c_noted() as stop_asked:
        while tally.steps_done < trainer.steps and tally.worse < settings.patience:
            loss, valid = float(trainer.step()), None
            if not math.isfinite(loss):
                raise _exploded(f"The loss became {loss} at step {trainer.steps_done}", out)
            tally.steps_done = trainer.steps_done
            tally.loss_sum += loss
            tally.seconds = time.perf_counter() - clock
            steps_of_epoch = (tally.steps_done - 1) % trainer.steps_per_epoch + 1
            mean_loss = tally.loss_sum / min(steps_of_epoch, trainer.batches_per_epoch)
            if steps_of_epoch == trainer.steps_per_epoch:
                valid = _end_epoch(run, trainer, tally, graph, mean_loss)
            if time.perf_counter() - saved > save_seconds:
                save()
            try:
                yield Progress(
                    tally.steps_done,
                    trainer.steps,
                    math.ceil(tally.steps_done / trainer.steps_per_epoch),
                    settings.epochs,
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
    run.finish(asdict(tally))


def _end_epoch(
    run: RunFolder, trainer: Pretrainer, tally: Tally, graph: KnowledgeGraph, loss: float
) -> Figures | None:
    """Validates where it is time to, keeps the weights if they are the best so far, and logs."""
    settings, epoch = trainer.settings, trainer.epoch
    tally.loss_sum, valid = 0.0, None
    due = epoch % settings.validate_every == 0 or epoch == settings.epochs
    has_valid = "valid" in graph.splits and graph.view("valid").index.triples > 0
    if due and has_valid:
        valid = evaluate_links(trainer.predictor, graph, "valid")
        if tally.best is None or valid.mrr > tally.best:
            tally.best, tally.worse = valid.mrr, 0
        else:
            tally.worse += 1
    if not trainer.is_sane:
        raise _exploded(f"Embeddings grew beyond all measure in epoch {epoch}", run.path)
    if due and tally.worse == 0:
        tally.best_epoch = epoch
        about = {"settings": asdict(settings), "graph": run.identity["graph"], "epoch": epoch}
        figures = valid.as_plain() if valid else None
        save_weights(run.path, trainer.predictor, {**about, "valid": figures})
    run.log(
        epoch=epoch,
        step=trainer.steps_done,
        loss=loss,
        learning_rate=trainer.optimizer.param_groups[0]["lr"],
        seconds=round(tally.seconds, 3),
        valid=valid.as_plain() if valid else None,
    )
    return valid


def _exploded(what: str, out: Path) -> TrainingError:
    return TrainingError(
        f"{what}. What was saved before that is kept in '{out}'. Try a lower learning rate, in a "
        "new folder."
    )


def _open_run(
    graph: KnowledgeGraph, settings: Pretraining, out: Path, train_split: str, source: str
) -> RunFolder:
    identity = {
        "kind": "pretraining",
        "settings": asdict(settings),
        "train_split": train_split,
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
    }
    run = RunFolder.resume(out, identity)
    if run is None:
        return RunFolder.create(
            out,
            identity,
            source,
            lambda folder: save_vocabulary(folder, graph.entities.names, graph.relations.names),
        )
    if run.is_finished:
        raise DataError(f"'{out}' is finished already. Choose another folder for a new run.")
    return run


def _tally(remembered: dict[str, Any], out: Path) -> Tally:
    found = {field.name: remembered.get(field.name) for field in fields(Tally)}
    for name, value in found.items():
        fits = isinstance(value, int | float) and value >= 0
        if not fits and (name, value) != ("best", None):
            raise DataError(f"The state in '{out}' is damaged. Remove the folder to start anew.")
    return Tally(**found)  # type: ignore[arg-type]


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
