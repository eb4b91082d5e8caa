"""From a graph to a trained model: hold out facts, pre-train, sample, train, evaluate.

Everything happens in one folder, stage by stage. Finished stages are not repeated and an
interrupted one resumes, so the same call always ends with the same folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.answering.asked_model import BEAM_SEARCH
from clmpt.answering.model_folder import PREDICTOR, REASONER, choice_in
from clmpt.compute import distributed
from clmpt.display.bars import ShowProgress, shown_progress
from clmpt.errors import DataError
from clmpt.experiments.choosing import choice_stage
from clmpt.experiments.costs import (
    BEAM_ROWS,
    idle_peak,
    predictor_width,
    pretraining_work,
    sampling_work,
    training_work,
)
from clmpt.experiments.fit_settings import FitSettings, fit_settings
from clmpt.experiments.predictor_search import chosen_predictor_stage, search_stages
from clmpt.experiments.recipes import Fitting
from clmpt.experiments.reliability_stage import reliability_stage
from clmpt.experiments.stage_builders import (
    TRAINED,
    Asked,
    Measured,
    Stage,
    perform,
    predictor_stage,
    reasoner_stage,
    report_stages,
)
from clmpt.experiments.updating import (
    Previous,
    exchange,
    finish_exchange,
    fit_of_other_names,
    previous_folder,
    refuse_seen,
    same_settings,
    update_folder,
)
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.opening import GRAPH, graph_from
from clmpt.graph.splits import FULL, OBSERVED, has_facts, train_split
from clmpt.graph.splitting import hold_out, in_one_split
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.pages.report_folder import is_report, read_report
from clmpt.progress import ReportProgress, part_of, silent
from clmpt.queries.store import QuerySet
from clmpt.registry import REASONERS
from clmpt.sampling.making import make_queries, partial_folder
from clmpt.sampling.sampler import MOST_HARD, Protocol
from clmpt.storage.run_folder import RunFolder, identity_of
from clmpt.training.tracking import check_tracker

TRAIN_QUERIES = "train.queries"
TEST_QUERIES = "test.queries"
REPORT = "report"
BASELINE_REPORT = "report-beam-search"
TRAINED_SHAPES: tuple[str, ...] = (
    *("1p", "2p", "3p", "2i", "3i", "ip", "pi", "up"),
    *("2in", "3in", "inp", "pin", "pni"),
)
MEASURED_SHAPES: tuple[str, ...] = (*EPFO, *NEGATION)
_LARGE, _MOST_BINDINGS = 100_000, 20_000


def fit(
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    progress: ShowProgress = True,
    device: str = "auto",
    track: str = "",
) -> Answerer:
    """A model trained on the graph, in `folder`, which keeps the result of every stage.

    The same call resumes an interrupted folder, and opens a finished one. If the graph has changed
    since, the model is updated: training starts from it and takes a part of the time, and the model
    before is kept in a folder next to it, `NAME.previous`. Whatever is not in
    `settings` (tables fitting, pretraining, reasoning and training, as in a recipe) is chosen by
    the size of the graph. A tenth of the facts is held out from training for evaluation; with
    `{"fitting": {"hide": 0}}` none is. Progress is shown in a notebook and on a terminal, unless it
    is False; a function gets a `Progress` at every step instead. `track` names a tracker that
    follows training: tensorboard, wandb or mlflow.
    """
    check_tracker(track)
    known = graph_from(graph)
    given = {name: dict(table) for name, table in (settings or {}).items()}
    for table in ("pretraining", "training"):
        given.setdefault(table, {}).setdefault("device", device)
    chosen = settings_for(known, Path(folder), given)
    with shown_progress(progress) as show:
        made = fit_in_stages(known, folder, chosen, progress=show, track=track)
        return made.answerer(device)


def settings_for(
    graph: KnowledgeGraph, out: Path, given: Mapping[str, Mapping[str, Any]]
) -> FitSettings:
    """Those of a fit in `out`: chosen by the graph's size, or those of the model that is updated
    there, and above them what is given."""
    if not graph.index.triples:
        raise DataError(
            "There are no facts between things to learn from. If they are literals of RDF, such as "
            "numbers, keep these as entities with --literals."
        )
    distributed.made_by_one(lambda: finish_exchange(out))
    other = fit_of_other_names(out, graph)
    return same_settings(other, given) if other else fit_settings(graph, given)


@dataclass(frozen=True)
class Fitted:
    """The result of a fit. Without held-out facts there are no reports."""

    folder: Path
    settings: FitSettings
    report: dict[str, Any] | None
    baseline: dict[str, Any] | None  # the same for beam search over the predictor alone
    parts: Mapping[str, dict[str, Any]]  # the same for each part of the model, by name
    chosen: str | None  # the reasoner that did best, which answers questions by default
    previous: Path | None = None  # the model that was updated

    def answerer(self, device: str = "auto") -> Answerer:
        return Answerer.open(self.folder, device=device, trust=trusted_by(self.settings))


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a fit."""

    seconds: float
    bytes: int


