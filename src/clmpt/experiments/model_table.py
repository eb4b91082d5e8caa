"""A table of many models on one benchmark, each with the same budget.

A row is a recipe. Where settings have several values, short trials are compared on validation
queries; what they choose is then trained for the whole budget, with each seed, and alone answers
the test queries. A finished row is a record, a file by itself (`table_records.py`), so that a table
can be made over days and on several machines. Seeds that a row gets later are added to its record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from clmpt.errors import DataError, SettingError
from clmpt.experiments.entries import entry_of
from clmpt.experiments.query_stages import official_files
from clmpt.experiments.recipes import shipped
from clmpt.experiments.reproduction import Recipe, digest, queries_folder, slug
from clmpt.experiments.study import Study, perform_study
from clmpt.experiments.table_records import TableRecord
from clmpt.experiments.variant_settings import variant_tables
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.pages.entry import Entry
from clmpt.progress import ReportProgress, silent
from clmpt.registry import REASONERS
from clmpt.storage.files import read_toml

_TABLE = {"title": str, "set": list, "trial": list, "row": list}
_ROW = {"recipe": str, "name": str, "reasoner": str, "set": list, "trial": list, "seeds": list}


@dataclass(frozen=True)
class TableRow:
    """One model of a table. `key` changes with all that its figures depend on, except seeds."""

    name: str
    study: Study

    def key(self, graph: KnowledgeGraph, data: Path) -> str:
        sweep, first = self.study.sweep, self._first()
        recipes = [first, *(sweep.recipes if sweep else ())]
        folder = queries_folder(first, data)
        asked = [
            official_files(folder, split) for split in ("train", "valid", first.queries.tested)
        ]
        about = [self.name, first.experiment.benchmark]
        return digest([about, list(map(_chosen, recipes)), asked, graph.identity])

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those it is trained with."""
        return self.study.seeds or (self._first().training.seed,)

    @property
    def trials(self) -> int:
        return len(self.study.sweep.points) if self.study.sweep else 0

    def _first(self) -> Recipe:
        return self.study.recipe_of(self.study.sweep.points[0] if self.study.sweep else ())

    def is_in(self, record: TableRecord | None) -> bool:
        return record is not None and set(self.seeds) <= set(record.seeds)


@dataclass(frozen=True)
class ModelTable:
    title: str
    rows: tuple[TableRow, ...]

    def only(self, names: Collection[str]) -> ModelTable:
        """Some of the rows, by name."""
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                listed = ", ".join(known)
                raise SettingError(f"The table has no row '{name}'. Available: {listed}.")
        return replace(self, rows=tuple(row for row in self.rows if row.name in names))


def read_model_table(path: str | Path, queries: str = "") -> ModelTable:
    """A table's file: a title, what is set for all rows and for trials alone, and the rows.
    `queries` is the folder of official queries, if it is not the graph's."""
    document = read_toml(shipped(Path(path)))
    _check_entries(document, _TABLE, f"'{path}'")
    shared = [str(one) for one in document.get("set", ())]
    short = [str(one) for one in document.get("trial", ())]
    rows = []
    for number, given in enumerate(document.get("row", ()), 1):
        where = f"Row {number} of '{path}'"
        if not isinstance(given, dict) or "recipe" not in given:
            raise SettingError(f"{where} must be a table with a 'recipe'.")
        _check_entries(given, _ROW, where)
        try:
            rows.append(_row(given, shared, short, queries))
        except (DataError, SettingError) as error:
            raise SettingError(
                f"{where}, {given.get('name') or given['recipe']}: {error}"
            ) from None
    if not rows:
        raise SettingError(f"'{path}' must have rows.")
    slugs = Counter(slug(row.name) for row in rows)
    for row in rows:
        if slugs[slug(row.name)] > 1:
            raise SettingError(f"'{path}' has several rows '{row.name}'. Give them a 'name' each.")
    return ModelTable(str(document.get("title", Path(path).stem)), tuple(rows))


def perform_row(
    row: TableRow,
    graph: KnowledgeGraph,
    data: Path,
    out: Path,
    workers: int = 1,
    progress: ReportProgress = silent,
    known: TableRecord | None = None,
) -> TableRecord:
    """Does what is not done yet of a row, and resumes what was interrupted. If the row is `known`
    with other seeds, its settings stay as they were chosen."""
    study = row.study
    if known:
        left = tuple(seed for seed in row.seeds if seed not in known.seeds)
        study = replace(
            study, changes=(*study.fixed, *known.point), trial_changes=(), seeds=left, trials=None
        )
    made = perform_study(study, graph, data, out, workers, progress)
    trials = list(made.sweep.trials) if made.sweep else (known.trials if known else [])
    found = [replace(entry_of(variant), trials=trials) for variant in made.variants]
    before = known.entries if known else ()
    return TableRecord.of(row.name, row.key(graph, data), [*before, *map(_portable, found)])


def _chosen(recipe: Recipe) -> dict[str, Any]:
    """What a recipe sets to something else than the default: so that a setting which is new leaves
    records as they are."""
    tables: dict[str, Any] = {
        "queries": recipe.queries,
        "reasoning": recipe.reasoning.settings,
        "training": recipe.training,
    }
    if REASONERS.find(recipe.reasoning.reasoner).needs_predictor:
        tables["pretraining"] = recipe.pretraining
    found = {
        name: {
            each.name: getattr(table, each.name)
            for each in fields(table)
            if getattr(table, each.name) != each.default
        }
        for name, table in tables.items()
    }
    found["queries"] = _portable_queries(found["queries"])
    return {**found, "reasoner": recipe.reasoning.reasoner}


def _portable(entry: Entry) -> Entry:
    """Without the folders of this machine."""
    trials = [{**trial, "folder": Path(trial["folder"]).name} for trial in entry.trials]
    settings = {table: dict(given) for table, given in entry.settings.items()}
    settings["queries"] = _portable_queries(settings["queries"])
    return replace(entry, trials=trials, settings=settings)


def _portable_queries(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "folder": Path(str(settings.get("folder", ""))).name}


def _row(
    given: Mapping[str, Any],
    shared: Sequence[str],
    short: Sequence[str],
    queries: str,
) -> TableRow:
    for seed in given.get("seeds", ()):
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise SettingError(f"Seeds are whole numbers from 0 on, not {seed!r}.")
    recipe = str(given["recipe"])
    plain = Recipe.of(variant_tables(recipe, given.get("reasoner")))
    name = str(given.get("name") or plain.name)
    study = Study(
        recipe,
        given.get("reasoner"),
        (
            *shared,
            f"experiment.published={plain.experiment.published}",
            *map(str, given.get("set", ())),
        ),
        name,
        seeds=tuple(given.get("seeds", ())),
        trial_changes=(*short, *map(str, given.get("trial", ()))),
        queries=queries,
        baseline=False,
    )
    study.recipe_of(study.trial_changes)  # refused now if a setting is wrong, not after days
    for one in study.sweep.points if study.sweep else ():
        study.recipe_of(one)
    return TableRow(name, study)


def _check_entries(given: Mapping[str, Any], known: Mapping[str, type], where: str) -> None:
    for name, value in given.items():
        if name not in known:
            raise SettingError(
                f"{where} has an unknown entry '{name}'. Allowed: {', '.join(known)}."
            )
        if not isinstance(value, known[name]):
            raise SettingError(f"'{name}' in {where} must be of type {known[name].__name__}.")
