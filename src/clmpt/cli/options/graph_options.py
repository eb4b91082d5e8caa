"""The options of import, export, info."""

from __future__ import annotations

from clmpt.cli.options.option_types import AddCommand, add_folder, add_sources, add_splits, count


def graph_options(command: AddCommand, reasoner: str | None) -> None:  # noqa: ARG001
    read = command(
        "import",
        "graphs:import_graph",
        "read triples from files or a benchmark folder and store them as a graph",
        "clmpt import train=films.tsv test=more.nt --labels names.tsv --out films",
    )
    read.add_argument("--out", required=True, metavar="FOLDER", help="where to store the graph")
    add_sources(read)

    write = command(
        "export",
        "graphs:export",
        "write a graph as TSV or N-Triples",
        "clmpt export films --split train --out train.nt.gz",
    )
    add_folder(write)
    add_splits(write)
    write.add_argument(
        "--out", required=True, metavar="FILE", help="ends in .tsv or .nt, or .gz after that"
    )

    info = command(
        "info",
        "graphs:info",
        "summarise a graph or a model: counts, largest relations, degrees; what made it",
        "clmpt info films",
    )
    add_folder(info)
    info.add_argument("--top", type=count, default=10, metavar="N", help="relations to list")
