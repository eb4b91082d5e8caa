"""How many steps fit into a budget of processor time.

They are measured once, before the first step, and kept with the run: from then on it depends on
their number alone, so that it can be stopped and resumed, and repeated with the same `steps`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clmpt.compute import distributed
from clmpt.compute.devices import work_clock
from clmpt.compute.threads import torch_threads
from clmpt.errors import DataError
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.model import GradientModel
from clmpt.settings import Training
from clmpt.storage.files import open_json, save_json
from clmpt.storage.sealing import listed_file
from clmpt.training.trainer import Trainer

VALIDATIONS = 5  # in a run of which only the time is given
_PACE = "pace.json"
_SHARE = 0.02  # of the budget, for measuring
_FIRST, _FEWEST = 2, 3  # steps that are slower than others; steps that are measured
_ANY = 1_000_000  # steps, of a schedule that is not followed


def paced(
    run: Path, model: GradientModel, groups: Sequence[QueryGroup], settings: Training, threads: int
) -> Training:
    """The settings with the number of steps that their budget allows, if they have one.

    Neither the weights nor later random numbers change.
    """
    if not settings.minutes:
        return settings

    if not distributed.made_by_one((run / _PACE).exists):
        seconds = _seconds_per_step(model, groups, settings, threads)
        distributed.by_one(_write)(run, seconds)
        distributed.wait_for_all()
    steps = max(1, math.floor(60 * settings.minutes / _read(run)))
    interval = settings.validate_every or math.ceil(steps / VALIDATIONS)
    return replace(settings, minutes=0.0, steps=steps, validate_every=interval)


def _seconds_per_step(
    model: GradientModel, groups: Sequence[QueryGroup], settings: Training, threads: int
) -> float:
    """Of all processes together, while none of them validates."""
    trainer = Trainer(copy.deepcopy(model), groups, replace(settings, minutes=0.0, steps=_ANY))
    enough, device = _SHARE * 60 * settings.minutes, trainer.device
    with torch_threads(threads):
        for _ in range(_FIRST):
            float(trainer.step())
        started, steps, spent = work_clock(device), 0, 0.0
        while steps < _FEWEST or spent < enough:
            float(trainer.step())
            steps += 1
            spent = float(distributed.total(torch.tensor(work_clock(device) - started)))
    return max(spent / steps, 1e-6)


def _write(run: Path, seconds: float) -> None:
    with listed_file(run / _PACE) as scratch:
        save_json(scratch, {"seconds_per_step": seconds})


def _read(run: Path) -> float:
    found: Any = open_json(run / _PACE)
    seconds = found.get("seconds_per_step") if isinstance(found, dict) else None
    if not isinstance(seconds, float) or not seconds > 0:
        raise DataError(f"'{run / _PACE}' is damaged. Remove the folder to start again.")
    return seconds
