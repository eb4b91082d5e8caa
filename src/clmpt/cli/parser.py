"""The commands and their options. `run` names the function that does a command's work."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from difflib import get_close_matches
from typing import Any, NoReturn, get_args, get_type_hints

from clmpt import __version__
from clmpt.settings import Fitting, Model, Pretraining, Reasoning, Training

_DESCRIPTION = """\
Ask knowledge graphs complex questions: and, or, not, some.

  clmpt demo                                        a world to ask
  clmpt fit facts.tsv --out mine                    a model of your own facts
  clmpt ask mine                                    a prompt to ask it at
  clmpt solve facts.tsv '?x : wrote(Orwell, ?x)'    exact answers, without a model
"""


_MODELS = get_args(Model)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            near = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message = f"There is no command '{wrong[1]}'"
            message += f". Did you mean '{near[0]}'?" if near else ""
        stop = "" if message.endswith("?") else "."
        self.exit(2, f"{self.prog}: {message}{stop} See '{self.prog} --help'.\n")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line says; help without any. Options may stand before a question."""
    parser = command_parser()
    if not arguments:
        parser.print_help()
        parser.exit(0)
    options, rest = parser.parse_known_args(arguments)
    if rest and vars(options).get("query", "") is None and not rest[0].startswith("-"):
        options.query = rest.pop(0)  # argparse gives up an optional argument at the first option
    if rest:
        parser.exit(2, f"clmpt: {_unknown(rest[0], options)} See 'clmpt {arguments[0]} --help'.\n")
    if vars(options).get("csv") and options.json:
        parser.exit(2, "clmpt: --json and --csv exclude each other.\n")
    return options


def _unknown(word: str, options: argparse.Namespace) -> str:
    names = [f"--{name.replace('_', '-')}" for name in vars(options)]
    near = get_close_matches(word, names, 1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"There is no place for '{word}' here.{hint}"


def command_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "clmpt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"clmpt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: str, summary: str, example: str) -> argparse.ArgumentParser:
        found = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        found.set_defaults(run=run)
        found.add_argument("--json", action="store_true", help="print one JSON document")
        return found

    _first_commands(command)
    _graph_commands(command)
    _asking_commands(command)
    _benchmark_commands(command)
    _predictor_commands(command)
    _reasoner_commands(command)
    _experiment_commands(command)
    _help_commands(command)
    return parser


_Adder = Callable[[str, str, str, str], argparse.ArgumentParser]


def _first_commands(command: _Adder) -> None:
    demo = command(
        "demo",
        "demo:demo",
        "train on a graph of the world's countries and answer questions, in about a minute",
        "clmpt demo",
    )
    demo.add_argument(
        "--out", default="clmpt-world", metavar="FOLDER", help="where (default: clmpt-world)"
    )
    _device(demo)

    fit = command(
        "fit",
        "fit:fit_graph",
        "make a model that can be asked, from a file in one go; the same command goes on",
        "clmpt fit facts.tsv --out mine",
    )
    _sources(fit)
    fit.add_argument("--out", metavar="FOLDER", help="where to keep it (default: NAME-model)")
    fit.add_argument("--plan", action="store_true", help="only show what it would do and take")
    _settings(fit, Fitting)
    _recipe(fit)
    _device(fit)

    ask = command(
        "ask",
        "ask:ask",
        "answer questions with a trained model: what is known and what is likely",
        "clmpt ask mine '?who : directed(Mizoguchi, ?film) & starred(?who, ?film)'",
    )
    ask.add_argument("checkpoint", metavar="MODEL", help="made by fit, train or pretrain")
    _query(ask, "?", "; without one a prompt opens, or a pipe is read line by line")
    _csv(ask)
    ask.add_argument("--svg", metavar="FILE", help="also write a picture of the answers")
    ask.add_argument("--limit", type=_count, metavar="N", help="how many answers (default: 10)")
    ask.add_argument("--graph", metavar="FOLDER", help="if it is not where it was in training")
    ask.add_argument("--device", default="auto", help="cpu, cuda, … (default: auto)")


