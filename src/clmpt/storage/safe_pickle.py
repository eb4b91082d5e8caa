"""Pickles of plain data, and nothing else: a pickle is a program, and it is not trusted.

There are two guards. First the instructions are scanned: only those that build plain containers are
allowed, and depth and memo indices are limited, since hashing a tuple a million levels deep crashes
the interpreter. So is what a container holds in all, since a tuple that has another one twice, and
so on for forty levels, takes a few hundred bytes, and hashing it forever. Then they are run by an
unpickler that allows only the classes of plain containers.
"""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

from clmpt.errors import DataError, UnsafePickle

_ALLOWED = frozenset(
    {("collections", "defaultdict")}
    | {("builtins", name) for name in ("dict", "frozenset", "list", "set", "tuple")}
    | {("__builtin__", name) for name in ("dict", "frozenset", "list", "set", "tuple")}
)
LARGEST, DEEPEST = 4 * 2**30, 32
SHARED, LEAST_SHARED = 64, 2**20  # values with all references followed: per byte, and at least


def load_plain_pickle(path: Path) -> Any:
    """The containers, numbers and texts in a pickle; anything that could run code is rejected."""
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"'{path}' is larger than {LARGEST // 2**30} GiB.")
        data = path.read_bytes()
        _scan(data)
        return _PlainUnpickler(io.BytesIO(data)).load()
    except UnsafePickle as error:
        raise UnsafePickle(
            f"'{path}' is not safe to load: {error}. Benchmark files hold only plain data; get a "
            "clean copy."
        ) from None
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"'{path}' is not a pickle, or is damaged ({error}).") from None


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnsafePickle(f"it uses '{module}.{name}'")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickle(f"it refers to an external object '{pid}'")


# --- the instructions -----------------------------------------------------------------------------

_INTEGERS = re.compile(rb"(?s)(?:K.)+|(?:M..)+|(?:J....)+")  # runs of them fill most files
_WIDTHS = {ord("K"): 2, ord("M"): 3, ord("J"): 5}
# Instruction -> bytes in its argument; -1: up to the end of the line; -2: two lines.
_FIXED = {
    **dict.fromkeys(b"()]}Nt0l\x85\x86\x87\x88\x89\x8f\x91\x90\x93\x94aedsuR.", 0),
    **dict.fromkeys(b"\x80hq", 1),
    **dict.fromkeys(b"jr", 4),
    **dict.fromkeys(b"G\x95", 8),
    **dict.fromkeys(b"IFLSVgp", -1),
    ord("c"): -2,
}
# Instruction -> bytes in the length of its argument.
_SIZED = {ord("X"): 4, 0x8C: 1, 0x8D: 8, ord("T"): 4, ord("U"): 1, ord("B"): 4, ord("C"): 1}
_SIZED |= {0x8E: 8, 0x8A: 1, 0x8B: 4}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_ADDS = {ord("a"): 1, ord("s"): 2, ord("R"): 1}  # to what is below, taking this many from the top
_GATHERS = frozenset(b"tld\x91")  # everything from the mark on becomes one container
_ADDS_ALL = frozenset(b"eu\x90")  # … or goes into the container before the mark
_EMPTY, _PUTS, _GETS = frozenset(b")]}\x8f"), frozenset(b"qrp"), frozenset(b"hjg")
_IGNORED = frozenset(b"\x80\x95.")


class _Built:
    """What the scan knows of an object: how deep it is, how many values all its references lead to,
    and whether it is complete, because it is part of another one or no container at all."""

    __slots__ = ("depth", "is_complete", "values")

    def __init__(self, parts: list[_Built]) -> None:
        self.depth, self.values, self.is_complete = 1, 1, False
        self.hold(parts)

    def hold(self, parts: list[_Built]) -> None:
        """Takes further parts, as a container does before it is part of another one."""
        if self.is_complete:
            raise UnsafePickle("it adds to what is complete already")
        singles = parts.count(_SINGLE)  # most of them, most of the time
        self.values += singles
        for part in parts if singles < len(parts) else ():
            if part is not _SINGLE:
                part.is_complete = True
                self.values += part.values
                self.depth = max(self.depth, part.depth + 1)


