"""Benchmark queries with their answers, as arrays in one memory-mapped file.

A group is one shape: a query with placeholders, a row of entity and relation ids for each query,
and the answers, concatenated. The file is a safetensors file, so other tools can read it and it
cannot run code.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.display.text import counted
from clmpt.errors import DataError, QueryError
from clmpt.graph.edges import AnyInts, Ints
from clmpt.logic.formula import Id, Query, atoms, placeholders
from clmpt.logic.parser import parse_formula
from clmpt.storage.checksums import verify_file
from clmpt.storage.sealing import listed_file

_FORMAT = "clmpt queries 1"
_LARGEST_HEADER = 16 * 2**20
# In the header, so that the file can be moved: of the header without it, and of the arrays.
_CHECKSUM = re.compile(rb'"checksum": "([0-9a-f]{8})"')
_UNKNOWN = b'"checksum": "00000000"'


@dataclass(frozen=True)
class AnswerSets:
    """One sorted array of entities per query, concatenated."""

    offsets: Ints
    entities: AnyInts

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> AnyInts:
        return self.entities[self.offsets[query] : self.offsets[query + 1]]

    def __iter__(self) -> Iterator[AnyInts]:
        return (self[query] for query in range(len(self)))

    @property
    def is_sound(self) -> bool:
        """Whether the offsets rise from zero to the end."""
        ends = self.offsets[[0, -1]].tolist()
        return ends == [0, len(self.entities)] and bool((self.counts >= 0).all())

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def owners(self) -> Ints:
        """For every entity, the number of the query it answers."""
        return np.repeat(np.arange(len(self)), self.counts)

    @classmethod
    def of(cls, owner: Ints, entity: AnyInts, queries: int) -> AnswerSets:
        """From pairs sorted by query and entity."""
        counts = np.bincount(owner, minlength=queries)
        return cls(np.concatenate([[0], np.cumsum(counts)]), entity)

    @classmethod
    def joined(cls, parts: Sequence[AnswerSets]) -> AnswerSets:
        none = np.empty(0, np.int64)
        counts = np.concatenate([none, *(part.counts for part in parts)])
        entities = np.concatenate([part.entities for part in parts]) if parts else none
        return cls(np.concatenate([[0], np.cumsum(counts)]), entities)

    def take(self, rows: AnyInts) -> AnswerSets:
        """The sets of some queries, in the given order."""
        starts = self.offsets[rows]  # not `counts`, which looks at all queries
        counts = self.offsets[np.asarray(rows) + 1] - starts
        offsets = np.concatenate([[0], np.cumsum(counts)])
        inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return AnswerSets(offsets, self.entities[np.repeat(starts, counts) + inside])


def difference(more: AnswerSets, less: AnswerSets, entities: int) -> AnswerSets:
    """Query by query, what is in the first set and not in the second."""
    left, right = (sets.owners * entities + sets.entities for sets in (more, less))
    at = np.minimum(np.searchsorted(right, left), max(len(right) - 1, 0))
    kept = right[at] != left if len(right) else np.ones(len(left), np.bool_)
    return AnswerSets.of(more.owners[kept], more.entities[kept], len(more))


@dataclass(frozen=True)
class QueryGroup:
    """Queries of one shape. Columns of the id arrays follow `placeholders(template)`.

    The relation id r + R stands for the inverse of the relation r. `easy` answers hold on the
    observed graph, `hard` ones only on the full graph; training queries have no hard ones.
    """

    name: str
    template: Query
    entities: npt.NDArray[np.int32]
    relations: npt.NDArray[np.int32]
    easy: AnswerSets
    hard: AnswerSets

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"<QueryGroup {self.name!r}: {len(self):,} of {str(self.template)!r}>"

    @classmethod
    def single(cls, query: Query) -> QueryGroup:
        """One query over ids, with no answers known."""
        none = AnswerSets(np.zeros(2, np.int64), np.empty(0, np.int64))
        nothing = np.empty((1, 0), np.int32)
        return cls(str(query), query, nothing, nothing, none, none)

    def take(self, rows: AnyInts | slice) -> QueryGroup:
        """Some of the queries, in the given order."""
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        return QueryGroup(
            self.name,
            self.template,
            self.entities[rows],
            self.relations[rows],
            self.easy.take(numbers),
            self.hard.take(numbers),
        )

    @property
    def checksum(self) -> int:
        """A checksum of the shape, the queries and their answers, in order."""
        return _checksum(self)

    def check(self, entities: int, relations: int) -> None:
        """Rejects ids that a graph of this size does not have."""
        answers = (self.easy.entities, self.hard.entities)
        written = _written_ids(self.template)
        entity_ids: list[AnyInts] = [self.entities, *answers, written[0]]
        relation_ids: list[AnyInts] = [self.relations, written[1]]
        for kind, found, limit in (
            ("entity", entity_ids, entities),
            ("relation", relation_ids, relations),
        ):
            for ids in found:
                low, high = int(ids.min(initial=0)), int(ids.max(initial=0))
                if low < 0 or (ids.size and high >= limit):
                    bad = low if low < 0 else high
                    raise DataError(
                        f"A query or answer of shape {self.name} has the {kind} id {bad}, but the "
                        f"graph's ids run from 0 to {limit - 1:,}. Is it the right graph?"
                    )


def _written_ids(template: Query) -> tuple[Ints, Ints]:
    """The entity and relation ids in a template itself."""
    ends = [end for atom in atoms(template.body) for end in (atom.head, atom.tail)]
    relations = [atom.relation for atom in atoms(template.body)]
    entity_ids = [end.number for end in ends if isinstance(end, Id)]
    relation_ids = [relation.number for relation in relations if isinstance(relation, Id)]
    return np.array(entity_ids, np.int64), np.array(relation_ids, np.int64)


@dataclass(frozen=True)
class QuerySet:
    """Groups of queries, and how they were made (seed, splits, graph)."""

    groups: tuple[QueryGroup, ...]
    about: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{group.name} {len(group):,}" for group in self.groups)
        return f"<QuerySet: {counted(len(self), 'query')} ({shapes})>"

    @property
    def checksum(self) -> int:
        """A checksum of shapes, queries and answers: equal for sets with the same content."""
        found = 0
        for group in self.groups:
            found = _checksum(group, found)
        return found

    def save(self, path: str | Path, replaces: bool = True) -> None:
        """Writes the file atomically; unless it `replaces` what is there, that must be the same.
        Arrays go straight from memory to disk."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for wanted in (np.int64, np.int32):  # the wider type first, so that every array is aligned
            for number, group in enumerate(self.groups):
                for name, array, dtype in _members(group):
                    if dtype is wanted:
                        arrays[f"{number}.{name}"] = np.ascontiguousarray(array, dtype)
        listed = [{"name": group.name, "template": str(group.template)} for group in self.groups]
        about = {"format": _FORMAT, "groups": listed, "about": self.about}
        header = _header(arrays, json.dumps(about, ensure_ascii=False))
        checksum = zlib.crc32(header)
        for array in arrays.values():
            checksum = zlib.crc32(array.data, checksum)
        header = header.replace(_UNKNOWN, f'"checksum": "{checksum:08x}"'.encode(), 1)
        with listed_file(Path(path), replaces) as scratch, scratch.open("wb") as file:
            file.write(header)
            for array in arrays.values():
                file.write(array.data)  # numpy's tofile does not notice a full disk

    @classmethod
    def open(cls, path: str | Path) -> QuerySet:
        """Maps the file, after verifying its checksum if it has one."""
        path = Path(path)
        verify_file(path, must_be_listed=False)
        try:
            about, arrays = _mapped(path)
            groups = tuple(
                _group(number, listed, arrays) for number, listed in enumerate(about["groups"])
            )
            return cls(groups, dict(about["about"]))
        except OSError as error:
            raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None
        except (
            *(LookupError, TypeError, ValueError, AttributeError, RecursionError),
            *(QueryError, struct.error),
        ) as error:
            raise DataError(
                f"'{path}' is not a query file, or is damaged ({error}). "
                "Make one with 'clmpt sample'."
            ) from None


