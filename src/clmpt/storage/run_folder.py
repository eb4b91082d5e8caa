"""A run folder: the settings, the progress and the log of a run.

Files are written under another name and renamed, so a run that is killed at any moment leaves a
folder from which the same command resumes. The folder belongs to one graph and one set of settings.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import clmpt
from clmpt.errors import AlreadyFinished, DataError
from clmpt.storage.checksums import LISTED, is_there, verify_file
from clmpt.storage.files import (
    cannot_write,
    clear_unfinished,
    open_json,
    refuse_existing,
    save_json,
)
from clmpt.storage.locks import lock_on
from clmpt.storage.sealing import list_file, listed_file, remove_listed, sealed_folder

_STATE = "state.safetensors"
_SHARED_STATE = "state"
_LOG = "log.jsonl"
_RUN = "run.json"
_FINISHED = "finished.json"
_PROVENANCE = ("started", "versions", "commit", "platform", "threads")


@dataclass(frozen=True)
class RunFolder:
    """An open run. `identity` is what a run must share with this one to resume it."""

    path: Path
    identity: dict[str, Any]

    @classmethod
    def begin(
        cls, path: Path, identity: dict[str, Any], source: str, fill: Callable[[Path], None]
    ) -> RunFolder:
        """A new run, or the one that was started here; rejects one that is finished."""
        run = cls.resume(path, identity)
        if run is None:
            return cls.create(path, identity, source, fill)
        if run.is_finished:
            raise AlreadyFinished(
                f"'{path}' is already finished. Choose another folder for a new run."
            )
        return run

    @classmethod
    def create(
        cls, path: Path, identity: dict[str, Any], source: str, fill: Callable[[Path], None]
    ) -> RunFolder:
        """A new folder with what `fill` writes; never touches an existing one."""
        with sealed_folder(path) as scratch:
            about = {"identity": identity, "source": source, **provenance()}
            save_json(scratch / _RUN, about | LISTED)
            (scratch / _LOG).touch()
            fill(scratch)
        return cls(path, identity)

    @classmethod
    def resume(cls, path: Path, identity: dict[str, Any]) -> RunFolder | None:
        """The run that was started in `path` with the same identity; None if there is nothing.

        Files that a killed run left half written are removed.
        """
        run = cls.find(path, identity)
        if run is not None:
            with run.alone():
                clear_unfinished(path)
        return run

    @classmethod
    def find(cls, path: Path, identity: dict[str, Any]) -> RunFolder | None:
        """Like `resume`, but touches nothing."""
        if not (path / _RUN).exists():
            refuse_existing(path)
            return None
        other = identity_of(path)
        if other != identity:
            raise DataError(
                f"'{path}' holds a run with other settings ({_differences(other, identity)}). "
                "Use the same settings to resume it, or choose another folder."
            )
        return cls(path, identity)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A lock on the folder, so that no other process works in it; a kill releases it."""
        with lock_on(self.path / _RUN, self.path):
            yield

    # --- progress ---------------------------------------------------------------------------------

    @property
    def state(self) -> Path:
        """Where to keep what the run needs to resume; removed when it is finished."""
        return self.path / _STATE

    @property
    def shared_state(self) -> Path | None:
        """The newest folder in which several processes keep that, if there is one."""
        found = sorted(self.path.glob(f"{_SHARED_STATE}-*"), key=lambda path: path.name)
        return found[-1] if found else None

    def new_shared_state(self, step: int) -> Path:
        """An empty folder for the state after a step; see `keep_shared_state`."""
        scratch = self.path / f".{_SHARED_STATE}-{step}.unfinished"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return scratch

    def keep_shared_state(self, scratch: Path, step: int) -> None:
        """Makes a complete state the one to resume from."""
        before = self.shared_state
        os.rename(scratch, self.path / f"{_SHARED_STATE}-{step:012}")
        if before is not None:
            _remove_whole(before)
        remove_listed(self.state)

    def forget_shared_state(self) -> None:
        for folder in self.path.glob(f"{_SHARED_STATE}-*"):
            _remove_whole(folder)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished and removes what was needed to resume it."""
        if (self.path / _LOG).exists():
            list_file(self.path / _LOG)
        with listed_file(self.path / _FINISHED) as scratch:
            save_json(scratch, summary)
        remove_listed(self.path / _STATE)
        self.forget_shared_state()

    @property
    def is_finished(self) -> bool:
        return is_finished(self.path)

    # --- log --------------------------------------------------------------------------------------

    def log(self, **record: Any) -> None:
        try:
            with (self.path / _LOG).open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self.path / _LOG, error) from None

    @property
    def log_size(self) -> int:
        return (self.path / _LOG).stat().st_size

    def cut_log(self, length: int) -> None:
        """Cuts the log to a length: a run that resumes from there logs the rest again."""
        if (self.path / _LOG).exists() and (self.path / _LOG).stat().st_size > length:
            os.truncate(self.path / _LOG, length)


def is_begun(folder: str | Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return is_there(Path(folder) / _RUN)


def is_finished(folder: str | Path) -> bool:
    """Whether a folder holds a finished run."""
    return is_there(Path(folder) / _FINISHED)


def identity_of(folder: str | Path) -> dict[str, Any]:
    """What a run in a folder must share with another one to be resumed by it."""
    found = open_json(Path(folder) / _RUN)
    identity = found.get("identity") if isinstance(found, dict) else None
    if not isinstance(identity, dict):
        raise DataError(f"'{Path(folder) / _RUN}' is damaged. Choose another folder for this run.")
    return identity


def read_summary(folder: str | Path) -> dict[str, Any]:
    """The summary of a finished run, such as how long it took."""
    found = open_json(Path(folder) / _FINISHED)
    if not isinstance(found, dict):
        raise DataError(f"'{Path(folder) / _FINISHED}' is damaged.")
    return found


def source_of(folder: str | Path) -> str | None:
    """Where the data of a run was when it started; None if that is not recorded."""
    found = open_json(Path(folder) / _RUN) if is_begun(folder) else None
    source = found.get("source") if isinstance(found, dict) else None
    return source if isinstance(source, str) and source else None


def started_at(folder: str | Path) -> str:
    """When a run was started, to the second."""
    return str(read_provenance(folder).get("started"))


def read_provenance(folder: str | Path) -> dict[str, Any]:
    """When, with which versions and on what kind of machine a run was started."""
    found = open_json(Path(folder) / _RUN)
    return {name: found.get(name) for name in _PROVENANCE} if isinstance(found, dict) else {}


def log_size(folder: str | Path) -> int | None:
    """The length of a run's log in bytes; None where no run has begun."""
    try:
        return (Path(folder) / _LOG).stat().st_size
    except OSError:
        return None


