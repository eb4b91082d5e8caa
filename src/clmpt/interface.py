"""The Python interface where it needs PyTorch: `clmpt.fit` and `clmpt.load`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.experiments.fitting import fit as fit_in_stages
from clmpt.experiments.planning import plan_for
from clmpt.experiments.stages import Stage
from clmpt.graph.benchmark_folders import open_graph
from clmpt.graph.knowledge_graph import KnowledgeGraph


def fit(
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[Stage], None] = lambda _stage: None,
    device: str = "auto",
) -> Answerer:
    """A model of the graph, made in `folder`, which keeps every stage of it.

    The same call on a folder that was cut off goes on with it, and on a finished one opens it.
    What is not in `settings` (tables fitting, pretraining, reasoning and training, as in a recipe)
    is chosen from the size of the graph. A tenth of the facts is hidden from training to measure
    by; with `{"fitting": {"hide": 0}}` none is.
    """
    known = graph if isinstance(graph, KnowledgeGraph) else open_graph(graph)
    given = {name: dict(table) for name, table in (settings or {}).items()}
    for table in ("pretraining", "training"):
        given.setdefault(table, {}).setdefault("device", device)
    return fit_in_stages(known, folder, plan_for(known, given), progress=progress).answerer(device)


def load(folder: str | Path, device: str = "auto") -> Answerer:
    """A model that `fit` or `Answerer.save` left in a folder, ready to be asked."""
    return Answerer.open(folder, device=device)
