"""pretrain, convert, curve."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from clmpt.cli.following import given_on_command_line, recipe_tables, run_to_the_end
from clmpt.cli.output import (
    TerminalTable,
    clean,
    say,
    show_json,
    show_table,
    tell,
    told_if_repeated,
    write_once,
)
from clmpt.errors import DataError, SettingError
from clmpt.experiments.single_runs import begin_pretraining, chosen_pretraining
from clmpt.graph.opening import open_graph
from clmpt.pages.charts import Chart, draw_charts
from clmpt.pages.curves import training_charts, valid_mrr
from clmpt.predictors.imports import predictor_from_arrays, predictor_from_cqd
from clmpt.predictors.predictor_folder import about_predictor, save_predictor
from clmpt.registry import PREDICTORS
from clmpt.settings import Pretraining
from clmpt.storage.run_folder import read_log


def pretrain_predictor(options: argparse.Namespace) -> None:
    tables = recipe_tables(options, "pretraining")
    given = given_on_command_line(options, Pretraining)
    settings = chosen_pretraining(tables, given)
    graph = open_graph(options.folder)
    if "valid" not in graph.splits:
        tell("The graph has no split 'valid': training runs for all epochs and keeps the last.")
    source = str(Path(options.folder).resolve())
    if settings.compile and not shutil.which(os.environ.get("CXX", "g++")):
        raise SettingError("No C++ compiler was found, which torch.compile needs. Leave it out.")
    measured = any(name in graph.splits for name in ("valid", "test"))
    split = "" if measured else f" --split {graph.splits[0]}"
    run_to_the_end(
        begin_pretraining(graph, options.out, settings, source, options.start_from),
        Path(options.out),
        about_predictor,
        f"clmpt evaluate {options.out} --links{split}",
        options.json,
        options.track,
    )


def convert(options: argparse.Namespace) -> None:
    source = Path(options.source)
    graph = open_graph(options.graph)
    named = options.entity_names or options.relation_names
    if source.suffix in (".npz", ".safetensors"):
        if options.model is None:
            raise SettingError("Name the scoring function of the arrays: --model NAME")
        predictor = predictor_from_arrays(
            options.model,
            source,
            graph,
            _names(options.entity_names),
            _names(options.relation_names),
        )
    elif named or options.model not in (None, "complex"):
        raise SettingError(
            "A CQD checkpoint is always ComplEx, with rows in the order of the graph's ids."
        )
    else:
        predictor = predictor_from_cqd(source, graph)
    about = {"converted_from": source.name, "graph": {"fingerprint": graph.fingerprint}}
    with told_if_repeated(Path(options.out)):
        save_predictor(options.out, predictor, graph, about)
    rank = predictor.entities_ED.shape[1] // predictor.width(1)
    name = PREDICTORS.name_of(type(predictor))
    summary = {"model": name, "rank": rank, "entities": len(graph.entities)}
    if options.json:
        show_json({"checkpoint": options.out, **summary})
    else:
        say(f"{options.out}: {name} of rank {rank}, {len(graph.entities):,} entities")
        say(f"Next: clmpt evaluate {options.out} --links --graph {options.graph}")


def _names(path: str | None) -> list[str] | None:
    """One name per line."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{path}' cannot be read: {error}.") from None


def curve(options: argparse.Namespace) -> None:
    runs = {folder: read_log(folder) for folder in options.runs}
    if options.svg:
        write_once(Path(options.svg), draw_charts(_charts(runs)))
        return
    rows = [
        {"run": name, **record, "valid MRR": valid_mrr(record)}
        for name, log in runs.items()
        for record in log
    ]
    if options.json:
        show_json(rows)
        return
    headers = ["run", "epoch", "loss", "valid MRR", "learning_rate", "seconds"]
    table = [[_short(row.get(header)) for header in headers] for row in rows]
    show_table(TerminalTable("Training", [header.replace("_", " ") for header in headers], table))


def _charts(runs: dict[str, list[dict[str, Any]]]) -> list[Chart]:
    named = {clean(name): log for name, log in runs.items()}
    return training_charts(named, "epoch", lambda record: record.get("epoch"))


def _short(value: object) -> object:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else value