def _graph_commands(command: _Adder) -> None:
    read = command(
        "import",
        "graphs:import_graph",
        "read triples from files or a benchmark folder and store them as a graph",
        "clmpt import train=films.tsv test=more.nt --labels names.tsv --out films",
    )
    read.add_argument("--out", required=True, metavar="FOLDER", help="where to store the graph")
    _sources(read)

    write = command(
        "export",
        "graphs:export",
        "write a graph as TSV or N-Triples",
        "clmpt export films --split train --out train.nt.gz",
    )
    _folder(write)
    _split(write)
    write.add_argument("--out", required=True, metavar="FILE", help="ends in .tsv, .nt or with .gz")

    info = command(
        "info",
        "graphs:info",
        "show what a graph holds: counts, its biggest relations, its degrees",
        "clmpt info films",
    )
    _folder(info)
    info.add_argument("--top", type=_count, default=10, metavar="N", help="relations to list")


def _asking_commands(command: _Adder) -> None:
    solve = command(
        "solve",
        "solve:solve_query",
        "answer a question exactly, from the edges that are there",
        "clmpt solve films 'SELECT ?f { :Mizoguchi :directed ?f }' --limit 5",
    )
    _folder(solve)
    _query(solve)
    _split(solve)
    _csv(solve)
    solve.add_argument("--limit", type=_count, metavar="N", help="show at most N answers")

    draw = command(
        "draw",
        "solve:draw",
        "draw the graph of a question, or of a shape by its name",
        "clmpt draw pni --svg pni.svg",
    )
    _query(draw)
    draw.add_argument("--svg", metavar="FILE", help="write a picture instead of text")

    translate = command(
        "translate",
        "solve:translate",
        "print a question in another language",
        "clmpt translate '?x : wrote(Orwell, ?x)' --to sparql",
    )
    _query(translate)
    translate.add_argument("--to", choices=["formula", "dnf", "sparql", "betae"], default="formula")
    translate.add_argument(
        "--graph", metavar="FOLDER", help="resolve names to the ids of this graph"
    )


def _benchmark_commands(command: _Adder) -> None:
    sample = command(
        "sample",
        "queries:sample_queries",
        "make benchmark queries with all their answers",
        "clmpt sample films --shapes 2p '?y : $r($s, ?x) & $r(?x, ?y)' --count 100 --out q.queries",
    )
    _folder(sample)
    sample.add_argument(
        "--shapes",
        nargs="+",
        required=True,
        metavar="SHAPE",
        help="a name, NAME=COUNT or a formula",
    )
    sample.add_argument("--count", type=_count, default=1000, metavar="N", help="queries per shape")
    sample.add_argument(
        "--seed", type=_seed, default=0, metavar="S", help="same seed, same queries"
    )
    sample.add_argument(
        "--out", required=True, metavar="FILE", help="ends in .jsonl for JSON lines"
    )
    sample.add_argument(
        "--split", metavar="NAME", help="train, valid or test (default: the first split)"
    )
    sample.add_argument(
        "--max-answers", type=_count, metavar="N", help="most hard answers a query may have"
    )
    sample.add_argument(
        "--workers", type=_count, metavar="N", help="processes (default: all cores)"
    )

    queries = command(
        "queries",
        "queries:queries",
        "show what a file or folder of answered queries holds, or convert it",
        "clmpt queries train.queries --graph films --out train.jsonl",
    )
    queries.add_argument(
        "source", metavar="SOURCE", help="a query file, .jsonl or benchmark folder"
    )
    queries.add_argument(
        "--graph", metavar="FOLDER", help="the graph that its ids or names belong to"
    )
    queries.add_argument("--split", default="test", metavar="NAME", help="of a benchmark folder")
    queries.add_argument("--out", metavar="FILE", help="ends in .jsonl for JSON lines")

    for name, run, summary in (
        ("verify", "queries:verify", "recompute every stored answer of a benchmark and compare"),
        ("hardness", "queries:show_hardness", "count the links that hard answers are missing"),
    ):
        found = command(name, run, summary, f"clmpt {name} NELL-betae --split test")
        _folder(found)
        found.add_argument(
            "--split", metavar="NAME", help="valid or test (default: all with answers)"
        )
        found.add_argument("--graph", metavar="FOLDER", help="where the triples lie, if elsewhere")


