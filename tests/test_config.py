"""Settings: unknown names and values out of range are rejected with a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clmpt.errors import DataError, SettingError
from clmpt.predictors.predictor import read_pretraining
from clmpt.registry import PREDICTORS
from clmpt.storage.files import read_toml


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rnak": 5}, "Did you mean 'rank'"),
        ({"colour": 5}, "Available: model, rank"),
        ({"model": "hyper"}, "complex, distmult, transe, rotate, rescal, cp, tucker, conve"),
        ({"rank": 0}, "'rank' must be at least 1, not 0"),
        ({"rank": 2.5}, "'rank' must be of type int"),
        ({"rank": True}, "'rank' must be of type int"),
        ({"learning_rate": 0}, "above 0"),
        ({"learning_rate": float("nan")}, "above 0"),
        ({"regularisation": float("inf")}, "at most"),
        ({"regularisation": float("nan")}, "at least 0"),
        ({"seed": 2**70}, "at most"),
        ({"learning_rate": 10**400}, "type float"),
        ({"model": ["complex"]}, "'model' must be of type str"),
        ({"decay": "cosine"}, "one of none, linear"),
        ({"compile": 1}, "type bool"),
    ],
)
def test_bad_settings_are_rejected(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        read_pretraining(given)


def test_each_model_has_its_own_defaults() -> None:
    names = ["complex", "distmult", "transe", "rotate", "rescal", "cp", "tucker", "conve"]
    assert PREDICTORS.names() == names
    rates = [read_pretraining({"model": name}).learning_rate for name in names]
    assert rates == [0.1, 0.1, 1e-3, 1e-3, 0.1, 0.1, 0.1, 0.1]
    assert read_pretraining({"model": "rotate", "learning_rate": 1}).learning_rate == 1.0
    assert isinstance(read_pretraining({"learning_rate": 1}).learning_rate, float)


@pytest.mark.parametrize("content", ["a = ", "\x00", "a = 1\na = 2", "[[" * 5000])
def test_invalid_toml_is_rejected(content: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(content)
    with pytest.raises(DataError, match="not TOML"):
        read_toml(path)


def test_a_missing_or_huge_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_toml(tmp_path / "none.toml")
    huge = tmp_path / "huge.toml"
    huge.write_text("#" * 2_000_000)
    with pytest.raises(DataError, match="too large"):
        read_toml(huge)
