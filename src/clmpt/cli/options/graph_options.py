"""The options of import, export, check, info."""

from __future__ import annotations

from clmpt.cli.options.option_types import (
    AddCommand,
    add_folder,
    add_sources,
    add_splits,
    count,
    number,
)


def graph_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    read = command(
        "import",
        "graphs:import_graph",
        "read triples from files, a benchmark folder or an endpoint and store them as a graph",
        "clmpt import train=films.tsv test=more.nt --labels names.tsv --out films",
    )
    read.add_argument("--out", required=True, metavar="FOLDER", help="where to store the graph")
    add_sources(read)
    read.add_argument(
        "--most", type=count, default=10_000_000, metavar="N", help="statements of an endpoint"
    )
    read.add_argument(
        "--page", type=count, default=10_000, metavar="N", help="statements asked for at once"
    )
    read.add_argument(
        "--timeout", type=number, default=120.0, metavar="SECONDS", help="of an endpoint's page"
    )

    write = command(
        "export",
        "graphs:export",
        "write a graph as TSV or RDF",
        "clmpt export films --split train --out train.nt.gz",
    )
    add_folder(write)
    add_splits(write)
    write.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="ends in .tsv, .nt, .nq, .ttl or .trig, or .gz after that",
    )

    verified = command(
        "check",
        "check:check_stored",
        "compare everything stored in a folder with its checksums: graphs, queries, models, runs",
        "clmpt check mine",
    )
    verified.add_argument("folder", metavar="FOLDER", help="any folder, or a query file")

    info = command(
        "info",
        "info:info",
        "summarise a graph (counts, largest relations, degrees) or a model (training, figures)",
        "clmpt info films",
    )
    info.add_argument("folder", metavar="FOLDER", help="a graph, or a model of any kind")
    info.add_argument("--top", type=count, default=10, metavar="N", help="relations to list")
