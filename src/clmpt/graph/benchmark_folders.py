"""Folders that others made, BetaE's, Query2box's and LMPNN's, as graphs and answered queries.

Ids are kept as they are. Pickles are read by an unpickler that knows plain containers only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError, QueryError
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.readers import RDF_SUFFIXES, TEXT_SUFFIXES, read_graph, read_labels
from clmpt.logic.betae import Nested, kinds_of, numbers_of, structure_of, template_of
from clmpt.logic.formula import Query, placeholders
from clmpt.logic.parser import parse_formula
from clmpt.logic.shapes import name_of, shape
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.storage.files import open_json
from clmpt.storage.safe_pickle import load_plain_pickle

SPLITS = ("train", "valid", "test")
# What is taken as known when the queries of a split are asked, and what their answers add to it.
OBSERVED = {"train": ("train",), "valid": ("train",), "test": ("train", "valid")}
FULL = {"train": ("train",), "valid": ("train", "valid"), "test": SPLITS}


def train_split(graph: KnowledgeGraph) -> str:
    """The split that models are trained on."""
    return "train" if "train" in graph.splits else graph.splits[0]


def open_graph(path: str | Path) -> KnowledgeGraph:
    """A graph from whatever is there: a stored graph, a fitted model with its graph, a benchmark
    folder, or a file of triples."""
    path = Path(path)
    if os.path.isfile(path):  # unlike Path.is_file it has no errors of its own
        return read_graph([path])[0]
    if (path / "graph.json").exists():
        return KnowledgeGraph.open(path)
    if (path / "graph" / "graph.json").exists():
        return KnowledgeGraph.open(path / "graph")
    if (path / "kgindex.json").exists():
        return _read_lmpnn_graph(path)
    if _name_file(path, "ent"):
        return _read_betae_graph(path)
    if os.path.isdir(path):
        endings = {*TEXT_SUFFIXES, *RDF_SUFFIXES}
        files = [
            file
            for split in SPLITS
            for file in sorted(path.glob(f"{split}.*"))
            if Path(file.name.removesuffix(".gz")).suffix in endings
        ]
        if files:
            return read_graph(files)[0]
        raise DataError(
            f"'{path}' is no folder with a graph: it has no graph.json, no id2ent.pkl, no "
            "kgindex.json and no train.* file."
        )
    raise DataError(f"There is no file or folder '{path}'.")


# --- BetaE and Query2box --------------------------------------------------------------------------


def _name_file(folder: Path, kind: str) -> Path | None:
    stems = [f"id2{kind}.pkl", f"ind2{kind}.pkl", f"id2{kind}.tsv", f"{kind}2id.pkl"]
    return next((folder / stem for stem in stems if (folder / stem).exists()), None)


def _names(folder: Path, kind: str) -> list[str]:
    path = _name_file(folder, kind)
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


def _read_betae_graph(folder: Path) -> KnowledgeGraph:
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
        raise DataError(f"'{path}' does not hold three ids a line ({error}).") from None
    if rows.shape[1:] != (3,):
        raise DataError(f"'{path}' does not hold three ids a line.")
    return rows


def query_splits(folder: Path) -> list[str]:
    """The splits that a folder has queries with answers for."""
    return [split for split in SPLITS if query_files(folder, split)]


def query_files(folder: Path, split: str) -> list[Path]:
    """The files with a split's queries and answers; none where either is missing."""
    both, asked = folder / f"{split}-qaa.json", folder / f"{split}-queries.pkl"
    if both.exists():
        return [both]
    answers = _answer_files(folder, split)
    return [asked, *answers] if asked.exists() and answers else []


def _answer_files(folder: Path, split: str) -> list[Path]:
    pair = [folder / f"{split}-{kind}-answers.pkl" for kind in ("easy", "hard")]
    single = folder / f"{split}-answers.pkl"
    return pair if all(path.exists() for path in pair) else [single] if single.exists() else []


