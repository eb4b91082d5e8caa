"""Pickles that really try to run code: each would leave a file behind if it succeeded."""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmpt.errors import DataError, UnsafePickle
from clmpt.storage.safe_pickle import load_plain_pickle

MARK = "was_here"


class Reduced:
    """Pickles as a call to `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


class Restored:
    """Pickles as an object that sets its state with its own code."""

    def __setstate__(self, state: Any) -> None:
        Path(state["mark"]).touch()

    def __getstate__(self) -> Any:
        return {"mark": MARK}


def attacks() -> dict[str, bytes]:
    touch = f"touch {MARK}"
    source = f"__import__('pathlib').Path({MARK!r}).touch()"
    nested = Reduced(tuple, [Reduced(os.system, touch)])
    return {
        "os.system": pickle.dumps(Reduced(os.system, touch)),
        "builtins.eval": pickle.dumps(Reduced(eval, source)),
        "builtins.exec": pickle.dumps(Reduced(exec, source)),
        "nested reduce": pickle.dumps({"a": [{1: nested}]}),
        "inside a defaultdict": pickle.dumps(
            Reduced(collections.defaultdict, Reduced(eval, source))
        ),
        "subprocess": pickle.dumps(Reduced(subprocess.getoutput, touch)),
        "__setstate__": pickle.dumps(Restored()),
        "getattr": pickle.dumps(Reduced(getattr, dict, "fromkeys")),
        "protocol 0": f"cos\nsystem\n(S'{touch}'\ntR.".encode(),
        "dotted name": b"\x80\x04\x8c\x08builtins\x8c\x0cdict.fromkeys\x93.",
        "dunder by dots": b"\x80\x04\x8c\x08builtins\x8c\x13set.__subclasshook__\x93.",
        "python 2 module": f'c__builtin__\neval\n(S"{source}"\ntR.'.encode(),
        "extension code": b"\x80\x02\x82\x01.",
        "persistent id": b"\x80\x04\x8c\x01aQ.",
        "build on a set": pickle.dumps(set())[:-1] + pickle.dumps({"__class__": 1})[2:-1] + b"b.",
    }


@pytest.mark.parametrize("name", attacks())
def test_attacks_are_rejected_and_run_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "attack.pkl"
    path.write_bytes(attacks()[name])
    with pytest.raises(DataError, match=r"attack\.pkl"):
        load_plain_pickle(path)
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x80\x04)" + b"\x85" * 3_000_000 + b".", "nested more than"),
        (b"\x80\x04}" + b")" + b"\x85" * 3_000_000 + b"K\x01s.", "nested more than"),
        (b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".", "nested more than"),
        (b"\x80\x04" + b"(" * 1_000_000 + b".", "nested more than"),
        (b"\x80\x04K\x01r\x00\x00\x00\x04.", "memo index"),
        (b"\x80\x04]q\x00" + b"h\x00\x85q\x00" * 1000 + b".", "nested more than"),
        # A tuple of twice the tuple before, 31 times: 2³¹ values when it is hashed as a key.
        (b"\x80\x04})" + b"q\x00h\x00\x86" * 31 + b"K\x01s.", "over and over"),
        (b"\x80\x04}(" + b")" + b"q\x00h\x00\x86" * 29 + b"\x91K\x01s.", "over and over"),
        # The same with lists, from the outermost to the innermost.
        (
            b"\x80\x04]q\x00" + b"".join(b"h%c]q%ca" % (n, n + 1) for n in range(30)) + b".",
            "complete already",
        ),
        (b"\x80\x04]q\x00h\x00a.", "complete already"),  # a list in itself
    ],
)
def test_bombs_are_rejected_before_they_are_built(tmp_path: Path, data: bytes, words: str) -> None:
    """A tuple nested three million levels deep crashes Python itself when it is hashed."""
    path = tmp_path / "bomb.pkl"
    path.write_bytes(data)
    with pytest.raises(UnsafePickle, match=words):
        load_plain_pickle(path)


def test_the_attacks_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ordinary unpickler they do run, so rejecting them matters."""
    monkeypatch.chdir(tmp_path)
    for name in ("os.system", "builtins.eval", "nested reduce", "__setstate__", "protocol 0"):
        pickle.loads(attacks()[name])
        assert (tmp_path / MARK).exists(), name
        (tmp_path / MARK).unlink()


def test_plain_data_is_loaded(tmp_path: Path) -> None:
    plain = {("e", ("r",)): {(1, (2, -2)), (3, (4,))}, "text": [1, 2.5, None, True, frozenset({1})]}
    table: collections.defaultdict[str, set[int]] = collections.defaultdict(set, {"a": {1}})
    for value in (plain, table):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            path = tmp_path / "plain.pkl"
            path.write_bytes(pickle.dumps(value, protocol))
            assert load_plain_pickle(path) == value


PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.integers(), st.text()), inner, max_size=4),
        st.frozensets(st.one_of(st.integers(), st.text()), max_size=4),
        st.sets(st.integers(), max_size=4),
    ),
    max_leaves=20,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_any_plain_data_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int
) -> None:
    path = tmp_path_factory.mktemp("plain") / "plain.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    assert load_plain_pickle(path) == value


def test_errors_name_what_the_pickle_uses(tmp_path: Path) -> None:
    path = tmp_path / "attack.pkl"
    path.write_bytes(attacks()["os.system"])
    with pytest.raises(UnsafePickle, match=r"posix\.system"):
        load_plain_pickle(path)


@pytest.mark.parametrize(
    "junk",
    [b"", b"junk", pickle.dumps([1, 2, 3])[:-2], b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"],
)
def test_damaged_pickles_are_rejected(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk.pkl"
    path.write_bytes(junk)
    with pytest.raises(DataError, match=r"damaged|not safe"):
        load_plain_pickle(path)
