"""An experiment that takes seconds, on a stand-in of forty entities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clmpt.experiments.entries import entries_in

RECIPE = """
[experiment]
benchmark = "nell995"
published = "CLMPT"

[queries]
trained = "1p 2p 2i 2in"
measured = "1p 2p 2i ip pi 2u 2in"
train = 40
train_negated = 10
test = 6

[pretraining]
rank = 8
epochs = 3
batch = 64

[reasoning.clmpt]
encoder_layers = 1
heads = 2
feed_forward = 16

[reasoning.lmpnn]
feed_forward = 16

[training]
steps = 8
batch = 16
validate_every = 4
validation_queries = 5
"""


def arguments(home: Path, out: Path, *more: str) -> list[str]:
    """The arguments of `clmpt reproduce`."""
    data = str(home / "NELL-betae")
    recipe = str(home / "tiny.toml")
    return ["reproduce", recipe, "--data", data, "--out", str(out), "--workers", "1", *more]


def figures(out: Path) -> dict[str, Any]:
    """The content of all reports, without costs."""
    return {entry.name: entry.report for entry in entries_in(out)}
