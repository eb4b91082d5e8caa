"""From a graph to a model that can be asked: hide facts, pre-train, sample, train, measure.

Everything happens in one folder, stage by stage. A stage that is done is not done again, and one
that was cut off goes on where it was, so the same call always leads to the same folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from clmpt.answering.answerer import GRAPH, REASONER, Answerer
from clmpt.experiments.planning import TRAINED_SHAPES, Plan, plan_for
from clmpt.experiments.stages import (
    Stage,
    counted,
    make_predictor,
    make_reasoner,
    measure,
    predictor_in,
    read_report,
    reasoner_in,
)
from clmpt.graph.benchmark_folders import FULL, OBSERVED, train_split
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splitting import hold_out, in_one_split
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.queries.store import QuerySet
from clmpt.reasoners.reasoner import Reasoner
from clmpt.sampling.making import Wanted, make_queries, partial_folder
from clmpt.sampling.sampler import MOST_HARD, Protocol
from clmpt.settings import Fitting
from clmpt.storage.run_folder import RunFolder
from clmpt.training.runs import has_facts

PREDICTOR = "predictor"
TRAIN_QUERIES = "train.queries"
TEST_QUERIES = "test.queries"
REPORT = "report"
HOP_REPORT = "report-hop-by-hop"
MEASURED_SHAPES: tuple[str, ...] = (*EPFO, *NEGATION)
_ONE_THREAD = 200  # entities, up to which tensors are so small that more threads only wait


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
        make_predictor(
            self.graph, self.plan.pretraining, self.out / PREDICTOR, self.source, self.progress
        )

    def sample(self) -> None:
        chosen, split = self.plan.fitting, train_split(self.graph)
        own = Protocol((split,), (split,))
        wanted = [(TRAIN_QUERIES, TRAINED_SHAPES, own, chosen.queries)]
        if self.hidden:
            held_out = Protocol(self.there(OBSERVED), self.there(FULL), MOST_HARD)
            wanted.append((TEST_QUERIES, MEASURED_SHAPES, held_out, chosen.test_queries))
        total, before = sum(len(shapes) * count for _, shapes, _, count in wanted), 0
        for name, shapes, protocol, count in wanted:
            tell = counted(self.progress, "sampling queries", before, total)
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

    def train(self) -> None:
        make_reasoner(
            self.graph,
            self.out / PREDICTOR,
            QuerySet.open(self.out / TRAIN_QUERIES),
            self.plan.reasoning,
            self.plan.training,
            self.out / REASONER,
            self.source,
            self.progress,
        )

    def measure(self) -> None:
        missing = [name for name in (REPORT, HOP_REPORT) if not (self.out / name).exists()]
        if not self.hidden or not missing:
            return
        groups = [group for group in QuerySet.open(self.out / TEST_QUERIES).groups if len(group)]
        if not groups:
            return
        queries, whole = sum(map(len, groups)), self.graph.view(*self.there(FULL))
        device = self.plan.training.device
        for number, name in enumerate(missing):
            measure(
                self.measured(name, device),
                groups,
                whole,
                self.there(OBSERVED),
                {"split": self.hidden},
                self.out / name,
                counted(self.progress, "measuring", number * queries, len(missing) * queries),
                device,
            )

    def measured(self, name: str, device: str) -> tuple[str, Reasoner]:
        """What a report is about: the reasoner, or the predictor alone."""
        if name == REPORT:
            return reasoner_in(self.out / REASONER, device)
        return predictor_in(self.out / PREDICTOR, len(self.graph.relations), device)

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


def _read_report(folder: Path) -> dict[str, Any] | None:
    return read_report(folder) if (folder / "report.json").exists() else None
