"""Records of the rows of a table: files that can be kept with a repository."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_origin, get_type_hints

from clmpt.errors import DataError
from clmpt.experiments.records import seed_suffix
from clmpt.experiments.reproduction import slug
from clmpt.pages.entry import AVERAGES, Entry
from clmpt.storage.files import new_file, open_json, save_json

_FORMAT = 1
_FIGURES = ("mrr", "hits_at_3")
_KINDS = {
    name: kind if isinstance(kind, UnionType) else get_origin(kind) or kind
    for name, kind in get_type_hints(Entry).items()
}


@dataclass(frozen=True)
class TableRecord:
    """A finished row: an entry for each seed. `key` says what its figures depend on."""

    name: str
    key: str
    entries: tuple[Entry, ...]
    command: str = ""  # what makes it

    @staticmethod
    def of(name: str, key: str, entries: Sequence[Entry]) -> TableRecord:
        """An entry for each seed, in their order, named so if there are several."""
        by_seed = {entry.seed or 0: entry for entry in reversed(entries)}
        ordered = [by_seed[seed] for seed in sorted(by_seed)]
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
        """Saves the record, with the seeds that another process has added meanwhile."""
        path = self.file_in(folder)
        there = read_record(path).entries if path.exists() else ()
        whole = self.of(self.name, self.key, [*self.entries, *there])
        document = {
            "format": _FORMAT,
            "name": self.name,
            "key": self.key,
            "command": self.command,
            "entries": [asdict(entry) for entry in whole.entries],
        }
        with new_file(path) as scratch:
            save_json(scratch, document)
        return path


def record_file(folder: Path, name: str, key: str) -> Path:
    return folder / f"{slug(name) or 'row'}-{key}.json"


def read_record(path: Path) -> TableRecord:
    """A stored record; its text may come from anybody."""
    try:
        document = open_json(path)
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        entries = tuple(_entry(given) for given in document["entries"])
        if not entries:
            raise ValueError("it has no entries")
        command = str(document.get("command", ""))
        return TableRecord(str(document["name"]), str(document["key"]), entries, command)
    except (AttributeError, DataError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Remove it and make its row again."
        ) from None


def _entry(given: Any) -> Entry:
    known = {field.name for field in fields(Entry)}
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError("an entry has unknown parts")
    for field in fields(Entry):
        if field.name in given and not isinstance(given[field.name], _KINDS[field.name]):
            raise ValueError(f"its '{field.name}' is of the wrong type")
    entry = Entry(**given)
    _check_report(entry.report)
    for figure in entry.costs.values():
        _check_number(figure)
    for trial in entry.trials:
        _check_number(trial["validation"], most=1.0)
        for name in ("epoch", "seconds"):  # of a trial that diverged there are none
            if trial.get(name) is not None:
                _check_number(trial[name])
        if not all(isinstance(change, str) for change in trial["changes"]):
            raise ValueError("a trial is not made of texts")
    for table in entry.settings.values():
        if not isinstance(table, dict):
            raise ValueError("its settings are not tables")
    _check_number(entry.settings.get("training", {}).get("validation_queries", 0))
    return entry


def _check_report(report: Any) -> None:
    _check_texts(report.get("notes", []))
    for row in report["shapes"]:
        if not isinstance(row["shape"], str):
            raise ValueError("a shape has no name")
        _check_texts(row["notes"])
        _check_number(row["count"])
        for figure in _FIGURES:
            _check_number(row[figure], most=1.0)
        if row.get("standard_error") is not None:  # a single query has none
            _check_number(row["standard_error"])
    for name in (*AVERAGES, "mean"):
        if name in report:
            _check_number(report[name], most=1.0)


def _check_texts(notes: Any) -> None:
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("its notes are not texts")


def _check_number(value: Any, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    if not 0 <= value <= most:
        raise ValueError(f"{value!r} is not between 0 and {most:g}")
