"""A checkpoint and its graph, opened to be evaluated: on queries, or on links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clmpt.answering.asked_model import BEAM_SEARCH, AskedModel, open_model, reasoners_of
from clmpt.answering.model_folder import graph_of, predictor_in, weights_in
from clmpt.answering.model_index import make_indexes
from clmpt.compute.devices import find_device
from clmpt.compute.nearest_measuring import IndexMeasured
from clmpt.errors import DataError, SettingError
from clmpt.evaluation.link_ranks import evaluate_links
from clmpt.evaluation.measuring import evaluate
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import graph_from
from clmpt.graph.splits import FULL, OBSERVED, train_split
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.progress import ReportProgress, part_of, silent
from clmpt.queries.sources import open_queries
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.exact import ExactReasoner
from clmpt.reasoners.indexing import searches_of
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import is_reasoner

EXACT = "exact"  # in place of a checkpoint


@dataclass(frozen=True)
class Candidate:
    """What is evaluated: a checkpoint, or the exact solver if `weights` is None.

    `known` are the splits whose facts a reasoner may use, by default what it was trained on. With
    `index` it answers with the checkpoint's index, which must have one.
    """

    name: str
    weights: Path | None
    predictor: Path | None  # what predicts links: the weights, or what a fitted model has
    graph: KnowledgeGraph
    device: str = "auto"
    trust: Collection[str] = ()
    reasoner: str | None = None
    known: Sequence[str] = ()
    index: bool = False

    @classmethod
    def open(
        cls,
        checkpoint: str | Path,
        graph: KnowledgeGraph | str | Path | None = None,
        device: str = "auto",
        trust: Collection[str] = (),
        reasoner: str | None = None,
        known: Sequence[str] = (),
        index: bool = False,
    ) -> Candidate:
        is_exact = str(checkpoint) == EXACT
        if is_exact and graph is None:
            raise SettingError("Name the graph for the exact solver: --graph FOLDER")
        found = graph_from(graph_of(checkpoint) if graph is None else graph)
        weights = None if is_exact else weights_in(checkpoint)
        predictor = None if is_exact else predictor_in(checkpoint)
        name = Path(checkpoint).resolve().name
        return cls(name, weights, predictor, found, device, trust, reasoner, known, index)

    @property
    def known_splits(self) -> Sequence[str]:
        for name in self.known:
            if name not in self.graph.splits:
                raise SettingError(
                    f"The graph has no split '{name}'. Available: {', '.join(self.graph.splits)}."
                )
        return self.known or (train_split(self.graph),)

    @property
    def known_facts(self) -> KnowledgeGraph:
        return self.graph.view(*self.known_splits)

    def asked(self, wanted: str | None = None) -> AskedModel:
        """The model with the reasoner that was chosen, or else with the one `wanted`."""
        assert self.weights is not None
        device, chosen = find_device(self.device), self.reasoner or wanted
        facts, index = self.known_facts, self.index
        asked, _ = open_model(
            self.weights, self.graph, device, self.trust, chosen, facts, index=index
        )
        if index and not any(one.nearest for one in searches_of(asked.reasoner)):
            why = " ".join(asked.index_notes) or "Make one with 'clmpt index'."
            raise DataError(f"{asked.reasoner.name} has no index to answer with. {why}")
        return asked

    def make_indexes(
        self, recall: float, seed: int = 0, progress: ReportProgress = silent
    ) -> dict[str, IndexMeasured]:
        """Makes an index of each table that the checkpoint's reasoners search."""
        if self.weights is None:
            raise SettingError("The exact solver needs no index.")
        facts, cpu = self.known_facts, torch.device("cpu")
        asked, stored = open_model(self.weights, self.graph, cpu, self.trust, index=False)
        reasoners = reasoners_of(stored.model, facts).values() if stored else [asked.truth]
        return make_indexes(self.weights, list(reasoners), facts.index, recall, seed, progress)

    def links(
        self, split: str | None = None, progress: ReportProgress = silent, limit: int = 0
    ) -> dict[str, Figures]:
        """Link prediction in both directions, by split: by default valid and test. With a limit,
        over so many one-hop questions of each, drawn at random."""
        if self.predictor is None or is_reasoner(self.predictor):
            raise SettingError("--links evaluates a predictor. Use --queries for anything else.")
        stored = open_predictor(self.predictor, find_device(self.device), self.trust)
        stored.names.check_graph(self.graph)
        usual = [name for name in ("valid", "test") if name in self.graph.splits]
        there = [name for name in usual if self.graph.view(name).index.triples]
        splits = [split] if split else there
        if not splits:
            raise DataError(
                "The graph has no facts in 'valid' or 'test'. Choose another split: --split NAME"
            )
        return {
            name: evaluate_links(
                *(stored.predictor, self.graph, name),
                part_of(progress, f"links of {name}", 0, None),
                limit=limit,
            )
            for name in splits
        }

    def report(
        self,
        source: QuerySet | str | Path,
        split: str = "test",
        shapes: Sequence[str] = (),
        progress: ReportProgress = silent,
    ) -> Report:
        """Figures by shape; `split` is that of a benchmark folder."""
        queries, name = self.queries(source, split)
        groups = chosen_groups(queries, shapes)
        if not any(len(group.hard.entities) for group in groups):
            raise DataError(
                f"'{name}' has no hard answers to rank. Queries sampled for the splits "
                "'valid' and 'test' do."
            )
        is_folder = not isinstance(source, QuerySet) and Path(source).is_dir()
        observed, full = _splits(queries, self.graph, split if is_folder else "")
        if self.weights is None and not observed:
            raise DataError(f"'{name}' does not say which splits its easy answers follow from.")
        title, reasoner = self._titled(observed)
        whole = self.graph.view(*full) if full else None
        about = {"queries": Path(name).name, **({"approximate": True} if self.index else {})}
        facts = observed if self.weights is None else self.known_splits
        same = conditions(self.graph, facts, self.index)
        return evaluate(
            *(reasoner, groups, title, whole, observed or None, about, progress), conditions=same
        )

    def queries(self, source: QuerySet | str | Path, split: str = "test") -> tuple[QuerySet, str]:
        """The queries, and what to call them."""
        if isinstance(source, QuerySet):
            return source, "queries"
        return open_queries(Path(source), self.graph, split), str(source)

    def _titled(self, observed: tuple[str, ...]) -> tuple[str, Reasoner]:
        """The reasoner to evaluate, and its name in the report."""
        if self.weights is None:
            exact = ExactReasoner(self.graph.view(*observed))
            return exact.name, exact
        is_own = is_reasoner(self.weights)
        found = self.asked(None if is_own else BEAM_SEARCH).reasoner
        plain = is_own and not self.reasoner
        return self.name if plain else f"{self.name} ({found.name})", found


