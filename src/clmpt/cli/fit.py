"""fit."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import GRAPH
from clmpt.cli.graphs import read_sources
from clmpt.cli.output import (
    Table,
    command_name,
    counted,
    duration,
    say,
    show_json,
    show_table,
    stages,
    tell,
)
from clmpt.cli.pretrain import memory_named
from clmpt.experiments.fitting import Fitted, begin, divide, fit
from clmpt.experiments.planning import TRAINED_SHAPES, Estimate, Plan, estimate, plan_for
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import split_and_path
from clmpt.graph.splitting import MOST_HIDDEN
from clmpt.settings import Fitting, read_recipe
from clmpt.storage.files import refuse_existing
from clmpt.storage.run_folder import is_finished

_LONG = 12 * 3600.0  # seconds


def fit_graph(options: argparse.Namespace) -> None:
    graph, summary = read_sources(options)
    plan = plan_for(graph, _given(options))
    out = Path(options.out or _folder_for(options.sources[0]))
    if options.plan:
        expected = estimate(graph, plan)
        if options.json:
            show_json({"plan": asdict(plan), "estimate": asdict(expected)})
        else:
            _show_plan(graph, divide(graph, plan.fitting), plan, expected, say)
        return
    if summary.literals:
        tell(f"{counted(summary.literals, 'literal')} left out; --literals keeps them as entities.")
    source = str(split_and_path(options.sources[0])[1].resolve())
    made = fit_and_show(graph, plan, out, source, options.json)
    if options.json:
        show_json(
            {
                "folder": str(out),
                "plan": asdict(plan),
                "report": made.report,
                "hop by hop": made.hop_by_hop,
            }
        )
        return
    show_figures(made)
    say(f"The model lies in {out}. Next: {command_name()} ask {shlex.quote(str(out))}")


def fit_and_show(
    graph: KnowledgeGraph, plan: Plan, out: Path, source: str, as_json: bool = False
) -> Fitted:
    """Fits with bars; a folder that is finished is opened at once."""
    done = is_finished(out)
    if not (out / "run.json").exists():
        refuse_existing(out)
    try:
        begin(graph, out, plan, source)
        if not done:
            write, divided = tell if as_json else say, KnowledgeGraph.open(out / GRAPH)
            _show_plan(graph, divided, plan, estimate(divided, plan), write)
        with memory_named(), stages() as show:
            made = fit(
                graph,
                out,
                plan,
                source,
                lambda now: show(now.name, now.done, now.total, now.line),
            )
    except KeyboardInterrupt:
        if (out / "run.json").exists():
            tell(f"Stopped. The same command goes on from here; '{out}' has all it needs.")
        raise
    if done:
        tell(f"{out} is finished already; this is what it holds.")
    return made


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What the recipe says by table, then what the command line says."""
    tables = read_recipe(options.recipe) if options.recipe else {}
    names = {field.name for field in fields(Fitting)}
    said = {name: vars(options).get(name) for name in names}
    known = {field.name for field in fields(Plan)}
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


def _show_plan(
    graph: KnowledgeGraph,
    divided: KnowledgeGraph,
    plan: Plan,
    expected: Estimate,
    write: Callable[[str], None],
) -> None:
    before, model, after = plan.pretraining, plan.reasoning, plan.training
    counts = (
        (len(graph.entities), "entities"),
        (len(graph.relations), "relations"),
        (graph.index.triples, "facts"),
    )
    steps = f"{after.steps:,} steps" if after.steps else f"{after.epochs:,} epochs"
    took = f"about {duration(expected.seconds)} and {expected.bytes / 2**30:.1f} GB of memory"
    for name, line in (
        ("graph", ", ".join(f"{count:,} {noun}" for count, noun in counts)),
        ("hidden", _hidden(divided, plan)),
        ("predictor", f"{before.model} of rank {before.rank}, at most {before.epochs} epochs"),
        ("questions", f"{plan.fitting.queries:,} of each of {len(TRAINED_SHAPES)} shapes at most"),
        (
            "reasoner",
            f"{model.reasoner}, {counted(model.encoder_layers, 'encoder layer')}, "
            f"{counted(model.heads, 'head')}, feed-forward {model.feed_forward}; "
            f"{steps} of {after.batch} questions",
        ),
        ("estimate", f"{took} on an idle processor"),
    ):
        write(f"{name:<10}{line}")
    if expected.seconds > _LONG:
        write(
            "          That is long. Ctrl-C stops it and the same command goes on; a lower rank or "
            "fewer epochs\n          in a --recipe, or a GPU, make it shorter."
        )


def _hidden(divided: KnowledgeGraph, plan: Plan) -> str:
    """How many facts are kept from training, and why not more."""
    counts = {
        name: len(divided.triples(name))
        for name in ("valid", "test")
        if name in divided.splits and len(divided.triples(name))
    }
    if not counts:
        return "nothing, so nothing will be measured"
    listed = " and ".join(f"{count:,} {name}" for name, count in counts.items())
    wanted = min(plan.fitting.hide * len(divided.triples()), 2 * MOST_HIDDEN)
    few = sum(counts.values()) < 0.9 * wanted - 1
    return listed + ("; more would leave a name without facts" if few else "")


def show_figures(made: Fitted) -> None:
    """Held-out figures by shape, beside those of the predictor alone."""
    if made.report is None or made.hop_by_hop is None:
        say("Nothing was measured: no question could be made that needs a hidden fact.")
        return
    own = str(made.report["model"])
    hops = {shape["shape"]: shape for shape in made.hop_by_hop["shapes"]}
    rows: list[list[object]] = []
    for shape in made.report["shapes"]:
        figures = [shape["mrr"], hops[shape["shape"]]["mrr"]]
        name = shape["shape"] + "*" * bool(shape["notes"])
        rows.append([name, *(f"{100 * value:.1f}" for value in figures), shape["count"]])
    means = [f"{100 * report['mean']:.1f}" for report in (made.report, made.hop_by_hop)]
    rows.append(["mean", *means, sum(shape["count"] for shape in made.report["shapes"])])
    say("\nMRR × 100 on questions that need a hidden fact")
    show_table(Table("", ["shape", own, "hop by hop", "questions"], rows))
    say("hop by hop: the link predictor alone, one edge after the other")
    if any(shape["notes"] for shape in made.report["shapes"]):
        say("*: scored by the paper's convention, as 'some … not' where 'none' was asked")
    if made.report.get("split") == "valid":
        say("There is no split 'test': these facts also chose the weights, and flatter them.")
    if made.report["mean"] < made.hop_by_hop["mean"]:
        say(
            f"{own} is behind its predictor here. More facts help, and so do more steps: "
            "[training] in a --recipe."
        )
