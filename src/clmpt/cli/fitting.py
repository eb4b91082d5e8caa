"""fit."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from clmpt.cli.graphs import read_sources
from clmpt.cli.output import Table, duration, say, show_json, show_table, stages, tell
from clmpt.cli.predictors import memory_named, recipe_tables
from clmpt.config import Fitting
from clmpt.fitting import (
    TRAINED_SHAPES,
    Estimate,
    Fitted,
    Plan,
    divide,
    estimate,
    fit,
    plan_for,
)
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.storage import refuse_existing


def fit_graph(options: argparse.Namespace) -> None:
    graph, _ = read_sources(options)
    plan = plan_for(graph, _given(options))
    out = Path(options.out or _folder_for(options.sources[0]))
    if options.plan:
        expected = estimate(graph, plan)
        if options.json:
            show_json({"plan": asdict(plan), "estimate": asdict(expected)})
        else:
            _show_plan(graph, plan, expected, say)
        return
    made = fit_and_show(graph, plan, out, str(Path(options.sources[0]).resolve()), options.json)
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
    say(f"The model lies in {out}. Next: clmpt ask {out}")


def fit_and_show(
    graph: KnowledgeGraph, plan: Plan, out: Path, source: str, as_json: bool = False
) -> Fitted:
    """Fits with bars; a folder that is finished is opened at once."""
    done = (out / "finished.json").exists()
    if not (out / "run.json").exists():
        refuse_existing(out)
    if not done:
        _show_plan(graph, plan, estimate(graph, plan), tell if as_json else say)
    try:
        with memory_named(), stages() as show:
            made = fit(
                graph,
                out,
                plan,
                source,
                lambda now: show(now.name, now.done, now.total, now.line),
            )
    except KeyboardInterrupt:
        tell(f"Stopped. The same command goes on from here; '{out}' has all it needs.")
        raise
    if done:
        tell(f"{out} is finished already; this is what it holds.")
    return made


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What the recipe says by table, then what the command line says."""
    tables = recipe_tables(options.recipe)
    names = {field.name for field in fields(Fitting)}
    said = {name: vars(options).get(name) for name in names}
    given = {name: dict(table) for name, table in tables.items()}
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
    return Path(source.partition("=")[2] or source).resolve().name.split(".")[0] + "-model"


def _show_plan(
    graph: KnowledgeGraph, plan: Plan, expected: Estimate, write: Callable[[str], None]
) -> None:
    divided = divide(graph, plan.fitting)
    hidden = [
        f"{divided.view(name).index.triples:,} {name}"
        for name in divided.splits
        if name in ("valid", "test")
    ]
    before, model, after = plan.pretraining, plan.reasoning, plan.training
    facts = f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, "
    steps = f"{after.steps:,} steps" if after.steps else f"{after.epochs:,} epochs"
    for name, line in (
        ("graph", f"{facts}{graph.index.triples:,} facts"),
        ("hidden", " and ".join(hidden) or "nothing, so nothing is measured"),
        ("predictor", f"{before.model} of rank {before.rank}, at most {before.epochs} epochs"),
        ("questions", f"{plan.fitting.queries:,} of each of {len(TRAINED_SHAPES)} shapes at most"),
        (
            "reasoner",
            f"{model.reasoner}, {model.encoder_layers} encoder layers, {model.heads} heads, "
            f"feed-forward {model.feed_forward}; {steps} of {after.batch} questions",
        ),
        (
            "estimate",
            f"about {duration(expected.seconds)} and {expected.bytes / 2**30:.1f} GB of memory",
        ),
    ):
        write(f"{name:<10}{line}")


def show_figures(made: Fitted) -> None:
    """Held-out figures by shape, beside those of the predictor alone."""
    if made.report is None or made.hop_by_hop is None:
        return
    hops = {shape["shape"]: shape for shape in made.hop_by_hop["shapes"]}
    rows: list[list[object]] = []
    for shape in made.report["shapes"]:
        figures = [shape["mrr"], hops[shape["shape"]]["mrr"]]
        name = shape["shape"] + "*" * bool(shape["notes"])
        rows.append([name, *(f"{100 * value:.1f}" for value in figures), shape["count"]])
    means = [f"{100 * report['mean']:.1f}" for report in (made.report, made.hop_by_hop)]
    rows.append(["mean", *means, sum(shape["count"] for shape in made.report["shapes"])])
    headers = ["shape", "CLMPT", "hop by hop", "questions"]
    show_table(Table("MRR × 100 on questions that need a hidden fact", headers, rows))
