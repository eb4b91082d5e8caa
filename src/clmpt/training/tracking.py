"""Training followed by a tracker: TensorBoard, Weights & Biases or MLflow, if the user names one.

The seam is the log of a run, `log.jsonl`: whatever it says and a tracker does not have yet is sent,
step by step. The log is what resuming keeps true, so no step is sent twice, a tracker that was down
or asked for later gets what it missed, and training knows nothing of trackers. Of several processes
the one that talks to the user sends.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from clmpt.compute import distributed
from clmpt.errors import AlreadyFinished, MissingLibrary, SettingError
from clmpt.storage.run_folder import log_size, read_log
from clmpt.training.trackers import OPENED_BY, OpenTracker, TrackedRun, Tracker, flat


def check_tracker(name: str) -> None:
    """Refuses a tracker whose library is not installed, before hours of work."""
    if name and name not in OPENED_BY:
        raise SettingError(f"There is no tracker '{name}'. Available: {', '.join(OPENED_BY)}.")
    try:
        if name:
            import_module(name)
    except ImportError:
        raise MissingLibrary(name, f"--track {name}", f"clmpt[{name}]") from None


@contextmanager
def tracked(
    folder: str | Path, name: str, opened_by: Mapping[str, OpenTracker] = OPENED_BY
) -> Iterator[Callable[[], None]]:
    """While it lasts, calls send what the run in a folder has logged; nothing without a tracker."""
    if not name or not distributed.is_shown():
        yield lambda: None
        return
    following = _Following(Path(folder), name, opened_by[name])
    try:
        yield following.look
        following.finish()
    except AlreadyFinished:
        following.look()
        raise
    finally:
        following.close()


class _Following:
    def __init__(self, folder: Path, name: str, opened: OpenTracker) -> None:
        self.folder, self.name, self.opened = folder, name, opened
        self.size: int | None = None  # of the log, when it was last looked at
        self.tracker: Tracker | None = None

    def look(self) -> None:
        """Sends what is new in the log; most of the time nothing is. The first time it opens the
        tracker, which so fails at the first step or never."""
        size = log_size(self.folder)
        if size in (self.size, None):
            return
        self.size = size
        if self.tracker is None:
            self.tracker = self.opened(TrackedRun(self.folder))
        self._send(self.tracker)

    def _send(self, tracker: Tracker) -> None:
        last = tracker.last_step
        for record in read_log(self.folder):
            step = record.get("step")
            if not isinstance(step, int) or step <= last:
                continue
            try:
                tracker.log(step, figures_of(record))
            except Exception as error:  # of a library, most likely of a network: training goes on
                told = f"{self.name} was not told of step {step} of '{self.folder}': {error}"
                warnings.warn(told, stacklevel=2)
                return

    def finish(self) -> None:
        self.size = None  # what could not be sent is tried once more
        self.look()

    def close(self) -> None:
        if self.tracker is not None:
            self.tracker.close()


def figures_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a log entry but its step, validation figures by shape included.

    >>> figures_of({"step": 4, "loss": 0.5, "valid": {"mrr": 0.25, "shapes": {"2p": 0.1}}})
    {'loss': 0.5, 'valid/mrr': 0.25, 'valid/shapes/2p': 0.1}
    """
    numbers = {name: value for name, value in flat(record).items() if name != "step"}
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
