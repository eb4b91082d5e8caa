"""check: every stored file against its checksum."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from clmpt.budget import size_in_words
from clmpt.cli.output import TerminalTable, clean, say, show_json, show_table, tell
from clmpt.errors import DataError
from clmpt.queries.store import QuerySet, has_checksum, is_query_file
from clmpt.storage.checksums import MANIFEST, lacks_list, problem_with, read_manifest

_QUERIES = (".queries", ".samples")
_STORED = ("graph.json", "predictor.json", "reasoner.json", "run.json", "report.json")
_NONE = "no checksums"


@dataclass
class Checked:
    """A folder or a query file: how much of it was compared, and what is wrong with which file."""

    path: Path
    files: int = 0
    size: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    has_checksums: bool = True

    @property
    def result(self) -> str:
        if self.problems:
            return f"{len(self.problems)} damaged"
        return "intact" if self.has_checksums else _NONE


def check_stored(options: argparse.Namespace) -> int:
    """Compares a folder and everything below it; 1 if anything is damaged."""
    place = Path(options.folder)
    if not place.exists():
        raise DataError(f"There is no file or folder '{place}'.")
    found = [_file(place)] if place.is_file() else _below(place)
    if not found:
        raise DataError(
            f"'{place}' has nothing that clmpt has stored. Give the folder of a graph, a model or "
            "a run."
        )
    damaged = [(one.path / name, why) for one in found for name, why in one.problems.items()]
    if options.json:
        show_json(
            {
                "checked": [
                    {"path": str(one.path), "files": one.files, "result": one.result}
                    for one in found
                ],
                "damaged": [{"file": str(path), "problem": why} for path, why in damaged],
            }
        )
        return 1 if damaged else 0
    rows = [(str(one.path), one.files, size_in_words(one.size), one.result) for one in found]
    show_table(TerminalTable("", ["checked", "files", "size", "result"], rows))
    for path, why in damaged:
        say(clean(f"'{path}' is damaged: {why}"))
    if damaged:
        tell("Restore these files from a copy, or remove the folder and make it again.")
    if any(one.result == _NONE for one in found):
        tell(f"What has {_NONE} was made by an earlier version, and cannot be checked.")
    return 1 if damaged else 0


def _below(place: Path) -> list[Checked]:
    found: list[Checked] = []
    for folder, below, names in os.walk(place):
        below.sort()
        there = Path(folder)
        listed: Checked | None = None
        if MANIFEST in names:
            listed = _folder(there)
        elif own := [name for name in _STORED if name in names]:
            listed = _unlisted(there, own)
        if listed:
            found.append(listed)
        in_list = _listed_names(there)
        found += [
            _query_file(there / name)
            for name in sorted(names)
            if name.endswith(_QUERIES) and name not in in_list
        ]
    return found


def _listed_names(folder: Path) -> set[str]:
    try:
        return set(read_manifest(folder) or ())
    except DataError:
        return set()


def _folder(folder: Path) -> Checked:
    try:
        manifest = read_manifest(folder) or {}
    except DataError as error:
        return Checked(folder, problems={MANIFEST: str(error)})
    found = Checked(folder, len(manifest))
    for name, versions in manifest.items():
        problem = problem_with(folder / name, versions)
        if problem:
            found.problems[name] = problem
        if (folder / name).exists():
            found.size += (folder / name).stat().st_size
    return found


def _unlisted(folder: Path, names: list[str]) -> Checked:
    """A folder without a list: made by an earlier version, or damaged."""
    found = Checked(folder, has_checksums=False)
    for name in names:
        try:
            document = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:  # noqa: PERF203
            found.problems[name] = str(error)
        else:
            if lacks_list(folder, document):
                found.problems[MANIFEST] = "it is missing, so nothing in the folder was checked"
    return found


def _file(path: Path) -> Checked:
    """A file by itself: one that its folder lists, or a query file of any name."""
    versions = (read_manifest(path.parent) or {}).get(path.name)
    if versions is not None:
        problem = problem_with(path, versions)
        problems = {path.name: problem} if problem else {}
        return Checked(path.parent, 1, path.stat().st_size, problems)
    if path.suffix in _QUERIES or is_query_file(path):
        return _query_file(path)
    raise DataError(
        f"'{path}' is nothing that clmpt has stored, so it has no checksum. Give a folder or a "
        "query file."
    )


def _query_file(path: Path) -> Checked:
    try:
        QuerySet.open(path)
        return Checked(path, 1, path.stat().st_size, has_checksums=has_checksum(path))
    except DataError as error:
        return Checked(path.parent, 1, problems={path.name: str(error)})
