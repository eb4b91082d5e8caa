"""Pickles of plain data, and nothing else: a pickle is a program, and strangers wrote it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from clmpt.errors import DataError, UnsafePickle

_ALLOWED = frozenset(
    {("collections", "defaultdict")}
    | {("builtins", name) for name in ("dict", "frozenset", "list", "set", "tuple")}
    | {("__builtin__", name) for name in ("dict", "frozenset", "list", "set", "tuple")}
)
LARGEST = 4 * 2**30


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnsafePickle(f"it asks for '{module}.{name}'")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickle(f"it refers to an outside object '{pid}'")


def load_plain_pickle(path: Path) -> Any:
    """The containers, numbers and texts of a pickle; anything that could run code is refused."""
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"'{path}' is larger than {LARGEST // 2**30} GiB.")
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except UnsafePickle as error:
        raise UnsafePickle(
            f"'{path}' is refused: {error}. Benchmark files hold only plain data; get a clean copy."
        ) from None
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"'{path}' is not a pickle, or is damaged ({error}).") from None