def fit_in_stages(
    graph: KnowledgeGraph,
    out: str | Path,
    settings: FitSettings | None = None,
    source: str = "",
    progress: ReportProgress = silent,
    track: str = "",
) -> Fitted:
    """Trains a model on the graph in the folder `out`, or resumes there.

    See `divide` for what is held out. Ctrl-C and a kill lose a little time, nothing else. A
    finished folder is returned at once, or updated if the graph has changed.
    """
    out = Path(out)
    settings = settings or settings_for(graph, out, {})
    run, previous = begin_fit(graph, out, settings, source)
    with distributed.held_by_one(run.alone()):
        for name in (TRAIN_QUERIES, TEST_QUERIES):
            if (run.path / name).exists():  # left behind if killed before cleaning up
                shutil.rmtree(partial_folder(run.path / name), ignore_errors=True)
        divided = KnowledgeGraph.open(run.path / GRAPH)
        perform(fit_stages(divided, settings, run.path, previous), progress, track)
        distributed.by_one(_finish)(run)
        distributed.wait_for_all()
    if previous:
        distributed.made_by_one(lambda: exchange(out))
    paths = {name: one.report for name, one in reports_of(settings, out).items()}
    trained = next(iter(paths))
    found = {name: read_report(path) for name, path in paths.items() if is_report(path)}
    own, baseline = (found.pop(name, None) for name in (trained, BEAM_SEARCH))
    kept = previous_folder(out) if previous else None
    return Fitted(out, settings, own, baseline, found, choice_in(out), kept)


def _finish(run: RunFolder) -> None:
    if not run.is_finished:
        run.finish({})


def begin_fit(
    graph: KnowledgeGraph, out: Path, settings: FitSettings, source: str = ""
) -> tuple[RunFolder, Previous | None]:
    """The folder of a fit with the divided graph in it, new or resumed; and the model in `out` that
    it updates, in which case the folder is another one."""
    plain = settings.as_plain()
    for table in ("pretraining", "training"):
        plain[table].pop("device")  # a model trained on another device can be opened here
    identity = {"kind": "fit", **plain, "graph": graph.identity}
    distributed.agree(repr(identity), "the settings or the graph")
    return distributed.in_turn(lambda: _begin_fit(graph, out, settings, source, identity))


def _begin_fit(
    graph: KnowledgeGraph, out: Path, settings: FitSettings, source: str, identity: dict[str, Any]
) -> tuple[RunFolder, Previous | None]:
    previous = None
    if other := fit_of_other_names(out, graph):
        own = {**identity, "graph": identity_of(out)["graph"]}
        RunFolder.find(out, own)  # rejects other settings
        if other.is_outdated(graph):
            previous, out = other, update_folder(out)
        else:
            identity = own
    run = RunFolder.resume(out, identity)
    if run is None:
        divided = divide(graph, settings.fitting, previous)
        run = RunFolder.create(out, identity, source, lambda folder: divided.save(folder / GRAPH))
    return run, previous


def divide(
    graph: KnowledgeGraph, settings: Fitting, previous: Previous | None = None
) -> KnowledgeGraph:
    """The graph with facts held out, or with all of them in one split.

    A graph that already has facts in 'train' and in 'valid' or 'test' is not changed. Of a graph
    that was fitted before, no fact is held out that was trained on.
    """
    if has_facts(graph, "train") and (has_facts(graph, "valid") or has_facts(graph, "test")):
        if previous:
            refuse_seen(previous, graph)
        return graph
    if settings.hide:
        before = previous.graph if previous else None
        return hold_out(graph, settings.hide, settings.seed, before)
    return graph if len(graph.splits) == 1 else in_one_split(graph)


def estimate(
    graph: KnowledgeGraph, settings: FitSettings, previous: Previous | None = None
) -> Estimate:
    """Time and memory of all stages on the CPU, from a short measurement of its speed."""
    works = [stage.work for stage in fit_stages(graph, settings, Path(), previous)]
    peak = idle_peak()
    return Estimate(
        sum(work.seconds(peak) for work in works), int(max(work.memory for work in works))
    )


def trusted_by(settings: FitSettings) -> list[str]:
    """The classes that the settings name, which the folder may import."""
    return [settings.pretraining.model, settings.reasoning.reasoner]


# --- the stages -----------------------------------------------------------------------------------


