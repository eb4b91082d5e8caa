"""The paper's evaluation protocol, for any reasoner.

Each hard answer of a query is ranked among non-answers: easy and other hard answers are filtered
out, and ties get the mean rank. Figures are means over a query's hard answers, then over the
queries of a shape. Only sums are kept, so memory does not grow with the number of queries. Several
processes share the queries out, and all of them get the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.evaluation.ranks import Figures, Floats, filtered_ranks, united
from clmpt.evaluation.report import Report, ShapeResult
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.refusals import check_of, sort_out
from clmpt.queries.store import QueryGroup
from clmpt.symbolic.missing_links import missing_links

if TYPE_CHECKING:
    from clmpt.reasoners.reasoner import Reasoner

_QUERIES_AT_ONCE = 1024


def evaluate(
    reasoner: Reasoner,
    groups: Sequence[QueryGroup],
    name: str | None = None,
    graph: KnowledgeGraph | None = None,
    observed: tuple[str, ...] | None = None,
    about: dict[str, Any] | None = None,
    progress: ReportProgress = silent,
    scores_at_once: int = SCORES_AT_ONCE,
) -> Report:
    """A report over all queries with hard answers. With a graph and its observed splits, figures
    are also broken down by the number of missing links."""
    missing: Callable[[QueryGroup], Ints] | None = None
    if graph is not None and observed:
        missing = partial(missing_links, graph=graph, observed=observed)
    answerable = [group for group in groups if len(group.hard.entities)]
    asked, left_out = sort_out(check_of(reasoner), answerable)
    seen = [(group.name, len(group), int(group.hard.entities.sum())) for group in asked]
    distributed.agree(repr((reasoner.name, seen)), "the queries or the model")
    chunks = _chunks(reasoner, asked, scores_at_once)
    own: dict[int, _Counted] = {}
    done, total = 0, sum(map(len, asked))
    for number in distributed.own_turns(len(chunks)):
        own[number] = _counted(reasoner, chunks[number].part(), missing)
        done += chunks[number].size * distributed.processes()  # about: others are as fast
        progress(Progress(chunks[number].group.name, min(done, total), total))
    found = distributed.entries_of_all(own)
    shapes = []
    for group in asked:
        sums, by_missing = _Sums(), dict[int, _Sums]()
        for number, chunk in enumerate(chunks):  # in one order, so that rounding is the same
            if chunk.group is group:
                sums.merge(found[number].sums)
                for links, part in found[number].by_missing.items():
                    by_missing.setdefault(links, _Sums()).merge(part)
        shapes.append(_result(reasoner, group, sums, by_missing))
    about = {**(about or {}), **({"left_out": left_out} if left_out else {})}
    return Report(name or reasoner.name, tuple(shapes), observed, about)


def mrr_by_query(scores_QE: Tensor, group: QueryGroup) -> Floats:
    """The MRR of each of a group's queries with hard answers; the scores are overwritten."""
    ranks_T = filtered_ranks(scores_QE, group.hard, united(group.easy, group.hard))
    _, owner_T = np.unique(group.hard.owners, return_inverse=True)
    return np.bincount(owner_T, 1 / ranks_T) / np.bincount(owner_T)


def _result(
    reasoner: Reasoner, group: QueryGroup, sums: _Sums, by_missing: dict[int, _Sums]
) -> ShapeResult:
    return ShapeResult(
        group.name,
        sums.figures(),
        sums.standard_error(),
        len(group.hard.entities),
        {number: by_missing[number].figures() for number in sorted(by_missing)},
        reasoner.notes(group.template),
    )


@dataclass(frozen=True)
class _Chunk:
    """Some queries of a group, which are scored together."""

    group: QueryGroup
    start: int
    size: int

    def part(self) -> QueryGroup:
        return self.group.take(slice(self.start, self.start + self.size))


@dataclass(frozen=True)
class _Counted:
    sums: _Sums
    by_missing: dict[int, _Sums]


def _chunks(reasoner: Reasoner, groups: Sequence[QueryGroup], scores_at_once: int) -> list[_Chunk]:
    """All queries, divided in the same way whatever the number of processes."""
    if not groups:
        return []
    entities = reasoner.score([groups[0].take(slice(0, 1))]).shape[1]
    step = min(_QUERIES_AT_ONCE, rows_at_once(entities, scores_at_once))
    return [
        _Chunk(group, start, min(step, len(group) - start))
        for group in groups
        for start in range(0, len(group), step)
    ]


def _counted(
    reasoner: Reasoner, part: QueryGroup, missing: Callable[[QueryGroup], Ints] | None
) -> _Counted:
    """The ranks of a chunk's hard answers, summed up."""
    scores_QE = reasoner.score([part])
    ranks_T = filtered_ranks(scores_QE, part.hard, united(part.easy, part.hard))
    found = _Counted(_Sums(), {})
    found.sums.add(ranks_T, part.hard.owners)
    if missing is not None:
        missing_T = missing(part)
        for number in np.unique(missing_T[missing_T > 0]).tolist():
            own_T = missing_T == number
            sums = found.by_missing.setdefault(number, _Sums())
            sums.add(ranks_T[own_T], part.hard.owners[own_T])
    return found


class _Sums:
    """Running sums over queries, for the figures."""

    def __init__(self) -> None:
        self.queries, self.squares = 0, 0.0
        self.totals = np.zeros(4)

    def add(self, ranks_T: Floats, owner_T: Ints) -> None:
        """Adds ranks of answers, with the query of each; queries without answers do not count."""
        _, owner_T = np.unique(owner_T, return_inverse=True)
        counts = np.bincount(owner_T)
        columns = (1 / ranks_T, ranks_T <= 1, ranks_T <= 3, ranks_T <= 10)
        means = [np.bincount(owner_T, column) / counts for column in columns]
        self.totals += [mean.sum() for mean in means]
        self.squares += float((means[0] ** 2).sum())
        self.queries += len(counts)

    def merge(self, other: _Sums) -> None:
        self.totals += other.totals
        self.squares += other.squares
        self.queries += other.queries

    def figures(self) -> Figures:
        mrr, first, third, tenth = (self.totals / max(self.queries, 1)).tolist()
        return Figures(mrr, first, third, tenth, self.queries)

    def standard_error(self) -> float | None:
        if self.queries < 2:
            return None
        mean = self.totals[0] / self.queries
        variance = max(self.squares / self.queries - mean**2, 0.0)
        return float(np.sqrt(variance / (self.queries - 1)))
