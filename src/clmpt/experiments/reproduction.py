"""Reproduces a published experiment or a variant: sample, pre-train, train, evaluate.

The name of a stage's result is derived from its settings and inputs. So variants in one folder
share common stages, finished stages are not repeated, and an interrupted one resumes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from clmpt.answering.asked_model import BEAM_SEARCH
from clmpt.compute import distributed
from clmpt.errors import DataError, SettingError
from clmpt.experiments.benchmarks import BENCHMARKS, differences
from clmpt.experiments.costs import (
    BEAM_ROWS,
    check_reasoning,
    predictor_width,
    pretraining_work,
    training_work,
)
from clmpt.experiments.query_stages import QueryPlan, official_files, query_stage
from clmpt.experiments.recipes import Experiment, Queries
from clmpt.experiments.records import VARIANTS, Variant, read_variant
from clmpt.experiments.stage_builders import (
    TRAINED,
    Asked,
    Measured,
    Stage,
    perform,
    predictor_stage,
    reasoner_stage,
    renamed,
    report_stages,
)
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import OBSERVED, SPLITS, has_facts
from clmpt.logic.formula import Query
from clmpt.logic.query_graph import query_graphs
from clmpt.logic.shapes import SHAPES, shape
from clmpt.pages.published import check_published
from clmpt.predictors.predictor import read_pretraining
from clmpt.progress import ReportProgress, silent
from clmpt.reasoners.model import read_reasoning
from clmpt.registry import REASONERS
from clmpt.settings import Pretraining, Reasoning, Training, read_table, without_device
from clmpt.storage.files import clear_unfinished, save_json
from clmpt.storage.run_folder import RunFolder, provenance
from clmpt.storage.sealing import listed_file, make_sealed

SWEEPS = "sweeps"
_FOLDERS = ("queries", "predictors", "reasoners", "reports", VARIANTS, SWEEPS)
_OWN = ("reasoner", "report")  # roles of stages that no other variant shares
_SLUG = 60  # characters of a variant's name in file names
_KEY = 8  # hexadecimal digits


@dataclass(frozen=True)
class Recipe:
    """All the settings of an experiment."""

    experiment: Experiment
    queries: Queries
    pretraining: Pretraining
    reasoning: Reasoning
    training: Training

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> Recipe:
        """
        >>> Recipe.of({"experiment": {"seed": 7}, "training": {"batch": 64}}).training.seed
        7
        """
        asked = read_table(Experiment, tables.get("experiment", {}))
        check_published(asked.benchmark, asked.published)

        def seeded(name: str) -> dict[str, Any]:
            return {"seed": asked.seed, **tables.get(name, {})}

        model = read_reasoning(tables.get("reasoning", {}))
        before = read_pretraining(seeded("pretraining"))
        check_reasoning(model, before)
        chosen = read_table(Queries, seeded("queries"))
        for name in (*chosen.trained.split(), *chosen.measured.split()):
            if name not in SHAPES:
                known = ", ".join(SHAPES)
                raise SettingError(f"There is no shape '{name}'. Available: {known}.")
        return cls(asked, chosen, before, model, read_table(Training, seeded("training")))

    @property
    def name(self) -> str:
        return self.experiment.name or label(self.reasoning)

    def as_plain(self) -> dict[str, Any]:
        return {**asdict(self), "reasoning": self.reasoning.as_plain()}


def label(chosen: Reasoning) -> str:
    """A reasoner's title with what is not default in its settings.

    >>> label(read_reasoning({"frozen": True})), label(read_reasoning({"reasoner": "lmpnn"}))
    ('CLMPT (frozen)', 'LMPNN')
    """
    return REASONERS.find(chosen.reasoner).label(chosen.settings)


def reproduce(
    graph: KnowledgeGraph,
    data: Path,
    recipe: Recipe,
    out: Path,
    workers: int = 1,
    progress: ReportProgress = silent,
    label: str = "",
    track: str = "",
    baseline: bool = True,
) -> Variant:
    """Runs the experiment in the folder `out`, or resumes it.

    Queries come from the folder `data` if it has them, and are sampled from the graph otherwise;
    the report says which. Weights are chosen on the split 'valid'; the split 'test' is used only
    at the end. With a label, the stages of this variant alone have it behind their names. `track`
    names a tracker that follows training. With `baseline`, beam search over the predictor alone is
    measured as well.
    """
    run = begin_experiments(graph, data, out)
    about = provenance()
    stages = experiment_stages(recipe, graph, data, out, workers, label, baseline)
    with performed(run, stages, progress, track):
        return distributed.in_turn(lambda: _record(recipe, graph, about, stages, out))


@contextmanager
def performed(
    run: RunFolder, stages: Sequence[Stage], progress: ReportProgress, track: str = ""
) -> Iterator[None]:
    """The stages are done, and no other process works in the folder."""
    with distributed.held_by_one(run.alone()):
        for folder in _FOLDERS:
            distributed.by_one(clear_unfinished)(run.path / folder)
        perform(stages, progress, track)
        yield


def begin_experiments(graph: KnowledgeGraph, data: Path, out: Path) -> RunFolder:
    """The folder for experiments on one graph, new or existing."""
    identity = _identity(graph)
    distributed.agree(repr(identity), "the graph")

    def begin() -> RunFolder:
        found = RunFolder.resume(out, identity)
        if found is not None:
            return found
        return RunFolder.create(out, identity, str(data.resolve()), lambda _folder: None)

    return distributed.in_turn(begin)


def graph_differs(recipe: Recipe, graph: KnowledgeGraph) -> list[str]:
    """How the graph differs from the published benchmark that the recipe names."""
    known = BENCHMARKS.get(recipe.experiment.benchmark)
    return differences(known, graph) if known else []


def check_folder(graph: KnowledgeGraph, out: Path) -> None:
    """Rejects what `begin_experiments` would reject, without touching any file."""
    RunFolder.find(out, _identity(graph))


def _identity(graph: KnowledgeGraph) -> dict[str, Any]:
    for split in SPLITS:
        if not has_facts(graph, split):
            raise DataError(f"The graph has no facts in the split '{split}'; all three are needed.")
    return {"kind": "reproduction", "graph": graph.identity}


# --- the stages -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keys:
    """Short digests of each result's settings and inputs, for its name."""

    train: str
    valid: str
    test: str
    predictor: str
    reasoner: str

    @classmethod
    def of(cls, recipe: Recipe, data: Path, needs_predictor: bool) -> _Keys:
        asked = asdict(recipe.queries)
        folder = queries_folder(recipe, data)
        train, valid, test = (
            official_files(folder, split) for split in ("train", "valid", recipe.queries.tested)
        )
        train |= {name: asked[name] for name in ("trained", "train", "train_negated", "seed")}
        valid |= {"trained": asked["trained"], "seed": asked["seed"]}
        valid |= {"count": recipe.training.validation_queries}
        test |= {name: asked[name] for name in ("measured", "test", "test_links", "seed")}
        if recipe.queries.tested != "test":
            test["tested"] = recipe.queries.tested
        predictor = digest(without_device(recipe.pretraining))
        made_from = [digest(train), digest(valid), predictor if needs_predictor else None]
        model, after = recipe.reasoning.as_plain(), without_device(recipe.training)
        return cls(
            digest(train),
            digest(valid),
            digest(test),
            predictor,
            digest([*made_from, model, after]),
        )


