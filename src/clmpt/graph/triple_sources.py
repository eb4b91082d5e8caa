"""A graph from what people have in Python: triples, and graphs and tables of other libraries.

Those libraries are recognised by their classes, and imported by nobody here.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clmpt.errors import DataError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph

_COLUMNS = (
    ("head", "subject", "source", "s", "h", "from"),
    ("relation", "predicate", "property", "edge", "p", "r", "rel"),
    ("tail", "object", "target", "o", "t", "to"),
)
_ATTRIBUTES = ("relation", "predicate", "label", "type", "key")
_WHOLE = (int, np.integer)
_SHOWN = 60  # characters of what is wrong
_ROWS = 65_536  # of an Arrow table at a time


def graph_of_triples(
    source: Any, labels: Mapping[str, str], relation: str | None = None
) -> KnowledgeGraph:
    """See `KnowledgeGraph.from_triples`."""
    library = _library(source)
    if relation is not None and library != "networkx":
        raise DataError("'relation' names an edge attribute of a NetworkX graph. Leave it out.")
    if library == "rdflib":
        return _from_rdflib(source, labels)
    rows: dict[str, Callable[[], Iterable[Any]]] = {
        "pandas": lambda: _data_frame_rows(source),
        "pyarrow": lambda: _arrow_rows(source),
        "networkx": lambda: _edges(source, relation),
    }
    builder = GraphBuilder()
    found = rows[library]() if library in rows else _iterated(source)
    for number, row in enumerate(found, 1):
        builder.add("facts", *_triple(number, row))
    for name, label in labels.items():
        builder.label(name, label)
    return builder.build()


def _library(source: Any) -> str:
    """Which library's table or graph this is; empty for anything else."""
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(source).__mro__}
    for name in ("pandas.DataFrame", "pyarrow.Table", "networkx.Graph", "rdflib.Graph"):
        if name in kinds or name.replace(".", ".lib.") in kinds:
            return name.split(".")[0]
    return ""


def _iterated(source: Any) -> Iterable[Any]:
    if isinstance(source, str | bytes | Path | Mapping) or not isinstance(source, Iterable):
        raise DataError(
            f"A graph is made of (head, relation, tail) triples, a table or a graph, not of "
            f"{_shown(source)}. A file or a folder is opened with open_graph."
        )
    return source


def _triple(number: int, row: Any) -> tuple[str, str, str]:
    if isinstance(row, str | bytes) or not isinstance(row, Sequence) or len(row) != 3:
        raise DataError(f"Triple {number:,} should be (head, relation, tail), not {_shown(row)}.")
    head, relation, tail = (
        cell if type(cell) is str and cell else _name(number, place, cell)
        for place, cell in zip(("head", "relation", "tail"), row, strict=True)
    )
    return head, relation, tail


def _name(number: int, place: str, cell: Any) -> str:
    if isinstance(cell, str) and cell:
        return str(cell)
    if isinstance(cell, _WHOLE) and cell is not True and cell is not False:
        return str(int(cell))
    missing = cell is None or type(cell).__name__ == "NAType" or cell != cell  # NaN
    what = "is missing" if missing else f"is {_shown(cell)}, which is not a name"
    raise DataError(f"The {place} of triple {number:,} {what}. Give text, or a whole number.")


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- tables ---------------------------------------------------------------------------------------


def chosen_columns(names: Sequence[str]) -> tuple[int, int, int]:
    """Which columns of a table are head, relation and tail: by their usual names, or the first
    three.

    >>> chosen_columns(["id", "Subject", "predicate", "object"]), chosen_columns(["a", "b", "c"])
    ((1, 2, 3), (0, 1, 2))
    """
    lower = [name.strip().lower() for name in names]
    found = [[lower.index(name) for name in usual if name in lower][:1] for usual in _COLUMNS]
    if all(found):
        return found[0][0], found[1][0], found[2][0]
    if len(names) < 3 or any(found):
        listed = ", ".join(f"'{name}'" for name in names) or "none"
        raise DataError(
            "A table of triples needs the columns head, relation and tail (or subject, predicate "
            f"and object; or three columns of any other names first). It has: {listed}."
        )
    return 0, 1, 2


def _data_frame_rows(frame: Any) -> Iterator[tuple[Any, ...]]:
    chosen = chosen_columns([str(name) for name in frame.columns])
    columns = (frame.iloc[:, number] for number in chosen)
    return zip(*columns, strict=True)


def _arrow_rows(table: Any) -> Iterator[tuple[Any, ...]]:
    chosen = chosen_columns([str(name) for name in table.column_names])
    for batch in table.select(list(chosen)).to_batches(_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


# --- graphs ---------------------------------------------------------------------------------------


def _edges(graph: Any, attribute: str | None) -> Iterator[tuple[Any, Any, Any]]:
    if not graph.is_directed():
        raise DataError(
            "The NetworkX graph is undirected, so nothing tells heads from tails. "
            "Make it a DiGraph or a MultiDiGraph first: graph.to_directed() has both directions."
        )
    many = {"keys": True} if graph.is_multigraph() else {}
    for head, tail, *key, data in graph.edges(data=True, **many):
        yield head, _relation(head, tail, {**data, **_keyed(key)}, attribute), tail


def _keyed(key: list[Any]) -> dict[str, Any]:
    """The key of an edge names its relation if it is a name; by default it is a number."""
    return {"key": key[0]} if key and isinstance(key[0], str) else {}


def _relation(head: Any, tail: Any, data: Mapping[str, Any], attribute: str | None) -> Any:
    for name in (attribute,) if attribute else _ATTRIBUTES:
        if name in data:
            return data[name]
    wanted = f"'{attribute}'" if attribute else "'relation'"
    there = ", ".join(f"'{name}'" for name in data) or "none"
    raise DataError(
        f"The edge from {_shown(head)} to {_shown(tail)} has no attribute {wanted} to name its "
        f"relation; it has: {there}. Name another one: relation='ATTRIBUTE'."
    )


def _from_rdflib(source: Any, labels: Mapping[str, str]) -> KnowledgeGraph:
    """By way of a file, so that terms, labels and literals are read as from any RDF file."""
    from clmpt.graph.readers import read_graph

    if labels:
        raise DataError("An rdflib graph has labels of its own (rdfs:label). Leave yours out.")
    quads = hasattr(source, "quads")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of rdflib, in its own serializers
        path = Path(folder) / ("facts.nq" if quads else "facts.nt")
        source.serialize(path, format="nquads" if quads else "nt", encoding="utf-8")
        try:
            return read_graph([f"facts={path}"])[0]
        except DataError as error:
            raise DataError(str(error).replace(f"'{path}'", "The rdflib graph")) from None