def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's log, whose last line may be cut off."""
    path = Path(folder) / _LOG
    verify_file(path, must_be_listed=False)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read ({error}).") from None
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def provenance() -> dict[str, Any]:
    """When, with which versions and on what kind of machine this runs."""
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": _commit(),
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": _threads(),
    }


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {
        "clmpt": clmpt.__version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
    }


def _threads() -> int | None:
    """How many threads PyTorch uses, if it is loaded: this package does not load it."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else os.cpu_count()


def _commit() -> str | None:
    """The commit of our own checkout, '-dirty' if it has changes; None if we are installed."""
    package = Path(clmpt.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) / "src" / "clmpt" != package:
            return None
        dirty = "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "HEAD") + dirty
    except (OSError, subprocess.SubprocessError):
        return None


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> str:
    parts = []
    for key in dict.fromkeys([*old, *new]):
        before, now = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            if before != now:
                parts.append(_differences(before, now, f"{prefix}{key}."))
        elif before != now:
            parts.append(f"{prefix}{key}: {before} there, {now} here")
    return "; ".join(parts)


def _remove_whole(folder: Path) -> None:
    """Removes a state so that a kill leaves all of it or nothing that could be taken for it."""
    doomed = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(doomed, ignore_errors=True)
    os.rename(folder, doomed)
    shutil.rmtree(doomed)
