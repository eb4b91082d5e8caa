"""The paper's evaluation protocol, for any reasoner.

Each hard answer of a query is ranked among non-answers: easy and other hard answers are filtered
out, and ties get the mean rank. Figures are means over a query's hard answers, then over the
queries of a shape. The report keeps four numbers of each query, so that models can be compared
query by query. Several processes share the queries out, and all of them get the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from clmpt.compute import distributed
from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.evaluation.ranks import (
    Floats,
    figures_by_query,
    filtered_ranks,
    mean_figures,
    united,
)
from clmpt.evaluation.report import Report, ShapeResult
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.refusals import check_of, expressed
from clmpt.queries.store import QueryGroup
from clmpt.symbolic.missing_links import missing_links

if TYPE_CHECKING:
    from clmpt.reasoners.reasoner import Reasoner

# Shapes: Q queries with hard answers, T their hard answers; 4 figures, as in `Figures`

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
    conditions: Mapping[str, Any] | None = None,
) -> Report:
    """A report over all queries with hard answers. With a graph and its observed splits, figures
    are also broken down by the number of missing links. `conditions` are what another report must
    share with this one to be compared with it query by query."""
    missing: Callable[[QueryGroup], Ints] | None = None
    if graph is not None and observed:
        missing = partial(missing_links, graph=graph, observed=observed)
    answerable = [group for group in groups if len(group.hard.entities)]
    asked, left_out = expressed(reasoner.name, check_of(reasoner), answerable)
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
        parts = [found[number] for number, chunk in enumerate(chunks) if chunk.group is group]
        shapes.append(_result(reasoner, group, parts))
    about = {**(about or {}), **({"left_out": left_out} if left_out else {})}
    return Report(name or reasoner.name, tuple(shapes), observed, about, dict(conditions or {}))


def mrr_by_query(scores_QE: Tensor, group: QueryGroup) -> Floats:
    """The MRR of each of a group's queries with hard answers; the scores are overwritten."""
    ranks_T = filtered_ranks(scores_QE, group.hard, united(group.easy, group.hard))
    return figures_by_query(ranks_T, group.hard.owners)[:, 0]


def _result(reasoner: Reasoner, group: QueryGroup, parts: Sequence[_Counted]) -> ShapeResult:
    rows_Q4 = np.concatenate([part.rows_Q4 for part in parts])
    by_missing = {
        number: np.concatenate(
            [part.by_missing[number] for part in parts if number in part.by_missing]
        )
        for number in sorted({number for part in parts for number in part.by_missing})
    }
    return ShapeResult(
        group.name,
        mean_figures(rows_Q4),
        _standard_error(rows_Q4[:, 0]),
        len(group.hard.entities),
        {number: mean_figures(some_Q4) for number, some_Q4 in by_missing.items()},
        reasoner.notes(group.template),
        rows_Q4,
        group.checksum,
    )


def _standard_error(mrr_Q: Floats) -> float | None:
    """Of the mean; undefined for a single query."""
    return float(mrr_Q.std(ddof=1) / np.sqrt(len(mrr_Q))) if len(mrr_Q) > 1 else None


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
    """The figures of each query of a chunk, and by the number of missing links."""

    rows_Q4: Floats
    by_missing: dict[int, Floats]


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
    """The ranks of a chunk's hard answers, as figures of its queries."""
    scores_QE = reasoner.score([part])
    ranks_T = filtered_ranks(scores_QE, part.hard, united(part.easy, part.hard))
    owner_T, by_missing = part.hard.owners, {}
    if missing is not None:
        missing_T = missing(part)
        for number in np.unique(missing_T[missing_T > 0]).tolist():
            own_T = missing_T == number
            by_missing[number] = figures_by_query(ranks_T[own_T], owner_T[own_T])
    return _Counted(figures_by_query(ranks_T, owner_T), by_missing)
