"""fit."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from clmpt.cli.commands.graphs import read_sources
from clmpt.cli.output import (
    TerminalTable,
    command_name,
    counted,
    duration,
    say,
    show_json,
    show_table,
    tell,
    tell_finished,
)
from clmpt.cli.progress_bars import stage_bars
from clmpt.experiments.fit_settings import FitSettings
from clmpt.experiments.fitting import (
    TRAINED_SHAPES,
    Estimate,
    Fitted,
    begin_fit,
    divide,
    estimate,
    fit_in_stages,
    settings_for,
)
from clmpt.experiments.recipes import Fitting, read_recipe
from clmpt.experiments.updating import Previous, changes, previous_fit
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH
from clmpt.graph.readers import split_and_path
from clmpt.graph.splitting import MOST_HIDDEN
from clmpt.registry import REASONERS
from clmpt.storage.files import refuse_existing
from clmpt.storage.run_folder import is_begun
from clmpt.training.tracking import check_tracker

_LONG = 12 * 3600.0  # seconds


def fit_graph(options: argparse.Namespace) -> None:
    graph, summary = read_sources(options)
    out = Path(options.out or _folder_for(options.sources[0]))
    settings = settings_for(graph, out, _given(options))
    if options.plan:
        previous = previous_fit(out, graph)
        divided = divide(graph, settings.fitting, previous)
        expected = estimate(divided, settings, previous)
        if options.json:
            show_json({"plan": settings.as_plain(), "estimate": asdict(expected)})
        else:
            _show_plan(graph, divided, settings, expected, say, previous)
        return
    if summary.literals:
        tell(f"{counted(summary.literals, 'literal')} left out; --literals keeps them as entities.")
    source = str(split_and_path(options.sources[0])[1].resolve())
    made = fit_and_show(graph, settings, out, source, options.json, options.track)
    if options.json:
        show_json(
            {
                "folder": str(out),
                "plan": settings.as_plain(),
                "report": made.report,
                "beam search": made.baseline,
                "parts": dict(made.parts),
                "chosen": made.chosen,
                "previous": str(made.previous) if made.previous else None,
            }
        )
        return
    show_figures(made)
    if made.previous:
        say(f"The model before is kept in {made.previous}.")
    say(f"The model is in {out}. Next: {command_name()} ask {shlex.quote(str(out))}")


def fit_and_show(
    graph: KnowledgeGraph,
    settings: FitSettings,
    out: Path,
    source: str,
    as_json: bool = False,
    track: str = "",
) -> Fitted:
    """Fits with progress bars; a finished folder is opened at once."""
    check_tracker(track)
    if not is_begun(out):
        refuse_existing(out)
    try:
        run, previous = begin_fit(graph, out, settings, source)
        done = run.is_finished and not previous
        if not done:
            write, divided = tell if as_json else say, KnowledgeGraph.open(run.path / GRAPH)
            expected = estimate(divided, settings, previous)
            _show_plan(graph, divided, settings, expected, write, previous)
        with stage_bars() as show:
            made = fit_in_stages(graph, out, settings, source, show, track)
    except KeyboardInterrupt:
        if is_begun(out):
            tell(f"Stopped. Run the same command again to resume '{out}'.")
        raise
    if done:
        tell_finished(out)
    return made


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings by table: the recipe's, overridden by the command line's."""
    tables = read_recipe(options.recipe) if options.recipe else {}
    names = {field.name for field in fields(Fitting)}
    said = {name: vars(options).get(name) for name in names}
    known = {field.name for field in fields(FitSettings)}
    given = {name: dict(table) for name, table in tables.items() if name in known}
    given.setdefault("fitting", {}).update({k: v for k, v in said.items() if v is not None})
    if options.device:
        for table in ("pretraining", "training"):
            given.setdefault(table, {})["device"] = options.device
    return given


def _folder_for(source: str) -> str:
    """
    >>> _folder_for("data/facts.tsv.gz"), _folder_for("train=facts.nt"), _folder_for("graphs/films")
    ('facts-model', 'facts-model', 'films-model')
    """
    name = split_and_path(source)[1].resolve().name.lstrip(".-").split(".")[0]
    return f"{name or 'graph'}-model"


