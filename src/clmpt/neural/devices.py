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
        (torch.ones(2, device=device) + 1).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError):
        raise SettingError(
            f"The device '{name}' cannot be used here. Try 'cpu' or 'auto'."
        ) from None
    return device
