"""What `reproduce` is asked for: a recipe with changes, of which some have several values, and
seeds.

A sweep is done first and validation chooses; the chosen variant is then an experiment for each
seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from clmpt.compute import distributed
from clmpt.errors import SettingError
from clmpt.experiments.grids import Grid, Point, grid_of
from clmpt.experiments.recipes import LONGEST_NAME, assigned, chosen_reasoner, read_recipe
from clmpt.experiments.records import Variant, seed_suffix
from clmpt.experiments.reproduction import (
    Recipe,
    begin_experiments,
    experiment_stages,
    performed,
    reproduce,
)
from clmpt.experiments.stage_builders import Stage
from clmpt.experiments.sweeping import Sweep, SweepRecord, read_sweep
from clmpt.experiments.variant_settings import variant_tables
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import ReportProgress, silent

_UNDECIDED = ("reasoner", "report", "baseline")  # roles whose places depend on a sweep's choice


@dataclass(frozen=True)
class Study:
    """A recipe; how it is changed; the seeds of training, none for the recipe's own."""

    recipe: str | Path
    reasoner: str | None = None
    changes: tuple[str, ...] = ()
    name: str | None = None
    device: str | None = None
    seeds: tuple[int, ...] = ()
    trials: int | None = None  # points of the grid to draw; None for all
    trial_changes: tuple[str, ...] = ()  # of trials alone, such as a smaller budget
    queries: str = ""  # the folder of official queries, if it is not the graph's
    baseline: bool = True  # whether beam search over the predictor alone is measured as well

    def __post_init__(self) -> None:
        if len(set(self.seeds)) < len(self.seeds):
            raise SettingError("A seed is listed twice.")
        if self.trials is not None and not self.grid.axes:
            raise SettingError(
                "--trials draws points of a grid, and no setting has several values. Give one "
                "some: --set training.batch=64,128"
            )
        if self.seeds and any(self._sets_seed(change) for change in self.fixed):
            raise SettingError(
                "The seed is given twice: as a setting, training.seed, and in the list of seeds."
            )

    @cached_property
    def _split(self) -> tuple[list[str], Grid]:
        tables = read_recipe(self.recipe)
        chosen = self.reasoner or chosen_reasoner(tables)
        return grid_of(self.changes, chosen)

    @property
    def fixed(self) -> list[str]:
        """The changes with a single value."""
        return self._split[0]

    @property
    def grid(self) -> Grid:
        return self._split[1]

    def _sets_seed(self, change: str) -> bool:
        chosen = self.reasoner or chosen_reasoner(read_recipe(self.recipe))
        return assigned(change, chosen)[:2] == ("training", "seed")

    def recipe_of(self, point: Point = ()) -> Recipe:
        """The recipe with its changes and those of a point."""
        changes = [*self.fixed, *point]
        tables = variant_tables(self.recipe, self.reasoner, changes, self.name, self.device)
        if self.queries:
            tables.setdefault("queries", {})["folder"] = self.queries
        return Recipe.of(tables)

    def recipes(self, point: Point = ()) -> list[Recipe]:
        """The recipes of a point, one for each seed; only the seed of training differs."""
        one = self.recipe_of(point)
        return [_seeded(one, seed) for seed in self.seeds] or [one]

    @cached_property
    def sweep(self) -> Sweep | None:
        """The trials, if some setting has several values."""
        if not self.grid.axes:
            return None
        seed = self.recipe_of(self.grid.point(0)).experiment.seed
        points = tuple(self.grid.points(self.trials, seed))
        name = self.name or Recipe.of(variant_tables(self.recipe, self.reasoner, self.fixed)).name
        recipes = tuple(self.recipe_of((*self.trial_changes, *point)) for point in points)
        _check_choice(recipes[0])
        shared = (*self.fixed, *self.trial_changes)
        return Sweep(name, points, recipes, shared, self.grid.size, seed)


def _check_choice(recipe: Recipe) -> None:
    """Refuses a sweep that has nothing to choose by, or that would choose on what it measures."""
    if not recipe.training.validation_queries:
        raise SettingError(
            "Validation queries choose among several values, and there are none: set "
            "training.validation_queries."
        )
    if recipe.queries.tested == "valid":
        raise SettingError(
            "With queries.tested = 'valid', settings would be chosen on the queries that are "
            "measured. Give each setting one value."
        )


def _seeded(recipe: Recipe, seed: int) -> Recipe:
    suffix = seed_suffix(seed)
    name = recipe.name
    if len(name) + len(suffix) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - len(suffix) - 1]}…"
    return replace(
        recipe,
        experiment=replace(recipe.experiment, name=name + suffix),
        training=replace(recipe.training, seed=seed),
    )


@dataclass(frozen=True)
class Studied:
    """What came of a study: a variant for each seed, and the sweep that chose their settings."""

    variants: tuple[Variant, ...]
    sweep: SweepRecord | None = None


def study_stages(
    study: Study, graph: KnowledgeGraph, data: Path, out: Path, workers: int = 1
) -> list[Stage]:
    """The stages of a study, in order. Until a sweep has chosen, those that come after it are shown
    as what they will be for its first point."""
    found: dict[Path, Stage] = {}
    point: Point = ()
    is_open = False
    if study.sweep:
        stages = study.sweep.stages(graph, data, out, workers)
        found |= {stage.path: stage for stage in stages}
        is_open = not stages[-1].is_done
        point = study.sweep.points[0] if is_open else read_sweep(stages[-1].path).point
    for recipe in study.recipes(point):
        label = _label(study, recipe)
        stages = experiment_stages(recipe, graph, data, out, workers, label, study.baseline)
        for stage in stages:
            if is_open and stage.path not in found and stage.role in _UNDECIDED:
                stage = replace(stage, path=out / stage.name, check=lambda path: False)  # noqa: ARG005
            found.setdefault(stage.path, stage)
    return list(found.values())


def perform_study(
    study: Study,
    graph: KnowledgeGraph,
    data: Path,
    out: Path,
    workers: int = 1,
    progress: ReportProgress = silent,
    track: str = "",
) -> Studied:
    """Does what is not done yet, and resumes what was interrupted. Test queries are made or read
    after the choice, and answered by what was chosen alone."""
    chosen = None
    if study.sweep:
        run = begin_experiments(graph, data, out)
        stages = study.sweep.stages(graph, data, out, workers)
        with performed(run, stages, progress, track):
            chosen = distributed.in_turn(lambda: read_sweep(stages[-1].path))
    recipes = study.recipes(chosen.point if chosen else ())
    shared = (out, workers, progress)
    variants = [
        reproduce(graph, data, recipe, *shared, _label(study, recipe), track, study.baseline)
        for recipe in recipes
    ]
    return Studied(tuple(variants), chosen)


def _label(study: Study, recipe: Recipe) -> str:
    """What tells the stages of one seed from those of another."""
    return seed_suffix(recipe.training.seed) if study.seeds else ""
