"""Where tensors live."""

from __future__ import annotations

import torch

from clmpt.errors import SettingError


def find_device(name: str) -> torch.device:
    """The device of that name; 'auto' takes an accelerator where there is one, else the CPU."""
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"The device '{name}' cannot be used here ({reason}). Try 'cpu' or 'auto'."
        ) from None
    return device
