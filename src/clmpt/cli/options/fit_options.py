"""The options of demo, fit, ask."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_csv,
    add_device,
    add_limits,
    add_processes,
    add_query,
    add_recipe,
    add_settings,
    add_sources,
    add_track,
    add_trust,
    count,
    share,
)
from clmpt.experiments.recipes import Fitting


def first_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    demo = command(
        "demo",
        "demo:demo",
        "train on a graph of the world's countries and answer questions, in about a minute",
        "clmpt demo",
    )
    demo.add_argument(
        "--out", default="clmpt-world", metavar="FOLDER", help="its folder (default: clmpt-world)"
    )
    add_device(demo)

    fit = command(
        "fit",
        "fit:fit_graph",
        "train a model on a file of facts in one go; run it again to resume",
        "clmpt fit facts.tsv --out mine",
    )
    add_sources(fit)
    fit.add_argument("--out", metavar="FOLDER", help="the model's folder (default: NAME-model)")
    fit.add_argument(
        "--plan", action="store_true", help="show what would be done, with an estimate"
    )
    add_settings(fit, Fitting)
    add_processes(fit)
    add_recipe(fit)
    add_track(fit)
    add_device(fit)

    _ask_options(command)


def _ask_options(command: AddCommand) -> None:
    ask = command(
        "ask",
        "ask:ask",
        "answer questions with a trained model: known and predicted answers",
        "clmpt ask mine '?who : directed(Mizoguchi, ?film) & starred(?who, ?film)'",
    )
    ask.add_argument("folder", metavar="MODEL", help="made by fit, train or pretrain")
    add_query(ask, "?", "; without one: a prompt, or one per line if piped")
    add_csv(ask)
    ask.add_argument("--svg", metavar="FILE", help="also write a picture of the answers")
    ask.add_argument(
        *("--explain",),
        type=count,
        nargs="?",
        const=1,
        metavar="N",
        help="show why: up to N derivations of each answer (default: 1); with --svg, draw them",
    )
    ask.add_argument(
        "--at-least", type=share, default=0.0, metavar="P", help="only answers this likely: 0.5"
    )
    ask.add_argument("--only", choices=["known", "predicted"], help="leave the others out")
    ask.add_argument(
        "--refuted", action="store_true", help="list what a known fact refutes, after all others"
    )
    ask.add_argument(
        "--reasoner",
        metavar="NAME",
        help="one that the model has: hybrid, clmpt, truth-values, beam-search (default: the best)",
    )
    ask.add_argument("--limit", type=count, metavar="N", help="how many answers (default: 10)")
    add_limits(ask)
    ask.add_argument("--graph", metavar="FOLDER", help="if the graph has moved since training")
    add_trust(ask)
    add_device(ask, "auto")
