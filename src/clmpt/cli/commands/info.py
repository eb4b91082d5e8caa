"""info: what a graph holds, and what a model was trained on, when, and how well."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.cli.commands.graphs import count_labels, counts_of, show_counts
from clmpt.cli.output import TerminalTable, duration, show_json, show_table
from clmpt.errors import DataError
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph, is_stored_graph
from clmpt.graph.opening import GRAPH, open_graph
from clmpt.pages.model_facts import is_model, model_facts
from clmpt.storage.run_folder import is_begun, is_finished, read_provenance, read_summary, source_of

_MODELS = ("reasoner.json", "predictor.json", "run.json")


def info(options: argparse.Namespace) -> None:
    folder = Path(options.folder)
    model = any((folder / name).exists() for name in _MODELS) or (folder / GRAPH).is_dir()
    has_graph = not model or is_stored_graph(folder / GRAPH)
    document: dict[str, Any] = {"model": _model(folder)} if model else {}
    if model and options.json:
        document["model"]["versions"] = _versions(folder)
    elif model:
        show_counts(f"The model in {folder}", document["model"])
    if has_graph:
        _show_graph(open_graph(folder), options, document)
    elif options.json:
        show_json(document)


def _versions(folder: Path) -> dict[str, str]:
    """The versions that made a model, as its checkpoint says."""
    return dict(model_facts(folder).versions) if is_model(folder) else {}


# --- models ---------------------------------------------------------------------------------------


def _model(folder: Path) -> dict[str, Any]:
    """What a folder says of its model: kind, training, versions, figures."""
    from clmpt.answering.model_folder import PREDICTOR, REASONER, choice_in
    from clmpt.predictors.predictor_folder import about_predictor, is_predictor
    from clmpt.reasoners.reasoner_folder import about_reasoner, has_calibrations, is_reasoner

    found: dict[str, Any] = {}
    weights = folder / REASONER if (folder / GRAPH).is_dir() else folder
    if is_reasoner(weights):
        about = about_reasoner(weights)
        found |= {"reasoner": about.get("reasoner"), "predictor": about.get("predictor")}
        found |= {f"{n} parameters": c for n, c in _table(about, "parameters").items()}
        found |= _validated(about)
        found["calibrated"] = has_calibrations(weights)
        found |= {"answers by": choice_in(folder)} if choice_in(folder) else {}
    elif not (is_predictor(folder) or is_begun(folder)):
        raise DataError(f"'{folder}' is damaged: it has no model. Run the command again.")
    for place in (folder / PREDICTOR, folder):
        if is_predictor(place):
            about = about_predictor(place)
            found |= {
                "predictor": about.get("model"),
                "rank": _table(about, "settings").get("rank"),
            }
            found |= {f"predictor {name}": value for name, value in _validated(about).items()}
            found |= {"converted from": about.get("converted_from")}
    if is_model(folder):
        found["made with"] = model_facts(folder).made_with
    return {
        k: v for k, v in {**found, **_made(folder), **_figures(folder)}.items() if v is not None
    }


def _validated(about: dict[str, Any]) -> dict[str, Any]:
    valid = about.get("valid")
    return {
        "best epoch": about.get("epoch"),
        "validation MRR": round(valid["mrr"], 4) if isinstance(valid, dict) else None,
    }


def _made(folder: Path) -> dict[str, Any]:
    if not is_begun(folder):
        return {}
    about = read_provenance(folder)
    found = {
        "trained on": source_of(folder),
        "started": about.get("started"),
        "finished": is_finished(folder),
        "commit": about.get("commit"),
        "platform": about.get("platform"),
    }
    if is_finished(folder) and "seconds" in read_summary(folder):
        found["training took"] = duration(read_summary(folder)["seconds"])
    return found


def _figures(folder: Path) -> dict[str, Any]:
    from clmpt.pages.report_folder import is_report, read_report

    reports = [place for place in sorted(folder.glob("report*")) if is_report(place)]
    found = [read_report(place) for place in reports]
    return {f"MRR of {one['model']}, all shapes": round(one["mean"], 4) for one in found}


def _table(about: dict[str, Any], name: str) -> dict[str, Any]:
    found = about.get(name)
    return found if isinstance(found, dict) else {}


# --- graphs ---------------------------------------------------------------------------------------


def _show_graph(
    graph: KnowledgeGraph, options: argparse.Namespace, document: dict[str, Any]
) -> None:
    rows = graph.triples()
    per_relation = np.bincount(rows[:, 1], minlength=len(graph.relations))
    biggest = np.argsort(-per_relation, kind="stable")[: max(options.top, 0)].tolist()
    degree = np.bincount(rows[:, [0, 2]].reshape(-1), minlength=len(graph.entities))
    about = counts_of(graph) | {
        "labels": count_labels(graph),
        "both directions present": graph.has_both_directions,
        "index bytes per triple": round(_index_bytes(graph) / max(graph.index.triples, 1), 1),
    }
    relations = [(graph.relations.label(r), int(per_relation[r])) for r in biggest]
    histogram = _degree_histogram(degree)
    if options.json:
        names = [{"relation": name, "triples": count} for name, count in relations]
        degrees = [{"degree": name, "entities": count} for name, count in histogram]
        show_json({**document, **about, "biggest relations": names, "degrees": degrees})
        return
    show_counts(str(options.folder), about)
    show_table(TerminalTable("Biggest relations", ["relation", "triples"], relations))
    most = max((count for _, count in histogram), default=1)
    bars = [
        (name, count, "█" * max(round(40 * count / most), count > 0)) for name, count in histogram
    ]
    show_table(TerminalTable("Degrees", ["edges", "entities", ""], bars))


def _degree_histogram(degree: Ints) -> list[tuple[str, int]]:
    """Entities by their number of edges, in doubling steps."""
    if not len(degree):
        return []
    step = np.where(degree > 0, np.frexp(degree)[1], 0)
    counts = np.bincount(step)
    names = ["0", "1", *(f"{2**n}-{2 ** (n + 1) - 1}" for n in range(1, len(counts)))]
    return [(names[n], int(count)) for n, count in enumerate(counts)]


def _index_bytes(graph: KnowledgeGraph) -> int:
    index = graph.index
    arrays = (index.keys_K1, index.offsets_K2, index.neighbours_X, index.splits_X)
    return sum(array.nbytes for array in arrays)