def conditions(
    graph: KnowledgeGraph, known: Sequence[str], approximate: bool = False
) -> dict[str, Any]:
    """What two reports must share to be compared query by query, besides the queries: the graph,
    the splits whose facts a reasoner may use, and whether ranks are exact."""
    facts = [name for name in graph.splits if name in known]
    return {"graph": graph.identity, "known": facts, "approximate": approximate}


def chosen_groups(queries: QuerySet, shapes: Sequence[str]) -> list[QueryGroup]:
    """The queries of some shapes, by default of all."""
    if not shapes:
        return list(queries.groups)
    by_name = {group.name: group for group in queries.groups}
    for name in dict.fromkeys(shapes):
        if name not in by_name:
            raise DataError(
                f"There are no queries of shape {name}. Available shapes: {', '.join(by_name)}."
            )
    return [by_name[name] for name in dict.fromkeys(shapes)]


def _splits(
    queries: QuerySet, graph: KnowledgeGraph, split: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The splits that easy answers, and all answers, follow from; empty if unknown."""
    observed = queries.about.get("observed", OBSERVED.get(split, ()))
    full = queries.about.get("full", FULL.get(split, ()))
    lists = isinstance(observed, list | tuple) and isinstance(full, list | tuple)
    if not lists or not {*map(str, observed), *map(str, full)} <= set(graph.splits):
        return (), ()
    return tuple(map(str, observed)), tuple(map(str, full))