def experiment_stages(
    recipe: Recipe,
    graph: KnowledgeGraph,
    data: Path,
    out: Path,
    workers: int = 1,
    label: str = "",
    baseline: bool = True,
) -> list[Stage]:
    """The stages of an experiment, in order."""
    before, model, after = recipe.pretraining, recipe.reasoning, recipe.training
    needs_predictor = REASONERS.find(model.reasoner).needs_predictor
    keys, source = _Keys.of(recipe, data, needs_predictor), str(data.resolve())
    queries, size, width = out / "queries", len(graph.entities), predictor_width(before)
    plans = _query_plans(recipe, graph, data, workers)
    train, valid, test = (
        query_stage(role, plan, queries / f"{role}-{key}.queries")
        for (role, plan), key in zip(
            plans.items(), (keys.train, keys.valid, keys.test), strict=True
        )
    )
    found = [train, valid]
    predictor = None
    if needs_predictor:
        predictor = out / "predictors" / f"{slug(before.model)}-{before.rank}-{keys.predictor}"
        work = pretraining_work(graph, before)
        found.append(predictor_stage(graph, before, predictor, source, work))
    reasoner = out / "reasoners" / f"{slug(model.reasoner)}-{keys.reasoner}"
    work = training_work(size, width, plans["train"].total, model, after)
    chosen = (before, model, after)
    found.append(
        reasoner_stage(graph, train.path, valid.path, predictor, chosen, reasoner, source, work)
    )
    alone = predictor if baseline else None
    found += [test, *_reports(recipe, graph, out, keys, test.path, reasoner, alone)]
    return [renamed(one, one.name + label) if one.role in _OWN else one for one in found]


