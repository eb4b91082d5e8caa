"""Names by the first letters of any of their words, whatever their case: millions in a second.

The names are folded all at once, the starts of words found in their bytes, and these sorted by the
sixteen bytes that follow, as two numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clmpt.graph.names import NameTable

# Shapes: B bytes of all names with a zero after each, N names, S starts of words, by their text

_WORDS = 8  # of a name; later ones are not searched
_HALF = 8  # bytes in a number
_LETTERS = np.zeros(256, np.bool_)
_LETTERS[[*b"0123456789abcdefghijklmnopqrstuvwxyz", *range(128, 256)]] = True


@dataclass(frozen=True)
class WordIndex:
    """
    >>> words = WordIndex.of(NameTable.of(["Kenji Mizoguchi", "Masaki", "Éric"]))
    >>> [int(words.owner_S[at]) for at in words.starting_with("m", 9)]
    [1, 0]
    >>> [words.text(at, 4) for at in words.starting_with("ér", 9)]
    ['éric']
    """

    folded_B: npt.NDArray[np.uint8]
    start_S: npt.NDArray[np.int64]
    owner_S: npt.NDArray[np.int64]
    high_S: npt.NDArray[np.uint64]
    low_S: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, table: NameTable) -> WordIndex:
        folded_B, end_N = _folded(table)
        start_S, owner_S = _starts(folded_B, end_N)
        high_S, low_S = (_number(folded_B, start_S + at, end_N[owner_S]) for at in (0, _HALF))
        order_S = np.lexsort((low_S, high_S))
        return cls(*(folded_B, start_S[order_S], owner_S[order_S]), high_S[order_S], low_S[order_S])

    def starting_with(self, text: str, most: int) -> list[int]:
        """Up to `most` starts of words that are followed by a text, in the order of their texts."""
        wanted = text.casefold().encode("utf-8", "surrogatepass")
        first, last = self._range(wanted)
        if len(wanted) <= 2 * _HALF:
            return list(range(first, min(last, first + most)))
        stops = ((at, int(self.start_S[at])) for at in range(first, last))
        size = len(wanted)
        long = (at for at, s in stops if self.folded_B[s : s + size].tobytes() == wanted)
        return [at for at, _ in zip(long, range(most), strict=False)]

    def text(self, at: int, most: int) -> str:
        """The folded text from a start on: about `most` letters, or to the name's end."""
        start = int(self.start_S[at])
        found = self.folded_B[start : start + 4 * most].tobytes().partition(b"\0")[0]
        return found.decode(errors="ignore")[:most]

    def _range(self, wanted: bytes) -> tuple[int, int]:
        halves = (wanted[:_HALF], wanted[_HALF : 2 * _HALF])
        least, most = (
            [int.from_bytes(half.ljust(_HALF, pad), "big") for half in halves]
            for pad in (b"\0", b"\xff")
        )
        first = int(np.searchsorted(self.high_S, np.uint64(least[0])))
        last = int(np.searchsorted(self.high_S, np.uint64(most[0]), "right"))
        if len(wanted) <= _HALF:
            return first, last
        low_S = self.low_S[first:last]
        inside = np.searchsorted(low_S, np.uint64(least[1]))
        after = np.searchsorted(low_S, np.uint64(most[1]), "right")
        return first + int(inside), first + int(after)


def _folded(table: NameTable) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """All names without case, a zero after each; and where these zeros are."""
    plain = np.where(table.bytes_ == 0, np.uint8(32), table.bytes_)
    joined = np.insert(plain, table.offsets[1:], 0).tobytes()
    folded = joined.decode(errors="replace").casefold().encode()
    folded_B = np.frombuffer(folded, np.uint8)
    return folded_B, np.flatnonzero(folded_B == 0)


def _starts(
    folded_B: npt.NDArray[np.uint8], end_N: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where names and words begin, and whose they are."""
    letter_B = _LETTERS[folded_B]
    starts_B = letter_B.copy()
    starts_B[1:] &= ~letter_B[:-1]
    begin_N = np.concatenate([np.zeros(1, np.int64), end_N[:-1] + 1])[: len(end_N)]
    starts_B[begin_N[begin_N < end_N]] = True
    start_S = np.flatnonzero(starts_B)
    owner_S = np.searchsorted(end_N, start_S)
    early_S = np.arange(len(owner_S)) - np.searchsorted(owner_S, owner_S) < _WORDS
    return start_S[early_S], owner_S[early_S]


def _number(
    folded_B: npt.NDArray[np.uint8], from_S: npt.NDArray[np.int64], end_S: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The bytes from a place on as one number; zeros after the name's end."""
    number_S = np.zeros(len(from_S), np.uint64)
    for place in range(_HALF):
        at_S = from_S + place
        byte_S = np.where(at_S < end_S, folded_B[np.minimum(at_S, end_S)], np.uint8(0))
        number_S = (number_S << np.uint64(8)) | byte_S.astype(np.uint64)
    return number_S
