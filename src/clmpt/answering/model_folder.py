"""Where in a folder a model and its graph are, whatever made it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor_folder import is_predictor, open_predictor
from clmpt.reasoners.beam_search import BeamSearch
from clmpt.reasoners.reasoner import Reasoner
from clmpt.reasoners.reasoner_folder import is_reasoner, open_reasoner
from clmpt.storage.run_folder import is_begun, is_finished, source_of

# A fitted model's folder: a graph, and a reasoner for it.
GRAPH = "graph"
REASONER = "reasoner"


def reasoner_in(
    folder: str | Path,
    graph: KnowledgeGraph,
    device: torch.device,
    trust: Collection[str] = (),
) -> Reasoner:
    """What a folder of weights holds, ready to score; refuses a graph with other names.

    A predictor alone answers by beam search.
    """
    if is_reasoner(folder):
        return open_reasoner(folder, graph, device, trust).model.reasoner()
    found = open_predictor(folder, device, trust)
    found.names.check_graph(graph)
    return BeamSearch(found.predictor, len(graph.relations))


def weights_in(folder: str | Path) -> Path:
    """Where in a folder the weights are: in itself, or in a part of a fitted model's."""
    folder = Path(folder)
    if not (folder / GRAPH).is_dir():
        return folder
    if is_begun(folder) and not is_finished(folder):
        raise DataError(f"'{folder}' is not finished. Run the command that began it again.")
    if not is_reasoner(folder / REASONER):
        raise DataError(f"'{folder}' is damaged: it has no model. Run what made it again.")
    return folder / REASONER


def graph_of(folder: str | Path) -> str:
    """Where the graph is: in a fitted model's folder, or where it was in training."""
    folder = Path(folder)
    if (folder / GRAPH).is_dir():
        return str(folder / GRAPH)
    if not (is_begun(folder) or is_predictor(folder) or is_reasoner(folder)):
        if folder.is_file():
            raise DataError(
                f"'{folder}' is a file, not a model. Make a model of it, 'clmpt fit {folder}', or "
                "ask for exact answers: 'clmpt solve'."
            )
        raise DataError(
            f"'{folder}' is not a model. Make one with 'clmpt fit', or with 'clmpt pretrain' "
            "and 'clmpt train'."
        )
    source = source_of(folder)
    if source is None or not Path(source).exists():
        raise DataError(f"The graph of '{folder}' is not where it was. Use --graph FOLDER.")
    return source
