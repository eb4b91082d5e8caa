"""The state that a run resumes from: tensors and counters in one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from clmpt.compute.tensor_files import open_tensors, save_tensors
from clmpt.errors import DataError
from clmpt.storage.run_folder import RunFolder


def save_state(run: RunFolder, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
    save_tensors(run.state, tensors, {**progress, "log_bytes": run.log_size})


def load_state(run: RunFolder) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last saved state. Later log entries are removed, since they will be logged again."""
    if not run.state.exists():
        run.cut_log(0)
        return None
    try:
        tensors, progress = open_tensors(run.state)
        length = int(progress["log_bytes"])
    except (DataError, KeyError, TypeError, ValueError):
        raise DataError(
            f"'{run.state}' is damaged. Remove that file to start the run again."
        ) from None
    run.cut_log(length)
    return tensors, progress
