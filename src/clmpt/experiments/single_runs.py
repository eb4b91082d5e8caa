"""A predictor or a reasoner trained on its own: from settings and files to a run, and its end."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.answering.model_folder import weights_in
from clmpt.display.html import html_block, html_picture
from clmpt.errors import SettingError
from clmpt.experiments.recipes import Tables, with_reasoner
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.pages.charts import draw_charts
from clmpt.pages.curves import is_number, training_charts, valid_mrr
from clmpt.predictors.predictor import read_pretraining
from clmpt.predictors.predictor_folder import about_predictor, open_predictor
from clmpt.queries.sources import open_queries
from clmpt.queries.store import QuerySet
from clmpt.reasoners.model import read_reasoning
from clmpt.reasoners.reasoner_folder import about_reasoner, is_reasoner, open_weights
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Reasoning, Training, check_known, read_table
from clmpt.storage.run_folder import read_log
from clmpt.training.loop import TrainingStep
from clmpt.training.runs import pretrain, train

Steps = Generator[TrainingStep, None, None]


def chosen_pretraining(tables: Tables, given: Mapping[str, Any]) -> Pretraining:
    """The settings of a predictor: a recipe's, overridden by those given."""
    return read_pretraining({**tables.get("pretraining", {}), **given})


def chosen_training(
    tables: Tables, reasoner: str, given: Mapping[str, Any]
) -> tuple[Reasoning, Training]:
    """The settings of a reasoner and of its training: a recipe's, overridden by those given.

    A name that both have is training's.
    """
    shared = [each.name for each in fields(Training)]
    own = [each.name for each in fields(REASONERS.find(reasoner).Settings)]
    for name in given:
        check_known(name, [*shared, *own])
    after = {name: value for name, value in given.items() if name in shared}
    model = {name: value for name, value in given.items() if name not in shared}
    return (
        read_reasoning({**with_reasoner(tables.get("reasoning", {}), reasoner), **model}),
        read_table(Training, {**tables.get("training", {}), **after}),
    )


def begin_pretraining(
    graph: KnowledgeGraph,
    out: str | Path,
    settings: Pretraining,
    source: str = "",
    start_from: str | Path | None = None,
) -> Steps:
    start = open_predictor(start_from, trust=[settings.model]) if start_from else None
    return pretrain(graph, settings, out, source, start=start)


def begin_training(
    graph: KnowledgeGraph,
    queries: QuerySet | str | Path,
    out: str | Path,
    chosen: tuple[Reasoning, Training],
    source: str = "",
    predictor: str | Path | None = None,
    valid: QuerySet | str | Path | None = None,
    start_from: str | Path | None = None,
    trust: Collection[str] = (),
) -> Steps:
    below = None
    kind = REASONERS.find(chosen[0].reasoner)
    if predictor is not None and not kind.needs_predictor:
        raise SettingError(f"{kind.title} uses no predictor. Leave it out.")
    if predictor is not None:
        stored = open_predictor(predictor, trust=trust)
        stored.names.check_graph(graph)
        below = stored.predictor
    asked = _queries(queries, graph, "train")
    held_out = None if valid is None else _queries(valid, graph, "valid")
    start = open_weights(weights_in(start_from), trust) if start_from else None
    return train(graph, below, asked, *chosen, out, source, held_out, start=start)


def _queries(source: QuerySet | str | Path, graph: KnowledgeGraph, split: str) -> QuerySet:
    return source if isinstance(source, QuerySet) else open_queries(Path(source), graph, split)


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A finished run of `pretrain` or `train`: its folder, its graph, and how training went."""

    folder: Path
    graph: KnowledgeGraph
    about: dict[str, Any]  # settings, versions, the epoch that was kept, figures on 'valid'
    trust: tuple[str, ...] = ()

    @classmethod
    def open(
        cls, folder: str | Path, graph: KnowledgeGraph, trust: Collection[str] = ()
    ) -> TrainedModel:
        path = Path(folder)
        about = about_reasoner(path) if is_reasoner(path) else about_predictor(path)
        return cls(path, graph, about, tuple(trust))

    @property
    def valid_mrr(self) -> float | None:
        """The MRR on validation data that the kept weights have; None without such data."""
        found = valid_mrr(self.about)
        return found if is_number(found) else None

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """A record for each epoch, as `clmpt curve` shows them."""
        return read_log(self.folder)

    def answerer(self, device: str = "auto", reasoner: str | None = None) -> Answerer:
        """The model, ready for questions."""
        return Answerer.open(self.folder, self.graph, device, self.trust, reasoner)

    def __repr__(self) -> str:
        valid = "" if self.valid_mrr is None else f"validation MRR {self.valid_mrr:.4f} at "
        return f"<TrainedModel in '{self.folder}': {valid}epoch {self.about.get('epoch')}>"

    def _repr_html_(self) -> str:
        charts = training_charts({self.folder.name: self.log}, "epoch", lambda r: r.get("epoch"))
        return html_block(repr(self).strip("<>"), html_picture(draw_charts(charts), "Training"))
