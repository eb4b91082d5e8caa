"""The reasoner of truth values (after QTO, Bai et al. 2023).

An entity's score is the truth value of the best way to fill the other variables: the product over
the atoms of 1 for a known fact and of the predictor's probability for any other, where a negated
part counts 1 - min(1, s x). Alternatives of an *or* are united by their maximum, or by
1 - Π (1 - x), and so are the values of a variable. Nothing is trained; s is chosen on validation
queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from clmpt.compute.chunks import rows_at_once
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.predictors.calibration import MOST, Sharpening, is_calibrated
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.indexing import Searching, searches_of
from clmpt.reasoners.model import Basis, ReasonerModel
from clmpt.reasoners.question_kinds import has_negation
from clmpt.reasoners.truth_values.rows import PredictedRows, SparseRows, TruthRows, Values
from clmpt.reasoners.truth_values.unions import RowsWithUnions, filled_in, with_unions_apart
from clmpt.reasoners.truth_values.value_engine import EVERYTHING, Effort, ValueEngine
from clmpt.reasoners.truth_values.value_tables import ValueTable, noisy_or
from clmpt.settings import Settings, setting
from clmpt.symbolic.engine import SlotValues
from clmpt.symbolic.plan import Scan
from clmpt.symbolic.solver import CompiledPattern, compiled, template_batches
from clmpt.symbolic.tables import codes

# Shapes: Q queries, E entities, B queries of a chunk

SCALES = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0)  # of negation, tried on validation queries
ROWS_PER_QUERY = 24  # on average over the benchmark shapes
_SCALE = 1.5  # before tuning
_ENTRIES = 30_000_000  # rows of a table: some 1.5 GB
_LEAST = 1e-9  # a truth value that counts as none
_SCANNED = 4_000  # entities from which a question without constants starts


@dataclass(frozen=True)
class TruthValueSettings(Settings):
    """How truth values are computed."""

    sharpening: Literal["calibrated", "count"] = setting(
        "calibrated",
        "truth value of a link: its probability, or softmax × known answers (QTO)",
    )
    threshold: float = setting(
        1e-5, "truth values below this count as 0 if read from a variable", above=0, below=1
    )
    fine_threshold: float = setting(
        1e-8, "truth values below this count as 0 if read from a constant", above=0, below=1
    )
    negation: float = setting(0.0, "s of 1 - min(1, s x); 0: tuned on validation queries", least=0)
    union: Literal["max", "noisy-or"] = setting("max", "of alternatives")
    some: Literal["max", "noisy-or"] = setting("max", "over the values of a variable")
    sources: int = setting(
        32, "likeliest values of a variable followed along predicted links; 0: all", least=0
    )
    row_memory: int = setting(1024, "megabytes of rows to remember", least=1)
    row_precision: Literal["float32", "bfloat16"] = setting("float32", "of matrix products")


class TruthValues(ReasonerModel):
    title, Settings = "truth values", TruthValueSettings
    rows_per_query = ROWS_PER_QUERY
    scale: Tensor
    tuned: Tensor

    def __init__(
        self,
        basis: Basis,
        settings: TruthValueSettings,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(basis, settings, generator)
        self.graph = basis.graph
        self.register_buffer("scale", torch.tensor(settings.negation or _SCALE))
        self.register_buffer("tuned", torch.tensor(False))
        self._rows: tuple[object, PredictedRows] | None = None

    def reasoner(self) -> TruthValueReasoner:
        settings: TruthValueSettings = self.settings
        effort = Effort(settings.sources, _SCANNED, _ENTRIES, settings.threshold)
        return TruthValueReasoner(
            *(self.rows(), self.graph, float(self.scale), settings.union, effort),
            unites=settings.some == "noisy-or",
        )

    def rows(self) -> PredictedRows:
        """Shared by all its reasoners, so that none computes what another remembers; new ones if
        the predictor has changed."""
        predictor, settings = self.predictor, self.settings
        assert predictor is not None
        weights = (*predictor.parameters(), predictor.calibration_SC)
        version = [(weight.data_ptr(), weight._version) for weight in weights]
        if self._rows is None or self._rows[0] != version:
            calibrated = settings.sharpening == "calibrated" and is_calibrated(predictor)
            rows = PredictedRows(
                predictor,
                self.graph.index,
                Sharpening("calibrated" if calibrated else "count"),
                settings.threshold,
                settings.fine_threshold,
                settings.row_memory * 2**20,
                getattr(torch, settings.row_precision),
            )
            self._rows = version, rows
        return self._rows[1]

    def tune(self, queries: Sequence[QueryGroup]) -> None:
        """Chooses the scale of negation by the mean MRR over queries with negation, once."""
        if self.settings.negation or bool(self.tuned):
            return
        self.tuned.fill_(True)
        negated = [group for group in queries if has_negation(group.template)]
        if not negated:
            return
        reasoner, figures = self.reasoner(), dict[float, float]()
        for scale in SCALES:  # rows are remembered, so all but the first are cheap
            reasoner.engine = replace(reasoner.engine, scale=scale)
            figures[scale] = evaluate(reasoner, negated).mean
        self.scale.fill_(max(figures, key=lambda scale: figures[scale]))

    @property
    def device(self) -> torch.device:
        assert self.predictor is not None
        return self.predictor.entities_ED.device


@dataclass(frozen=True)
class Derivations:
    """The best ways to fill all variables of one alternative, for every answer of one query.

    `table` has a row per derivation: `columns` has the free variable, `decided` all others.
    """

    part: CompiledPattern
    slots: SlotValues
    table: ValueTable


def log_odds(values_QE: Tensor, least: float) -> Tensor:
    """Truth values on a scale that tells the nearly true from the true; `least` is the lowest
    value that counts."""
    return values_QE.clamp(least, MOST).logit()


class TruthValueReasoner:
    """Scores are truth values, comparable across queries."""

    name = "truth values"
    from_facts = True

    def __init__(
        self,
        source: TruthRows,
        graph: KnowledgeGraph,
        scale: float,
        union: Literal["max", "noisy-or"] = "max",
        effort: Effort = EVERYTHING,
        unites: bool = False,
    ) -> None:
        self.source, self.graph, self.union = source, graph, union
        self.engine = ValueEngine(source, scale, effort, unites=unites)

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.score_with_bounds(groups)[0]

    def score_with_bounds(self, groups: Sequence[QueryGroup]) -> tuple[Tensor, Values]:
        """The values, and for each query an upper bound on what was not followed: a value above it
        is exact, one below it may be too low."""
        size = len(self.graph.entities)
        step = min(rows_at_once(size), size)  # a query's number must be an entity's: unions.py
        found = [
            self._chunk(group.take(slice(start, start + step)))
            for group in groups
            for start in range(0, len(group), step)
        ]
        bounds = np.concatenate([np.empty(0, np.float32), *(bound_B for _, bound_B in found)])
        values = [values_BE for values_BE, _ in found]
        return values[0] if len(values) == 1 else torch.cat(values), bounds

    def _chunk(self, group: QueryGroup) -> tuple[Tensor, Values]:
        if self.union == "noisy-or":
            return self._united(group)
        batches = template_batches(group.template, self.graph, group.entities, group.relations)
        parts = zip(compiled(group.template), batches, strict=True)
        found = [self._alternative(self.engine, part, slots) for part, slots in parts]
        if len(found) == 1:
            return found[0]
        values_BE = torch.stack([values for values, _ in found]).amax(0)
        return values_BE, np.maximum.reduce([bound for _, bound in found])

    def _alternative(
        self, engine: ValueEngine, part: CompiledPattern, slots: SlotValues
    ) -> tuple[Tensor, Values]:
        table, bound_B = engine.run(part.plan, slots)
        size = len(self.graph.entities)
        values = torch.zeros(len(slots) * size)
        code_N = table.query_N * np.int64(size) + table.columns[part.free]
        values[torch.from_numpy(code_N)] = torch.from_numpy(table.value_N)
        return values.view(len(slots), size), bound_B

    def _united(self, group: QueryGroup) -> tuple[Tensor, Values]:
        """With 1 - Π (1 - x) for *or*: each is computed before what is around it."""
        outer, unions = with_unions_apart(group.template)
        vectors, bound_B = [], np.zeros(len(group), np.float32)
        for union in unions:
            false_BE = torch.ones(len(group), len(self.graph.entities))
            for branch in union.branches:
                values_BE, left_out_B = self._united(filled_in(branch, group))
                false_BE *= 1 - values_BE
                bound_B = np.maximum(bound_B, left_out_B)
            vectors.append(SparseRows.of((1 - false_BE).numpy()))
        engine = replace(self.engine, source=RowsWithUnions(self.source, tuple(vectors)))
        asked = filled_in(outer, group, 2 * len(self.graph.relations))
        batches = template_batches(outer, self.graph, asked.entities, asked.relations)
        parts = zip(compiled(outer), batches, strict=True)
        found = [self._alternative(engine, part, slots) for part, slots in parts]
        false_BE = torch.stack([1 - values for values, _ in found]).prod(0)
        return 1 - false_BE, np.maximum.reduce([bound_B, *(bound for _, bound in found)])

    def best_of_rows(self, query: Query, most: int) -> tuple[Ints, Values]:
        """The `most` likeliest rows of a query over ids that may ask for several variables, the
        best first, and their truth values."""
        group = QueryGroup.single(query)
        batches = template_batches(query, self.graph, group.entities, group.relations)
        rows, values = [], []
        for part, slots in zip(compiled(query), batches, strict=True):
            table, _ = self.engine.run(part.plan, slots)
            columns = [np.asarray(table.columns[variable], np.int64) for variable in query.frees]
            rows.append(np.stack(columns, axis=1))
            values.append(table.value_N)
        rows_NC, value_N = np.concatenate(rows), np.concatenate(values)
        if len(rows) > 1:
            rows_NC, value_N = self._united_rows(rows_NC, value_N)
        if len(value_N) > most:
            best = np.argpartition(-value_N, most)[:most]
            rows_NC, value_N = rows_NC[best], value_N[best]
        order = np.lexsort((*rows_NC.T[::-1], -value_N))
        return rows_NC[order], value_N[order]

    def _united_rows(self, rows_NC: Ints, value_N: Values) -> tuple[Ints, Values]:
        """Rows of several alternatives, each once."""
        code_N = codes(list(rows_NC.T), [len(self.graph.entities)] * rows_NC.shape[1])
        if code_N is None:
            code_N = np.unique(rows_NC, axis=0, return_inverse=True)[1].reshape(-1)
        _, first_U, own_N = np.unique(code_N, return_index=True, return_inverse=True)
        if self.union == "noisy-or":
            return rows_NC[first_U], noisy_or(own_N, value_N, len(first_U))
        value_U = np.zeros(len(first_U), np.float32)
        np.maximum.at(value_U, own_N, value_N)
        return rows_NC[first_U], value_U

    def strengths(self, scores_QE: Tensor) -> Tensor:
        return log_odds(scores_QE, _LEAST)

    def derivations(self, query: Query, most: int = 1) -> list[Derivations]:
        """The `most` best derivations of every answer, for each alternative of a query over
        ids."""
        group = QueryGroup.single(query)
        batches = template_batches(query, self.graph, group.entities, group.relations)
        engine = ValueEngine(self.source, self.engine.scale, self.engine.effort, most)
        return [
            Derivations(part, slots, engine.run(part.plan, slots)[0])
            for part, slots in zip(compiled(query), batches, strict=True)
        ]

    @property
    def searches(self) -> Sequence[Searching]:
        return searches_of(self.source)

    def notes(self, query: Query) -> tuple[str, ...]:
        scans = any(isinstance(step, Scan) for part in compiled(query) for step in part.plan.steps)
        scanned = self.engine.effort.scanned
        if not scans or not scanned or len(self.graph.entities) <= scanned:
            return ()
        return (
            f"No constant leads to some variables: links are predicted from {scanned:,} of "
            f"{len(self.graph.entities):,} entities only, those with such a fact first.",
        )
