"""The page of a table of many models: figures, costs, trials, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmpt.pages.charts import Cluster, draw_clusters
from clmpt.pages.comparison import caveats, costs_table, errors_table, main_table
from clmpt.pages.entry import AVERAGES, Entry
from clmpt.pages.page import Block, Bullets, Heading, Page, Picture, Table, Text
from clmpt.pages.published import measure_of, published, published_models
from clmpt.pages.trials import CHOSEN_ON_VALIDATION, trials_table

_SERIES = {"Avg_p": "without negation", "Avg_n": "with negation"}


def table_page(title: str, entries: Sequence[Entry], commands: Mapping[str, str]) -> Page:
    """`commands` has what makes each row, by its name."""
    entries = ranked(entries)
    benchmark = entries[0].benchmark
    beside = published_models(benchmark)
    blocks: list[Block] = [main_table(entries, benchmark, beside)]
    if beside:
        blocks.append(
            Text(" ".join([f"Published rows: {published()['source']}.", *caveats(entries)]))
        )
    blocks += [_picture(entries), Heading("Standard errors", 3), errors_table(entries)]
    blocks += [
        Heading("Cost", 3),
        costs_table(entries),
        Text(
            "Processor time is that of all threads: of the steps of training, without validation, "
            "and of answering a query, ranks included. Memory is the peak of the process."
        ),
    ]
    blocks += _trials(entries)
    if commands:
        blocks += [Heading("Commands", 3), _commands(entries, commands)]
    notes = dict.fromkeys(note for entry in entries for note in entry.report.get("notes", ()))
    return Page(title, [*blocks, Heading("How figures are computed", 3), Bullets(list(notes))])


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """From the best average without negation to the worst, seeds of a model together."""
    best: dict[str, float] = {}
    for entry in entries:
        figure = entry.figure("Avg_p", measure_of(entry.benchmark)) or 0.0
        best[_family(entry)] = max(figure, best.get(_family(entry), 0.0))
    return sorted(
        entries, key=lambda entry: (-best[_family(entry)], _family(entry), entry.seed or 0)
    )


def _family(entry: Entry) -> str:
    return entry.variant or entry.name


def _picture(entries: Sequence[Entry]) -> Picture:
    """The averages of each model; of several seeds, of the first."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(_family(entry), entry)
    clusters = [
        Cluster(entry.family or entry.name, [_hundred(entry, name) for name in AVERAGES])
        for entry in first.values()
    ]
    svg = draw_clusters("Mean MRR × 100", [_SERIES[name] for name in AVERAGES], clusters)
    return Picture("averages.svg", "Averages by model", svg)


def _hundred(entry: Entry, column: str) -> float | None:
    found = entry.figure(column)
    return None if found is None else 100 * found


def _trials(entries: Sequence[Entry]) -> list[Block]:
    shown: list[Block] = []
    seen = set()
    for entry in entries:
        if entry.trials and _family(entry) not in seen:
            seen.add(_family(entry))
            shown += [Heading(entry.family or entry.name, 4), trials_table(entry.trials)]
    return [Heading("Trials", 3), Text(CHOSEN_ON_VALIDATION), *shown] if shown else []


def _commands(entries: Sequence[Entry], commands: Mapping[str, str]) -> Table:
    names = dict.fromkeys(entry.family or entry.name for entry in entries)
    rows = [[name, commands[name]] for name in names if name in commands]
    return Table(["row", "made by"], rows, is_text=True)
