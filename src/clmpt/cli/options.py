"""The commands and their options, in the order that the help lists them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields

from clmpt.cli.option_types import (
    add_csv,
    add_device,
    add_folder,
    add_query,
    add_recipe,
    add_settings,
    add_sources,
    add_splits,
    add_trust,
    count,
    whole_number,
)
from clmpt.experiments.recipes import Fitting
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Training

_Adder = Callable[[str, str, str, str], argparse.ArgumentParser]


def _first_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
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
    add_recipe(fit)
    add_device(fit)

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
    ask.add_argument("--limit", type=count, metavar="N", help="how many answers (default: 10)")
    ask.add_argument("--graph", metavar="FOLDER", help="if the graph has moved since training")
    add_trust(ask)
    add_device(ask, "auto")


def _graph_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    read = command(
        "import",
        "graphs:import_graph",
        "read triples from files or a benchmark folder and store them as a graph",
        "clmpt import train=films.tsv test=more.nt --labels names.tsv --out films",
    )
    read.add_argument("--out", required=True, metavar="FOLDER", help="where to store the graph")
    add_sources(read)

    write = command(
        "export",
        "graphs:export",
        "write a graph as TSV or N-Triples",
        "clmpt export films --split train --out train.nt.gz",
    )
    add_folder(write)
    add_splits(write)
    write.add_argument(
        "--out", required=True, metavar="FILE", help="ends in .tsv or .nt, or .gz after that"
    )

    info = command(
        "info",
        "graphs:info",
        "summarise a graph: counts, largest relations, degrees",
        "clmpt info films",
    )
    add_folder(info)
    info.add_argument("--top", type=count, default=10, metavar="N", help="relations to list")


def _asking_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    solve = command(
        "solve",
        "solve:solve_query",
        "answer a question exactly, from the graph's own edges",
        "clmpt solve films 'SELECT ?f { :Mizoguchi :directed ?f }' --limit 5",
    )
    add_folder(solve)
    add_query(solve)
    add_splits(solve)
    add_csv(solve)
    solve.add_argument("--limit", type=count, metavar="N", help="show at most N answers")

    draw = command(
        "draw",
        "solve:draw",
        "draw the query graph of a question or a named shape",
        "clmpt draw pni --svg pni.svg",
    )
    add_query(draw)
    draw.add_argument("--svg", metavar="FILE", help="write a picture instead of text")

    translate = command(
        "translate",
        "solve:translate",
        "translate a question to another query language",
        "clmpt translate '?x : wrote(Orwell, ?x)' --to sparql",
    )
    add_query(translate)
    translate.add_argument("--to", choices=["formula", "dnf", "sparql", "betae"], default="formula")
    translate.add_argument(
        "--graph", metavar="FOLDER", help="resolve names to the ids of this graph"
    )


def _sampling_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    sample = command(
        "sample",
        "queries:sample_queries",
        "sample benchmark queries with all their answers",
        "clmpt sample films --shapes 2p '?y : $r($s, ?x) & $r(?x, ?y)' --count 100 --out q.queries",
    )
    add_folder(sample)
    sample.add_argument(
        "--shapes",
        nargs="+",
        required=True,
        metavar="SHAPE",
        help="a name, NAME=COUNT or a formula",
    )
    sample.add_argument("--count", type=count, default=1000, metavar="N", help="queries per shape")
    sample.add_argument(
        "--seed", type=whole_number, default=0, metavar="S", help="same seed, same queries"
    )
    sample.add_argument(
        "--out", required=True, metavar="FILE", help="ends in .jsonl for JSON lines"
    )
    sample.add_argument(
        "--split", metavar="NAME", help="train, valid or test (default: the first split)"
    )
    sample.add_argument(
        "--max-answers", type=count, metavar="N", help="at most N hard answers per query"
    )
    sample.add_argument("--workers", type=count, metavar="N", help="processes (default: all cores)")


def _stored_query_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    queries = command(
        "queries",
        "queries:queries",
        "summarise a file or folder of answered queries, or convert it",
        "clmpt queries train.queries --graph films --out train.jsonl",
    )
    queries.add_argument(
        "source", metavar="SOURCE", help="a query file, .jsonl or benchmark folder"
    )
    queries.add_argument("--graph", metavar="FOLDER", help="the graph with its ids or names")
    queries.add_argument("--split", default="test", metavar="NAME", help="of a benchmark folder")
    queries.add_argument("--out", metavar="FILE", help="ends in .jsonl for JSON lines")

    for name, run, summary in (
        ("verify", "queries:verify", "recompute every stored answer of a benchmark and compare"),
        ("hardness", "queries:show_hardness", "count the links that hard answers are missing"),
    ):
        found = command(name, run, summary, f"clmpt {name} NELL-betae --split test")
        add_folder(found)
        found.add_argument(
            "--split", metavar="NAME", help="valid or test (default: all with answers)"
        )
        found.add_argument("--graph", metavar="FOLDER", help="the graph, if it is elsewhere")


def _predictor_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    train = command(
        "pretrain",
        "pretrain:pretrain_predictor",
        "train a link predictor on a graph; run it again to resume",
        "clmpt pretrain films --out films-complex --rank 100 --epochs 50",
    )
    add_folder(train)
    train.add_argument("--out", required=True, metavar="CHECKPOINT", help="folder to create")
    add_recipe(train)
    add_settings(train, Pretraining)

    convert = command(
        "convert",
        "pretrain:convert",
        "convert a predictor trained elsewhere: a CQD .pt file, or arrays",
        "clmpt convert complex.pt --graph FB15k-237-betae --out fb-complex",
    )
    convert.add_argument("source", metavar="SOURCE", help="a CQD .pt file, .npz or .safetensors")
    convert.add_argument(
        "--graph", required=True, metavar="FOLDER", help="the graph it was trained on"
    )
    convert.add_argument("--out", required=True, metavar="CHECKPOINT", help="folder to create")
    convert.add_argument(
        "--model", metavar="NAME", help="scoring function of arrays; CQD's is always complex"
    )
    for what in ("entity", "relation"):
        convert.add_argument(
            f"--{what}-names", metavar="FILE", help="row names, one per line (default: graph order)"
        )

    picture = command(
        "curve",
        "pretrain:curve",
        "show training curves of one or more runs, as a table or a picture",
        "clmpt curve films-complex --svg curve.svg",
    )
    picture.add_argument("runs", nargs="+", metavar="RUN", help="made by pretrain or train")
    picture.add_argument("--svg", metavar="FILE", help="write a picture instead of a table")


def _reasoner_commands(command: _Adder, reasoner: str | None) -> None:
    train = command(
        "train",
        "train:train_reasoner",
        "train a reasoner on top of a link predictor; run it again to resume",
        "clmpt train films --predictor films-complex --queries train.queries --out films-clmpt",
    )
    add_folder(train)
    for name, metavar, summary in (
        ("queries", "SOURCE", "queries with answers, made by sample, or a benchmark folder"),
        ("out", "CHECKPOINT", "folder to create"),
    ):
        train.add_argument(f"--{name}", required=True, metavar=metavar, help=summary)
    train.add_argument(
        "--predictor", metavar="CHECKPOINT", help="the link predictor, made by pretrain or convert"
    )
    train.add_argument("--valid", metavar="SOURCE", help="validation queries (default: sampled)")
    train.add_argument(
        "--reasoner",
        default=reasoner,
        metavar="NAME",
        help="clmpt, lmpnn or package.module:Class; each has its own options (default: clmpt)",
    )
    add_trust(train)
    add_recipe(train)
    train.add_argument("--resume", action="store_true", help="fail if there is no run to resume")
    if reasoner:
        taken = {setting.name for setting in fields(Training)} | {a.dest for a in train._actions}
        add_settings(train, REASONERS.find(reasoner).Settings, taken)
    add_settings(train, Training)


def _measuring_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    measure = command(
        "evaluate",
        "evaluate:evaluate_model",
        "evaluate a model: filtered MRR and Hits@k, on links or on queries by shape",
        "clmpt evaluate films-clmpt --queries test.queries --report films-report",
    )
    measure.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="made by train, pretrain or convert; or 'exact'"
    )
    measure.add_argument("--links", action="store_true", help="link prediction, both directions")
    measure.add_argument(
        "--queries",
        metavar="SOURCE",
        help="a query file or folder; a predictor uses beam search",
    )
    measure.add_argument("--shapes", nargs="+", metavar="SHAPE", help="only these shapes")
    measure.add_argument("--report", metavar="FOLDER", help="write Markdown, JSON and a picture")
    measure.add_argument("--graph", metavar="FOLDER", help="if the graph has moved since training")
    measure.add_argument(
        "--split", metavar="NAME", help="(default: valid and test for --links, test for --queries)"
    )
    add_trust(measure)
    add_device(measure, "auto")

    bench = command(
        "bench",
        "bench:bench",
        "measure how fast this machine trains and answers, at two sizes",
        "clmpt bench --sizes M --steps 5",
    )
    bench.add_argument("--reasoner", default="clmpt", metavar="NAME", help="(default: clmpt)")
    bench.add_argument("--sizes", nargs="+", choices=["S", "M"], default=["M", "S"])
    bench.add_argument(
        "--steps", type=count, default=3, metavar="N", help="report the median of N (default: 3)"
    )


def _experiment_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    data = command(
        "data",
        "data:data",
        "download a published benchmark, or copy it from an archive or folder, and check it",
        "clmpt data get nell995 --from KG_data.zip",
    )
    data.add_argument("action", choices=["get"], metavar="get")
    data.add_argument("benchmark", choices=["fb15k", "fb15k-237", "nell995"])
    data.add_argument("--out", metavar="FOLDER", help="folder to create (default: its name)")
    data.add_argument("--from", dest="origin", metavar="PATH", help="an archive or a folder")
    data.add_argument("--url", metavar="URL", help="download the archive from here instead")

    run = command(
        "reproduce",
        "reproduce:reproduce_experiment",
        "run an experiment from a recipe: sample, pre-train, train, evaluate, report",
        "clmpt reproduce recipes/laptop/nell995.toml --data NELL-betae --out nell",
    )
    run.add_argument("recipe", metavar="RECIPE", help="a TOML file of settings")
    run.add_argument("--data", required=True, metavar="FOLDER", help="the benchmark's folder")
    run.add_argument(
        "--out", required=True, metavar="RUN", help="folder; variants in it share stages"
    )
    run.add_argument(
        "--reasoner", metavar="NAME", help="overrides the recipe: clmpt, lmpnn or a dotted path"
    )
    run.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="a setting: training.seed=1"
    )
    run.add_argument("--name", help="in reports (default: the reasoner and what differs)")
    run.add_argument(
        "--plan", action="store_true", help="show what would be done, with an estimate"
    )
    run.add_argument("--workers", type=count, metavar="N", help="processes (default: all cores)")
    add_device(run)

    page = command(
        "report",
        "reproduce:report",
        "compare runs with each other and with published figures, on one page",
        "clmpt report nell --out nell-report",
    )
    page.add_argument(
        "runs", nargs="+", metavar="RUN", help="made by reproduce, or by evaluate --report"
    )
    page.add_argument("--out", metavar="FOLDER", help="write the page, as Markdown and as HTML")


def _help_commands(command: _Adder, reasoner: str | None) -> None:  # noqa: ARG001
    complete = command(
        "completion",
        "completion:completion",
        "print a shell completion script",
        "clmpt completion bash > ~/.local/share/bash-completion/completions/clmpt",
    )
    complete.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])


COMMAND_GROUPS = (
    _first_commands,
    _graph_commands,
    _asking_commands,
    _sampling_commands,
    _stored_query_commands,
    _predictor_commands,
    _reasoner_commands,
    _measuring_commands,
    _experiment_commands,
    _help_commands,
)
