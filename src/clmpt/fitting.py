"""From a graph to a model that can be asked: hide facts, pre-train, sample, train, measure.

Everything happens in one folder, stage by stage. A stage that is done is not done again, and one
that was cut off goes on where it was, so the same call always leads to the same folder.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

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
from clmpt.graph.splitting import hold_out, in_one_split
from clmpt.graph.storage import open_json
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.neural.checkpoint import is_whole, open_checkpoint, open_reasoner
from clmpt.neural.devices import find_device
from clmpt.neural.reasoners.hop_by_hop import HopByHop
from clmpt.neural.reasoners.reasoner import NeuralReasoner, Reasoner
from clmpt.report import evaluate
from clmpt.run_folder import RunFolder
from clmpt.symbolic.making import Wanted, make_queries, partial_folder
from clmpt.symbolic.sampling import Protocol

PREDICTOR = "predictor"
TRAIN_QUERIES = "train.queries"
TEST_QUERIES = "test.queries"
REPORT = "report"
HOP_REPORT = "report-hop-by-hop"
TRAINED_SHAPES: tuple[str, ...] = (
    "1p",
    "2p",
    "3p",
    "2i",
    "3i",
    "ip",
    "pi",
    "up",
    "2in",
    "3in",
    "inp",
    "pin",
    "pni",
)
MEASURED_SHAPES: tuple[str, ...] = (*EPFO, *NEGATION)
_MOST_WORK = 4 * 10**15  # operations of pre-training by default: about a day on two cores
_ONE_THREAD = 200  # entities, up to which tensors are so small that more threads only wait
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
            "training": {**_SMALL_TRAINING, "steps": 300, "batch": 128, "validate_every": 100},
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
    before = pretraining({**seeded, **settings("pretraining")})
    if "epochs" not in (given or {}).get("pretraining", {}):
        an_epoch = 12 * graph.index.triples * len(graph.entities) * _width(before)
        before = replace(before, epochs=max(1, min(before.epochs, _MOST_WORK // max(an_epoch, 1))))
    model = reasoning(settings("reasoning"))
    if model.reasoner == "clmpt" and _width(before) % model.heads:
        raise SettingError(
            f"{model.heads} heads do not divide the predictor's width of {_width(before)}."
        )
    return Plan(chosen, before, model, training({**seeded, **settings("training")}))


def fit(
    graph: KnowledgeGraph,
    out: str | Path,
    plan: Plan | None = None,
    source: str = "",
    progress: Callable[[Stage], None] = lambda _stage: None,
) -> Fitted:
    """Makes a model of the graph in the folder `out`, or goes on with what was begun there.

    What is hidden, `divide` says. Ctrl-C and a kill lose a little time, nothing else. Where all is
    done already, what is there is returned at once.
    """
    out, plan = Path(out), plan or plan_for(graph)
    run = begin(graph, out, plan, source)
    with run.alone():
        divided = KnowledgeGraph.open(out / GRAPH)
        with _threads(1 if len(divided.entities) <= _ONE_THREAD else torch.get_num_threads()):
            _Work(out, divided, plan, progress).do()
        if not run.is_finished:
            run.finish({})
    return Fitted(out, _read_report(out / REPORT), _read_report(out / HOP_REPORT))


def begin(graph: KnowledgeGraph, out: Path, plan: Plan, source: str = "") -> RunFolder:
    """The folder of a fit with the divided graph in it, new or as it was left."""
    settings = asdict(plan)
    for table in ("pretraining", "training"):
        settings[table].pop("device")  # a model that was made elsewhere is opened here
    identity = {
        "kind": "fit",
        **settings,
        "graph": {"fingerprint": graph.fingerprint, "edges": graph.checksum},
    }
    run = RunFolder.resume(out, identity)
    if run is None:
        divided = divide(graph, plan.fitting)
        run = RunFolder.create(out, identity, source, lambda folder: divided.save(folder / GRAPH))
    return run


def divide(graph: KnowledgeGraph, settings: Fitting) -> KnowledgeGraph:
    """The graph as it is trained on: with facts hidden, or with all of them in one split.

    A graph that comes with facts in 'train' and in 'valid' or 'test' stays as it is.
    """
    if has_facts(graph, "train") and (has_facts(graph, "valid") or has_facts(graph, "test")):
        return graph
    if settings.hide:
        return hold_out(graph, settings.hide, settings.seed)
    return graph if len(graph.splits) == 1 else in_one_split(graph)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Small tensors are handled faster by one thread than by several that wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
            with closing(steps):
                for now in steps:
                    self.tell("pre-training", now)

    def sample(self) -> None:
        chosen, split = self.plan.fitting, train_split(self.graph)
        own = Protocol((split,), (split,))
        wanted = [(TRAIN_QUERIES, TRAINED_SHAPES, own, chosen.queries)]
        if self.hidden:
            held_out = Protocol(self.there(OBSERVED), self.there(FULL), _MOST_HARD)
            wanted.append((TEST_QUERIES, MEASURED_SHAPES, held_out, chosen.test_queries))
        total, before = sum(len(shapes) * count for _, shapes, _, count in wanted), 0
        for name, shapes, protocol, count in wanted:
            tell = partial(self.tell_sampled, before, total)
            self.make(self.out / name, [(shape(text), count) for text in shapes], protocol, tell)
            before += len(shapes) * count

    def make(
        self, path: Path, wanted: Wanted, protocol: Protocol, tell: Callable[[str, int], None]
    ) -> None:
        if path.exists():
            shutil.rmtree(partial_folder(path), ignore_errors=True)
        else:
            seed = self.plan.fitting.seed
            make_queries(self.graph, wanted, protocol, path, seed, progress=tell)

    def tell_sampled(self, before: int, total: int, what: str, done: int) -> None:
        self.progress(Stage("sampling queries", before + done, total, what))

    def train(self) -> None:
        if (self.out / REASONER / "finished.json").exists():
            if not is_whole(self.out / REASONER):
                raise DataError(
                    f"'{self.out / REASONER}' is damaged. Remove that folder, and the same command "
                    "makes it again."
                )
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
        with closing(steps):
            for now in steps:
                self.tell("training", now)

    def measure(self) -> None:
        missing = [name for name in (REPORT, HOP_REPORT) if not (self.out / name).exists()]
        if not self.hidden or not missing:
            return
        groups = [group for group in QuerySet.open(self.out / TEST_QUERIES).groups if len(group)]
        if not groups:
            return
        queries, whole = sum(map(len, groups)), self.graph.view(*self.there(FULL))
        for number, name in enumerate(missing):
            model, reasoner = self.measured(name)
            report = evaluate(
                reasoner,
                groups,
                model,
                whole,
                self.there(OBSERVED),
                {"split": self.hidden},
                partial(self.tell_measured, number * queries, len(missing) * queries),
            )
            report.save(self.out / name)

    def measured(self, name: str) -> tuple[str, Reasoner]:
        """What a report is about: the reasoner, or the predictor alone."""
        device = find_device(self.plan.training.device)
        if name == REPORT:
            model = open_reasoner(self.out / REASONER, device).model
            return self.plan.reasoning.reasoner.upper(), NeuralReasoner(model)
        predictor = open_checkpoint(self.out / PREDICTOR, device).predictor
        return "predictor, hop by hop", HopByHop(predictor, len(self.graph.relations))

    def tell_measured(self, before: int, total: int, what: str, done: int) -> None:
        self.progress(Stage("measuring", before + done, total, what))

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
    way_out = f"Remove '{folder}', and the same command makes it again."
    try:
        found = open_json(folder / "report.json")
        float(found["mean"])
        for row in found["shapes"]:
            _ = str(row["shape"]), float(row["mrr"]), int(row["count"]), list(row["notes"])
    except (DataError, KeyError, TypeError, ValueError):
        raise DataError(f"'{folder}/report.json' is damaged. {way_out}") from None
    return dict(found)


# --- what it will take ----------------------------------------------------------------------------

_TOKENS = 8  # an update hears so many messages, on average over the trained shapes
_SHARE_OF_PEAK = 0.4  # that training reaches, all in all
_A_STEP = 0.02  # seconds that a step takes however little there is to do
_BYTES_A_SECOND = 5e9  # that plain arithmetic on a table moves
_START = 400 * 2**20  # bytes that Python and PyTorch take before any work
_RANKED_AT_ONCE = 2**25  # scores in memory while measuring


def estimate(graph: KnowledgeGraph, plan: Plan) -> Estimate:
    """Time and memory of a fit on the processor, from a short measurement of its speed."""
    before, after, size = plan.pretraining, plan.training, len(graph.entities)
    width = _width(before)
    table = 4 * size * width
    questions = len(links_of(graph, train_split(graph)))
    scored = size if before.model in ("complex", "distmult") else before.negatives
    multiplied = 6 * before.epochs * questions * scored * width
    moved = 12 * table * before.epochs * math.ceil(questions / before.batch)

    token = plan.reasoning.encoder_layers * (8 * width**2 + 4 * width * plan.reasoning.feed_forward)
    steps = after.steps or after.epochs * len(TRAINED_SHAPES) * plan.fitting.queries // after.batch
    candidates = size if after.negatives == "all" else after.negative_count
    multiplied += 3 * steps * after.batch * (_TOKENS * token + 2 * candidates * width)
    moved += steps * (0 if plan.reasoning.frozen else 12 * table)
    if after.negatives == "query":
        moved += 12 * steps * after.batch * candidates * width
    fixed = _A_STEP * (steps + before.epochs * questions / before.batch)
    seconds = multiplied / (_SHARE_OF_PEAK * matrix_peak((1024,))) + moved / _BYTES_A_SECOND + fixed

    scores = 4 * before.batch * scored * 3
    activations = 4 * after.batch * (_TOKENS * (8 * width + 2 * plan.reasoning.feed_forward))
    ranking = 8 * min(_RANKED_AT_ONCE, 1024 * size)
    memory = _START + max(5 * table + scores, 6 * table + max(3 * activations, ranking))
    return Estimate(seconds, memory)


def _width(settings: Pretraining) -> int:
    """How many real numbers an embedding has."""
    return settings.rank * (2 if settings.model in ("complex", "rotate") else 1)
