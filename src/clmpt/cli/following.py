"""Shared by the commands that train: settings, progress and the closing summary."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from clmpt.cli.output import duration, say, show_json, tell, tell_finished
from clmpt.cli.progress_bars import progress_bar
from clmpt.errors import AlreadyFinished, SettingError
from clmpt.experiments.recipes import Tables, read_recipe
from clmpt.progress import Progress
from clmpt.storage.run_folder import read_summary
from clmpt.training.loop import TrainingStep
from clmpt.training.tracking import check_tracker, tracked

_REPORT_SECONDS = 30.0  # between progress lines where there is no terminal


def run_to_the_end(
    steps: Iterator[TrainingStep],
    out: Path,
    about_of: Callable[[Path], dict[str, Any]],
    hint: str,
    as_json: bool,
    track: str = "",
) -> None:
    """Follows a run to its end, then prints the result and the next command."""
    check_tracker(track)
    try:
        with tracked(out, track) as look:
            _show_steps(steps, look)
    except AlreadyFinished:
        tell_finished(out)
    except KeyboardInterrupt:
        tell(f"Stopped. Run the same command again to resume '{out}'.")
        raise
    about = about_of(out)
    if as_json:
        show_json(about)
        return
    took = duration(read_summary(out)["seconds"])
    for problem, shapes in _left_out(about).items():
        say(f"{', '.join(shapes)}: left out, since {problem}.")
    valid = f"validation MRR {about['valid']['mrr']:.4f} at " if about["valid"] else ""
    say(f"{out}: {valid}epoch {about['epoch']}, in {took}")
    say(f"Next: {hint}")


def _left_out(about: dict[str, Any]) -> dict[str, list[str]]:
    """The shapes that a model was not trained on, by the reason."""
    found: dict[str, list[str]] = {}
    for shape, problem in about.get("left_out", {}).items():
        found.setdefault(problem, []).append(shape)
    return found


def recipe_tables(options: argparse.Namespace, *needed: str) -> Tables:
    """The tables of the recipe, if one is given. It must have at least one of those needed."""
    tables = read_recipe(options.recipe) if options.recipe else {}
    if options.recipe and not set(needed) & set(tables):
        raise SettingError(f"'{options.recipe}' has no table [{needed[0]}].")
    return tables


def given_on_command_line(options: argparse.Namespace, kind: type[Any]) -> dict[str, Any]:
    """The settings of a table that are given on the command line."""
    names = {field.name for field in fields(kind)}
    return {k: v for k, v in vars(options).items() if k in names and v is not None}


def _show_steps(steps: Iterator[TrainingStep], look: Callable[[], None]) -> None:
    """Follows a run with a progress bar, or an occasional line where there is no terminal."""
    printed = time.perf_counter()
    with progress_bar() as show:
        for now in steps:
            show(Progress(_line(now), now.step, now.steps))
            look()
            if now.valid or time.perf_counter() - printed > _REPORT_SECONDS:
                tell(_line(now))
                printed = time.perf_counter()


def _line(now: TrainingStep) -> str:
    rate = now.step / now.seconds if now.seconds else 0.0
    left = (now.steps - now.step) / rate if rate else 0.0
    valid = f", valid MRR {now.valid.mrr:.4f}" if now.valid else ""
    best = f", best {now.best:.4f}" if now.best is not None else ""
    return (
        f"epoch {now.epoch}/{now.epochs}, step {now.step:,}/{now.steps:,}: loss {now.loss:.4f}"
        f"{valid}{best}, {rate:.2f} steps/s, {duration(left)} left"
    )
