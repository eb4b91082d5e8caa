"""What was measured: a row for each model, with its figures, costs, settings and origins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clmpt.errors import DataError
from clmpt.evaluation.report import COST
from clmpt.experiments.records import LeaveOut, Variant, or_else, refuse, variants_in
from clmpt.experiments.stages import read_report
from clmpt.pages.curves import is_number
from clmpt.queries.store import QuerySet
from clmpt.storage.files import open_json
from clmpt.storage.run_folder import read_log, read_provenance
from clmpt.training.checkpoint import parameter_counts


@dataclass(frozen=True)
class Entry:
    """A row of the comparison: a model that was measured, and what is known about it."""

    name: str
    report: dict[str, Any]
    benchmark: str = ""
    published: str = ""  # which published row it repeats
    costs: dict[str, float] = field(default_factory=dict)
    training_log: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, dict[str, Any]] = field(default_factory=dict)  # by stage
    queries: dict[str, str] = field(default_factory=dict)  # by split, where they come from
    is_official: bool = True  # measured by a benchmark's own queries alone
    graph_differs: list[str] = field(default_factory=list)  # from the benchmark's as published

    def mrr(self, shape: str) -> float | None:
        return next((float(s["mrr"]) for s in self.report["shapes"] if s["shape"] == shape), None)


def entries_in(folder: str | Path, leave_out: LeaveOut = refuse) -> list[Entry]:
    """What was measured in a folder: experiments of `reproduce`, or a report of `evaluate`.

    An experiment that has two names is shown once, by the later one. Damaged ones can be left out.
    """
    folder = Path(folder)
    if (folder / "report.json").exists():
        document = read_report(folder)
        return [Entry(str(document.get("model", folder.name)), document)]
    by_report = {variant.folders["report"]: variant for variant in variants_in(folder, leave_out)}
    found: list[Entry] = []
    by_hops: dict[Path, Variant] = {}
    for variant in by_report.values():
        with or_else(leave_out, f"{variant.name}: "):
            found.append(_of_variant(variant))
            by_hops[variant.folders["hops"]] = variant
    if not found:
        raise DataError(
            f"There is nothing to report in '{folder}': neither a finished experiment of "
            "'clmpt reproduce' nor a report of 'clmpt evaluate'."
        )
    for variant in by_hops.values():
        with or_else(leave_out):
            found.append(_hop_by_hop(variant))
    return distinct(found)


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, those of one name numbered."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        seen[entry.name] += 1
        number = seen[entry.name]
        found.append(replace(entry, name=f"{entry.name} ({number})") if number > 1 else entry)
    return found


def _of_variant(variant: Variant) -> Entry:
    places = variant.folders
    about = variant.settings["experiment"]
    report = read_report(places["report"])
    asked = {split: QuerySet.open(places[split]) for split in ("train", "valid", "test")}
    of_predictor, own = parameter_counts(places["reasoner"])
    frozen = bool(variant.settings["reasoning"]["frozen"])
    trained = _numbers(places["reasoner"] / "finished.json")
    costs = {
        **_pretraining_costs(places["predictor"]),
        "training": trained.get("seconds"),
        "steps": trained.get("steps_done"),
        "training memory": trained.get("memory"),
        **_evaluation_costs(places["report"]),
        "trained": own + (0 if frozen else of_predictor),
        "frozen": of_predictor if frozen else 0,
    }
    return Entry(
        variant.name,
        report,
        str(about["benchmark"]),
        str(about["published"]),
        {name: value for name, value in costs.items() if is_number(value)},
        read_log(places["reasoner"]),
        variant.settings,
        {
            "predictor": read_provenance(places["predictor"]),
            "training": read_provenance(places["reasoner"]),
            "last command": variant.provenance,
        },
        {split: _origin(queries) for split, queries in asked.items()},
        _is_official(asked["test"]),
        _graph_differs(variant),
    )


def _hop_by_hop(variant: Variant) -> Entry:
    place = variant.folders["hops"]
    report = read_report(place)
    of_predictor, _ = parameter_counts(variant.folders["predictor"])
    costs = {
        **_pretraining_costs(variant.folders["predictor"]),
        **_evaluation_costs(place),
        "trained": 0,
        "frozen": of_predictor,
    }
    return Entry(
        str(report["model"]),
        report,
        str(variant.settings["experiment"]["benchmark"]),
        costs={name: value for name, value in costs.items() if is_number(value)},
        is_official=_is_official(QuerySet.open(variant.folders["test"])),
        graph_differs=_graph_differs(variant),
    )


def _pretraining_costs(folder: Path) -> dict[str, Any]:
    found = _numbers(folder / "finished.json")
    return {"pre-training": found.get("seconds"), "pre-training memory": found.get("memory")}


def _evaluation_costs(folder: Path) -> dict[str, Any]:
    found = _numbers(folder / COST) if (folder / COST).exists() else {}
    return {"evaluation": found.get("seconds"), "evaluation memory": found.get("memory")}


def _graph_differs(variant: Variant) -> list[str]:
    found = variant.provenance.get("graph_differs")
    return [str(one) for one in found] if isinstance(found, list) else []


def _numbers(path: Path) -> dict[str, Any]:
    found = open_json(path)
    if not isinstance(found, dict):
        raise DataError(f"'{path}' is damaged.")
    return found


def _is_official(queries: QuerySet) -> bool:
    return not queries.about.get("sampled")


def _origin(queries: QuerySet) -> str:
    """Where queries come from: how many, official or sampled, with which seed."""
    by_name = {group.name: len(group) for group in queries.groups}
    parts = []
    for kind in ("official", "sampled"):
        names = [str(name) for name in queries.about.get(kind, ())]
        if names:
            seed = f", seed {queries.about.get('seed')}" if kind == "sampled" else ""
            listed = ", ".join(f"{name} {by_name.get(name, 0):,}" for name in names)
            parts.append(f"{kind}{seed}: {listed}")
    return "; ".join(parts)
