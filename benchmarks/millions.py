"""Graphs with many entities: what a step of pre-training takes, and a fit from end to end.

    python benchmarks/millions.py steps [--most 10000000] [--picture FILE.svg]
    python benchmarks/millions.py planted FOLDER [--people 930000]
    python benchmarks/millions.py sampling GRAPH [--asked 1000]

`steps` takes some steps on random facts about 10^4, 10^5, … entities, with all entities scored and
with a sample of them, and steps of CLMPT, with a frozen table and with one of which a step updates
its own rows: time a step, and memory. `planted` makes a graph with planted rules, imports
it, fits a model and asks it with the commands that a user has, and says where held-out facts rank
among all entities; what is finished is not repeated. `sampling` counts queries a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from clmpt.evaluation.link_ranks import link_ranks
from clmpt.graph.edges import build_index
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.names import NameTable
from clmpt.graph.opening import open_graph
from clmpt.graph.splits import train_split
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.pages.charts import Chart, Line, draw_charts
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.predictor import read_pretraining
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.links import Links, answers_in
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import Basis, GradientModel, build_model, read_reasoning
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Training, read_table
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.trainer import Trainer
from planted_graph import RELATIONS, RULES, Planted, best_possible, planted_graph, write_facts

STEPS = 20


def links_among(entities: int, questions: int, relations: int, seed: int = 0) -> Links:
    """Random one-hop questions with one or two answers each."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 3, questions)
    answers = AnswerSets(
        np.concatenate([[0], np.cumsum(counts)]), random.integers(entities, size=counts.sum())
    )
    directed = random.integers(2 * relations, size=questions)
    return Links(random.integers(entities, size=questions), directed, answers)


def pretrainer(entities: int, rank: int, candidates: int) -> Pretrainer:
    given = {"rank": rank, "batch": 1024, "candidates": candidates, "device": "cpu"}
    settings = read_pretraining({**given, "averaging": 0.0})
    return Pretrainer(made_up(entities, rank), links_among(entities, 60_000, 20), settings)


def made_up(entities: int, rank: int) -> ComplEx:
    tables = ComplEx.initial(entities, 40, rank, 1e-3, torch.Generator().manual_seed(0))
    return ComplEx(*tables, torch.arange(20, 40))


def trainer(entities: int, rank: int, frozen: bool) -> Trainer:
    """CLMPT on queries of two hops with random ids."""
    random, queries = np.random.default_rng(0), 20_000
    names = NameTable.of(str(number) for number in range(entities))
    relations = Vocabulary("relation", NameTable.of(map(str, range(20))))
    facts = random.integers((entities, 20, entities), size=(1000, 3)).astype(np.int32)
    index = build_index(entities, 20, [facts])
    graph = KnowledgeGraph(Vocabulary("entity", names), relations, index)
    anchors, answers = random.integers(entities, size=(2, queries))
    asked = QueryGroup(
        *("2p", shape("2p"), anchors[:, None].astype(np.int32)),
        random.integers(20, size=(queries, 2)).astype(np.int32),
        AnswerSets(np.arange(queries + 1), answers),
        AnswerSets(np.zeros(queries + 1, np.int64), answers[:0]),
    )
    table = {"heads": 4, "feed_forward": 512, "frozen": frozen}
    model = build_model(Basis(graph, made_up(entities, rank)), read_reasoning(table), 0)
    chosen = read_table(Training, {"batch": 512, "entity_rows": "step", "device": "cpu"})
    assert isinstance(model, GradientModel)
    return Trainer(model, [asked], chosen)


def measure_steps(name: str, learner: Pretrainer | Trainer, entities: int, rank: int) -> None:
    """Prints the time of a step and the memory of the process, for one size."""
    learner.step()
    started = time.perf_counter()
    for _ in range(STEPS):
        learner.step()
    seconds = (time.perf_counter() - started) / STEPS
    table = 8 * entities * rank / 2**20
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<28} {entities:>12,} {1000 * seconds:9.1f} {table:10,.0f} {memory:10,.0f}",
          flush=True)  # fmt: skip


