"""train."""

from __future__ import annotations

import argparse
from pathlib import Path

from clmpt.cli.following import given_on_command_line, recipe_tables, run_to_the_end
from clmpt.cli.output import tell
from clmpt.errors import DataError
from clmpt.experiments.single_runs import Steps, begin_training, chosen_training
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import has_facts
from clmpt.reasoners.reasoner_folder import about_reasoner
from clmpt.registry import REASONERS
from clmpt.settings import Training
from clmpt.storage.run_folder import is_begun


def train_reasoner(options: argparse.Namespace) -> None:
    tables = recipe_tables(options, "training", "reasoning")
    kind = REASONERS.find(options.reasoner)
    given = given_on_command_line(options, Training) | given_on_command_line(options, kind.Settings)
    chosen = chosen_training(tables, options.reasoner, given)
    out = Path(options.out)
    if options.resume and not is_begun(out):
        raise DataError(f"There is no run in '{out}' to resume.")
    graph, source = open_graph(options.folder), str(Path(options.folder).resolve())
    steps = begin_training(
        *(graph, options.queries, out, chosen, source, options.predictor, options.valid),
        *(options.start_from, options.trust),
    )
    if not options.valid and not (has_facts(graph, "valid") and has_facts(graph, "train")):
        note = "There are no facts in 'valid': training runs all steps and keeps the last weights."
        steps = _noted(steps, note)
    hint = f"clmpt ask {out} 'QUESTION', or clmpt evaluate {out} --queries SOURCE"
    run_to_the_end(steps, out, about_reasoner, hint, options.json, options.track)


def _noted(steps: Steps, note: str) -> Steps:
    """The steps of a run, with a note once it has begun: what is refused gets none."""
    first = next(steps, None)
    tell(note)
    if first is not None:
        yield first
        yield from steps
