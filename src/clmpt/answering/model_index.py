"""The indexes in a model's folder: made, measured, and used when it is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from clmpt.compute.nearest import NearestNeighbours, has_faiss, need_faiss
from clmpt.compute.nearest_files import index_file, is_index, open_lists, save_lists
from clmpt.compute.nearest_measuring import IndexMeasured, measured_lists
from clmpt.errors import DataError, SettingError
from clmpt.graph.edges import EdgeIndex
from clmpt.progress import ReportProgress, silent
from clmpt.reasoners.indexing import Searching, drawn_questions, searches_of
from clmpt.storage.checksums import is_there

# Shapes: D width, B questions

_QUESTIONS = 400  # half of them choose how much is read, half measure what is found


def use_indexes(folder: Path, reasoners: Iterable[object]) -> tuple[str, ...]:
    """Gives the reasoners the folder's indexes of their tables; why not, where there is one that
    cannot be used. Only on a CPU: a GPU scores all entities as fast."""
    opened: dict[str, NearestNeighbours | None] = {}
    notes: dict[str, None] = {}
    for search in (one for reasoner in reasoners for one in searches_of(reasoner)):
        path = index_file(folder, search.index_name)
        if search.table_ED.device.type != "cpu" or not is_there(path):
            continue
        if not has_faiss():
            notes["The model's index is not used: faiss is not installed ('clmpt[index]')."] = None
            continue
        if search.index_name not in opened:
            opened[search.index_name] = _opened(path, search)
        search.nearest = opened[search.index_name]
        if search.nearest is None:
            notes[
                "The index is of another state of the model, and is not used. Make it again: "
                "'clmpt index'."
            ] = None
    return tuple(notes)


def _opened(path: Path, search: Searching) -> NearestNeighbours | None:
    found = open_lists(path, search.table_ED, search.unit)
    return NearestNeighbours(search.table_ED, found[0], search.unit) if found else None


def make_indexes(
    folder: Path,
    reasoners: Collection[object],
    facts: EdgeIndex,
    target: float,
    seed: int = 0,
    progress: ReportProgress = silent,
) -> dict[str, IndexMeasured]:
    """Makes and stores an index of each table that the reasoners search, in place of older ones;
    what was measured, by name."""
    need_faiss()
    if not 0 < target <= 1:
        raise SettingError(f"recall must be above 0 and at most 1, not {target}.")
    found = [one for reasoner in reasoners for one in searches_of(reasoner)]
    searches = {one.index_name: one for one in found}
    if not searches:
        raise DataError(
            "The model can only be searched exactly: an index finds the largest inner products of "
            "trained rows. TransE and RotatE score by distance, and rows that are all zero stand "
            "for names that the predictor was not trained on."
        )
    if not facts.triples:
        raise DataError("The graph has no facts to measure an index with.")
    for name in searches:
        path = index_file(folder, name)
        if is_there(path) and not is_index(path):
            raise DataError(f"'{path}' is no index of clmpt's. Remove it first.")
    made = {}
    for name, search in searches.items():
        question_BD = drawn_questions(search, facts, _QUESTIONS, seed)
        lists, made[name] = measured_lists(
            search.table_ED, search.unit, question_BD, target, seed, progress
        )
        about = {"measured": made[name].as_plain()}
        save_lists(index_file(folder, name), lists, search.table_ED, search.unit, about)
    return made
