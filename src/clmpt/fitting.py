"""From a graph to a model that can be asked: hide facts, pre-train, sample, train, measure.

Everything happens in one folder, stage by stage. A stage that is done is not done again, and one
that was cut off goes on where it was, so the same call always leads to the same folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from clmpt.answering import GRAPH, REASONER, Answerer
from clmpt.config import Fitting
from clmpt.errors import DataError
from clmpt.experiment import Progress, has_facts, pretrain, train
from clmpt.graph.benchmarks import FULL, OBSERVED, train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.query_store import QuerySet
from clmpt.graph.splitting import hold_out, in_one_split
from clmpt.graph.storage import open_json
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.neural.checkpoint import is_whole, open_checkpoint, open_reasoner
from clmpt.neural.devices import find_device
from clmpt.neural.reasoners.hop_by_hop import HopByHop
from clmpt.neural.reasoners.reasoner import NeuralReasoner, Reasoner
from clmpt.planning import TRAINED_SHAPES, Plan, plan_for
from clmpt.report import evaluate
from clmpt.run_folder import RunFolder
from clmpt.symbolic.making import Wanted, make_queries, partial_folder
from clmpt.symbolic.sampling import Protocol

PREDICTOR = "predictor"
TRAIN_QUERIES = "train.queries"
TEST_QUERIES = "test.queries"
REPORT = "report"
HOP_REPORT = "report-hop-by-hop"
MEASURED_SHAPES: tuple[str, ...] = (*EPFO, *NEGATION)
_ONE_THREAD = 200  # entities, up to which tensors are so small that more threads only wait
_MOST_HARD = 100  # answers of a test query, as in BetaE's


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