def steps(options: argparse.Namespace) -> None:
    print(f"{'':<28} {'entities':>12} {'ms a step':>9} {'table, MB':>10} {'memory, MB':>10}")
    times, beside_table = [], []
    for name, (largest, _) in STEPS_OF.items():
        points = []
        size = 10_000
        while size <= min(largest, options.most):
            words = ["one", "--name", name, "--entities", str(size), "--rank", str(options.rank)]
            asked = [sys.executable, __file__, *words]
            said = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout
            print(said, end="", flush=True)
            points.append(
                (math.log10(size), *(float(x.replace(",", "")) for x in said.split()[-3:]))
            )
            size *= 10
        times.append(Line(name, [(size, ms) for size, ms, *_ in points]))
        beside_table.append(Line(name, [(size, most - table) for size, _, table, most in points]))
    if options.picture:
        axis = "entities, as a power of ten"
        charts = [
            Chart("milliseconds a step", axis, times),
            Chart("memory beside the table, MB", axis, beside_table),
        ]
        Path(options.picture).write_text(draw_charts(charts), encoding="utf-8")


def one(options: argparse.Namespace) -> None:
    learner = STEPS_OF[options.name][1](options.entities, options.rank)
    measure_steps(options.name, learner, options.entities, options.rank)


# What is measured, and up to how many entities: the full softmax by time, the last by memory.
STEPS_OF: dict[str, tuple[int, Callable[[int, int], Pretrainer | Trainer]]] = {
    "pretrain, all entities": (100_000, partial(pretrainer, candidates=0)),
    "pretrain, K = 1,024": (10_000_000, partial(pretrainer, candidates=1024)),
    "train, frozen table": (10_000_000, partial(trainer, frozen=True)),
    "train, rows of a step": (1_000_000, partial(trainer, frozen=False)),
}


# --- planted rules, end to end --------------------------------------------------------------------


def planted(options: argparse.Namespace) -> None:
    """Import, fit and ask as a user would; what is finished is not repeated."""
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = planted_graph(options.people)
    print(f"{made.entities:,} entities, {len(made.facts_F3):,} facts, "
          f"{made.hidden_F.sum():,} held out", flush=True)  # fmt: skip
    for name, wanted_F in (("facts.tsv", ~made.hidden_F), ("held-out.tsv", made.hidden_F)):
        if not (folder / name).exists():
            write_facts(folder / name, made.facts_F3[wanted_F], made.names())
    recipe = ["--recipe", options.recipe] if options.recipe else []
    graph, model = str(folder / "graph"), str(folder / "model")
    _command(folder, "import", ["import", str(folder / "facts.tsv"), "--out", graph])
    _command(folder, "plan", ["fit", graph, "--out", model, "--plan", *recipe])
    _command(folder, "fit", ["fit", graph, "--out", model, *recipe])
    for number, question in enumerate(questions(made)):
        _command(folder, f"ask {number + 1}", ["ask", model, question, "--limit", "3"])
    print(f"\n{'rule':<12} {'MRR':>7} {'first':>7} {'best':>7} {'× chance':>10}  follows by")
    chance = (np.log(made.entities) + np.euler_gamma) / made.entities
    for rule, ranks in rule_ranks(made, Path(model), options.asked).items():
        mrr, first = float(np.mean(1 / ranks)), float(np.mean(ranks <= 1))
        print(f"{rule:<12} {mrr:7.3f} {first:7.1%} {best_possible(made, rule):7.3f} "
              f"{mrr / chance:10,.0f}  {RULES[rule]}", flush=True)  # fmt: skip


def questions(made: Planted) -> list[str]:
    """What `ask` is asked: held-out facts, alone and as a step on a path."""
    names, rows = made.names(), made.facts_F3[made.hidden_F]

    def head(relation: str) -> str:
        return str(names[rows[rows[:, 1] == RELATIONS.index(relation)][0, 0]])

    return [
        f"?x : citizen_of({head('citizen_of')}, ?x)",
        f"?x : member_of({head('member_of')}, ?x)",
        f"?x : works_for({head('works_for')}, ?y) & seat_in(?y, ?z) & located_in(?z, ?x)",
        f"?x : married_to({head('married_to')}, ?y) & citizen_of(?y, ?x)",
    ]