def _changed(previous: Previous, graph: KnowledgeGraph) -> str:
    found = changes(previous.graph, graph)
    parts = [
        f"{count:,} {one if count == 1 else many}"
        for count, one, many in (
            (found.entities, "new entity", "new entities"),
            (found.relations, "new relation", "new relations"),
            (found.facts, "new fact", "new facts"),
            (found.gone, "fact gone", "facts gone"),
        )
        if count
    ]
    return f"of {previous.folder}: {', '.join(parts) or 'other splits'}"


def _show_plan(
    graph: KnowledgeGraph,
    divided: KnowledgeGraph,
    settings: FitSettings,
    expected: Estimate,
    write: Callable[[str], None],
    previous: Previous | None = None,
) -> None:
    if previous:
        settings = previous.shortened(settings)
    before, model, after = settings.pretraining, settings.reasoning, settings.training
    kind = REASONERS.find(model.reasoner)
    counts = (
        (len(graph.entities), "entities"),
        (len(graph.relations), "relations"),
        (graph.index.triples, "facts"),
    )
    steps = f"{after.steps:,} steps" if after.steps else f"{after.epochs:,} epochs"
    stands_on = f"{before.model} of rank {before.rank}, at most {before.epochs} epochs"
    took = f"about {duration(expected.seconds)} and {expected.bytes / 2**30:.1f} GB of memory"
    for name, line in (
        *([("update", _changed(previous, graph))] if previous else []),
        ("graph", ", ".join(f"{count:,} {noun}" for count, noun in counts)),
        ("held out", _held_out(divided, settings)),
        *([("predictor", stands_on)] if kind.needs_predictor else []),
        (
            "queries",
            f"{settings.fitting.queries:,} of each of {len(TRAINED_SHAPES)} shapes at most",
        ),
        (
            "reasoner",
            f"{model.reasoner}, {kind.summary(model.settings)}; {steps} of {after.batch} queries",
        ),
        ("estimate", f"{took} on an idle processor"),
    ):
        write(f"{name:<10}{line}")
    if expected.seconds > _LONG:
        write(
            "          Ctrl-C stops it; the same command resumes it. A lower rank or fewer epochs\n"
            "          in a --recipe, or a GPU, would shorten it."
        )


def _held_out(divided: KnowledgeGraph, settings: FitSettings) -> str:
    """How many facts are held out from training, and why no more."""
    counts = {
        name: len(divided.triples(name))
        for name in ("valid", "test")
        if name in divided.splits and len(divided.triples(name))
    }
    if not counts:
        return "nothing, so nothing will be evaluated"
    listed = " and ".join(f"{count:,} {name}" for name, count in counts.items())
    wanted = min(settings.fitting.hide * len(divided.triples()), 2 * MOST_HIDDEN)
    few = sum(counts.values()) < 0.9 * wanted - 1
    return listed + ("; more would leave a name without facts" if few else "")


def show_figures(made: Fitted) -> None:
    """Figures on held-out facts by shape, next to those of beam search over the predictor alone."""
    if made.report is None:
        say("Nothing was evaluated: no query that needs a held-out fact could be sampled.")
        return
    reports = [made.report, *made.parts.values(), *([made.baseline] if made.baseline else [])]
    by_shape = [{row["shape"]: row["mrr"] for row in report["shapes"]} for report in reports]
    rows: list[list[object]] = []
    for shape in made.report["shapes"]:
        figures = [found[shape["shape"]] for found in by_shape]
        name = shape["shape"] + "*" * bool(shape["notes"])
        rows.append([name, *(f"{100 * value:.1f}" for value in figures), shape["count"]])
    means = [f"{100 * report['mean']:.1f}" for report in reports]
    rows.append(["mean", *means, sum(shape["count"] for shape in made.report["shapes"])])
    say("\nMRR × 100 on queries that need a held-out fact")
    names = [str(report["model"]) for report in reports]
    show_table(TerminalTable("", ["shape", *names, "queries"], rows))
    _explain_figures(made)


def _explain_figures(made: Fitted) -> None:
    report, baseline = made.report, made.baseline
    assert report
    if made.chosen:
        say(f"Questions are answered by {made.chosen}, the best on these; --reasoner names another")
    if baseline:
        say(f"{baseline['model']}: over the link predictor alone, as in CQD-Beam")
    for note in dict.fromkeys(note for shape in report["shapes"] for note in shape["notes"]):
        say(f"*: {note}")
    if report.get("split") == "valid":
        say("No split 'test': the weights were chosen on these facts, so figures are optimistic.")
