"""A graph from any source: a stored graph, a file, a benchmark folder, a fitted model."""

from __future__ import annotations

import os
from pathlib import Path

from clmpt.errors import DataError
from clmpt.graph.benchmark_folders import name_file, read_betae_graph, read_lmpnn_graph
from clmpt.graph.knowledge_graph import KnowledgeGraph, is_stored_graph
from clmpt.graph.rdf_reading import RDF_SUFFIXES
from clmpt.graph.readers import TEXT_SUFFIXES, read_graph
from clmpt.graph.splits import SPLITS

GRAPH = "graph"  # where a fitted model's folder keeps its graph


def graph_from(source: KnowledgeGraph | str | Path) -> KnowledgeGraph:
    """The graph itself, or the one that `open_graph` finds there."""
    return source if isinstance(source, KnowledgeGraph) else open_graph(source)


def has_graph(path: str | Path) -> bool:
    """Whether a folder is a stored graph, or has one as a fitted model does."""
    return any(is_stored_graph(folder) for folder in (Path(path), Path(path) / GRAPH))


def open_graph(path: str | Path) -> KnowledgeGraph:
    """A graph from any source: a stored graph, a fitted model with its graph, a benchmark folder,
    or a file of triples."""
    path = Path(path)
    if os.path.isfile(path):  # unlike Path.is_file, it never raises
        return read_graph([path])[0]
    for folder in (path, path / GRAPH):
        if is_stored_graph(folder):
            return KnowledgeGraph.open(folder)
    if (path / "kgindex.json").exists():
        return read_lmpnn_graph(path)
    if name_file(path, "ent"):
        return read_betae_graph(path)
    if os.path.isdir(path):
        files = split_files(path)
        if files:
            return read_graph(files)[0]
        raise DataError(
            f"'{path}' is not a folder with a graph: it has no graph.json, id2ent.pkl, "
            "kgindex.json or train.* file."
        )
    raise DataError(f"There is no file or folder '{path}'.")


def split_files(folder: Path) -> list[Path]:
    """The files train.*, valid.* and test.* of triples in a folder that holds no other graph."""
    stored = is_stored_graph(folder) or is_stored_graph(folder / GRAPH)
    if stored or (folder / "kgindex.json").exists() or name_file(folder, "ent"):
        return []
    endings = {*TEXT_SUFFIXES, *RDF_SUFFIXES}
    return [
        file
        for split in SPLITS
        for file in sorted(folder.glob(f"{split}.*"))
        if Path(file.name.removesuffix(".gz")).suffix in endings
    ]