def fit_stages(
    graph: KnowledgeGraph, settings: FitSettings, out: Path, previous: Previous | None = None
) -> list[Stage]:
    """The stages of a fit, in order; `graph` is already divided."""
    settings = previous.shortened(settings) if previous else settings
    before, model, after = settings.pretraining, settings.reasoning, settings.training
    trust = trusted_by(settings)
    source, held_out = str((out / GRAPH).resolve()), held_out_split(graph)
    size, width = len(graph.entities), predictor_width(before)
    predictor = out / PREDICTOR if REASONERS.find(model.reasoner).needs_predictor else None
    trained = len(TRAINED_SHAPES) * settings.fitting.queries
    found: list[Stage] = []
    if predictor and previous:
        work = pretraining_work(graph, before)
        found.append(
            predictor_stage(
                *(graph, before, predictor, source, work), start=lambda: previous.predictor(trust)
            )
        )
    elif predictor:
        tries = settings.fitting.tries if has_facts(graph, "valid") else 1
        found += search_stages(graph, before, tries, out, predictor, source)
        found.append(chosen_predictor_stage(graph, before, tries, out, predictor, source))
    found.append(_training_queries(graph, settings, out / TRAIN_QUERIES))
    found.append(
        reasoner_stage(
            *(graph, out / TRAIN_QUERIES, None, predictor, (before, model, after)),
            *(out / REASONER, source, training_work(size, width, trained, model, after)),
            start=lambda: previous.start(trust) if previous else None,
        )
    )
    if not held_out:
        return found
    found.append(_test_queries(graph, settings, held_out, out / TEST_QUERIES))
    measured = Measured(
        out / TEST_QUERIES,
        len(MEASURED_SHAPES) * settings.fitting.test_queries,
        graph.view(*_there(graph, FULL[held_out])),
        _there(graph, OBSERVED[held_out]),
        after.device,
        trust,
        {"split": held_out},
    )
    asked = reports_of(settings, out)
    reports = report_stages(measured, width, list(asked.values()))
    found += [_unless_empty(stage, out / TEST_QUERIES) for stage in reports]
    checking = reliability_stage(measured, out, reports[0].work)
    return [*found, choice_stage(asked, out), _unless_empty(checking, out / TEST_QUERIES)]


def reports_of(settings: FitSettings, out: Path) -> dict[str, Asked]:
    """The report on each reasoner that a fitted model offers, by its name; the trained one
    first."""
    kind = REASONERS.find(settings.reasoning.reasoner)
    name = REASONERS.name_of(kind)
    weights = out / REASONER
    own = ("report", "measuring", weights, TRAINED, out / REPORT, kind.rows_per_query)
    found = {name: Asked(*own)}
    for part in kind.part_names:
        rows, path = REASONERS.find(part).rows_per_query, out / f"{REPORT}-{part}"
        found[part] = Asked(part, f"measuring {part}", weights, part, path, rows)
    if kind.needs_predictor:
        beam = ("baseline", "beam search", out / PREDICTOR, BEAM_SEARCH, out / BASELINE_REPORT)
        found[BEAM_SEARCH] = Asked(*beam, BEAM_ROWS)
    return found


def _unless_empty(stage: Stage, queries: Path) -> Stage:
    """A report stage that is skipped if there are no test queries."""

    def is_done(path: Path) -> bool:
        return path.exists() or (queries.exists() and not len(QuerySet.open(queries)))

    return replace(stage, check=is_done)


def _training_queries(graph: KnowledgeGraph, settings: FitSettings, path: Path) -> Stage:
    split = train_split(graph)
    count = settings.fitting.queries
    return _sampling(
        *("train", "training queries", graph, TRAINED_SHAPES, count),
        *(
            Protocol((split,), (split,), max_bindings=_most_bindings(graph)),
            settings.fitting.seed,
            path,
        ),
    )


def _test_queries(graph: KnowledgeGraph, settings: FitSettings, held_out: str, path: Path) -> Stage:
    observed, full = _there(graph, OBSERVED[held_out]), _there(graph, FULL[held_out])
    count = settings.fitting.test_queries
    return _sampling(
        *("test", "test queries", graph, MEASURED_SHAPES, count),
        *(Protocol(observed, full, MOST_HARD, _most_bindings(graph)), settings.fitting.seed, path),
    )


def _most_bindings(graph: KnowledgeGraph) -> int:
    """In a large graph, queries through its hubs have most of its entities as answers: they would
    take nearly all of the time and teach little."""
    return _MOST_BINDINGS if len(graph.entities) > _LARGE else 0


def _sampling(
    role: str,
    name: str,
    graph: KnowledgeGraph,
    shapes: Sequence[str],
    count: int,
    protocol: Protocol,
    seed: int,
    path: Path,
) -> Stage:
    wanted = [(shape(text), count) for text in shapes]

    def run(progress: ReportProgress) -> None:
        report = part_of(progress, name, 0, len(shapes) * count)
        share = distributed.Together()
        make_queries(graph, wanted, protocol, path, seed, progress=report, share=share)

    return Stage(role, name, path, sampling_work(len(shapes) * count), run, is_shared=True)


def held_out_split(graph: KnowledgeGraph) -> str:
    """The split to evaluate on; empty if there is none."""
    if not has_facts(graph, "train"):
        return ""
    return next((name for name in ("test", "valid") if has_facts(graph, name)), "")


def _there(graph: KnowledgeGraph, splits: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the splits that the graph has."""
    return tuple(name for name in splits if name in graph.splits)