def _predictor_commands(command: _Adder) -> None:
    train = command(
        "pretrain",
        "pretrain:pretrain_predictor",
        "train a link predictor on a graph; the same command goes on with a stopped run",
        "clmpt pretrain films --out films-complex --rank 100 --epochs 50",
    )
    _folder(train)
    train.add_argument("--out", required=True, metavar="CHECKPOINT", help="where to keep it")
    _recipe(train)
    _settings(train, Pretraining)

    convert = command(
        "convert",
        "pretrain:convert",
        "make a checkpoint of a predictor trained elsewhere: CQD's .pt, or arrays",
        "clmpt convert complex.pt --graph FB15k-237-betae --out fb-complex",
    )
    convert.add_argument("source", metavar="SOURCE", help="CQD's file, or .npz or .safetensors")
    convert.add_argument("--graph", required=True, metavar="FOLDER", help="whose names it has")
    convert.add_argument("--out", required=True, metavar="CHECKPOINT", help="where to keep it")
    convert.add_argument("--model", choices=_MODELS, help="of arrays; CQD's is complex")
    for what in ("entity", "relation"):
        convert.add_argument(
            f"--{what}-names", metavar="FILE", help="a name per row (default: the graph's ids)"
        )

    picture = command(
        "curve",
        "pretrain:curve",
        "show how training went, as a table or a picture; several runs in one",
        "clmpt curve films-complex --svg curve.svg",
    )
    picture.add_argument("runs", nargs="+", metavar="RUN", help="made by pretrain or train")
    picture.add_argument("--svg", metavar="FILE", help="write a picture instead of a table")


def _reasoner_commands(command: _Adder) -> None:
    train = command(
        "train",
        "train:train_reasoner",
        "train a reasoner on a predictor; the same command goes on with a stopped run",
        "clmpt train films --predictor films-complex --queries train.queries --out films-clmpt",
    )
    _folder(train)
    for name, metavar, summary in (
        ("predictor", "CHECKPOINT", "what it stands on, made by pretrain or convert"),
        ("queries", "SOURCE", "queries with answers, made by sample, or a benchmark folder"),
        ("out", "CHECKPOINT", "where to keep it"),
    ):
        train.add_argument(f"--{name}", required=True, metavar=metavar, help=summary)
    train.add_argument("--valid", metavar="SOURCE", help="queries to choose by (default: sampled)")
    _recipe(train)
    train.add_argument("--resume", action="store_true", help="refuse to start a new run")
    _settings(train, Reasoning)
    _settings(train, Training)

    measure = command(
        "evaluate",
        "train:evaluate",
        "measure a model: filtered MRR and Hits@k, of links or of queries by shape",
        "clmpt evaluate films-clmpt --queries test.queries --report films-report",
    )
    measure.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="made by train, pretrain or convert; or 'exact'"
    )
    measure.add_argument("--links", action="store_true", help="every fact, from both ends")
    measure.add_argument(
        "--queries", metavar="SOURCE", help="a query file or benchmark folder; a predictor hops"
    )
    measure.add_argument("--shapes", nargs="+", metavar="SHAPE", help="only these")
    measure.add_argument("--report", metavar="FOLDER", help="write Markdown, JSON and a picture")
    measure.add_argument("--graph", metavar="FOLDER", help="if it is not where it was in training")
    measure.add_argument("--split", metavar="NAME", help="default: valid and test; queries: test")
    measure.add_argument("--device", default="auto", help="cpu, cuda, … (default: auto)")

    bench = command(
        "bench",
        "bench:bench",
        "measure how fast this machine trains and answers, at two sizes",
        "clmpt bench --sizes M --steps 5",
    )
    bench.add_argument("--sizes", nargs="+", choices=["S", "M"], default=["M", "S"])
    bench.add_argument(
        "--steps", type=_count, default=3, metavar="N", help="to take the median of (default: 3)"
    )


