"""A comparison as tables: the figures of all models, and by how much they differ from the baseline.

The same tables go to a terminal, to Markdown and to LaTeX; `Comparison.rows` has every number,
unrounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clmpt.display.text import counted
from clmpt.evaluation.comparing import SIGNIFICANT, ComparedModel, Comparison, Difference
from clmpt.evaluation.paired_tests import LEVEL
from clmpt.pages.latex import latex_table
from clmpt.pages.page import Block, Bullets, Page, Table
from clmpt.pages.published import columns
from clmpt.pages.seeds import with_deviation

_TITLES = {"mrr": "MRR", "hits_at_1": "Hits@1", "hits_at_3": "Hits@3", "hits_at_10": "Hits@10"}
_MARKS = {1: "↑", -1: "↓", 0: ""}
_DASH = "–"


def figures_table(found: Comparison, figure: str) -> Table:
    """A row for each model, the baseline first; ↑ and ↓ mark what differs from it."""
    shown = _in_order(found)
    rows = [
        [model.name, *(_cell(found, model, figure, of) for of in shown)] for model in found.models
    ]
    noted = {shape for model in found.models for shape in model.notes}
    titles = [f"{of}*" if of in noted else of for of in shown]
    return Table([f"{_TITLES[figure]} × 100", *titles], rows)


def differences_table(found: Comparison, figure: str) -> Table:
    """A row for each model and each shape or average, averages first."""
    headers = [f"{_TITLES[figure]} × 100, less {found.baseline}", "shape", "difference"]
    headers += [f"{LEVEL:.0%} interval", "p", "p (Holm)", "queries"]
    rows = []
    for model in found.models[1:]:
        for of in sorted(_in_order(found), key=lambda of: found.columns[of] == (of,)):
            one = found.difference(model.name, figure, of)
            if one:
                rows.append([model.name, of, *_tested(one), f"{one.queries:,}"])
    return Table(headers, rows)


def comparison_page(found: Comparison) -> Page:
    blocks: list[Block] = []
    for figure in found.figures:
        blocks += [figures_table(found, figure), differences_table(found, figure)]
    return Page(f"Compared with {found.baseline}", [*blocks, Bullets(notes_on(found))])


def comparison_latex(found: Comparison) -> str:
    """The tables for LaTeX with booktabs, with the notes as comments."""
    tables = [
        latex_table(table)
        for figure in found.figures
        for table in (figures_table(found, figure), differences_table(found, figure))
    ]
    return "\n".join([*tables, *(f"% {note}" for note in notes_on(found))]) + "\n"


def notes_on(found: Comparison) -> list[str]:
    """What a reader must know of the tests."""
    per_figure = sum(one.p_holm is not None for one in found.differences) // len(found.figures)
    notes = [
        f"Paired bootstrap of the t-statistic over queries within each shape, {found.resamples:,} "
        f"resamples, seed {found.seed}. p is two-sided; Holm's correction is for the {per_figure} "
        f"tests of a metric. ↑ ↓: p (Holm) below {SIGNIFICANT}."
    ]
    several = [model for model in found.models if len(model.seeds) > 1]
    single = [model.name for model in found.models if len(model.seeds) == 1]
    notes += [
        f"{model.name}: mean ± standard deviation over {counted(len(model.seeds), 'seed')}, which "
        "the resamples draw too."
        for model in several
    ]
    if single:
        notes.append(
            f"{', '.join(single)}: one set of weights; how figures vary with the seed of training "
            "is not in the intervals."
        )
    for shape in dict.fromkeys(shape for model in found.models for shape in model.notes):
        having = [model for model in found.models if shape in model.notes]
        names = ", ".join(model.name for model in having)
        notes.append(f"{shape} (*), {names}: {having[0].notes[shape]}")
    return notes


def plain_comparison(found: Comparison) -> dict[str, Any]:
    """The same with the figures of all models, for JSON."""
    models = []
    for model in found.models:
        figures: dict[str, dict[str, Any]] = {}
        for figure in found.figures:
            means = {of: model.mean_of(figure, shapes) for of, shapes in found.columns.items()}
            figures[figure] = {
                of: {"mean": mean[0], "deviation": mean[1]} for of, mean in means.items() if mean
            }
        models.append({"name": model.name, "seeds": len(model.seeds), **figures})
    return {
        "baseline": found.baseline,
        "resamples": found.resamples,
        "seed": found.seed,
        "level": LEVEL,
        "models": models,
        "differences": found.rows,
        "notes": notes_on(found),
    }


def _in_order(found: Comparison) -> list[str]:
    """Shapes and averages in the order of the paper's tables, then any others."""
    usual = [name for name in columns() if name in found.columns]
    shapes = [name for name in found.columns if name not in usual]
    at = next((at for at, name in enumerate(usual) if found.columns[name] != (name,)), len(usual))
    return [*usual[:at], *shapes, *usual[at:]]


def _cell(found: Comparison, model: ComparedModel, figure: str, of: str) -> str:
    mean = model.mean_of(figure, found.columns[of])
    if mean is None:
        return _DASH
    difference = found.difference(model.name, figure, of)
    mark = _MARKS[difference.direction] if difference else ""
    return with_deviation(*mean) + mark


def _tested(one: Difference) -> Iterator[str]:
    tested = one.tested
    yield _signed(tested.difference)
    both = (tested.low, tested.high)
    yield " to ".join(_signed(end) for end in both if end is not None) or _DASH
    yield from (_DASH if p is None else f"{p:.4f}" for p in (tested.p, one.p_holm))


def _signed(value: float) -> str:
    """Times 100, with a sign; a rounded zero has none.

    >>> _signed(0.00123), _signed(-0.01), _signed(-0.00001)
    ('+0.12', '−1.00', '0.00')
    """
    text = f"{100 * value:+.2f}"
    return "0.00" if text[1:] == "0.00" else text.replace("-", "−")