def _reports(
    recipe: Recipe,
    graph: KnowledgeGraph,
    out: Path,
    keys: _Keys,
    queries: Path,
    reasoner: Path,
    predictor: Path | None,
) -> list[Stage]:
    trust = [recipe.pretraining.model, recipe.reasoning.reasoner]
    shapes = map(shape, recipe.queries.measured.split())
    count = sum(_tested_count(recipe.queries, template) for template in shapes)
    device = recipe.training.device
    observed = OBSERVED[recipe.queries.tested]
    measured = Measured(queries, count, graph, observed, device, trust, {})
    reports = out / "reports"
    own = reports / f"{reasoner.name}-{keys.test}"
    rows = REASONERS.find(recipe.reasoning.reasoner).rows_per_query
    asked = [Asked("report", "measuring", reasoner, TRAINED, own, rows)]
    if predictor:
        beam = reports / f"beam-{digest([keys.predictor, keys.test])}"
        asked.append(Asked("baseline", "beam search", predictor, BEAM_SEARCH, beam, BEAM_ROWS))
    return report_stages(measured, predictor_width(recipe.pretraining), asked)


def _query_plans(
    recipe: Recipe, graph: KnowledgeGraph, data: Path, workers: int
) -> dict[str, QueryPlan]:
    """The queries to train on, to choose on and to measure, by role: 'train', 'valid', 'test'."""
    asked, few = recipe.queries, recipe.training.validation_queries
    trained = {shape(name): name for name in asked.trained.split()}
    measured = {shape(name): name for name in asked.measured.split()}
    counts = {
        "train": {template: _trained_count(asked, template) for template in trained},
        "valid": dict.fromkeys(trained, few),
        "test": {template: _tested_count(asked, template) for template in measured},
    }
    folder = queries_folder(recipe, data)
    return {
        role: QueryPlan(
            graph, folder, split, {**trained, **measured}, counts[role], asked.seed, workers
        )
        for role, split in zip(SPLITS, ("train", "valid", asked.tested), strict=True)
    }


def queries_folder(recipe: Recipe, data: Path) -> Path:
    """Where official queries are: with the graph, or in a folder of their own."""
    return Path(recipe.queries.folder) if recipe.queries.folder else data


def digest(document: Any) -> str:
    """A short digest of plain values, for names of files."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY]


def slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_SLUG]


def _trained_count(asked: Queries, template: Query) -> int:
    graphs = query_graphs(template).alternatives
    negated = any(edge.negated for graph in graphs for edge in graph.edges)
    return asked.train_negated if negated else asked.train


def _tested_count(asked: Queries, template: Query) -> int:
    atoms = sum(len(graph.edges) for graph in query_graphs(template).alternatives)
    return asked.test_links if atoms == 1 else asked.test


# --- the record -----------------------------------------------------------------------------------


def _record(
    recipe: Recipe,
    graph: KnowledgeGraph,
    about: dict[str, Any],
    stages: Sequence[Stage],
    out: Path,
) -> Variant:
    """Records a finished experiment."""
    places = {stage.role: str(stage.path.relative_to(out)) for stage in stages}
    key = digest([asdict(recipe.experiment), recipe.name, places])
    path = out / VARIANTS / f"{slug(recipe.name) or 'variant'}-{key}.json"
    if not path.exists():
        document = {
            "name": recipe.name,
            "settings": recipe.as_plain(),
            "folders": places,
            **about,
            "done": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            "graph_differs": graph_differs(recipe, graph),
        }
        make_sealed(path.parent)
        with listed_file(path) as scratch:
            save_json(scratch, document)
    return read_variant(path)
