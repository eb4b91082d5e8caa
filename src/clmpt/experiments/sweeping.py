"""Sweeps: every trial is trained, and validation queries choose one. No trial sees a test query.

The stages of a trial are those of an experiment, up to its reasoner; what trials have in common is
made once. The last stage writes a record of all trials with the choice. Only then is the chosen one
an experiment like any other, with test queries and a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.display.text import counted
from clmpt.errors import DataError, Diverged, SettingError, TrainingError
from clmpt.experiments.costs import Work
from clmpt.experiments.grids import Point
from clmpt.experiments.reproduction import SWEEPS, Recipe, digest, experiment_stages, slug
from clmpt.experiments.stage_builders import Stage, renamed
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import ReportProgress
from clmpt.reasoners.reasoner_folder import about_reasoner, reasoner_is_whole
from clmpt.storage.files import open_json, save_json
from clmpt.storage.run_folder import provenance, read_summary
from clmpt.storage.sealing import listed_file, make_sealed

_TRAINED = ("train", "valid", "predictor", "reasoner")  # what a trial needs, by role
_SHARED = ("train", "valid")  # what all trials must have in common


@dataclass(frozen=True)
class Sweep:
    """Trials of an experiment: a recipe for each point of a grid, or for some of its points."""

    name: str
    points: tuple[Point, ...]
    recipes: tuple[Recipe, ...]
    fixed: tuple[str, ...] = ()  # changes that all trials share
    grid_size: int = 0
    seed: int = 0  # that points were drawn with, if not all were taken

    @property
    def title(self) -> str:
        """Its name and how many trials it has."""
        of = "" if len(self.points) == self.grid_size else f" of {self.grid_size:,}"
        return f"{self.name}: {counted(len(self.points), 'trial')}{of}"

    def stages(self, graph: KnowledgeGraph, data: Path, out: Path, workers: int = 1) -> list[Stage]:
        """Training queries, validation queries, every trial, then the choice."""
        trials = [
            [
                stage
                for stage in experiment_stages(recipe, graph, data, out, workers)
                if stage.role in _TRAINED
            ]
            for recipe in self.recipes
        ]
        _check_comparable(trials)
        uses = Counter(stage.path for stages in trials for stage in stages)
        choice = self._choice([stages[-1].path for stages in trials], out)
        found: dict[Path, Stage] = {}
        for number, stages in enumerate(trials, 1):
            for stage in stages:
                own = f"trial {number} of {len(trials)}, {stage.name}"
                is_shared = uses[stage.path] == len(trials) > 1
                named = stage if is_shared else renamed(stage, own)
                last = stage is stages[-1]
                found.setdefault(stage.path, _may_diverge(named, choice) if last else named)
        return [*found.values(), choice]

    def _choice(self, reasoners: Sequence[Path], out: Path) -> Stage:
        key = digest([path.name for path in reasoners])
        path = out / SWEEPS / f"{slug(self.name) or 'sweep'}-{key}.json"

        def run(progress: ReportProgress) -> None:  # noqa: ARG001
            trials = [_trial(*pair) for pair in zip(self.points, reasoners, strict=True)]
            chosen, figures = chosen_trial([trial["valid"] for trial in trials])
            for trial, figure in zip(trials, figures, strict=True):
                trial["folder"] = str(Path(trial["folder"]).relative_to(out))
                trial["validation"] = figure
            trials[chosen]["chosen"] = True
            document = {
                "name": self.name,
                "fixed": list(self.fixed),
                "grid_size": self.grid_size,
                "seed": self.seed,
                "trials": trials,
                **provenance(),
            }
            make_sealed(path.parent)
            with listed_file(path) as scratch:
                save_json(scratch, document)

        return Stage("sweep", "choosing", path, Work(), run)


def _may_diverge(trial: Stage, choice: Stage) -> Stage:
    """A trial whose loss is no number any more is one that is not chosen, and stops no other."""

    def run(progress: ReportProgress) -> None:
        with suppress(Diverged):
            trial.run(progress)

    def check(path: Path) -> bool:
        return trial.check(path) or choice.is_done

    return replace(trial, run=run, check=check)


def _check_comparable(trials: Sequence[Sequence[Stage]]) -> None:
    """Refuses trials that would not be validated on the same queries, or that are the same."""
    for role in _SHARED:
        if len({stage.path for stages in trials for stage in stages if stage.role == role}) > 1:
            raise SettingError("Trials must have the same training and validation queries.")
    reasoners = [stages[-1].path for stages in trials]
    for number, path in enumerate(reasoners):
        if path in reasoners[:number]:
            before = reasoners.index(path) + 1
            raise SettingError(f"Trials {before} and {number + 1} have the same settings.")


def _trial(point: Point, reasoner: Path) -> dict[str, Any]:
    if not reasoner_is_whole(reasoner):
        return {"changes": list(point), "folder": str(reasoner), "valid": None, "diverged": True}
    about, summary = about_reasoner(reasoner), read_summary(reasoner)
    return {
        "changes": list(point),
        "folder": str(reasoner),
        "valid": about.get("valid"),
        "epoch": about.get("epoch"),
        "seconds": summary.get("seconds"),
    }


def chosen_trial(valid: Sequence[Any]) -> tuple[int, list[float]]:
    """The best trial, the first of equals, and the validation MRR of each: the mean over the shapes
    that all of them can express. One that is None diverged: it has 0 and is not chosen.

    >>> chosen_trial([{"shapes": {"1p": 0.5, "2in": 0.1}}, {"shapes": {"1p": 0.4}}])
    (0, [0.5, 0.4])
    """
    shapes: list[Mapping[str, float]] = []
    for number, figures in enumerate(valid, 1):
        if figures is not None and (not isinstance(figures, dict) or not figures.get("shapes")):
            raise DataError(f"Trial {number} has no validation figures to choose by.")
        shapes.append(figures["shapes"] if figures else {})
    whole = [found for found in shapes if found]
    if not whole:
        raise TrainingError(
            "All trials diverged: the loss became no number. Try lower learning rates."
        )
    common = [name for name in whole[0] if all(name in found for found in whole)]
    if not common:
        raise DataError("The trials have no shape in common that they were validated on.")
    means = [float(np.mean([found[n] for n in common])) if found else 0.0 for found in shapes]
    return means.index(max(means)), means


# --- the record -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepRecord:
    """What was tried, with which validation MRR, and what was chosen."""

    name: str
    trials: tuple[dict[str, Any], ...]  # changes, folder, validation, epoch, seconds
    chosen: int
    grid_size: int
    reasoner: Path  # the chosen one

    @property
    def point(self) -> Point:
        return tuple(self.trials[self.chosen]["changes"])

    @property
    def lead(self) -> float | None:
        """By how much the chosen one is ahead of the next; None if it is alone."""
        others = [
            float(trial["validation"])
            for number, trial in enumerate(self.trials)
            if number != self.chosen
        ]
        return float(self.trials[self.chosen]["validation"]) - max(others) if others else None

    @property
    def said(self) -> str:
        """What was chosen, and by how much."""
        best = float(self.trials[self.chosen]["validation"])
        lead = self.lead
        ahead = "" if lead is None else f", {100 * lead:.2f} ahead of the next"
        return (
            f"Chosen on validation queries: {', '.join(self.point)} (MRR × 100 {100 * best:.2f}"
            f"{ahead}). Test queries are answered by it alone."
        )

    def as_plain(self) -> dict[str, Any]:
        names = ("name", "trials", "chosen", "grid_size")
        return {name: getattr(self, name) for name in names} | {"lead": self.lead}


def read_sweep(path: Path) -> SweepRecord:
    try:
        found = open_json(path)
        trials = tuple(dict(trial) for trial in found["trials"])
        for trial in trials:
            trial["changes"] = [str(change) for change in trial["changes"]]
            trial["validation"] = float(trial["validation"])
        (chosen,) = (number for number, trial in enumerate(trials) if trial.get("chosen"))
        folder = path.parent.parent / str(trials[chosen]["folder"])
        return SweepRecord(str(found["name"]), trials, chosen, int(found["grid_size"]), folder)
    except (DataError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"'{path}' is damaged ({error}). Remove it and run the same command again; finished "
            "trials are not repeated."
        ) from None


def sweeps_in(folder: Path) -> list[SweepRecord]:
    """The finished sweeps in a folder of experiments."""
    paths = sorted((folder / SWEEPS).glob("*-*.json"))
    return [read_sweep(path) for path in paths]
