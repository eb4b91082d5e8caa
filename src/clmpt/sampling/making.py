"""Answered queries sampled into a file, shape by shape; this can be interrupted and resumed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clmpt
from clmpt.errors import DataError, SamplingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.logic.formula import Query
from clmpt.logic.shapes import name_of, shape
from clmpt.progress import ReportProgress, part_of, silent
from clmpt.queries.json_lines import write_json_lines
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.sampling.sampler import MOST_HARD, Protocol, Sampler
from clmpt.sampling.shares import Alone, Share
from clmpt.sampling.walks import Grounder
from clmpt.storage.checksums import is_there
from clmpt.storage.files import open_json, refuse_existing, save_json
from clmpt.storage.locks import lock_beside
from clmpt.storage.sealing import listed_file, make_sealed

Wanted = Sequence[tuple[Query, int]]  # shapes, and how many queries of each


def wanted_shape(text: str, count: int) -> tuple[Query, int]:
    """A shape by name or formula, and how many queries: NAME=COUNT, or else `count`.

    >>> [(str(found), number) for found, number in map(wanted_shape, ["1p=7", "1p"], [9, 9])]
    [('?y : $r1($s1, ?y)', 7), ('?y : $r1($s1, ?y)', 9)]
    """
    name, equals, number = text.partition("=")
    if equals and ":" not in text:
        if not re.fullmatch(r"[0-9]{1,12}", number):
            raise SamplingError(f"'{text}' should be NAME=COUNT, such as 2p=1000.")
        return shape(name), int(number)
    return shape(text), count


def protocol_for(
    graph: KnowledgeGraph,
    split: str | None = None,
    max_answers: int | None = None,
    max_bindings: int | None = None,
) -> Protocol:
    """How queries of a split are sampled: by default of the first one."""
    split = split or graph.splits[0]
    graph.view(split)  # rejects an unknown split
    observed, full = OBSERVED.get(split, (split,)), FULL.get(split, (split,))
    graph.view(*full)
    held_out = set(full) != set(observed)
    most = max_answers or (MOST_HARD if held_out else 0)
    return Protocol(observed, full, most, max_bindings or 0)


def make_queries(
    graph: KnowledgeGraph,
    wanted: Wanted,
    protocol: Protocol,
    out: Path,
    seed: int = 0,
    workers: int = 1,
    progress: ReportProgress = silent,
    names: Mapping[Query, str] | None = None,
    share: Share | None = None,
) -> QuerySet:
    """Samples queries into the file `out`, as JSON lines if it ends in .jsonl.

    A shape is called by its formula, or as `names` says.
    Finished shapes are kept in `partial_folder(out)` until all are done; the same call resumes
    from them, and opens a file that is finished. With a `share`, several processes sample some of
    the shapes each, and get the same queries as one would.
    """
    if len({template for template, _ in wanted}) < len(wanted):
        raise SamplingError("A shape is listed twice.")
    for template, _ in wanted:
        Grounder(template, graph.view(*protocol.full))  # rejects what cannot be sampled
    about = {
        "graph": graph.fingerprint,
        "seed": seed,
        "observed": list(protocol.observed),
        "full": list(protocol.full),
        "max_answers": protocol.max_answers,
        "edges": graph.checksum,
        "asked": [[str(query), count] for query, count in wanted],
        "names": sorted((names or {}).values()),
    }
    if protocol.max_bindings:
        about["max_bindings"] = protocol.max_bindings
    share = share or Alone()
    share.agree(repr((about, out.name)), "the queries to sample")
    with share.held(lock_beside(out)):
        if (finished := share.by_one(lambda: _begun(out, about))) is not None:
            return finished
        parts = _Parts(out, about)
        own = share.turns(len(wanted))
        _sample_parts(graph, wanted, own, protocol, parts, seed, workers, progress)
        share.wait()
        return share.by_one(lambda: _joined(graph, parts, len(wanted), names or {}, out))


def _begun(out: Path, about: dict[str, Any]) -> QuerySet | None:
    """What is there already, or a new place for finished shapes."""
    finished = _finished(out, about)
    if finished is None:
        if out.suffix != ".jsonl" or not out.is_file():  # these say not how they were made
            refuse_existing(out)
        _Parts(out, about)
    return finished


def _joined(
    graph: KnowledgeGraph, parts: _Parts, count: int, names: Mapping[Query, str], out: Path
) -> QuerySet:
    """All shapes, written to the file."""
    groups = [parts.load(number) for number in range(count)]
    made = _named([group for group in groups if group is not None], names, parts.settings)
    if out.exists():  # what was made again is the same or refused: there is no more to resume
        shutil.rmtree(partial_folder(out), ignore_errors=True)
    write_queries(made, graph, out)
    shutil.rmtree(partial_folder(out), ignore_errors=True)
    return made


def _named(groups: list[QueryGroup], names: Mapping[Query, str], about: dict[str, Any]) -> QuerySet:
    called = {**{group.template: group.name for group in groups}, **names}
    groups = [replace(group, name=called[group.template]) for group in groups]
    return QuerySet(tuple(groups), {**about, "version": clmpt.__version__})


def _finished(out: Path, about: dict[str, Any]) -> QuerySet | None:
    """The queries in a file, if they were made with these settings."""
    if not out.is_file():
        return None
    try:
        found = QuerySet.open(out)
    except DataError:
        return None
    return found if {name: found.about.get(name) for name in about} == about else None


def _sample_parts(
    graph: KnowledgeGraph,
    wanted: Wanted,
    own: Iterable[int],
    protocol: Protocol,
    parts: _Parts,
    seed: int,
    workers: int,
    progress: ReportProgress,
) -> None:
    chosen = [(number, *wanted[number]) for number in own]
    before, total = 0, sum(count for *_, count in chosen)
    with Sampler(graph, workers) as sampler:
        for number, template, count in chosen:
            if parts.load(number) is None:
                report = part_of(progress, name_of(template), before, total)
                parts.save(number, sampler.sample(template, protocol, count, seed, report))
            before += count


def write_queries(queries: QuerySet, graph: KnowledgeGraph | None, out: Path) -> None:
    """Writes JSON lines if the file ends in .jsonl, which needs the graph; else arrays. A file
    that exists must be the same, and stays."""
    if out.suffix == ".jsonl" and graph:
        write_json_lines(queries, graph, out)
    else:
        queries.save(out, replaces=False)


def partial_folder(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


class _Parts:
    """Finished shapes, next to the output."""

    def __init__(self, out: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = partial_folder(out), settings
        note = self.folder / "settings.json"
        if not is_there(note):
            make_sealed(self.folder)
            with listed_file(note) as scratch:
                save_json(scratch, settings)
        elif open_json(note) != settings:
            raise DataError(
                f"'{self.folder}' is from a run with other settings. Finish that run, or remove "
                "the folder."
            )

    def path(self, number: int) -> Path:
        return self.folder / f"{number}.queries"

    def load(self, number: int) -> QueryGroup | None:
        if not is_there(self.path(number)):
            return None
        try:
            (group,) = QuerySet.open(self.path(number)).groups
        except (DataError, ValueError):
            raise DataError(f"'{self.folder}' is damaged. Remove it to start again.") from None
        return group

    def save(self, number: int, group: QueryGroup) -> None:
        QuerySet((group,)).save(self.path(number))
