"""Names and labels by id, and ids by name: memory-mapped, for millions of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.storage.arrays import IMPORT_AGAIN, open_array, save_array

_FEW = 4  # equal texts; more are found by halving
_MANY = 200_000  # beyond this, suggestions consider only names that start the same


@dataclass(frozen=True)
class NameTable:
    """Texts in the order of their ids, with their sorted order for lookups."""

    bytes_: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    order: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> NameTable:
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        return cls(
            np.frombuffer(bytearray().join(encoded), np.uint8),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            np.array(order, np.int32),
        )

    def __len__(self) -> int:
        return len(self.order)

    @property
    def is_sound(self) -> bool:
        """Whether the arrays are as `of` makes them; untrusted ones may not be."""
        return (
            self.offsets[0] == 0
            and self.offsets[-1] == len(self.bytes_)
            and bool((np.diff(self.offsets) >= 0).all())
            and (
                not len(self)
                or (int(self.order.min()), int(self.order.max())) == (0, len(self) - 1)
            )
        )

    def raw(self, number: int) -> bytes:
        return self.bytes_[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def __getitem__(self, number: int) -> str:
        return self.raw(number).decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        blob, offsets = self.bytes_.tobytes(), self.offsets.tolist()
        for start, stop in pairwise(offsets):
            yield blob[start:stop].decode(errors="replace")

    def find(self, text: str) -> list[int]:
        """The ids with exactly this text."""
        wanted, ranked = text.encode("utf-8", "surrogatepass"), _Ranked(self)
        first = last = bisect_left(ranked, wanted)
        while last < len(ranked) and ranked[last] == wanted:
            last += 1
            if last - first == _FEW:
                last = bisect_right(ranked, wanted, lo=last)
                break
        found: list[int] = self.order[first:last].tolist()
        return found

    def ids_of(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The id of each of many texts; -1 for those that are not here.

        >>> NameTable.of(["a", "b"]).ids_of(["b", "c"]).tolist()
        [1, -1]
        """
        ids = {name: number for number, name in enumerate(self)}
        return np.fromiter((ids.get(name, -1) for name in names), np.int64)

    def starting_with(self, prefix: str, limit: int) -> list[int]:
        """Up to `limit` ids whose text starts with `prefix`, in the order of their texts."""
        wanted = prefix.encode("utf-8", "surrogatepass")
        first = bisect_left(_Ranked(self), wanted)
        near = self.order[first : first + limit].tolist()
        return [number for number in near if self.raw(number).startswith(wanted)]

    def ending_in(self, end: str) -> list[int]:
        """The ids whose text ends so, in ascending order.

        >>> NameTable.of(["e/a", "e/ab", "", "f/a"]).ending_in("/a")
        [0, 3]
        """
        wanted, blob = end.encode("utf-8", "surrogatepass"), self.bytes_.tobytes()
        starts, at = [], blob.find(wanted)
        while at >= 0:
            starts.append(at)
            at = blob.find(wanted, at + 1)
        start_M = np.array(starts, np.int64)
        next_M = np.searchsorted(self.offsets, start_M + len(wanted))
        ends_M = self.offsets[next_M] == start_M + len(wanted)
        found: list[int] = (next_M[ends_M & (self.offsets[next_M - 1] <= start_M)] - 1).tolist()
        return found

    def closest(self, text: str, count: int = 3) -> list[str]:
        """The most similar texts, for "did you mean"."""
        from rapidfuzz import process, utils

        if len(self) <= _MANY:
            choices: Sequence[str] = list(self)
        else:
            choices = [self[number] for number in self.starting_with(text[:2], _MANY)]
        found = process.extract(
            text, choices, processor=utils.default_process, limit=count, score_cutoff=70
        )
        return list(dict.fromkeys(choice for choice, _score, _index in found))


@dataclass(frozen=True)
class Aliases:
    """Further names of things; `owners` are the ids of those who have them."""

    texts: NameTable
    owners: npt.NDArray[np.int32]

    def find(self, text: str) -> list[int]:
        return sorted({int(self.owners[number]) for number in self.texts.find(text)})


def save_names(folder: Path, stem: str, table: NameTable) -> None:
    save_array(folder, f"{stem}_bytes", table.bytes_)
    save_array(folder, f"{stem}_offsets", table.offsets)
    save_array(folder, f"{stem}_order", table.order)


def open_names(folder: Path, stem: str, way_out: str = IMPORT_AGAIN) -> NameTable:
    table = NameTable(
        open_array(folder, f"{stem}_bytes", "u", way_out),
        open_array(folder, f"{stem}_offsets", "i", way_out),
        open_array(folder, f"{stem}_order", "i", way_out),
    )
    if len(table.offsets) != len(table) + 1 or not table.is_sound:
        raise DataError(f"The names in '{folder}' do not fit together. {way_out}")
    return table


class _Ranked(Sequence[bytes]):
    """A table's texts in sorted order, for `bisect`."""

    def __init__(self, table: NameTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rank: int) -> bytes:  # type: ignore[override]
        return self.table.raw(self.table.order[rank])