def _command(folder: Path, name: str, arguments: list[str]) -> None:
    """Runs a command with its output in a file, and notes time and peak memory, children's too."""
    notes = folder / f"{name.replace(' ', '-')}.json"
    if not notes.exists():
        started, most = time.perf_counter(), 0
        with (folder / f"{name.replace(' ', '-')}.txt").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "clmpt", *arguments], stdout=output, stderr=output
            )
            while process.poll() is None:
                most = max(most, resident(process.pid))
                time.sleep(0.5)
        if process.returncode:
            raise SystemExit(f"clmpt {arguments[0]} failed: see {output.name}")
        notes.write_text(
            json.dumps({"minutes": (time.perf_counter() - started) / 60, "GB": most / 2**30})
        )
    found = json.loads(notes.read_text())
    print(f"{name:<12} {found['minutes']:7.2f} minutes {found['GB']:7.2f} GB", flush=True)


def rule_ranks(made: Planted, model: Path, asked: int) -> dict[str, np.ndarray]:
    """The filtered ranks of some held-out tails of each rule, by the model's predictor."""
    graph = KnowledgeGraph.open(model / "graph")
    predictor = open_predictor(model / "predictor").predictor
    known_F3, found = made.facts_F3, {}
    id_of = graph.entities.names.ids_of(made.names().tolist())
    relation_of = graph.relations.names.ids_of(list(RELATIONS))
    index = build_index(
        len(graph.entities),
        len(RELATIONS),
        [np.stack([id_of[known_F3[:, 0]], relation_of[known_F3[:, 1]], id_of[known_F3[:, 2]]], 1)],
    )
    for rule in RULES:
        hidden = known_F3[made.hidden_F & (known_F3[:, 1] == RELATIONS.index(rule))]
        rows = hidden[np.random.default_rng(1).permutation(len(hidden))[:asked]]
        relation = np.full(len(rows), relation_of[RELATIONS.index(rule)], np.int64)
        single = AnswerSets(np.arange(len(rows) + 1), id_of[rows[:, 2]])
        links = Links(id_of[rows[:, 0]].astype(np.int64), relation, single)
        found[rule] = link_ranks(predictor, links, answers_in(index, links))
    return found


def sampling(options: argparse.Namespace) -> None:
    """Queries a minute over the benchmark shapes, in one process."""
    graph = open_graph(options.folder)
    split = train_split(graph)
    assert len(graph.view(split).index.codes)  # what a first query would wait for
    seconds, total = 0.0, 0
    for name in (*EPFO, *NEGATION):
        started = time.perf_counter()
        protocol = Protocol((split,), (split,), max_bindings=options.max_bindings)
        found = sample(shape(name), graph, protocol, options.asked, 0)
        seconds += time.perf_counter() - started
        total += len(found)
        print(f"{name:<4} {len(found):7,} in {time.perf_counter() - started:6.1f} s", flush=True)
    print(f"{60 * total / seconds:,.0f} queries a minute")


def resident(process: int) -> int:
    """Resident bytes of a process and its children; pages that they share count once."""
    try:
        sums = Path(f"/proc/{process}/smaps_rollup").read_text()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    own = next(int(line.split()[1]) for line in sums.splitlines() if line.startswith("Pss:"))
    return 1024 * own + sum(resident(int(child)) for child in children)


def main() -> None:
    parser = argparse.ArgumentParser()
    kinds = parser.add_subparsers(required=True)
    for name, run in (("steps", steps), ("one", one), ("planted", planted), ("sampling", sampling)):
        kind = kinds.add_parser(name)
        kind.set_defaults(run=run)
        if name in ("planted", "sampling"):
            kind.add_argument("folder")
        kind.add_argument("--rank", type=int, default=64)
        kind.add_argument("--most", type=int, default=10_000_000)
        kind.add_argument("--picture", help="of the steps, as SVG")
        kind.add_argument("--entities", type=int, default=10_000)
        kind.add_argument("--name")
        kind.add_argument("--people", type=int, default=930_000)
        asked = 5000 if name == "sampling" else 1000
        kind.add_argument("--asked", type=int, default=asked)
        kind.add_argument("--max-bindings", type=int, default=20_000)
        kind.add_argument("--recipe")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
