"""data."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from clmpt.cli.output import command_name, progress, say, show_json, tell
from clmpt.errors import DataError
from clmpt.experiments.benchmarks import (
    ARCHIVE,
    ARCHIVE_MD5,
    BENCHMARKS,
    Download,
    check_md5,
    get,
)
from clmpt.graph.benchmark_folders import query_splits
from clmpt.storage.files import refuse_existing


def data(options: argparse.Namespace) -> None:
    benchmark = BENCHMARKS[options.benchmark]
    out = Path(options.out or benchmark.folder)
    refuse_existing(out)
    source = Path(options.origin) if options.origin else _fetched(options.url, out)
    with progress(None) as show:
        graph = get(benchmark, source, out, lambda done: show(f"unpacking to {out}, bytes", done))
    counts = {name: len(graph.triples(name)) for name in graph.splits}
    splits = query_splits(out)
    if options.json:
        show_json({"folder": str(out), "facts": counts, "queries": splits})
        return
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{out}: {len(graph.entities):,} entities, {len(graph.relations):,} relations; {listed}")
    say(f"Queries with answers: {', '.join(splits) or 'none; reproduce samples what it needs'}")
    data, run = shlex.quote(str(out)), f"{options.benchmark}-run"
    say(f"Next: {command_name()} reproduce {benchmark.recipe} --data {data} --out {run}")


def _fetched(url: str | None, out: Path) -> Path:
    """The archive beside where the benchmark will be; it holds the others too, so it is kept."""
    address = url or ARCHIVE
    path = out.parent / (Path(address).name.strip(".") or "archive.zip")
    there = path.exists()
    if there and not path.is_file():
        raise DataError(f"'{path}' is not a file; the archive would be kept there. Move it away.")
    with progress(None) as show:

        def tell_how_far(done: int, total: int) -> None:
            of = f" of {total / 1e6:,.0f}" if total else ""
            show(f"fetching {path.name}: {done / 1e6:,.0f}{of} MB", done)

        try:
            Download(address, path, tell_how_far).run()
        except KeyboardInterrupt:
            tell("Stopped. The same command goes on with what came so far.")
            raise
    if url is None:
        with progress(None) as show:
            check_md5(path, ARCHIVE_MD5, lambda done: show(f"checking {path.name}, bytes", done))
    tell(f"{path} {'was there already' if there else 'is kept, for the other benchmarks'}.")
    return path
