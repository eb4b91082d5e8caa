"""One call for each step of an experiment, for Python: what the commands of the same names do.

`clmpt/__init__.py` has the names that users know: `pretrain`, `train`, `sample`, `evaluate`,
`evaluate_links`, `index` and `reproduce`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.compute.nearest_measuring import IndexMeasured
from clmpt.compute.processors import available_processors
from clmpt.display.bars import ShowProgress, shown_progress
from clmpt.errors import AlreadyFinished, DataError
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report
from clmpt.experiments.entries import renew_report
from clmpt.experiments.evaluating import Candidate
from clmpt.experiments.recipes import read_recipe
from clmpt.experiments.records import Variant
from clmpt.experiments.single_runs import (
    TrainedModel,
    begin_pretraining,
    begin_training,
    chosen_pretraining,
    chosen_training,
)
from clmpt.experiments.stage_builders import follow_steps
from clmpt.experiments.study import Study, perform_study
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import graph_from, open_graph
from clmpt.pages.report_folder import save_report
from clmpt.progress import as_one_stage
from clmpt.queries.store import QuerySet
from clmpt.sampling.making import make_queries, protocol_for, wanted_shape
from clmpt.storage.files import refuse_existing

AnyGraph = KnowledgeGraph | str | Path
AnyModel = Answerer | TrainedModel | str | Path


def pretrain_on(
    graph: AnyGraph,
    folder: str | Path,
    *,
    recipe: str | Path | None = None,
    start_from: str | Path | None = None,
    progress: ShowProgress = True,
    **settings: Any,
) -> TrainedModel:
    """A link predictor trained on the graph, in `folder`; as `clmpt pretrain`.

    Settings are those of the table [pretraining], such as `rank=100`, on top of a recipe's. The
    same call resumes an interrupted run, and opens a finished one.
    """
    known, tables = graph_from(graph), read_recipe(recipe) if recipe else {}
    chosen = chosen_pretraining(tables, settings)
    steps = begin_pretraining(known, folder, chosen, _source(graph), start_from)
    with shown_progress(progress) as show, suppress(AlreadyFinished):
        follow_steps("pre-training", steps, show)
    return TrainedModel.open(folder, known, [chosen.model])


def train_on(
    graph: AnyGraph,
    queries: QuerySet | str | Path,
    folder: str | Path,
    *,
    predictor: TrainedModel | str | Path | None = None,
    reasoner: str = "clmpt",
    valid: QuerySet | str | Path | None = None,
    recipe: str | Path | None = None,
    start_from: str | Path | None = None,
    trust: Collection[str] = (),
    progress: ShowProgress = True,
    **settings: Any,
) -> TrainedModel:
    """A reasoner trained on queries, in `folder`; as `clmpt train`.

    Settings are those of the table [training] and of the reasoner's own, such as `batch=64,
    heads=4`, on top of a recipe's. Validation queries are sampled from the split 'valid' unless
    given. The same call resumes an interrupted run, and opens a finished one.
    """
    known, tables = graph_from(graph), read_recipe(recipe) if recipe else {}
    chosen = chosen_training(tables, reasoner, settings)
    below = predictor.folder if isinstance(predictor, TrainedModel) else predictor
    if isinstance(predictor, TrainedModel):
        trust = [*trust, *predictor.trust]
    steps = begin_training(
        *(known, queries, folder, chosen, _source(graph), below, valid, start_from, trust)
    )
    with shown_progress(progress) as show, suppress(AlreadyFinished):
        follow_steps("training", steps, show)
    return TrainedModel.open(folder, known, [*trust, reasoner])


def sample_from(
    graph: AnyGraph,
    shapes: Sequence[str],
    out: str | Path,
    *,
    count: int = 1000,
    seed: int = 0,
    split: str | None = None,
    max_answers: int | None = None,
    max_bindings: int | None = None,
    workers: int | None = None,
    progress: ShowProgress = True,
) -> QuerySet:
    """Queries with all their answers, in the file `out`; as `clmpt sample`.

    A shape is a name, NAME=COUNT or a formula with placeholders. `split` is train, valid or test,
    by default the graph's first. The same call resumes after an interruption, and opens
    a file that is finished.
    """
    known, out = graph_from(graph), Path(out)
    protocol = protocol_for(known, split, max_answers, max_bindings)
    wanted = [wanted_shape(text, count) for text in shapes]
    with shown_progress(progress) as show:
        return make_queries(
            *(known, wanted, protocol, out, seed, workers or available_processors()),
            as_one_stage(show, "sampling"),
        )


def evaluate_on_queries(
    model: AnyModel,
    queries: QuerySet | str | Path,
    *,
    graph: AnyGraph | None = None,
    split: str = "test",
    reasoner: str | None = None,
    known: Sequence[str] = (),
    shapes: Sequence[str] = (),
    index: bool = False,
    report: str | Path | None = None,
    device: str = "auto",
    trust: Collection[str] = (),
    progress: ShowProgress = True,
) -> Report:
    """Filtered MRR and Hits@k on queries, by shape; as `clmpt evaluate --queries`.

    `model` is a folder, what `pretrain`, `train` or `fit` returned, or 'exact' for the exact solver
    on `graph`; a predictor answers by beam search. `known` are splits whose facts a reasoner may
    use, `split` that of a benchmark folder, `report` a folder to write the report to. With `index`
    the model's index finds the best entities, and ranks are approximate.
    """
    if report is not None:
        refuse_existing(Path(report))
    with shown_progress(progress) as show:
        candidate = _candidate(model, graph, device, trust, reasoner, known, index)
        found = candidate.report(queries, split, shapes, as_one_stage(show, "evaluating"))
    if report is not None:
        save_report(found, report)
    return found


def evaluate_on_links(
    model: AnyModel,
    *,
    graph: AnyGraph | None = None,
    split: str | None = None,
    limit: int = 0,
    device: str = "auto",
    trust: Collection[str] = (),
    progress: ShowProgress = True,
) -> dict[str, Figures]:
    """MRR and Hits@k of link prediction by split, by default valid and test; as
    `clmpt evaluate --links`. With a limit, over so many questions of each, drawn at random."""
    with shown_progress(progress) as show:
        return _candidate(model, graph, device, trust).links(split, show, limit)


def index_model(
    model: AnyModel,
    *,
    recall: float = 0.95,
    seed: int = 0,
    graph: AnyGraph | None = None,
    trust: Collection[str] = (),
    progress: ShowProgress = True,
) -> dict[str, IndexMeasured]:
    """Makes the indexes with which a model answers without scoring every entity, in its folder; as
    `clmpt index`. What was measured, by index.

    Of the 100 best entities of a question, a share of `recall` is to be found. A model that is
    open already has to be opened again to use them.
    """
    with shown_progress(progress) as show:
        candidate = _candidate(model, graph, "cpu", trust)
        return candidate.make_indexes(recall, seed, as_one_stage(show, "indexing"))


def reproduce_recipe(
    recipe: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    reasoner: str | None = None,
    changes: Sequence[str] = (),
    name: str | None = None,
    device: str | None = None,
    workers: int | None = None,
    trials: int | None = None,
    progress: ShowProgress = True,
) -> Variant:
    """An experiment of a recipe, in the folder `out`, or resumed there; as `clmpt reproduce`.

    `data` is the benchmark's folder; `changes` are settings such as 'training.seed=1'. Of several
    values, 'training.batch=64,128', validation chooses; `trials` is how many of their combinations
    to try, all by default. Variants in one folder share what they have in common, and a page that
    compares them, report/report.html, with means over seeds.
    """
    study = Study(recipe, reasoner, tuple(changes), name, device, trials=trials)
    with shown_progress(progress) as show:
        cores = workers or available_processors()
        made = perform_study(study, open_graph(data), Path(data), Path(out), cores, show)
    renew_report(out, lambda error: warnings.warn(f"Left out: {error}", stacklevel=3))
    return made.variants[0]


def _candidate(
    model: AnyModel,
    graph: AnyGraph | None,
    device: str,
    trust: Collection[str],
    reasoner: str | None = None,
    known: Sequence[str] = (),
    index: bool = False,
) -> Candidate:
    if isinstance(model, TrainedModel):
        trust = [*trust, *model.trust]
    elif isinstance(model, Answerer) and model.asked.insisted:
        reasoner = reasoner or model.asked.name
    if isinstance(model, TrainedModel | Answerer):
        graph = model.graph if graph is None else graph
        if model.folder is None:
            raise DataError("The model is in no folder. Save it first, and evaluate the folder.")
        model = model.folder
    return Candidate.open(model, graph, device, trust, reasoner, known, index)


def _source(graph: AnyGraph) -> str:
    """Where a run can find its graph later; nowhere if it was made in memory."""
    return "" if isinstance(graph, KnowledgeGraph) else str(Path(graph).resolve())