def read_queries(folder: str | Path, split: str) -> list[QueryGroup]:
    """The answered queries of a benchmark folder, one group a structure."""
    files = query_files(Path(folder), split)
    if not files:
        raise DataError(f"'{folder}' has no {split} queries with answers.")
    path, *answers = files
    if not answers:
        return _read_qaa(path)
    queries = load_plain_pickle(path)
    sets = [load_plain_pickle(file) for file in answers]
    if not all(isinstance(table, dict) for table in (queries, *sets)):
        raise DataError(f"'{path}' or its answers are not BetaE's: expected dictionaries.")
    try:
        return [
            _betae_group(structure, list(asked), sets)
            for structure, asked in queries.items()
            if asked
        ]
    except (TypeError, ValueError, KeyError, OverflowError, QueryError) as error:
        raise DataError(f"'{path}' or its answers are not BetaE's ({error}).") from None


def _betae_group(
    structure: Nested, asked: list[Nested], sets: Sequence[dict[Any, Any]]
) -> QueryGroup:
    template, kinds = template_of(structure), np.array(kinds_of(structure))
    if any(structure_of(query) != structure for query in asked):
        raise ValueError(f"a query does not have the structure {structure} that it is filed under")
    numbers = np.array([numbers_of(query) for query in asked], np.int32)
    easy = _answer_sets([sets[0][query] for query in asked])
    hard = _answer_sets([sets[1][query] if len(sets) > 1 else () for query in asked])
    return QueryGroup(
        name_of(template), template, numbers[:, kinds == "e"], numbers[:, kinds == "r"], easy, hard
    )


def _answer_sets(answers: Sequence[Collection[int]]) -> AnswerSets:
    counts = [len(found) for found in answers]
    entities = np.fromiter(chain.from_iterable(answers), np.int64, sum(counts))
    owners = np.repeat(np.arange(len(answers)), counts)
    size = int(entities.max(initial=0)) + 1
    return AnswerSets.of(owners, np.sort(owners * size + entities) % size, len(answers))


# --- LMPNN and CLMPT ------------------------------------------------------------------------------


def _read_lmpnn_graph(folder: Path) -> KnowledgeGraph:
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
        # Each of these files holds the ones before it as well.
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
        raise DataError(f"'{path}' holds an id that is too large.") from None


def _read_qaa(path: Path) -> list[QueryGroup]:
    document = open_json(path)
    try:
        return [_qaa_group(formula, entries) for formula, entries in document.items() if entries]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, QueryError) as error:
        raise DataError(f"'{path}' is not a query file of LMPNN's form ({error}).") from None


def lmpnn_template(formula: str) -> Query:
    """A formula of LMPNN's, such as `(r1(s1,e1))&(!(r2(e1,f)))&(r3(s2,f))`, as a template.

    Their files keep BetaE's answers, which mean ¬∃, under a formula that says ∃¬; what the answers
    mean is what is returned.

    >>> print(lmpnn_template("(r1(s1,f))&(!(r2(s2,f)))"))
    ?y : $r1($s1, ?y) & !$r2($s2, ?y)
    """
    written = re.sub(r"\b([rs]\d+)\b", r"$\1", formula)
    written = re.sub(r"\bf\d*\b", "?y", re.sub(r"\be(\d+)\b", r"?x\1", written))
    template = parse_formula(f"?y : {written}")
    return shape("pni") if template == shape("pni-exists") else template


def _qaa_group(formula: str, entries: list[Any]) -> QueryGroup:
    template = lmpnn_template(formula)
    entities, relations = placeholders(template)

    def column(names: tuple[str, ...]) -> npt.NDArray[np.int32]:
        return np.array([[entry[0][name] for name in names] for entry in entries], np.int32)

    easy, hard = (
        _answer_sets([next(iter(entry[at].values())) if entry[at] else [] for entry in entries])
        for at in (1, 2)
    )
    return QueryGroup(name_of(template), template, column(entities), column(relations), easy, hard)
