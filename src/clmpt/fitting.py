"""From a graph to a model that can be asked: hide facts, pre-train, sample, train, measure.

Everything happens in one folder, stage by stage. A stage that is done is not done again, and one
that was cut off goes on where it was, so the same call always leads to the same folder.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clmpt.answering import GRAPH, REASONER, Answerer
from clmpt.bench import matrix_peak
from clmpt.config import (
    Fitting,
    Pretraining,
    Reasoning,
    Training,
    fitting,
    pretraining,
    reasoning,
    training,
)
from clmpt.errors import DataError, SettingError
from clmpt.experiment import Progress, has_facts, pretrain, train
from clmpt.graph.benchmarks import FULL, OBSERVED, train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.links import links_of
from clmpt.graph.query_store import QuerySet
from clmpt.graph.splitting import hold_out
from clmpt.graph.storage import open_json
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.neural.checkpoint import open_checkpoint
from clmpt.neural.devices import find_device
from clmpt.neural.reasoners.hop_by_hop import HopByHop
from clmpt.report import evaluate
from clmpt.run_folder import RunFolder
from clmpt.symbolic.making import make_queries, partial_folder
from clmpt.symbolic.sampling import Protocol

PREDICTOR = "predictor"
TRAIN_QUERIES = "train.queries"
TEST_QUERIES = "test.queries"
REPORT = "report"
HOP_REPORT = "report-hop-by-hop"
TRAINED_SHAPES = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "up", "2in", "3in", "inp", "pin", "pni")
_MOST_HARD = 100  # answers of a test query, as in BetaE's


@dataclass(frozen=True)
class Plan:
    """What `fit` does with a graph."""

    fitting: Fitting
    pretraining: Pretraining
    reasoning: Reasoning
    training: Training


@dataclass(frozen=True)
class Estimate:
    """What a fit takes, roughly: its operations, and how fast this machine does such."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Stage:
    """How far a fit is: the stage's name, how much of it is done, and a line about it."""

    name: str
    done: int
    total: int
    line: str = ""


@dataclass(frozen=True)
class Fitted:
    """What a fit has made. Without hidden facts there is nothing to measure by, and no reports."""

    folder: Path
    report: dict[str, Any] | None
    hop_by_hop: dict[str, Any] | None  # the same of the predictor alone

    def answerer(self, device: str = "auto") -> Answerer:
        return Answerer.open(self.folder, device=device)


_SMALL_REASONING = {"encoder_layers": 1, "heads": 4, "norm": "post"}
_SMALL_TRAINING = {
    "learning_rate": 2e-3,
    "decay": "cosine",
    "clip": 1.0,
    "temperature": 0.1,
    "negatives": "all",
}
_LARGE_TRAINING = {"batch": 512, "learning_rate": 3e-4, "warm_up": 30}

# How a graph's number of entities decides: up to so many of them, these settings.
_BY_SIZE: tuple[tuple[float, dict[str, Any]], ...] = (
    (
        200,
        {
            "queries": 500,
            "pretraining": {"rank": 32, "epochs": 60, "batch": 64},
            "reasoning": {**_SMALL_REASONING, "feed_forward": 128},
            "training": {**_SMALL_TRAINING, "steps": 150, "batch": 128, "validate_every": 50},
        },
    ),
    (
        5_000,
        {
            "queries": 5_000,
            "pretraining": {"rank": 64, "epochs": 60, "batch": 256, "patience": 10},
            "reasoning": {**_SMALL_REASONING, "feed_forward": 512},
            "training": {**_SMALL_TRAINING, "steps": 600, "batch": 256, "validate_every": 150},
        },
    ),
    (
        50_000,
        {
            "queries": 20_000,
            "pretraining": {"rank": 200, "epochs": 10},
            "reasoning": {"encoder_layers": 1, "feed_forward": 1024},
            "training": {**_LARGE_TRAINING, "steps": 1500, "validate_every": 250},
        },
    ),
    (
        math.inf,
        {
            "queries": 20_000,
            "pretraining": {"rank": 64, "epochs": 10},
            "reasoning": {"encoder_layers": 1, "feed_forward": 512, "frozen": True},
            "training": {**_LARGE_TRAINING, "steps": 2000, "validate_every": 500},
        },
    ),
)


