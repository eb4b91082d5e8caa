"""Weights and optimizer state divided among the processes, by PyTorch's FSDP2.

A step gathers the weights for as long as it needs them and gives each process the summed gradients
of its own part. The parts are rows, as in `row_shards.py`. PyTorch's modules for this take a second
to load, so they are imported where they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import Tensor, nn

from clmpt.compute import distributed

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from typing_extensions import TypeIs

_DTENSOR = "torch.distributed.tensor"


def divide_weights(module: nn.Module, leave: Collection[Tensor] = ()) -> None:
    """Divides what the module trains; not what is in `leave`. From now on its `forward` is the only
    way to gradients, and all processes must call it and go backward, once a step each."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    parameters = list(module.parameters())
    left = {id(parameter) for parameter in leave}
    left |= {id(p) for p in parameters if not p.requires_grad or not p.dim()}
    ignored = {p for p in parameters if id(p) in left}
    mesh = distributed.mesh(parameters[0].device.type)
    fully_shard(module, mesh=mesh, reshard_after_forward=False, ignored_params=ignored)
    assert isinstance(module, FSDPModule)
    module.set_gradient_divide_factor(1.0)  # losses are parts of a sum, not means
    module.set_force_sum_reduction_for_comms(True)  # Gloo knows no other


@contextmanager
def whole_weights(module: nn.Module) -> Iterator[None]:
    """While it lasts, every process has all of the weights, and `state_dict` gives them too: that
    of an unsharded FSDP module would divide them again."""
    parts = [
        (owner, name, part)
        for owner in module.modules()
        for name, part in owner.named_parameters(recurse=False)
        if is_divided(part)
    ]
    for owner, name, part in parts:
        setattr(owner, name, nn.Parameter(part.full_tensor().detach()))
    try:
        yield
    finally:
        for owner, name, part in parts:
            setattr(owner, name, part)


def is_divided(tensor: Tensor) -> TypeIs[DTensor]:
    """Whether each process has a part of the tensor."""
    loaded = sys.modules.get(_DTENSOR)  # without it there is none
    return loaded is not None and isinstance(tensor, loaded.DTensor)


def own_part(tensor: Tensor) -> Tensor:
    """This process's part of a divided tensor; any other as it is."""
    return tensor.to_local() if is_divided(tensor) else tensor


def divided_like(part: Tensor, other: Tensor) -> Tensor:
    """A part as a divided tensor, if `other` is one of its shape."""
    if not is_divided(other) or part.shape != other.to_local().shape:
        return part
    return type(other).from_local(
        part,
        other.device_mesh,
        other.placements,
        run_check=False,
        shape=other.shape,
        stride=other.stride(),
    )
