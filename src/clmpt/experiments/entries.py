"""Reads results from run folders: a row per model, with figures, costs, settings and origin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.experiments.query_stages import OFFICIAL, SAMPLED
from clmpt.experiments.records import LeaveOut, Variant, or_else, refuse, variants_in
from clmpt.experiments.sweeping import sweeps_in
from clmpt.pages.comparison import compare, renew
from clmpt.pages.curves import is_number
from clmpt.pages.entry import Entry, distinct
from clmpt.pages.report_folder import is_report, read_cost, read_report
from clmpt.pages.seeds import seed_groups
from clmpt.predictors.predictor_folder import parameter_count
from clmpt.queries.store import QuerySet
from clmpt.reasoners.reasoner_folder import parameter_counts
from clmpt.storage.files import new_file, save_json
from clmpt.storage.run_folder import identity_of, read_log, read_provenance, read_summary

PAGE = "report"  # the folder of the page that compares experiments
SEEDS = "seeds.json"
_NONE: Mapping[str, list[dict[str, Any]]] = {}


def entries_in(folder: str | Path, leave_out: LeaveOut = refuse) -> list[Entry]:
    """The results in a folder: experiments of `reproduce`, or a report of `evaluate`.

    An experiment recorded under two names appears once, under the later one. `leave_out` decides
    what happens to damaged ones.
    """
    folder = Path(folder)
    if is_report(folder):
        document = read_report(folder)
        return [Entry(str(document.get("model", folder.name)), document)]
    by_report = {variant.folders["report"]: variant for variant in variants_in(folder, leave_out)}
    found: list[Entry] = []
    baselines: dict[Path, Variant] = {}
    trials = _trials(folder, leave_out)
    for variant in by_report.values():
        with or_else(leave_out, f"{variant.name}: "):
            found.append(entry_of(variant, trials))
            if "baseline" in variant.folders:
                baselines[variant.folders["baseline"]] = variant
    if not found:
        raise DataError(
            f"There is nothing to report in '{folder}': neither a finished experiment of "
            "'clmpt reproduce' nor a report of 'clmpt evaluate'."
        )
    for variant in baselines.values():
        with or_else(leave_out):
            found.append(_baseline(variant))
    return distinct(found)


def renew_report(out: str | Path, leave_out: LeaveOut = refuse) -> list[Entry]:
    """The results in a folder of experiments, written to its page `PAGE`; means over seeds also as
    JSON."""
    entries = entries_in(out, leave_out)
    renew(compare(entries), Path(out) / PAGE)
    groups = [group.as_plain() for group in seed_groups(entries)]
    if groups:
        with new_file(Path(out) / PAGE / SEEDS) as scratch:
            save_json(scratch, groups)
    return entries


def _trials(folder: Path, leave_out: LeaveOut) -> dict[str, list[dict[str, Any]]]:
    """The trials of each sweep, by how the chosen reasoner was trained."""
    found: dict[str, list[dict[str, Any]]] = {}
    with or_else(leave_out):
        for sweep in sweeps_in(folder):
            found[_training_of(sweep.reasoner)] = list(sweep.trials)
    return found


def _training_of(reasoner: Path) -> str:
    """What a reasoner was trained with and on, but for the seed."""
    identity = identity_of(reasoner)
    settings = {**identity.get("settings", {}), "seed": None}
    return json.dumps({**identity, "settings": settings}, sort_keys=True)


def entry_of(variant: Variant, trials: Mapping[str, list[dict[str, Any]]] = _NONE) -> Entry:
    """A finished experiment. `trials` are those of sweeps, by how what they chose was trained."""
    places = variant.folders
    about = variant.settings["experiment"]
    report = read_report(places["report"])
    asked = {split: QuerySet.open(places[split]) for split in ("train", "valid", "test")}
    trained, frozen = parameter_counts(places["reasoner"])
    summary = read_summary(places["reasoner"])
    costs = {
        **_pretraining_costs(variant),
        "training": summary.get("seconds"),
        "processor": summary.get("processor"),
        "steps": summary.get("steps_done"),
        "training memory": summary.get("memory"),
        **_evaluation_costs(places["report"]),
        "trained": trained,
        "frozen": frozen,
    }
    stages = {"predictor": "predictor", "training": "reasoner"}
    provenance = {name: read_provenance(places[r]) for name, r in stages.items() if r in places}
    return Entry(
        variant.name,
        report,
        str(about["benchmark"]),
        str(about["published"]),
        {name: value for name, value in costs.items() if is_number(value)},
        read_log(places["reasoner"]),
        variant.settings,
        {**provenance, "last command": variant.provenance},
        {split: _origin(queries) for split, queries in asked.items()},
        _is_official(asked["test"]),
        _graph_differs(variant),
        variant.family,
        variant.without_seed,
        variant.seed,
        trials.get(_training_of(places["reasoner"]), []) if trials else [],
    )


def _baseline(variant: Variant) -> Entry:
    place = variant.folders["baseline"]
    report = read_report(place)
    costs = {
        **_pretraining_costs(variant),
        **_evaluation_costs(place),
        "trained": 0,
        "frozen": parameter_count(variant.folders["predictor"]),
    }
    return Entry(
        str(report["model"]),
        report,
        str(variant.settings["experiment"]["benchmark"]),
        costs={name: value for name, value in costs.items() if is_number(value)},
        is_official=_is_official(QuerySet.open(variant.folders["test"])),
        graph_differs=_graph_differs(variant),
    )


def _pretraining_costs(variant: Variant) -> dict[str, Any]:
    if "predictor" not in variant.folders:
        return {}
    found = read_summary(variant.folders["predictor"])
    return {"pre-training": found.get("seconds"), "pre-training memory": found.get("memory")}


def _evaluation_costs(folder: Path) -> dict[str, Any]:
    found = read_cost(folder)
    report = read_report(folder)
    queries = sum(int(shape["count"]) for shape in report["shapes"])
    processor = found.get("processor")
    answering = {"answering": processor / queries} if is_number(processor) and queries else {}
    return {
        "evaluation": found.get("seconds"),
        "evaluation memory": found.get("memory"),
        **answering,
    }


def _graph_differs(variant: Variant) -> list[str]:
    found = variant.provenance.get("graph_differs")
    return [str(one) for one in found] if isinstance(found, list) else []


def _of_split(queries: QuerySet) -> str:
    """Which split they are of, if it is not the one that their observed facts suggest."""
    return ", of the validation split" if queries.about.get("split") == "valid" else ""


def _is_official(queries: QuerySet) -> bool:
    return not queries.about.get(SAMPLED)


def _origin(queries: QuerySet) -> str:
    """The origin of queries: official or sampled, with which seed, and how many."""
    by_name = {group.name: len(group) for group in queries.groups}
    parts = []
    for kind in (OFFICIAL, SAMPLED):
        names = [str(name) for name in queries.about.get(kind, ())]
        if names:
            seed = f", seed {queries.about.get('seed')}" if kind == SAMPLED else ""
            listed = ", ".join(f"{name} {by_name.get(name, 0):,}" for name in names)
            parts.append(f"{kind}{_of_split(queries)}{seed}: {listed}")
    return "; ".join(parts)