def plan_for(graph: KnowledgeGraph, given: Mapping[str, Mapping[str, Any]] | None = None) -> Plan:
    """Settings by the size of the graph; what is `given`, by table, goes before them.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b")])
    >>> plan_for(graph, {"pretraining": {"rank": 8}}).pretraining.rank
    8
    """
    by_size = next(tables for most, tables in _BY_SIZE if len(graph.entities) <= most)
    makers = {
        "fitting": fitting,
        "pretraining": pretraining,
        "reasoning": reasoning,
        "training": training,
    }
    for name in given or {}:
        if name not in makers:
            raise SettingError(f"There is no table '{name}'. There are: {', '.join(makers)}.")

    def settings(table: str) -> dict[str, Any]:
        return {**by_size.get(table, {}), **(given or {}).get(table, {})}

    chosen = fitting(settings("fitting"))
    chosen = replace(chosen, queries=chosen.queries or by_size["queries"])
    seeded = {"seed": chosen.seed}
    return Plan(
        chosen,
        pretraining({**seeded, **settings("pretraining")}),
        reasoning(settings("reasoning")),
        training({**seeded, **settings("training")}),
    )


def fit(
    graph: KnowledgeGraph,
    out: str | Path,
    plan: Plan | None = None,
    source: str = "",
    progress: Callable[[Stage], None] = lambda _stage: None,
) -> Fitted:
    """Makes a model of the graph in the folder `out`, or goes on with what was begun there.

    A graph that has the splits train, valid and test keeps them; of any other a share of the facts
    is hidden. Ctrl-C and a kill lose a little time, nothing else. Where all is done already, what
    is there is returned at once.
    """
    out, plan = Path(out), plan or plan_for(graph)
    identity = {
        "kind": "fit",
        **asdict(plan),
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
    }
    run = RunFolder.resume(out, identity)
    if run is None:
        divided = divide(graph, plan.fitting)
        run = RunFolder.create(out, identity, source, lambda folder: divided.save(folder / GRAPH))
    if not run.is_finished:
        with run.alone():
            _Work(out, KnowledgeGraph.open(out / GRAPH), plan, progress).do()
            run.finish({})
    return Fitted(out, _read_report(out / REPORT), _read_report(out / HOP_REPORT))


def divide(graph: KnowledgeGraph, settings: Fitting) -> KnowledgeGraph:
    """The graph with facts hidden, unless it comes with hidden ones or none are to be hidden."""
    given = has_facts(graph, "train") and (has_facts(graph, "valid") or has_facts(graph, "test"))
    return graph if given or not settings.hide else hold_out(graph, settings.hide, settings.seed)


