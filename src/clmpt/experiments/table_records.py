"""Records of the rows of a table: files that can be kept with a repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.experiments.records import seed_suffix
from clmpt.experiments.reproduction import slug
from clmpt.pages.entry import Entry
from clmpt.storage.files import new_file, open_json, save_json

_FORMAT = 1


@dataclass(frozen=True)
class TableRecord:
    """A finished row: an entry for each seed. `key` says what its figures depend on."""

    name: str
    key: str
    entries: tuple[Entry, ...]
    command: str = ""  # what makes it

    @staticmethod
    def of(name: str, key: str, entries: Sequence[Entry]) -> TableRecord:
        """Entries in order of their seeds, named so if there are several."""
        ordered = sorted(entries, key=lambda entry: entry.seed or 0)
        names = [name + seed_suffix(entry.seed or 0) for entry in ordered]
        if len(ordered) == 1:
            names = [name]
        pairs = zip(ordered, names, strict=True)
        named = tuple(replace(entry, name=given, variant=key) for entry, given in pairs)
        return TableRecord(name, key, named)

    @property
    def seeds(self) -> list[int]:
        return [entry.seed or 0 for entry in self.entries]

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Those that chose its settings; seeds share them."""
        return self.entries[0].trials

    @property
    def point(self) -> tuple[str, ...]:
        """What they chose."""
        chosen = (trial["changes"] for trial in self.trials if trial.get("chosen"))
        return tuple(str(change) for changes in chosen for change in changes)

    def file_in(self, folder: Path) -> Path:
        return record_file(folder, self.name, self.key)

    def save(self, folder: Path) -> Path:
        path = self.file_in(folder)
        document = {
            "format": _FORMAT,
            "name": self.name,
            "key": self.key,
            "command": self.command,
            "entries": [asdict(entry) for entry in self.entries],
        }
        with new_file(path) as scratch:
            save_json(scratch, document)
        return path


def record_file(folder: Path, name: str, key: str) -> Path:
    return folder / f"{slug(name) or 'row'}-{key}.json"


def read_record(path: Path) -> TableRecord:
    """A stored record; its text may come from anybody."""
    document = open_json(path)
    try:
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        entries = tuple(_entry(given) for given in document["entries"])
        if not entries:
            raise ValueError("it has no entries")
        command = str(document.get("command", ""))
        return TableRecord(str(document["name"]), str(document["key"]), entries, command)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Remove it and make its row again."
        ) from None


def _entry(given: Any) -> Entry:
    known = {field.name for field in fields(Entry)}
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError("an entry has unknown parts")
    entry = Entry(**given)
    _check_report(entry.report)
    return entry


def _check_report(report: Any) -> None:
    shapes: Sequence[Any] = report["shapes"]
    for row in shapes:
        str(row["shape"])
        for measure in ("mrr", "hits_at_3"):
            float(row[measure])
