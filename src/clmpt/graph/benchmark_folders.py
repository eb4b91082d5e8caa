"""Graphs in other projects' folder layouts: BetaE's, Query2box's and LMPNN's.

Ids are kept as they are. Pickles are read by an unpickler that allows only plain containers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import read_labels
from clmpt.graph.splits import SPLITS
from clmpt.storage.files import open_json
from clmpt.storage.safe_pickle import load_plain_pickle

# --- BetaE and Query2box --------------------------------------------------------------------------


def name_file(folder: Path, kind: str) -> Path | None:
    stems = [f"id2{kind}.pkl", f"ind2{kind}.pkl", f"id2{kind}.tsv", f"{kind}2id.pkl"]
    return next((folder / stem for stem in stems if (folder / stem).exists()), None)


def _names(folder: Path, kind: str) -> list[str]:
    path = name_file(folder, kind)
    if path is None:
        raise DataError(f"'{folder}' has no file id2{kind}.pkl with the names of its ids.")
    if path.suffix == ".tsv":
        rows = list(read_labels(path))
        table: Any = {
            int(number): name for number, name in rows if number.isascii() and number.isdigit()
        }
    else:
        table = load_plain_pickle(path)
        if path.name.endswith("2id.pkl") and isinstance(table, dict):
            table = {number: name for name, number in table.items()}
    if not isinstance(table, dict) or set(table) != set(range(len(table))):
        raise DataError(f"'{path}' does not map the ids 0, 1, 2, … to names.")
    names = [table[number] for number in range(len(table))]
    if not all(isinstance(name, str) for name in names):
        raise DataError(f"'{path}' has a name that is not text.")
    return names


def read_betae_graph(folder: Path) -> KnowledgeGraph:
    builder = GraphBuilder(_names(folder, "ent"), _names(folder, "rel"))
    for split in SPLITS:
        path = folder / f"{split}.txt"
        if path.exists():
            builder.add_ids(split, _id_rows(path))
    if (folder / "entity2label.tsv").exists():
        for name, label in read_labels(folder / "entity2label.tsv"):
            builder.label(name, label)
    return builder.build()


def _id_rows(path: Path) -> npt.NDArray[np.int32]:
    if not path.read_bytes().strip():
        return np.empty((0, 3), np.int32)
    try:
        rows = np.loadtxt(path, np.int32, ndmin=2)
    except (ValueError, OverflowError) as error:
        raise DataError(f"'{path}' does not have three ids per line ({error}).") from None
    if rows.shape[1:] != (3,):
        raise DataError(f"'{path}' does not have three ids per line.")
    return rows


# --- LMPNN and CLMPT ------------------------------------------------------------------------------


def read_lmpnn_graph(folder: Path) -> KnowledgeGraph:
    index = open_json(folder / "kgindex.json")
    try:
        names = [_in_order(index[key]) for key in ("e", "r")]
    except (KeyError, TypeError, AttributeError):
        raise DataError(
            f"'{folder}/kgindex.json' does not map names to ids under 'e' and 'r'."
        ) from None
    builder = GraphBuilder(*names)
    seen: npt.NDArray[np.int32] = np.empty((0, 3), np.int32)
    for split in SPLITS:
        path = folder / f"{split}_kg.tsv"
        if not path.exists():
            continue
        rows = _token_rows(path, builder)
        # Each of these files includes the ones before it.
        known = {row.tobytes() for row in seen}
        fresh = [row for row in rows if row.tobytes() not in known]
        builder.add_ids(split, np.array(fresh, np.int32).reshape(-1, 3))
        seen = rows
    return builder.build()


def _in_order(ids: dict[str, int]) -> list[str]:
    names = sorted(ids, key=ids.__getitem__)
    if [ids[name] for name in names] != list(range(len(names))):
        raise TypeError("ids are not 0, 1, 2, …")
    return names


def _token_rows(path: Path, builder: GraphBuilder) -> npt.NDArray[np.int32]:
    """Triples by name or by id, whichever the file uses."""
    rows = []
    maps = (builder.entity_ids, builder.relation_ids, builder.entity_ids)
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                cells = line.rstrip("\n").split("\t")
                named = all(cell in ids for cell, ids in zip(cells, maps, strict=True))
                pairs = zip(cells, maps, strict=True)
                rows.append([ids[cell] if named else int(cell) for cell, ids in pairs])
    except (OSError, ValueError, OverflowError) as error:
        raise DataError(
            f"'{path}', line {len(rows) + 1}: expected three names or ids ({error})."
        ) from None
    try:
        return np.array(rows, np.int32).reshape(-1, 3)
    except OverflowError:
        raise DataError(f"'{path}' has an id that is too large.") from None
