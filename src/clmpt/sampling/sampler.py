"""Benchmark queries from a graph by BetaE's protocol, reproducible with any number of workers.

Candidates are drawn in numbered chunks, each with its own random generator; accepted ones are taken
in the order of the chunks. So the result depends on the seed alone, never on the number of workers
or on which of them was faster.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

from clmpt.errors import SamplingError
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query, disjunction, placeholders
from clmpt.logic.normal_form import Pattern, to_formula
from clmpt.logic.shapes import name_of
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.store import AnswerSets, QueryGroup, difference
from clmpt.sampling.walks import Grounder, Grounding
from clmpt.symbolic.solver import solve_within

CHUNK = 4096
MOST_HARD = 100  # answers that BetaE allows a validation or test query
# This many chunks in a row without a new query mean that there are no more; fewer are enough in a
# small graph, since each chunk covers more of it.
_UNPRODUCTIVE_CHUNKS, _LEAST_UNPRODUCTIVE, _FACTS_PER_CHUNK = 40, 4, 250


@dataclass(frozen=True)
class Protocol:
    """What makes a candidate a benchmark query.

    Easy answers hold on the `observed` splits, hard ones only once those of `full` are added. If
    both are the same, there are no hard answers, as for training. `max_answers` caps the hard ones,
    or the easy ones if there are no hard ones; zero means no cap. `max_bindings` caps the bindings
    of variables on the way to a query's answers, which bounds what a candidate costs.
    """

    observed: tuple[str, ...]
    full: tuple[str, ...]
    max_answers: int = 0
    max_bindings: int = 0

    @property
    def has_hard(self) -> bool:
        return set(self.full) != set(self.observed)


@dataclass(frozen=True)
class _Accepted:
    grounding: Grounding
    easy: AnswerSets
    hard: AnswerSets
    exhausted: bool


def sample(
    template: Query,
    graph: KnowledgeGraph,
    protocol: Protocol,
    count: int,
    seed: int,
    workers: int = 1,
    progress: ReportProgress = silent,
) -> QueryGroup:
    """Up to `count` different queries of one shape, with all their answers.

    Fewer are returned if the graph has no more, or if they have become too rare to find.
    """
    with Sampler(graph, workers) as sampler:
        return sampler.sample(template, protocol, count, seed, progress)


class Sampler:
    """Reuses its worker processes for several shapes. Use it as a context manager."""

    def __init__(self, graph: KnowledgeGraph, workers: int = 1) -> None:
        self.graph, self.workers = graph, workers
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Sampler:
        if self.workers > 1:
            self.pool = ProcessPoolExecutor(
                self.workers,
                mp_context=get_context("spawn"),
                initializer=_start_worker,
                initargs=(self.graph, os.getpid()),
            )
        else:
            _remember_graph(self.graph)
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def sample(
        self,
        template: Query,
        protocol: Protocol,
        count: int,
        seed: int,
        progress: ReportProgress = silent,
    ) -> QueryGroup:
        Grounder(template, self.graph.view(*protocol.full))  # rejects what cannot be sampled
        seen: set[bytes] = set()
        kept: list[_Accepted] = []
        unproductive, facts = 0, self.graph.index.triples
        enough = min(_UNPRODUCTIVE_CHUNKS, max(_LEAST_UNPRODUCTIVE, facts // _FACTS_PER_CHUNK))
        for accepted in self.chunks(template, protocol, seed):
            fresh = _unseen(accepted.grounding, seen, count - len(seen))
            if len(fresh):
                kept.append(_take(accepted, fresh))
            unproductive = 0 if len(fresh) else unproductive + 1
            progress(Progress(name_of(template), len(seen), count))
            if len(seen) >= count or accepted.exhausted or unproductive >= enough:
                break
        return _group(template, kept)

    def chunks(self, template: Query, protocol: Protocol, seed: int) -> Iterator[_Accepted]:
        """Accepted candidates, chunk by chunk, forever."""
        if self.pool is None:
            for number in range(2**62):
                yield _work(template, protocol, seed, number)
        pool = self.pool
        assert pool is not None
        ahead: list[Future[_Accepted]] = []
        number = 0
        try:
            while True:
                while len(ahead) < self.workers + 1:
                    ahead.append(pool.submit(_work, template, protocol, seed, number))
                    number += 1
                try:
                    yield ahead.pop(0).result()
                except BrokenProcessPool:
                    raise SamplingError(
                        "A worker process died; it may have run out of memory. Try --workers 1."
                    ) from None
        finally:
            for future in ahead:
                future.cancel()


_GRAPH: KnowledgeGraph | None = None


def _remember_graph(graph: KnowledgeGraph) -> None:
    global _GRAPH
    _GRAPH = graph


def _start_worker(graph: KnowledgeGraph, parent: int) -> None:
    """Leaves Ctrl-C to the parent, and exits when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    _remember_graph(graph)


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(template: Query, protocol: Protocol, seed: int, chunk: int) -> _Accepted:
    assert _GRAPH is not None
    full, observed = _GRAPH.view(*protocol.full), _GRAPH.view(*protocol.observed)
    grounder = Grounder(template, full)
    stream = [seed, zlib.crc32(str(template).encode())]
    exhausted = False
    if grounder.is_enumerable:
        found = grounder.all()
        order = np.random.default_rng(stream).permutation(len(found))
        rows = order[chunk * CHUNK : (chunk + 1) * CHUNK]
        exhausted = (chunk + 1) * CHUNK >= len(order)
        candidates = found.take(rows)
    else:
        candidates = grounder.draw(CHUNK, np.random.default_rng([*stream, chunk]))
    candidates = candidates.take(_first_of_each(candidates))
    return _judge(template, candidates, full, observed, protocol, exhausted)


