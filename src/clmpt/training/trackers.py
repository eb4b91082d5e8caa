"""TensorBoard, Weights & Biases and MLflow; their libraries are imported when they are asked for.

Where figures go, and whether they leave this machine, is decided by each library's own environment
variables. Only what the log of a run says is sent, and its settings: no code, no console output, no
description of the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from clmpt.errors import ClmptError, DataError
from clmpt.storage.files import new_file, open_json
from clmpt.storage.run_folder import identity_of, started_at

_PROJECT = "clmpt"  # unless the user's environment names another
_SETTINGS = "settings"
_NAMED = 3  # parts of a path that name a run


class Tracker(Protocol):
    """Where figures are sent."""

    @property
    def last_step(self) -> int:
        """The last step that it has; -1 if none."""

    def log(self, step: int, figures: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class TrackedRun:
    """What a tracker is told of a run: its folder, its name, an id of its own, its settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "/".join(folder.parts[-_NAMED:])
        identity = identity_of(folder)
        begun = json.dumps([identity, started_at(folder)], sort_keys=True)
        self.id = hashlib.sha256(begun.encode()).hexdigest()[:16]
        self.settings = flat({name: identity.get(name) for name in ("settings", "reasoning")})


def flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A table without tables in it: their names in front of the names of their entries."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}/")
        else:
            found[f"{before}{name}"] = value
    return found


class TensorBoard:
    """Event files in the folder `tensorboard` of the run."""

    def __init__(self, run: TrackedRun) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        folder = run.folder / "tensorboard"
        self.last_step = max(map(_last_step_in, folder.glob("*tfevents*")), default=-1)
        self._writer = EventFileWriter(str(folder))
        if self.last_step < 0:
            self._add(0, _settings_text(run.settings))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        value = self._summary.Value
        values = [value(tag=name, simple_value=number) for name, number in figures.items()]
        self._add(step, self._summary(value=values))  # one event: whole or not at all
        self.last_step = step

    def _add(self, step: int, summary: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _last_step_in(path: Path) -> int:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    events = EventFileLoader(str(path)).Load()
    steps = [e.step for e in events if any(v.tag == "loss" for v in e.summary.value)]
    return max(steps, default=-1)


def _settings_text(settings: Mapping[str, Any]) -> Any:
    from torch.utils.tensorboard.summary import text

    rows = "".join(f"| {name} | {value} |\n" for name, value in settings.items())
    return text(_SETTINGS, f"| setting | value |\n|---|---|\n{rows}")  # type: ignore[no-untyped-call]


class WeightsAndBiases:
    """A run of Weights & Biases; WANDB_MODE=offline keeps it in the run's folder."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        quiet = {"console": "off", "save_code": False, "disable_git": True, "silent": True}
        quiet |= {"x_disable_meta": True, "x_disable_stats": True, "x_save_requirements": False}
        self._sent = run.folder / "wandb" / "sent.json"
        self.last_step = _noted_step(self._sent)
        try:
            self._run = wandb.init(
                project=None if os.environ.get("WANDB_PROJECT") else _PROJECT,
                dir=None if os.environ.get("WANDB_DIR") else str(run.folder),
                name=run.name,
                id=run.id,
                resume="allow",
                config=dict(run.settings),
                settings=wandb.Settings(**quiet),
            )
        except wandb.errors.Error as error:
            raise ClmptError(
                f"Weights & Biases cannot start: {error} To keep figures on this machine, set "
                "WANDB_MODE=offline."
            ) from None

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        # Noted before it is sent, since an offline run cannot be asked what it has: a kill between
        # the two loses a step there, and sends none twice.
        with new_file(self._sent) as scratch:
            scratch.write_text(json.dumps({"step": step}) + "\n", encoding="utf-8")
        self.last_step = step
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()


def _noted_step(path: Path) -> int:
    if not path.exists():
        return -1
    found = open_json(path)
    step = found.get("step") if isinstance(found, dict) else None
    if not isinstance(step, int):
        raise DataError(f"'{path}' is damaged. Remove it to send all steps again.")
    return step


class MlFlow:
    """A run of MLflow, at MLFLOW_TRACKING_URI or where MLflow keeps runs by itself."""

    def __init__(self, run: TrackedRun) -> None:
        import mlflow

        try:
            self._client = mlflow.MlflowClient()
            self._id = self._run_of(run)
            sent = self._client.get_metric_history(self._id, "loss")
        except mlflow.exceptions.MlflowException as error:
            raise ClmptError(f"MLflow cannot start: {str(error).splitlines()[0]}") from None
        self.last_step = max((metric.step for metric in sent), default=-1)

    def _run_of(self, run: TrackedRun) -> str:
        """The id of the run there, new or resumed."""
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _PROJECT
        there = self._client.get_experiment_by_name(name)
        where = there.experiment_id if there else self._client.create_experiment(name)
        known = self._client.search_runs([where], f"tags.`clmpt.run` = '{run.id}'")
        if known:
            found = str(known[0].info.run_id)
            self._client.update_run(found, status="RUNNING")
            return found
        made = self._client.create_run(where, run_name=run.name, tags={"clmpt.run": run.id})
        settings = [Param(_mlflow_name(one), str(value)) for one, value in run.settings.items()]
        self._client.log_batch(made.info.run_id, params=settings)
        return str(made.info.run_id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_mlflow_name(n), value, now, step) for n, value in figures.items()]
        self._client.log_batch(self._id, metrics)
        self.last_step = step

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _mlflow_name(name: str) -> str:
    """A name as MLflow allows it: formulas, for one, have other characters.

    >>> _mlflow_name("valid/shapes/?y : $r($s, ?y)")
    'valid/shapes/_y : _r__s_ _y_'
    """
    return re.sub(r"[^\w\-. /:]", "_", name)


OpenTracker = Callable[[TrackedRun], Tracker]
OPENED_BY: dict[str, OpenTracker] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MlFlow,
}