@dataclass(frozen=True)
class _Work:
    """The stages, each of which looks at what is there before it does anything."""

    out: Path
    graph: KnowledgeGraph
    plan: Plan
    progress: Callable[[Stage], None]

    def do(self) -> None:
        self.pretrain()
        self.sample()
        self.train()
        self.measure()

    def pretrain(self) -> None:
        if not (self.out / PREDICTOR / "finished.json").exists():
            steps = pretrain(self.graph, self.plan.pretraining, self.out / PREDICTOR, self.source)
            for now in steps:
                self.tell("pre-training", now)

    def sample(self) -> None:
        chosen, split = self.plan.fitting, train_split(self.graph)
        self.make(TRAIN_QUERIES, TRAINED_SHAPES, Protocol((split,), (split,)), chosen.queries)
        if self.hidden:
            protocol = Protocol(self.there(OBSERVED), self.there(FULL), _MOST_HARD)
            self.make(TEST_QUERIES, (*EPFO, *NEGATION), protocol, chosen.test_queries)

    def make(self, name: str, shapes: Sequence[str], protocol: Protocol, count: int) -> None:
        if (self.out / name).exists():
            shutil.rmtree(partial_folder(self.out / name), ignore_errors=True)
            return
        wanted = [(shape(text), count) for text in shapes]
        total = count * len(wanted)
        make_queries(
            self.graph,
            wanted,
            protocol,
            self.out / name,
            self.plan.fitting.seed,
            progress=lambda what, done: self.progress(Stage("sampling queries", done, total, what)),
        )

    def train(self) -> None:
        if (self.out / REASONER / "finished.json").exists():
            return
        made = QuerySet.open(self.out / TRAIN_QUERIES)
        queries = QuerySet(tuple(group for group in made.groups if len(group)), made.about)
        if not queries.groups:
            raise DataError("The graph is too small: not a single question could be made from it.")
        predictor = open_checkpoint(self.out / PREDICTOR).predictor
        steps = train(
            self.graph,
            predictor,
            queries,
            self.plan.reasoning,
            self.plan.training,
            self.out / REASONER,
            self.source,
        )
        for now in steps:
            self.tell("training", now)

    def measure(self) -> None:
        if not self.hidden:
            return
        groups = [group for group in QuerySet.open(self.out / TEST_QUERIES).groups if len(group)]
        total, whole = sum(map(len, groups)), self.graph.view(*self.there(FULL))
        device = find_device(self.plan.training.device)
        hops = open_checkpoint(self.out / PREDICTOR, device).predictor

        def tell(what: str, done: int) -> None:
            self.progress(Stage("measuring", done, total, what))

        for name, model, reasoner in (
            (REPORT, "CLMPT", Answerer.open(self.out, device=str(device)).reasoner),
            (HOP_REPORT, "predictor, hop by hop", HopByHop(hops, len(self.graph.relations))),
        ):
            if not (self.out / name).exists():
                observed = self.there(OBSERVED)
                report = evaluate(reasoner, groups, model, whole, observed, progress=tell)
                report.save(self.out / name)

    @property
    def hidden(self) -> str:
        """The split to measure by; empty where there is none."""
        if not has_facts(self.graph, "train"):
            return ""
        return next((name for name in ("test", "valid") if has_facts(self.graph, name)), "")

    def there(self, splits: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """Of the splits that go with the hidden one, those that the graph has."""
        return tuple(name for name in splits[self.hidden] if name in self.graph.splits)

    @property
    def source(self) -> str:
        return str((self.out / GRAPH).resolve())

    def tell(self, name: str, now: Progress) -> None:
        best = f", validation MRR {now.best:.3f}" if now.best is not None else ""
        self.progress(Stage(name, now.step, now.steps, f"loss {now.loss:.3f}{best}"))


def _read_report(folder: Path) -> dict[str, Any] | None:
    if not (folder / "report.json").exists():
        return None
    found = open_json(folder / "report.json")
    if not isinstance(found, dict) or not isinstance(found.get("shapes"), list):
        raise DataError(f"'{folder}/report.json' is damaged. Remove '{folder}' to make it again.")
    return found


# --- what it will take ----------------------------------------------------------------------------

_TOKENS = 8  # an update hears so many messages, on average over the trained shapes
_SHARE_OF_PEAK = 0.4  # that training reaches, all in all
_BYTES_A_SECOND = 5e9  # that plain arithmetic on a table moves
_START = 400 * 2**20  # bytes that Python and PyTorch take before any work
_RANKED_AT_ONCE = 2**25  # scores in memory while measuring


def estimate(graph: KnowledgeGraph, plan: Plan) -> Estimate:
    """Time and memory of a fit on the processor, from a short measurement of its speed."""
    before, after = plan.pretraining, plan.training
    entities = len(graph.entities)
    width = before.rank * (2 if before.model in ("complex", "rotate") else 1)
    table = 4 * entities * width
    questions = len(links_of(graph))
    pretraining_steps = before.epochs * math.ceil(questions / before.batch)
    multiplied = 6 * before.epochs * questions * entities * width
    moved = 12 * table * pretraining_steps
    token = plan.reasoning.encoder_layers * (8 * width**2 + 4 * width * plan.reasoning.feed_forward)
    steps = after.steps or after.epochs * len(TRAINED_SHAPES) * plan.fitting.queries // after.batch
    multiplied += 3 * steps * after.batch * _TOKENS * token
    moved += steps * (0 if plan.reasoning.frozen else 12 * table)
    moved += 12 * steps * after.batch * after.negative_count * width
    seconds = multiplied / (_SHARE_OF_PEAK * matrix_peak((1024,))) + moved / _BYTES_A_SECOND
    scores = 4 * before.batch * entities * 3
    activations = 4 * after.batch * _TOKENS * (8 * width + 2 * plan.reasoning.feed_forward)
    ranking = 8 * min(_RANKED_AT_ONCE, 1024 * entities)
    memory = _START + max(5 * table + scores, 6 * table + max(3 * activations, ranking))
    return Estimate(seconds, memory)