_SINGLE = _Built.__new__(_Built)  # a number, a text
_SINGLE.depth, _SINGLE.values, _SINGLE.is_complete = 0, 1, True


def _scan(data: bytes) -> None:
    """Tracks how deep every object is and how much it holds, without building any."""
    place, frames, memo = 0, [[_SINGLE]], dict[int, _Built]()
    most = SHARED * len(data) + LEAST_SHARED
    while place < len(data):
        code, top = data[place], frames[-1]
        if code in b"KMJ":
            run = _INTEGERS.match(data, place)
            if run is None:
                raise UnsafePickle("it ends in the middle of an instruction")
            top += [_SINGLE] * ((run.end() - place) // _WIDTHS[code])
            place = run.end()
            continue
        if _FIXED.get(code) == 0:
            argument, place = 0, place + 1
        else:
            argument, place = _argument(data, place)
        if code == 0x94:
            memo[len(memo)] = top[-1] if top else _SINGLE
            continue
        _follow(code, argument, frames, memo, len(data))
        last = frames[-1][-1] if frames[-1] else _SINGLE
        if len(frames) > DEEPEST or last.depth > DEEPEST:
            raise UnsafePickle(f"it is nested more than {DEEPEST} levels deep")
        if last.values > most:
            raise UnsafePickle("it refers to the same values over and over")


def _follow(
    code: int, argument: int, frames: list[list[_Built]], memo: dict[int, _Built], size: int
) -> None:
    """The effect of one instruction on the stack and the memo."""
    top = frames[-1]
    if code == ord("("):
        frames.append([])
    elif code in _EMPTY:
        top.append(_Built([]))
    elif code in _TUPLES:
        top[-_TUPLES[code] :] = [_Built(top[-_TUPLES[code] :])]
    elif code in _ADDS:
        parts = top[-_ADDS[code] :]
        del top[-_ADDS[code] :]
        if code == ord("R") or not top:
            top[-1:] = [_Built(parts)]
        else:
            top[-1].hold(parts)
    elif code in _GATHERS or code in _ADDS_ALL:
        parts = frames.pop()
        if not frames:
            raise UnsafePickle("its instructions are inconsistent")
        if code in _ADDS_ALL and frames[-1]:
            frames[-1][-1].hold(parts)
        else:
            frames[-1].append(_Built(parts))
    elif code == ord("0"):
        del top[-1:]
    elif code in _PUTS:
        if argument > size:
            raise UnsafePickle("it has a memo index that is too large")
        memo[argument] = top[-1] if top else _SINGLE
    elif code in _GETS:
        found = memo.get(argument, _SINGLE)
        if not found.is_complete:  # so it cannot grow, and be part of itself
            found.is_complete = True
        top.append(found)
    elif code not in _IGNORED:
        top.append(_SINGLE)


def _argument(data: bytes, place: int) -> tuple[int, int]:
    """The number after an instruction, if it has one, and where the next instruction is."""
    code, start = data[place], place + 1
    size = _FIXED.get(code)
    if size is None:
        if code not in _SIZED:
            raise UnsafePickle(f"plain data does not use its instruction {bytes([code])!r}")
        after = start + _SIZED[code]
        return 0, after + int.from_bytes(data[start:after], "little")
    if size >= 0:
        return int.from_bytes(data[start : start + size], "little"), start + size
    stop = data.find(b"\n", start)
    line = data[start:stop]
    if size == -2:
        stop = data.find(b"\n", stop + 1)
    if stop < 0:
        raise UnsafePickle("it ends in the middle of an instruction")
    return int(line) if code in b"gp" and line.isdigit() else 0, stop + 1
