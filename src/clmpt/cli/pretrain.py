"""pretrain, convert, curve."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from clmpt.cli.output import Table, clean, duration, progress, say, show_json, show_table, tell
from clmpt.errors import DataError, SettingError
from clmpt.graph.benchmark_folders import open_graph
from clmpt.pages.charts import Chart, draw_charts
from clmpt.pages.curves import training_charts, valid_mrr
from clmpt.predictors.imports import predictor_from_arrays, predictor_from_cqd
from clmpt.settings import Pretraining, pretraining, read_recipe
from clmpt.storage.files import new_file, open_json, refuse_existing
from clmpt.storage.run_folder import read_log
from clmpt.training.checkpoint import save_checkpoint
from clmpt.training.runs import Progress, pretrain

_REPORT_SECONDS = 30.0  # how often a run without a terminal says how far it is


def pretrain_predictor(options: argparse.Namespace) -> None:
    settings = pretraining(given_settings(options, Pretraining, "pretraining"))
    graph = open_graph(options.folder)
    if "valid" not in graph.splits:
        tell("The graph has no split 'valid': all epochs are trained and the last one is kept.")
    source = str(Path(options.folder).resolve())
    if settings.compile and not shutil.which(os.environ.get("CXX", "g++")):
        raise SettingError("torch.compile needs a C++ compiler, and there is none. Leave it out.")
    measured = any(name in graph.splits for name in ("valid", "test"))
    split = "" if measured else f" --split {graph.splits[0]}"
    run_to_the_end(
        pretrain(graph, settings, options.out, source),
        Path(options.out) / "predictor.json",
        f"clmpt evaluate {options.out} --links{split}",
        options.json,
    )


def run_to_the_end(steps: Iterator[Progress], about_file: Path, hint: str, as_json: bool) -> None:
    """Follows a run, then says what its folder holds and what to do next."""
    out = about_file.parent
    try:
        with memory_named():
            follow(steps)
    except KeyboardInterrupt:
        tell(f"Stopped. The same command goes on from here; '{out}' has all it needs.")
        raise
    about = open_json(about_file)
    if as_json:
        show_json(about)
        return
    took = duration(open_json(out / "finished.json")["seconds"])
    valid = f"validation MRR {about['valid']['mrr']:.4f} at " if about["valid"] else ""
    say(f"{out}: {valid}epoch {about['epoch']}, in {took}")
    say(f"Next: {hint}")


def given_settings(
    options: argparse.Namespace, kind: type, table: str, *also: str
) -> dict[str, Any]:
    """What a recipe's table says, then what the command line says.

    A recipe may have tables for other commands; this one needs `table`, or one of `also`.
    """
    tables = read_recipe(options.recipe) if options.recipe else {}
    if options.recipe and not {table, *also} & set(tables):
        raise SettingError(f"'{options.recipe}' has no table [{table}].")
    names = {field.name for field in fields(kind)}
    said = {k: v for k, v in vars(options).items() if k in names and v is not None}
    return {**tables.get(table, {}), **said}


def follow(steps: Iterator[Progress]) -> None:
    """Follows a run with a bar on a terminal, or a line now and then elsewhere."""
    told = time.perf_counter()
    with progress(None) as show:
        for now in steps:
            show(_line(now), now.step)
            if now.valid or time.perf_counter() - told > _REPORT_SECONDS:
                tell(_line(now))
                told = time.perf_counter()


@contextmanager
def memory_named() -> Iterator[None]:
    """PyTorch says that memory has run out by an error of no particular kind."""
    try:
        yield
    except RuntimeError as error:
        if re.search("out of memory|allocate memory|enough memory", str(error)):
            raise MemoryError from None
        raise


def _line(now: Progress) -> str:
    rate = now.step / now.seconds if now.seconds else 0.0
    left = (now.steps - now.step) / rate if rate else 0.0
    valid = f", valid MRR {now.valid.mrr:.4f}" if now.valid else ""
    best = f", best {now.best:.4f}" if now.best is not None else ""
    return (
        f"epoch {now.epoch}/{now.epochs}, step {now.step:,}/{now.steps:,}: loss {now.loss:.4f}"
        f"{valid}{best}, {rate:.2f} steps/s, {duration(left)} left"
    )


def convert(options: argparse.Namespace) -> None:
    source = Path(options.source)
    graph = open_graph(options.graph)
    named = options.entity_names or options.relation_names
    if source.suffix in (".npz", ".safetensors"):
        if options.model is None:
            raise SettingError("Say which model the arrays are of: --model NAME")
        predictor = predictor_from_arrays(
            options.model,
            source,
            graph,
            _names(options.entity_names),
            _names(options.relation_names),
        )
    elif named or options.model not in (None, "complex"):
        raise SettingError(
            "A checkpoint of CQD is always ComplEx, in the order of the graph's ids."
        )
    else:
        predictor = predictor_from_cqd(source, graph)
    about = {"converted_from": source.name, "graph": {"fingerprint": graph.fingerprint}}
    save_checkpoint(options.out, predictor, graph, about)
    rank = predictor.relations_SW.shape[1] // (2 if predictor.name == "complex" else 1)
    summary = {"model": predictor.name, "rank": rank, "entities": len(graph.entities)}
    if options.json:
        show_json({"checkpoint": options.out, **summary})
    else:
        say(f"{options.out}: {predictor.name} of rank {rank}, {len(graph.entities):,} entities")
        say(f"Next: clmpt evaluate {options.out} --links --graph {options.graph}")


def _names(path: str | None) -> list[str] | None:
    """One name a line."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"'{path}' cannot be read: {error}.") from None


def curve(options: argparse.Namespace) -> None:
    runs = {folder: read_log(folder) for folder in options.runs}
    if options.svg:
        out = Path(options.svg)
        refuse_existing(out)
        with new_file(out) as scratch:
            scratch.write_text(draw_charts(_charts(runs)), encoding="utf-8")
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
    show_table(Table("Training", [header.replace("_", " ") for header in headers], table))


def _charts(runs: dict[str, list[dict[str, Any]]]) -> list[Chart]:
    named = {clean(name): log for name, log in runs.items()}
    return training_charts(named, "epoch", lambda record: record.get("epoch"))


def _short(value: object) -> object:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else value