def _judge(
    template: Query,
    candidates: Grounding,
    full: KnowledgeGraph,
    observed: KnowledgeGraph,
    protocol: Protocol,
    exhausted: bool,
) -> _Accepted:
    most = protocol.max_bindings
    columns = candidates.entities, candidates.relations
    answers, broad = solve_within(template, full, *columns, most)
    if protocol.has_hard:
        easy, also_broad = solve_within(template, observed, *columns, most)
        hard = difference(answers, easy, len(full.entities))
        good = (hard.counts > 0) & ~(broad | also_broad)  # a negation has fewer rows in `full`
        limited = hard.counts
    else:
        easy, hard = answers, _no_answers(len(candidates))
        good = answers.counts > 0
        limited = answers.counts
    if protocol.max_answers:
        good &= limited <= protocol.max_answers
    rows = np.flatnonzero(good)
    for looser in _without_a_negation(template):
        some = candidates.take(rows)
        more, _ = solve_within(looser, full, *_columns_for(looser, template, some), most)
        rows = rows[more.counts > answers.counts[rows]]
    return _Accepted(candidates.take(rows), easy.take(rows), hard.take(rows), exhausted)


def _without_a_negation(template: Query) -> list[Query]:
    """The template without one of its absent parts, for each of them."""
    found = []
    for number, pattern in enumerate(template.patterns):
        for absent in pattern.absent:
            rest = tuple(part for part in pattern.absent if part != absent)
            looser = Pattern(pattern.variables, pattern.atoms, rest)
            patterns = [*template.patterns[:number], looser, *template.patterns[number + 1 :]]
            body = disjunction([to_formula(part) for part in patterns])
            found.append(Query(template.free, body, None, template.limits))
    return found


def _columns_for(looser: Query, template: Query, found: Grounding) -> tuple[Ints, Ints]:
    """The columns of the placeholders that a looser template still has."""
    (entities, relations), (all_entities, all_relations) = (
        placeholders(looser),
        placeholders(template),
    )
    return (
        found.entities[:, [all_entities.index(name) for name in entities]],
        found.relations[:, [all_relations.index(name) for name in relations]],
    )


def _no_answers(queries: int) -> AnswerSets:
    return AnswerSets(np.zeros(queries + 1, np.int64), np.empty(0, np.int64))


def _first_of_each(found: Grounding) -> Ints:
    rows = np.hstack([found.entities, found.relations])
    return (
        np.sort(np.unique(rows, axis=0, return_index=True)[1])
        if len(rows)
        else np.empty(0, np.int64)
    )


def _unseen(found: Grounding, seen: set[bytes], room: int) -> Ints:
    """The first `room` rows that are not in `seen`, which are added to it."""
    rows = np.hstack([found.entities, found.relations]).astype(np.int32)
    fresh: list[int] = []
    for number, row in enumerate(rows):
        key = row.tobytes()
        if key not in seen and len(fresh) < room:
            seen.add(key)
            fresh.append(number)
    return np.array(fresh, np.int64)


def _take(accepted: _Accepted, rows: Ints) -> _Accepted:
    return _Accepted(
        accepted.grounding.take(rows), accepted.easy.take(rows), accepted.hard.take(rows), False
    )


def _group(template: Query, kept: list[_Accepted]) -> QueryGroup:
    def stacked(arrays: list[Ints], width: int) -> npt.NDArray[np.int32]:
        return np.concatenate([np.empty((0, width), np.int64), *arrays]).astype(np.int32)

    entities, relations = placeholders(template)
    return QueryGroup(
        name_of(template),
        template,
        stacked([part.grounding.entities for part in kept], len(entities)),
        stacked([part.grounding.relations for part in kept], len(relations)),
        AnswerSets.joined([part.easy for part in kept]),
        AnswerSets.joined([part.hard for part in kept]),
    )