def is_query_file(path: Path) -> bool:
    """Whether a file begins as query files do, whatever follows."""
    with path.open("rb") as file:
        return file.read(24).endswith(b'{"__metadata__":')


def has_checksum(path: Path) -> bool:
    """Whether a query file has one; those of earlier versions do not."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return bool(_CHECKSUM.search(file.read(min(length, _LARGEST_HEADER))))


def _checksum(group: QueryGroup, before: int = 0) -> int:
    found = zlib.crc32(str(group.template).encode(), before)
    for _, array, dtype in _members(group):
        found = zlib.crc32(np.ascontiguousarray(array, dtype).data, found)
    return found


def _members(group: QueryGroup) -> list[tuple[str, AnyInts, type[np.integer[Any]]]]:
    return [
        ("easy.offsets", group.easy.offsets, np.int64),
        ("hard.offsets", group.hard.offsets, np.int64),
        ("entities", group.entities, np.int32),
        ("relations", group.relations, np.int32),
        ("easy", group.easy.entities, np.int32),
        ("hard", group.hard.entities, np.int32),
    ]


def _header(arrays: dict[str, npt.NDArray[Any]], metadata: str) -> bytes:
    """The safetensors header. Their writer would copy every array twice; this copies none."""
    entries: dict[str, Any] = {"__metadata__": {"checksum": "00000000", "clmpt": metadata}}
    start = 0
    for name, array in arrays.items():
        kind = {8: "I64", 4: "I32"}[array.itemsize]
        stop = start + array.nbytes
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(entries, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _mapped(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > _LARGEST_HEADER:
            raise ValueError("its header is too large")
        header = file.read(length)
        entries = json.loads(header)
    about = json.loads(entries.pop("__metadata__")["clmpt"])
    if about["format"] != _FORMAT:
        raise ValueError(f"its format is {about['format']!r}")
    data = (
        np.memmap(path, np.uint8, "r", offset=8 + length)
        if path.stat().st_size > 8 + length
        else np.empty(0, np.uint8)
    )
    if given := _CHECKSUM.search(header):
        found = zlib.crc32(struct.pack("<Q", length) + header.replace(given[0], _UNKNOWN, 1))
        if zlib.crc32(np.asarray(data).data, found) != int(given[1], 16):
            raise ValueError("its checksum is wrong")
    arrays = {}
    for name, entry in entries.items():
        start, stop = entry["data_offsets"]
        if not 0 <= start <= stop <= len(data):
            raise ValueError("it is truncated")
        dtype = {"I64": np.int64, "I32": np.int32}[entry["dtype"]]
        arrays[name] = data[start:stop].view(dtype).reshape(entry["shape"])
    return about, arrays


def _group(number: int, listed: dict[str, str], arrays: dict[str, npt.NDArray[Any]]) -> QueryGroup:
    template = parse_formula(listed["template"])
    get = {name: arrays[f"{number}.{name}"] for name in ("entities", "relations", "easy", "hard")}
    sets = [AnswerSets(arrays[f"{number}.{kind}.offsets"], get[kind]) for kind in ("easy", "hard")]
    group = QueryGroup(listed["name"], template, get["entities"], get["relations"], *sets)
    entity_names, relation_names = placeholders(template)
    fits = (
        group.entities.shape == (len(group), len(entity_names))
        and group.relations.shape == (len(group), len(relation_names))
        and all(len(s) == len(group) and s.is_sound for s in sets)
        and min(group.entities.min(initial=0), group.relations.min(initial=0)) >= 0
    )
    if not fits:
        raise ValueError("its arrays do not fit together")
    return group
