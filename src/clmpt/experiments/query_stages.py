"""The queries of an experiment: official ones if the data has them, otherwise sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmpt.compute import distributed
from clmpt.experiments.costs import sampling_work
from clmpt.experiments.stage_builders import Stage
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.logic.formula import Query
from clmpt.progress import Progress, ReportProgress, part_of
from clmpt.queries.benchmark_files import (
    query_files,
    question_file,
    read_queries,
    read_unanswered,
)
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.sampling.making import make_queries
from clmpt.sampling.sampler import MOST_HARD, Protocol
from clmpt.symbolic.solver import solve_many

OFFICIAL, SAMPLED = "official", "sampled"
_NAMES = {"train": "training queries", "valid": "validation queries", "test": "test queries"}


def official_files(data: Path, split: str) -> dict[str, Any]:
    """What identifies a split's official queries: the names and sizes of their files."""
    files = query_files(data, split) or _questions(data, split)
    return {OFFICIAL: {path.name: path.stat().st_size for path in files}}


def _questions(data: Path, split: str) -> list[Path]:
    """The file of training queries without answers, if there is one: their answers follow."""
    found = question_file(data, split) if split == "train" else None
    return [found] if found else []


@dataclass(frozen=True)
class QueryPlan:
    """The queries of a split: shapes, and how many of each if they are sampled."""

    graph: KnowledgeGraph
    data: Path
    split: str
    names: Mapping[Query, str]
    counts: Mapping[Query, int]
    seed: int
    workers: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def query_stage(role: str, plan: QueryPlan, path: Path) -> Stage:
    name = _NAMES[plan.split]

    def run(progress: ReportProgress) -> None:
        official = _official(plan, name, progress)
        sampled = _sampled(plan, set(plan.counts) - set(official), path, name, progress)
        groups = {**official, **{group.template: group for group in sampled.groups}}
        about = {
            **(sampled.about or {"graph": plan.graph.fingerprint}),
            "observed": list(OBSERVED[plan.split]),
            "full": list(FULL[plan.split]),
            "split": plan.split,
            OFFICIAL: [plan.names[t] for t in plan.counts if t in official],
            SAMPLED: [plan.names[t] for t in plan.counts if t not in official],
        }

        def save() -> None:
            QuerySet(tuple(groups[template] for template in plan.counts), about).save(path)
            _samples(path).unlink(missing_ok=True)

        distributed.made_by_one(save)

    work = sampling_work(plan.total, plan.workers)
    return Stage(role, name, path, work, run, is_shared=True)


def _official(plan: QueryPlan, name: str, progress: ReportProgress) -> dict[Query, QueryGroup]:
    answered, questions = query_files(plan.data, plan.split), _questions(plan.data, plan.split)
    if not answered and not questions:
        return {}
    progress(Progress(name, 0, 1, "reading"))
    groups = read_queries(plan.data, plan.split) if answered else read_unanswered(questions[0])
    found = {}
    for group in groups:
        if group.template in plan.counts:
            group.check(len(plan.graph.entities), 2 * len(plan.graph.relations))
            found[group.template] = group if answered else _solved(group, plan)
    return found


def _solved(group: QueryGroup, plan: QueryPlan) -> QueryGroup:
    """The queries with the answers that they have on the observed graph."""
    observed = plan.graph.view(*OBSERVED[plan.split])
    easy = solve_many(group.template, observed, group.entities, group.relations)
    return replace(group, easy=easy)


def _sampled(
    plan: QueryPlan, missing: set[Query], path: Path, name: str, progress: ReportProgress
) -> QuerySet:
    """Sampled queries of some shapes, in a file of their own until the stage is done."""
    wanted = [(template, count) for template, count in plan.counts.items() if template in missing]
    if not wanted:
        return QuerySet(())
    samples = _samples(path)
    if (there := distributed.made_by_one(lambda: _left(samples, missing))) is not None:
        return there
    most_hard = 0 if plan.split == "train" else MOST_HARD
    protocol = Protocol(OBSERVED[plan.split], FULL[plan.split], most_hard)
    report = part_of(progress, name, 0, sum(count for _, count in wanted))
    chosen = (plan.graph, wanted, protocol, samples, plan.seed, plan.workers, report)
    return make_queries(*chosen, share=distributed.Together())


def _left(samples: Path, missing: set[Query]) -> QuerySet | None:
    """The samples of a run that was interrupted; those of other shapes are removed."""
    if not samples.exists():
        return None
    there = QuerySet.open(samples)
    if {group.template for group in there.groups} == missing:
        return there
    samples.unlink()
    return None


def _samples(path: Path) -> Path:
    return path.with_suffix(".samples")
