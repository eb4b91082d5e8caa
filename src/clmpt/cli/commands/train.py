"""train."""

from __future__ import annotations

import argparse
from pathlib import Path

from clmpt.answering.model_folder import weights_in
from clmpt.cli.following import given_on_command_line, recipe_tables, run_to_the_end
from clmpt.cli.output import tell
from clmpt.errors import DataError
from clmpt.experiments.recipes import with_reasoner
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import has_facts
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.sources import open_queries
from clmpt.reasoners.model import read_reasoning
from clmpt.reasoners.reasoner_folder import about_reasoner, open_weights
from clmpt.registry import REASONERS
from clmpt.settings import Training, read_table
from clmpt.storage.run_folder import is_begun
from clmpt.training.runs import train


def train_reasoner(options: argparse.Namespace) -> None:
    tables = recipe_tables(options, "training", "reasoning")
    kind = REASONERS.find(options.reasoner)
    given = given_on_command_line(options, Training)
    own = given_on_command_line(options, kind.Settings)
    own = {name: value for name, value in own.items() if name not in given}
    reasoning = read_reasoning(
        {**with_reasoner(tables.get("reasoning", {}), options.reasoner), **own}
    )
    settings = read_table(Training, {**tables.get("training", {}), **given})
    out = Path(options.out)
    if options.resume and not is_begun(out):
        raise DataError(f"There is no run in '{out}' to resume.")
    graph, predictor = open_graph(options.folder), None
    if options.predictor:
        stored = open_predictor(options.predictor, trust=options.trust)
        stored.names.check_graph(graph)
        predictor = stored.predictor
    queries = open_queries(Path(options.queries), graph, "train")
    valid = open_queries(Path(options.valid), graph, "valid") if options.valid else None
    if valid is None and not (has_facts(graph, "valid") and has_facts(graph, "train")):
        tell("There are no facts in 'valid': training runs all steps and keeps the last weights.")
    source = str(Path(options.folder).resolve())
    start = None
    if options.start_from:
        start = open_weights(weights_in(options.start_from), options.trust)
    steps = train(graph, predictor, queries, reasoning, settings, out, source, valid, start=start)
    hint = f"clmpt ask {out} 'QUESTION', or clmpt evaluate {out} --queries SOURCE"
    run_to_the_end(steps, out, about_reasoner, hint, options.json)
