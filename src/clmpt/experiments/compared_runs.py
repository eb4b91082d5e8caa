"""From the names of runs to models that can be compared: reports, experiments, fitted models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clmpt.errors import DataError, SettingError
from clmpt.evaluation.comparing import ComparedModel, Comparison, check_seeds, compare_models
from clmpt.evaluation.paired_tests import RESAMPLES
from clmpt.evaluation.query_figures import FIGURES, QueryFigures
from clmpt.experiments.records import by_seed, variants_in
from clmpt.pages.report_folder import by_query, is_report, read_report


def compare_runs(
    runs: Sequence[str | Path],
    *,
    baseline: str | None = None,
    figures: Sequence[str] = FIGURES[:1],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Models compared query by query with paired tests; as `clmpt compare`.

    A run is the folder of a report, of `reproduce` with all its variants, or of a fitted model with
    all its reasoners; `NAME=FOLDER` gives it a name, and the same name again another seed of the
    same model. The first is the baseline unless another is named.
    """
    return compare_models(models_of(runs), baseline, figures, resamples, seed)


def models_of(runs: Sequence[str | Path]) -> list[ComparedModel]:
    """The models in some runs, seeds of one model together."""
    found = [model for run in runs for model in _models(str(run))]
    _refuse_repeated(found)
    merged: dict[tuple[str, bool], _Listed] = {}
    for model in _distinct(found):
        key = (model.name, model.is_named)
        merged[key] = merged[key].joined(model) if key in merged else model
    opened = [model.opened() for model in merged.values()]
    for compared in opened:
        check_seeds(compared)
    return opened


@dataclass(frozen=True)
class _Listed:
    """A model by the folders of its reports, one for each seed."""

    name: str
    reports: tuple[Path, ...]
    run: Path
    is_named: bool  # by the user, who may give several runs the same name

    def joined(self, other: _Listed) -> _Listed:
        return replace(self, reports=(*self.reports, *other.reports))

    def opened(self) -> ComparedModel:
        notes = {
            str(row["shape"]): " ".join(row["notes"])
            for report in self.reports
            for row in read_report(report)["shapes"]
            if row["notes"]
        }
        seeds: list[QueryFigures] = []
        for report in self.reports:
            figures = _figures(report)
            if not any(figures.is_same(other) for other in seeds):  # what no seed changes is one
                seeds.append(figures)
        return ComparedModel(self.name, tuple(seeds), notes)


def _models(run: str) -> list[_Listed]:
    """The models of one run, as it is named on the command line."""
    name, equals, place = run.partition("=")
    if Path(run).exists() or not equals:
        name, place = "", run
    elif not name or not place:
        raise SettingError(f"'{run}' is neither a folder nor NAME=FOLDER.")
    folder = Path(place)
    found = list(_in_folder(folder))
    if not found:
        raise DataError(
            f"There is nothing to compare in '{folder}': no report of 'clmpt evaluate', no "
            "finished experiment of 'clmpt reproduce' and no measured model of 'clmpt fit'."
        )
    if not name:
        return found
    alone = len(found) == 1
    return [
        replace(one, name=name if alone else f"{name}: {one.name}", is_named=True) for one in found
    ]


def _in_folder(folder: Path) -> Iterator[_Listed]:
    if is_report(folder):
        yield _Listed(str(read_report(folder)["model"]), (folder,), folder, False)
        return
    variants = variants_in(folder)
    for group in by_seed(variants):
        reports = tuple(variant.folders["report"] for variant in group)
        yield _Listed(group[0].family, reports, folder, False)
    baselines = {
        variant.folders["baseline"]: 0 for variant in variants if "baseline" in variant.folders
    }
    fitted = [path for path in sorted(folder.glob("report*")) if is_report(path)]
    for report in (*baselines, *fitted):
        yield _Listed(str(read_report(report)["model"]), (report,), folder, False)


def _figures(report: Path) -> QueryFigures:
    found = by_query(report)
    if found is None:
        raise DataError(
            f"'{report}' has no figures of single queries: an earlier version made it. Remove it "
            "and run the command that made it again; what was trained stays."
        )
    return found


def _refuse_repeated(found: Sequence[_Listed]) -> None:
    counts = Counter(path.resolve() for model in found for path in model.reports)
    for path, count in counts.items():
        if count > 1:
            raise DataError(f"The report '{path}' is listed twice.")


def _distinct(found: Sequence[_Listed]) -> list[_Listed]:
    """Models whose names the user did not choose, with the name of their run in front where two
    have the same, and numbered where that is not enough."""
    counts = Counter(model.name for model in found)
    seen: Counter[str] = Counter()
    distinct = []
    for model in found:
        if not model.is_named and counts[model.name] > 1:
            model = replace(model, name=f"{model.run.resolve().name}: {model.name}")
            seen[model.name] += 1
            number = seen[model.name]
            model = replace(model, name=f"{model.name} ({number})") if number > 1 else model
        distinct.append(model)
    return distinct
