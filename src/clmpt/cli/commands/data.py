"""data."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from clmpt.cli.output import command_name, say, show_json, tell, told_if_repeated
from clmpt.cli.progress_bars import progress_bar
from clmpt.errors import DataError
from clmpt.experiments.benchmarks import ARCHIVE, ARCHIVE_MD5, BENCHMARKS, get, is_benchmark
from clmpt.queries.benchmark_files import query_splits
from clmpt.storage.download import Download, check_md5
from clmpt.storage.files import refuse_existing


def data(options: argparse.Namespace) -> None:
    benchmark = BENCHMARKS[options.benchmark]
    out = Path(options.out or benchmark.folder)
    if not is_benchmark(benchmark, out):  # else it is made again, and compared
        refuse_existing(out)
    source = Path(options.origin) if options.origin else _fetched(options.url, out)
    with (
        told_if_repeated(out),
        progress_bar(lambda now: f"{now.stage} to {out}, bytes") as show,
    ):
        graph = get(benchmark, source, out, show)
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
    """The archive, next to where the benchmark will be; it has the others too, so it is kept."""
    address = url or ARCHIVE
    path = out.parent / (Path(address).name.strip(".") or "archive.zip")
    there = path.exists()
    if there and not path.is_file():
        raise DataError(f"'{path}' is not a file, and the archive would be kept there. Move it.")
    with progress_bar(lambda now: f"{now.stage} {path.name}, bytes") as show:
        try:
            Download(address, path, show).run()
        except KeyboardInterrupt:
            tell("Stopped. The same command resumes the download.")
            raise
        if url is None:
            check_md5(path, ARCHIVE_MD5, show)
    tell(f"{path} {'was already there' if there else 'is kept for the other benchmarks'}.")
    return path
