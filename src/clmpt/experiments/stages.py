"""The stages that `fit` and `reproduce` are made of.

Each looks at what is there before it does anything: what is done is not done again, and what was
cut off goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from clmpt.compute.devices import find_device, forget_peak_memory, peak_memory
from clmpt.errors import DataError
from clmpt.evaluation.report import evaluate
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.pages.curves import is_number
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.beam_search import HopByHop
from clmpt.reasoners.reasoner import NeuralReasoner, Reasoner
from clmpt.settings import Pretraining, Reasoning, Training
from clmpt.storage.files import open_json
from clmpt.storage.run_folder import is_finished
from clmpt.training.checkpoint import is_whole, open_checkpoint, open_reasoner
from clmpt.training.runs import Progress, pretrain, train

HOP_BY_HOP = "predictor, hop by hop"


@dataclass(frozen=True)
class Stage:
    """How far the work is: the stage's name, how much of it is done, and a line about it."""

    name: str
    done: int
    total: int
    line: str = ""


Tell = Callable[[Stage], None]


def make_predictor(
    graph: KnowledgeGraph, settings: Pretraining, out: Path, source: str, tell: Tell
) -> None:
    if _is_made(out):
        return
    steps = pretrain(graph, settings, out, source)
    with closing(steps):
        for now in steps:
            tell(_of_training("pre-training", now))


def make_reasoner(
    graph: KnowledgeGraph,
    predictor: Path,
    queries: QuerySet,
    reasoning: Reasoning,
    settings: Training,
    out: Path,
    source: str,
    tell: Tell,
    valid: QuerySet | None = None,
) -> None:
    if _is_made(out):
        return
    answered = QuerySet(tuple(group for group in queries.groups if len(group)), queries.about)
    if not answered.groups:
        raise DataError("The graph is too small: not a single question could be made from it.")
    found = open_checkpoint(predictor).predictor
    steps = train(graph, found, answered, reasoning, settings, out, source, valid)
    with closing(steps):
        for now in steps:
            tell(_of_training("training", now))


def _is_made(out: Path) -> bool:
    if is_finished(out) and not is_whole(out):
        raise DataError(
            f"'{out}' is damaged. Remove that folder, and the same command makes it again."
        )
    return is_finished(out)


def _of_training(name: str, now: Progress) -> Stage:
    best = f", validation MRR {now.best:.3f}" if now.best is not None else ""
    return Stage(name, now.step, now.steps, f"loss {now.loss:.3f}{best}")


def reasoner_in(folder: Path, device: str) -> tuple[str, Reasoner]:
    """What was trained into a folder, and its name in a report."""
    model = open_reasoner(folder, find_device(device)).model
    return model.settings.reasoner.upper(), NeuralReasoner(model)


def predictor_in(folder: Path, relations: int, device: str) -> tuple[str, Reasoner]:
    """A predictor by itself, going from edge to edge."""
    predictor = open_checkpoint(folder, find_device(device)).predictor
    return HOP_BY_HOP, HopByHop(predictor, relations)


def measure(
    named: tuple[str, Reasoner],
    groups: Sequence[QueryGroup],
    graph: KnowledgeGraph,
    observed: tuple[str, ...],
    about: dict[str, Any],
    out: Path,
    tell: Callable[[str, int], None],
    device: str,
) -> None:
    """A report of a reasoner as the new folder `out`, with the time and memory that it took."""
    model, reasoner = named
    started = time.perf_counter()
    forget_peak_memory(find_device(device))
    report = evaluate(reasoner, groups, model, graph, observed, about, tell)
    seconds = round(time.perf_counter() - started, 1)
    report.save(out, {"seconds": seconds, "memory": peak_memory(find_device(device))})


def read_report(folder: Path) -> dict[str, Any]:
    """A report's document, looked at before anybody relies on it."""
    if not folder.exists():
        raise DataError(f"'{folder}' is missing. The command that made it makes it again.")
    try:
        found = open_json(folder / "report.json")
        is_right = isinstance(found, dict) and _is_share(found["mean"]) and _texts(found["notes"])
        is_right = is_right and _texts([found["model"]]) and len(found["shapes"]) > 0
        is_right = is_right and all(_is_row(row) for row in found["shapes"])
    except (DataError, KeyError, TypeError, ValueError, AttributeError):
        is_right = False
    if not is_right:
        raise DataError(
            f"'{folder}/report.json' is damaged. Remove '{folder}', and the command that made it "
            "makes it again."
        )
    return dict(found)


def _is_row(row: dict[str, Any]) -> bool:
    by_missing = row.get("by_missing_links", {})
    return (
        isinstance(row["shape"], str)
        and _is_share(row["mrr"])
        and is_number(row["count"])
        and _texts(row["notes"])
        and all(is_number(int(key)) and _is_share(at["mrr"]) for key, at in by_missing.items())
    )


def _is_share(found: object) -> bool:
    return is_number(found) and 0 <= found <= 1


def _texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def counted(tell: Tell, name: str, before: int, total: int) -> Callable[[str, int], None]:
    """For work that counts (what, how many so far): a part of a stage."""
    return partial(_tell_counted, tell, name, before, total)


def _tell_counted(tell: Tell, name: str, before: int, total: int, what: str, done: int) -> None:
    tell(Stage(name, before + done, total, what))
