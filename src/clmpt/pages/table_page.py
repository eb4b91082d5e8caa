"""The page of a table of many models: figures, costs, trials, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clmpt.pages.charts import Cluster, draw_clusters
from clmpt.pages.comparison import (
    MEASURES,
    about_seeds,
    caveats,
    errors_table,
    main_table,
    notes_of,
)
from clmpt.pages.cost_table import DASH, costs_table, parameters
from clmpt.pages.entry import AVERAGES, Entry
from clmpt.pages.page import Block, Bullets, Heading, Page, Picture, Table, Text
from clmpt.pages.published import measure_of, published, published_models, published_rows
from clmpt.pages.seeds import seed_groups
from clmpt.pages.trials import CHOSEN_ON_VALIDATION, at_the_edge, trials_table

_SERIES = {"Avg_p": "without negation", "Avg_n": "with negation"}


def table_page(
    title: str, entries: Sequence[Entry], commands: Mapping[str, str], missing: Sequence[str] = ()
) -> Page:
    """`commands` has what makes each row, by its name; `missing` are rows that are not made yet."""
    entries = ranked(entries)
    benchmark = entries[0].benchmark
    known = published_rows(benchmark)
    beside = sorted(published_models(benchmark), key=lambda name: -known[name].get("Avg_p", 0.0))
    main = with_costs(main_table(entries, benchmark, beside), entries)
    blocks: list[Block] = [main]
    if any(header.endswith("*") for header in main.headers):
        blocks.append(Text("* Some rows score it approximately; the notes at the end say how."))
    if missing:
        blocks.append(Text(f"Not made yet: {', '.join(missing)}."))
    blocks += about_seeds(entries)
    if beside:
        blocks.append(
            Text(" ".join([f"Published rows: {published()['source']}.", *caveats(entries)]))
        )
    blocks += [_picture(entries), Heading("Standard errors", 3), errors_table(entries)]
    blocks += [
        Heading("Cost", 3),
        costs_table(entries),
        Text(
            "Memory and the processor time of a query in the first table are of answering the "
            "test queries. Pre-training, training and evaluation are times by the clock, in part "
            "beside other work. Processor time is that of all threads: of the steps of training, "
            "without validation, and of answering a query, ranks included. Memory is the peak of "
            "the process."
        ),
    ]
    blocks += _trials(entries)
    if commands:
        blocks += [Heading("Commands", 3), _commands(entries, commands)]
    notes = Bullets(notes_of(entries))
    return Page(title, [*blocks, Heading("How figures are computed", 3), notes])


def with_costs(table: Table, entries: Sequence[Entry]) -> Table:
    """A main table with what answering takes; of several seeds, what it takes with the first."""
    of_row = {group.name: group.entries[0] for group in seed_groups(entries)}
    of_row |= {entry.name: entry for entry in entries}
    rows = []
    for name, *cells in table.rows:
        costs = of_row[name].costs if name in of_row else {}
        rows.append([name, *cells, *(write(costs) for write in _ANSWERING.values())])
    return replace(table, headers=[*table.headers, *_ANSWERING], rows=rows)


def _parameters(costs: Mapping[str, float]) -> str:
    found = costs.get("trained", 0.0) + costs.get("frozen", 0.0)
    return parameters(found) if found else DASH


def _memory(costs: Mapping[str, float]) -> str:
    found = costs.get("evaluation memory")
    return DASH if found is None else f"{found / 1e9:.1f} GB"


def _time(costs: Mapping[str, float]) -> str:
    found = costs.get("answering")
    return DASH if found is None else f"{1000 * found:,.1f} ms"


_ANSWERING = {"parameters": _parameters, "memory": _memory, "a query": _time}


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """From the best average without negation to the worst, seeds of a model together and by their
    mean; where some have no such average, by the mean over the shapes that all have."""
    found: dict[str, list[float]] = {}
    for entry in entries:
        found.setdefault(_family(entry), []).append(_rank_by(entry, entries))
    mean = {family: sum(figures) / len(figures) for family, figures in found.items()}
    return sorted(
        entries, key=lambda entry: (-mean[_family(entry)], _family(entry), entry.seed or 0)
    )


def _rank_by(entry: Entry, entries: Sequence[Entry]) -> float:
    measure = measure_of(entry.benchmark)
    if all(one.figure("Avg_p") is not None for one in entries):
        return entry.figure("Avg_p", measure) or 0.0
    shapes = [{str(row["shape"]) for row in one.report["shapes"]} for one in entries]
    common = [entry.figure(name, measure) or 0.0 for name in set.intersection(*shapes)]
    return sum(common) / len(common) if common else 0.0


def _family(entry: Entry) -> str:
    return entry.variant or entry.name


def _picture(entries: Sequence[Entry]) -> Picture:
    """The averages of each model; of several seeds, their mean."""
    families: dict[str, list[Entry]] = {}
    for entry in entries:
        families.setdefault(_family(entry), []).append(entry)
    measure = measure_of(entries[0].benchmark)
    clusters = [
        Cluster(
            group[0].family or group[0].name, [_hundred(group, name, measure) for name in AVERAGES]
        )
        for group in families.values()
    ]
    title = f"Mean {MEASURES[measure]} × 100"
    svg = draw_clusters(title, [_SERIES[name] for name in AVERAGES], clusters)
    return Picture("averages.svg", "Averages by model", svg)


def _hundred(group: Sequence[Entry], column: str, measure: str) -> float | None:
    found = [entry.figure(column, measure) for entry in group]
    values = [100 * value for value in found if value is not None]
    return sum(values) / len(values) if len(values) == len(found) else None


def _trials(entries: Sequence[Entry]) -> list[Block]:
    shown: list[Block] = []
    seen = set()
    for entry in entries:
        if entry.trials and _family(entry) not in seen:
            seen.add(_family(entry))
            shown += [Heading(entry.family or entry.name, 4), trials_table(entry.trials)]
    if not shown:
        return []
    counts: dict[int, list[str]] = {}
    for entry in entries:
        if entry.trials:
            asked = int(entry.settings.get("training", {}).get("validation_queries", 0))
            counts.setdefault(asked, []).append(entry.family or entry.name)
    usual = max(counts, key=lambda asked: len(counts[asked]))
    others = [
        f"{', '.join(dict.fromkeys(names))} on {asked}"
        for asked, names in counts.items()
        if asked != usual
    ]
    on = "; ".join([f"Trials are compared on {usual} validation queries of each shape", *others])
    edges = {entry.family or entry.name: ", ".join(at_the_edge(entry.trials)) for entry in entries}
    named = [f"{name} ({values})" for name, values in edges.items() if values]
    told = (
        [Text(f"The largest or the smallest value tried was the best for {', '.join(named)}.")]
        if named
        else []
    )
    return [Heading("Trials", 3), Text(f"{on}. {CHOSEN_ON_VALIDATION}"), *told, *shown]


def _commands(entries: Sequence[Entry], commands: Mapping[str, str]) -> Table:
    names = dict.fromkeys(entry.family or entry.name for entry in entries)
    rows = [[name, commands[name]] for name in names if name in commands]
    return Table(["row", "made by"], rows, is_text=True)
