"""Answered queries of other projects: BetaE's and Query2box's pickles, LMPNN's and CLMPT's JSON.

Ids are kept as they are. Pickles are read by an unpickler that allows only plain containers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError, QueryError
from clmpt.graph.splits import SPLITS
from clmpt.logic.betae import Nested, kinds_of, numbers_of, structure_of, template_of
from clmpt.logic.formula import Query, placeholders
from clmpt.logic.parser import parse_formula
from clmpt.logic.shapes import name_of, shape
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.storage.files import open_json
from clmpt.storage.safe_pickle import load_plain_pickle


def query_splits(folder: Path) -> list[str]:
    """The splits for which a folder has queries with answers."""
    return [split for split in SPLITS if query_files(folder, split)]


def query_files(folder: Path, split: str) -> list[Path]:
    """The files with a split's queries and answers; none if either is missing."""
    both, asked = folder / f"{split}-qaa.json", folder / f"{split}-queries.pkl"
    if both.exists():
        return [both]
    answers = _answer_files(folder, split)
    return [asked, *answers] if asked.exists() and answers else []


def question_file(folder: Path, split: str) -> Path | None:
    """The file with a split's queries, if it has them without answers."""
    asked = folder / f"{split}-queries.pkl"
    return asked if asked.exists() and not query_files(folder, split) else None


def _answer_files(folder: Path, split: str) -> list[Path]:
    pair = [folder / f"{split}-{kind}-answers.pkl" for kind in ("easy", "hard")]
    single = folder / f"{split}-answers.pkl"
    return pair if all(path.exists() for path in pair) else [single] if single.exists() else []


def read_queries(folder: str | Path, split: str) -> list[QueryGroup]:
    """The answered queries of a benchmark folder, one group per structure."""
    files = query_files(Path(folder), split)
    if not files:
        raise DataError(f"'{folder}' has no {split} queries with answers.")
    path, *answers = files
    if not answers:
        return _read_qaa(path)
    return _read_pickles(path, [load_plain_pickle(file) for file in answers])


def read_unanswered(path: Path) -> list[QueryGroup]:
    """The queries of a file of Query2box or BetaE, without answers, one group per structure."""
    return _read_pickles(path, [])


def _read_pickles(path: Path, sets: Sequence[dict[Any, Any]]) -> list[QueryGroup]:
    queries = load_plain_pickle(path)
    if not all(isinstance(table, dict) for table in (queries, *sets)):
        raise DataError(
            f"'{path}' or its answers are not in BetaE's format: expected dictionaries."
        )
    try:
        return [
            _betae_group(structure, list(asked), sets)
            for structure, asked in queries.items()
            if asked
        ]
    except (TypeError, ValueError, KeyError, OverflowError, QueryError) as error:
        raise DataError(f"'{path}' or its answers are not in BetaE's format ({error}).") from None


def _betae_group(
    structure: Nested, asked: list[Nested], sets: Sequence[dict[Any, Any]]
) -> QueryGroup:
    template, kinds = template_of(structure), np.array(kinds_of(structure))
    if any(structure_of(query) != structure for query in asked):
        raise ValueError(f"a query does not have the structure {structure} it is listed under")
    numbers = np.array([numbers_of(query) for query in asked], np.int32)
    easy, hard = (
        _answer_sets([sets[at][query] if at < len(sets) else () for query in asked])
        for at in (0, 1)
    )
    return QueryGroup(
        name_of(template), template, numbers[:, kinds == "e"], numbers[:, kinds == "r"], easy, hard
    )


def _answer_sets(answers: Sequence[Collection[int]]) -> AnswerSets:
    counts = [len(found) for found in answers]
    entities = np.fromiter(chain.from_iterable(answers), np.int64, sum(counts))
    owners = np.repeat(np.arange(len(answers)), counts)
    size = int(entities.max(initial=0)) + 1
    return AnswerSets.of(owners, np.sort(owners * size + entities) % size, len(answers))


def _read_qaa(path: Path) -> list[QueryGroup]:
    document = open_json(path)
    try:
        return [_qaa_group(formula, entries) for formula, entries in document.items() if entries]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, QueryError) as error:
        raise DataError(f"'{path}' is not a query file in LMPNN's format ({error}).") from None


def lmpnn_template(formula: str) -> Query:
    """An LMPNN formula, such as `(r1(s1,e1))&(!(r2(e1,f)))&(r3(s2,f))`, as a template.

    Their files store BetaE's answers, which mean ¬∃, under a formula that says ∃¬; the template has
    the meaning of the answers.

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