def _experiment_commands(command: _Adder) -> None:
    data = command(
        "data",
        "data:data",
        "fetch a published benchmark, or take it from a file or folder, and check it",
        "clmpt data get nell995 --from KG_data.zip",
    )
    data.add_argument("action", choices=["get"], metavar="get")
    data.add_argument("benchmark", choices=["fb15k", "fb15k-237", "nell995"])
    data.add_argument("--out", metavar="FOLDER", help="where to put it (default: its own name)")
    data.add_argument("--from", dest="origin", metavar="PATH", help="an archive or a folder")
    data.add_argument("--url", metavar="URL", help="another place to fetch the archive from")

    run = command(
        "reproduce",
        "reproduce:reproduce_experiment",
        "do an experiment from a recipe: sample, pre-train, train, measure, report",
        "clmpt reproduce recipes/laptop/nell995.toml --data NELL-betae --out nell",
    )
    run.add_argument("recipe", metavar="RECIPE", help="a TOML file with its settings")
    run.add_argument("--data", required=True, metavar="FOLDER", help="the benchmark")
    run.add_argument(
        "--out", required=True, metavar="RUN", help="its folder; variants in one share stages"
    )
    run.add_argument("--reasoner", choices=["clmpt", "lmpnn"], help="in place of the recipe's")
    run.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="change a setting, such as training.seed=1",
    )
    run.add_argument("--name", help="what reports call it (default: by what is special)")
    run.add_argument("--plan", action="store_true", help="only show what it would do and take")
    run.add_argument("--workers", type=_count, metavar="N", help="processes that sample")
    _device(run)

    page = command(
        "report",
        "reproduce:report",
        "put runs side by side, beside what was published, on one page",
        "clmpt report nell --out nell-report",
    )
    page.add_argument(
        "runs", nargs="+", metavar="RUN", help="made by reproduce, or a report of evaluate"
    )
    page.add_argument("--out", metavar="FOLDER", help="write the page, as Markdown and as HTML")


def _help_commands(command: _Adder) -> None:
    complete = command(
        "completion",
        "completion:completion",
        "print a script that lets a shell complete commands, options and files",
        "clmpt completion bash > ~/.local/share/bash-completion/completions/clmpt",
    )
    complete.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])


def _settings(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    for setting in fields(kind):
        _setting(parser, setting, get_type_hints(kind)[setting.name])


def _setting(parser: argparse.ArgumentParser, setting: Field[Any], kind: Any) -> None:
    """An option for a setting of its own kind; None where it is not given."""
    option = f"--{setting.name.replace('_', '-')}"
    summary = f"{setting.metadata['help']} (default: {setting.default})"
    if kind is bool:
        parser.add_argument(option, action=argparse.BooleanOptionalAction, help=summary)
    elif choices := get_args(kind):
        parser.add_argument(option, choices=choices, help=summary)
    else:
        convert: Callable[[str], Any] = {int: _seed, float: _number}.get(kind, str)
        metavar = {int: "N", float: "X"}.get(kind, "NAME")
        parser.add_argument(option, type=convert, metavar=metavar, help=summary)


def _sources(parser: argparse.ArgumentParser) -> None:
    """Files of triples and how to read them."""
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file, SPLIT=FILE or a folder"
    )
    parser.add_argument(
        "--labels", action="append", default=[], metavar="FILE", help="name, tab, label"
    )
    parser.add_argument("--delimiter", help="what separates columns (default: found out)")
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="the first row is one"
    )
    parser.add_argument("--columns", metavar="H,R,T", help="which columns to read, counted from 1")
    parser.add_argument("--encoding", default="utf-8-sig", help="of text files (default: UTF-8)")
    parser.add_argument("--literals", action="store_true", help="keep RDF literals as entities")


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="a stored graph or a benchmark folder")


def _query(parser: argparse.ArgumentParser, count: str | None = None, more: str = "") -> None:
    summary = f"formula, SPARQL or BetaE tuple; - reads it{more}"
    parser.add_argument("query", metavar="QUERY", nargs=count, help=summary)
    parser.add_argument("--max-atoms", type=_count, default=64, metavar="N", help="refuse larger")
    parser.add_argument(
        "--max-alternatives",
        type=_count,
        default=128,
        metavar="N",
        help="refuse more 'or' branches",
    )


def _recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe",
        "--settings",
        metavar="FILE",
        help="a TOML file with settings; options go before it",
    )


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="cpu, cuda, …; auto takes what is there (default)")


def _csv(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", action="store_true", help="print the answers as CSV")


def _split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split", metavar="A+B", help="use only these splits (default: all)")


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 on")
    return number


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 on")
    return int(text)
