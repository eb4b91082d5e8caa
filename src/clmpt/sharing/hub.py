"""Models on Hugging Face's hub: a folder pushed, and one pulled. Needs huggingface_hub."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clmpt
from clmpt.display.bars import ShowProgress, shown_progress
from clmpt.errors import DataError, MissingLibrary
from clmpt.progress import Progress, ReportProgress
from clmpt.sharing.model_card import made_files
from clmpt.sharing.shared_files import LARGEST, check_offer, is_shared, shared_in
from clmpt.storage.checksums import MANIFEST, Manifest, checksum_of, manifest_text
from clmpt.storage.files import cannot_write, new_file, open_json, refuse_existing, save_json

_THEIRS = {"huggingface_hub", "httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"}


def push(
    folder: str | Path,
    name: str,
    *,
    public: bool = False,
    licence: str = "unknown",
    datasets: Sequence[str] = (),
    message: str = "",
    endpoint: str | None = None,
) -> str:
    """Uploads a fitted model to the hub as `name`, USER/NAME, and returns its address.

    What is shared: the graph, the weights, the figures, the settings and a card; not the queries,
    the logs or paths of this machine. A new repository is private unless `public`. A card in the
    folder (README.md) is used as it is. `endpoint` is the address of another hub.
    """
    folder, hub = Path(folder), _library()
    texts = made_files(folder, name, licence, datasets)
    files = [one for one in shared_in(folder) if one not in texts]
    texts |= _lists(folder, files, texts)
    adds = [hub.CommitOperationAdd(one, str(folder / one)) for one in files]
    adds += [hub.CommitOperationAdd(one, text) for one, text in texts.items()]
    api = _api(hub, endpoint)
    with _in_our_words(name):
        place = api.create_repo(name, private=not public, exist_ok=True)
        title = message or f"Model of clmpt {clmpt.__version__}"
        api.create_commit(str(place.repo_id), adds, commit_message=title)
    return str(place)


def _lists(folder: Path, files: Sequence[str], texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """A list of checksums for each folder, of what is shared of it."""
    found: dict[str, Manifest] = {}
    for name in (*files, *texts):
        parent, _, own = name.rpartition("/")
        text = texts.get(name)
        version = checksum_of(folder / name) if text is None else (len(text), zlib.crc32(text))
        found.setdefault(parent, {})[own] = (version,)
    return {
        f"{parent}/{MANIFEST}".lstrip("/"): manifest_text(manifest).encode()
        for parent, manifest in found.items()
    }


def pull(
    name: str,
    out: str | Path,
    *,
    revision: str | None = None,
    largest: int = LARGEST,
    endpoint: str | None = None,
    progress: ShowProgress = True,
) -> Path:
    """Fetches a model from the hub into a new folder, for `load`; one that exists must have it.

    Only data files with the names of ours are fetched, up to `largest` bytes, and each is compared
    with the hub's checksum. The folder appears when all is there; the same call resumes after an
    interruption.
    """
    out, hub = Path(out), _library()
    if not out.is_dir():
        refuse_existing(out)
    api = _api(hub, endpoint)
    with _in_our_words(name):
        info = api.model_info(name, revision=revision, files_metadata=True)
    offered = [_Offered.of(sibling) for sibling in info.siblings or ()]
    wanted = [one for one in offered if is_shared(one.name)]
    check_offer({one.name: one.size for one in wanted}, f"'{name}'", largest)
    if out.exists():
        _refuse_other(out, wanted)
        return out
    scratch = _scratch(out, {"name": name, "commit": str(info.sha)})
    with shown_progress(progress) as show:
        _fetch_all(api, name, str(info.sha), wanted, scratch, show)
    try:
        shutil.rmtree(scratch / ".cache", ignore_errors=True)
        scratch.rename(out)
        _note(scratch).unlink()
    except OSError as error:
        raise cannot_write(out, error) from None
    return out


@dataclass(frozen=True)
class _Offered:
    """A file on the hub: its size, and its checksum as git or git-lfs computes it."""

    name: str
    size: int
    sha1: str | None
    sha256: str | None

    @classmethod
    def of(cls, sibling: Any) -> _Offered:
        large = sibling.lfs
        size = large.size if large else sibling.size
        return cls(
            str(sibling.rfilename),
            int(size or 0),
            None if large else sibling.blob_id,
            large.sha256 if large else None,
        )

    def is_at(self, path: Path) -> bool:
        """Whether the file there is this one."""
        if not path.is_file() or path.is_symlink() or path.stat().st_size != self.size:
            return False
        digest = hashlib.sha256() if self.sha256 else hashlib.sha1(usedforsecurity=False)
        if not self.sha256:
            digest.update(f"blob {self.size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(2**20):
                digest.update(chunk)
        return digest.hexdigest() == (self.sha256 or self.sha1)


def _refuse_other(out: Path, wanted: Sequence[_Offered]) -> None:
    """Raises a DataError unless a folder has the files that the hub offers, and no others."""
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    if there != {one.name for one in wanted} or not all(
        one.is_at(out / one.name) for one in wanted
    ):
        raise DataError(
            f"'{out}' already exists, and is not what the hub has now. Choose another name, or "
            "remove it first."
        )


def _fetch_all(
    api: Any,
    name: str,
    commit: str,
    wanted: Sequence[_Offered],
    scratch: Path,
    show: ReportProgress,
) -> None:
    total, done = sum(one.size for one in wanted), 0
    for one in wanted:
        show(Progress("fetching", done, total, one.name))
        if not one.is_at(scratch / one.name):
            with _in_our_words(name):
                api.hf_hub_download(name, one.name, revision=commit, local_dir=scratch)
        if not one.is_at(scratch / one.name):
            (scratch / one.name).unlink(missing_ok=True)
            raise DataError(
                f"'{one.name}' of '{name}' did not arrive as the hub describes it. Run the same "
                "command again to fetch it once more."
            )
        done += one.size
    show(Progress("fetching", total, total))


def _scratch(out: Path, note: dict[str, str]) -> Path:
    """Where files are collected: `OUT.partial`, emptied if it was for another model or state."""
    scratch = out.with_name(out.name + ".partial")
    if scratch.exists():
        if not _note(scratch).is_file():
            raise DataError(f"'{scratch}' is in the way. Move it, and run the same command again.")
        if open_json(_note(scratch)) == note:
            return scratch
        shutil.rmtree(scratch)
    with new_file(_note(scratch)) as file:
        save_json(file, note)
    return scratch


def _note(scratch: Path) -> Path:
    """What a folder is being fetched for; beside it, since all in it is the model's."""
    return scratch.with_name(scratch.name + ".json")


def _library() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.utils
    except ImportError:
        raise MissingLibrary("huggingface_hub", "sharing", "'clmpt[hub]'") from None
    return huggingface_hub


def _api(hub: Any, endpoint: str | None) -> Any:
    """The hub's client; it finds its address, unless given, and the user's login by itself."""
    hub.utils.disable_progress_bars()
    return hub.HfApi(endpoint, library_name="clmpt", library_version=clmpt.__version__)


@contextmanager
def _in_our_words(name: str) -> Iterator[None]:
    """The library's errors as ours: what the hub said, in one line."""
    try:
        yield
    except Exception as error:
        root = type(error).__module__.partition(".")[0]
        if root not in _THEIRS and not isinstance(error, OSError | ValueError | RuntimeError):
            raise
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS):
            raise DataError(f"'{name}' cannot be kept here: {os.strerror(error.errno)}.") from None
        text = re.sub(r"For more information check: \S+", "", str(error))
        said = " ".join(text.split())[:300] or type(error).__name__
        raise DataError(
            f"The hub refused '{name}': {said}. Is the name right, and are you logged in "
            "('hf auth login')?"
        ) from None
