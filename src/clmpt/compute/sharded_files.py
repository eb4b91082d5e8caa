"""Checkpoints that several processes write together and any number of them opens.

By torch.distributed.checkpoint, in its safetensors format: its usual one has a pickle in it. Every
process writes its shards, and reads what it needs of those of others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, Shard

from clmpt.compute import distributed
from clmpt.compute.row_shards import RowShard
from clmpt.errors import DataError, SettingError
from clmpt.storage.checksums import checksum_of, verify_file
from clmpt.storage.files import cannot_write, save_json
from clmpt.storage.sealing import seal

_PROGRESS = "progress.json"


def save_sharded(
    folder: Path,
    tensors: Mapping[str, Tensor],
    shards: Mapping[str, RowShard],
    progress: Mapping[str, Any],
) -> None:
    """Writes tensors of all processes and plain values into an empty folder; all of them call it.

    Those named in `shards` are this process's rows of a table, the others are the same everywhere.
    """
    try:
        with distributed.quiet_checkpoints():
            save(
                {name: _divided(tensor, shards.get(name)) for name, tensor in tensors.items()},
                storage_writer=_storage().HuggingFaceStorageWriter(
                    str(folder), save_distributed=True
                ),
                no_dist=distributed.processes() == 1,
            )
        files = sorted(folder.glob("*.safetensors"))
        own = {files[at].name: checksum_of(files[at]) for at in distributed.own_turns(len(files))}
    except OSError as error:
        raise cannot_write(folder, error) from None
    except CheckpointException as failed:  # no Exception: it would pass all others
        raise _first_failure(failed, folder) from None
    sums = distributed.entries_of_all(own)

    def complete() -> None:
        save_json(folder / _PROGRESS, dict(progress))
        seal(folder, sums)

    distributed.by_one(complete)()
    distributed.wait_for_all()


def open_sharded(
    folder: Path, shards: Mapping[str, RowShard]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What was saved, with this process's rows of what is in `shards`; the number of processes may
    be another one now."""
    files = sorted(folder.glob("*.safetensors"))
    damaged = False
    try:
        verify_file(folder / _PROGRESS)
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        for at in distributed.own_turns(len(files)):
            verify_file(files[at])
        reader = _storage().HuggingFaceStorageReader(str(folder))
        sizes = {
            name: (tuple(found.size), found.properties.dtype)
            for name, found in reader.read_metadata().state_dict_metadata.items()
        }
        claimed = sum(math.prod(size) * dtype.itemsize for size, dtype in sizes.values())
        damaged = claimed > sum(file.stat().st_size for file in files)
    except (DataError, OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        damaged = True
    if distributed.any_of(damaged):
        raise _damaged(folder)
    plain = {
        name: torch.empty(_own(size, shards.get(name)), dtype=dtype)
        for name, (size, dtype) in sizes.items()
    }
    state = {name: _wrapped(tensor, shards.get(name)) for name, tensor in plain.items()}
    try:
        with distributed.quiet_checkpoints():
            load(state, storage_reader=reader, no_dist=distributed.processes() == 1)
    except CheckpointException:
        raise _damaged(folder) from None
    scalars = set(progress.get("scalars", ()))
    found = {name: one.reshape(()) if name in scalars else one for name, one in plain.items()}
    return found, progress


def _damaged(folder: Path) -> DataError:
    return DataError(f"'{folder}' is damaged. Remove it to start the run again.")


def _first_failure(failed: CheckpointException, folder: Path) -> Exception:
    """What went wrong in the first process in which something did."""
    error, _ = next(iter(failed.failures.values()))
    found = cannot_write(folder, error) if isinstance(error, OSError) else None
    return found or DataError(f"'{folder}' cannot be written: {error}")


def scalars_in(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of single numbers, which the format keeps as arrays of one."""
    return [name for name, tensor in tensors.items() if not tensor.dim()]


def _own(size: tuple[int, ...], shard: RowShard | None) -> tuple[int, ...]:
    if shard is None:
        return size
    if size[0] != shard.count:
        raise DataError("The saved state belongs to a different run. Remove it to start again.")
    return shard.stop - shard.start, *size[1:]


def _divided(tensor: Tensor, shard: RowShard | None) -> Tensor:
    return _wrapped(tensor.detach().cpu().contiguous().reshape(tensor.shape or (1,)), shard)


def _wrapped(tensor: Tensor, shard: RowShard | None) -> Tensor:
    """A shard as DTensor knows it; anything else as it is."""
    if shard is None or shard.parts == 1:
        return tensor
    shape = (shard.count, *tensor.shape[1:])
    stride = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    return DTensor.from_local(
        tensor,
        distributed.mesh(),
        [Shard(0)],
        run_check=False,
        shape=torch.Size(shape),
        stride=stride,
    )


def _storage() -> Any:
    try:
        from torch.distributed.checkpoint import hf_storage
    except ImportError:
        raise SettingError(
            f"PyTorch {torch.__version__} cannot save the state of several processes. "
            "Version 2.9 or later can."
        ) from None
    return hf_storage
