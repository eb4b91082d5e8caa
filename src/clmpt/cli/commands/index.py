"""index."""

from __future__ import annotations

import argparse

from clmpt.cli.output import TerminalTable, show_json, show_table, tell
from clmpt.cli.progress_bars import progress_bar
from clmpt.experiments.evaluating import Candidate

_HEADERS = ["index", "entities", "width", "lists", "read", "recall@10", "recall@100"]
_HEADERS += ["exact", "with index", "built in", "size"]


def make_index(options: argparse.Namespace) -> None:
    candidate = Candidate.open(options.folder, options.graph, "cpu", options.trust)
    with progress_bar() as show:
        made = candidate.make_indexes(options.recall, options.seed, show)
    if options.json:
        show_json({name: one.as_plain() for name, one in made.items()})
        return
    rows = [
        (
            *(name, f"{one.rows:,}", one.width, one.lists, one.probes),
            *(f"{one.recall_at_10:.3f}", f"{one.recall_at_100:.3f}"),
            *(f"{one.exact_ms:.1f} ms", f"{one.index_ms:.1f} ms"),
            *(f"{one.build_seconds:.1f} s", f"{one.bytes / 1e6:,.0f} MB"),
        )
        for name, one in made.items()
    ]
    show_table(TerminalTable(str(options.folder), _HEADERS, rows))
    missed = [name for name, one in made.items() if one.recall_at_100 < options.recall]
    for name in missed:
        tell(f"{name}: the recall is below {options.recall} on questions that did not choose it.")
    slower = [name for name, one in made.items() if one.index_ms >= one.exact_ms]
    for name in slower:
        tell(f"{name}: no faster than exact search. Remove its file, or lower --recall.")
    tell("Used from now on by 'ask' and 'serve', and by 'evaluate --index'.")
