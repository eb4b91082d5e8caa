"""Shared by all training: its state as a flat dict, and random numbers by step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from clmpt.compute.sharded_weights import divided_like, own_part
from clmpt.errors import DataError
from clmpt.predictors.predictor import CALIBRATION
from clmpt.predictors.sampled_softmax import RowAdagrad
from clmpt.training.row_adam import RowAdamW

# What an optimizer keeps for each number of a table, and for each row.
_SLOTS: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.Adagrad: ("sum",),
    torch.optim.Adam: ("exp_avg", "exp_avg_sq"),
    RowAdamW: ("exp_avg", "exp_avg_sq"),
    RowAdagrad: (),
}
_ROW_SLOTS: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {RowAdagrad: ("row_sum",)}
_LARGEST = 1e6
_FIXED = ("inverse_R", CALIBRATION)


def random_of(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Random numbers for one purpose in one step, so that there is no state to save."""
    return np.random.default_rng([seed, purpose, number])


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def _changing(model: nn.Module) -> dict[str, Tensor]:
    """Buffers that steps may change; a predictor's own never do."""
    stored = model.state_dict()
    return {
        name: value
        for name, value in model.named_buffers()
        if name in stored and not name.endswith(_FIXED)
    }


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything that the next steps depend on, besides settings and data."""
    found: dict[str, Tensor] = {f"model.{n}": p.detach() for n, p in trained(model).items()}
    found |= {f"buffer.{name}": value for name, value in _changing(model).items()}
    for number, (_, slots) in enumerate(sorted(optimizer.state_dict()["state"].items())):
        for name, value in slots.items():
            found[f"optimizer.{number}.{name}"] = torch.as_tensor(value)
    return found


def divided_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Those of the state's tensors of which each process has a part, and the rows of all."""
    names = {id(parameter): name for name, parameter in trained(model).items()}
    found: dict[str, int] = {}
    for number, table in enumerate(optimizer.param_groups[0]["params"]):
        if own_part(table) is not table:
            slots = (f"optimizer.{number}.{slot}" for slot in _SLOTS[type(optimizer)])
            found |= dict.fromkeys((f"model.{names[id(table)]}", *slots), len(table))
    return found


def restore_training(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]
) -> None:
    """Restores a state; rejects one of another model, graph or optimizer."""
    expected = {f"model.{name}": own_part(p).shape for name, p in trained(model).items()}
    expected |= {f"buffer.{name}": value.shape for name, value in _changing(model).items()}
    tables = optimizer.param_groups[0]["params"]
    for number, table in enumerate(map(own_part, tables)):
        expected[f"optimizer.{number}.step"] = torch.Size([])
        for slot in _SLOTS[type(optimizer)]:
            expected[f"optimizer.{number}.{slot}"] = table.shape
        for slot in _ROW_SLOTS.get(type(optimizer), ()):
            expected[f"optimizer.{number}.{slot}"] = table.shape[:1]
    if {name: tensor.shape for name, tensor in state.items()} != expected:
        raise other_training()
    slots: dict[int, dict[str, Tensor]] = {}
    with torch.no_grad():
        for name, parameter in trained(model).items():
            own_part(parameter).copy_(state[f"model.{name}"])
        for name, value in _changing(model).items():
            value.copy_(state[f"buffer.{name}"])
    for name, value in state.items():
        kind, *rest = name.split(".")
        if kind == "optimizer":
            number = int(rest[0])
            slots.setdefault(number, {})[rest[1]] = divided_like(value, tables[number])
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": slots, "param_groups": groups})


def other_training() -> DataError:
    return DataError("The saved state belongs to a different run. Remove it to start again.")


def is_sane(model: nn.Module) -> bool:
    """Whether all weights are within the range that a good learning rate leads to."""
    tables = map(own_part, trained(model).values())
    ends = (torch.aminmax(table) for table in tables if table.numel())  # no copy of a large table
    return all(bool(end.min > -_LARGEST) and bool(end.max < _LARGEST) for end in ends)
