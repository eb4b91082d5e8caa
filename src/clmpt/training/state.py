"""The state that a run resumes from: tensors and counters.

A single process keeps them in one file. Several that have a shard of a table each keep them in a
folder, which any number of processes can open.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.row_shards import RowShard
from clmpt.compute.tensor_files import open_tensors, save_tensors
from clmpt.errors import DataError
from clmpt.storage.run_folder import RunFolder


def save_state(
    run: RunFolder,
    tensors: Mapping[str, Tensor],
    progress: Mapping[str, Any],
    shards: Mapping[str, RowShard],
) -> None:
    """All processes call it. `shards` are the tensors of which each has a part."""
    progress = {**progress, "log_bytes": run.log_size}
    if not any(shard.parts > 1 for shard in shards.values()):
        distributed.by_one(_save_alone)(run, tensors, progress)
        return
    from clmpt.compute.sharded_files import save_sharded, scalars_in  # a second to load

    step = int(progress["steps_done"])
    scratch = distributed.made_by_one(lambda: run.new_shared_state(step))
    save_sharded(scratch, tensors, shards, {**progress, "scalars": scalars_in(tensors)})
    distributed.by_one(run.keep_shared_state)(scratch, step)
    distributed.wait_for_all()


def _save_alone(run: RunFolder, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
    save_tensors(run.state, tensors, progress)
    run.forget_shared_state()


def load_state(
    run: RunFolder, shards: Mapping[str, RowShard]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last saved state, with this process's part of what is in `shards`. Later log entries are
    removed, since they will be logged again."""
    shared = run.shared_state
    if shared is None and not run.state.exists():
        _cut_log(run, 0)
        return None
    try:
        if shared is not None and run.state.exists() and _is_newer(run.state, shared):
            shared = None
        if shared is not None:
            from clmpt.compute.sharded_files import open_sharded

            tensors, progress = open_sharded(shared, shards)
        else:
            tensors, progress = open_tensors(run.state)
            for name, shard in shards.items():
                if name in tensors and len(tensors[name]) == shard.count:
                    tensors[name] = tensors[name][shard.start : shard.stop]
        length = int(progress["log_bytes"])
    except (DataError, KeyError, TypeError, ValueError):
        named = shared or run.state
        raise DataError(f"'{named}' is damaged. Remove it to start the run again.") from None
    _cut_log(run, length)
    return tensors, progress


def _is_newer(state: Path, shared: Path) -> bool:
    """Whether a single process's state has more steps: a kill can leave both."""
    _, progress = open_tensors(state)
    return int(progress["steps_done"]) > int(shared.name.rpartition("-")[2])


def _cut_log(run: RunFolder, length: int) -> None:
    distributed.by_one(run.cut_log)(length)
    distributed.wait_for_all()  # nothing is logged before
