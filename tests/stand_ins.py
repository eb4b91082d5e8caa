"""Small stand-ins for the published benchmarks, so that documents can be run."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import FULL, OBSERVED
from clmpt.logic.betae import structure_of, to_betae
from clmpt.logic.shapes import shape
from clmpt.queries.templates import instantiate
from clmpt.sampling.sampler import Protocol, sample
from toy import random_graph

NAMES = ("FB15k-237-betae", "NELL-betae", "FB15k-237-q2b", "NELL-q2b")
SHAPES = ("1p", "2p", "2i", "2in", "2u")
COUNT = 5


def make_stand_ins(folder: Path) -> None:
    """Small versions of the benchmark folders and files that the documents use."""
    graph = _graph()
    for name in NAMES:
        _write_betae(graph, folder / name)
    (folder / "facts.csv").write_text("orwell,wrote,b1\norwell,wrote,b2\n")
    (folder / "names.tsv").write_text("orwell\tGeorge Orwell\nb1\tAnimal Farm\n")
    fact = "<http://example.org/orwell> <http://example.org/wrote> <http://example.org/b{}> .\n"
    (folder / "old.ttl").write_text(fact.format(1))
    (folder / "new.nt.gz").write_bytes(gzip.compress(fact.format(2).encode()))


def _graph() -> KnowledgeGraph:
    toy = random_graph(True)
    names, relations = toy.entities.names, toy.relations.names
    order = [f"r{number}{end}" for number in range(5) for end in ("", "'")]
    builder = GraphBuilder(list(names), order)
    for head, relation, tail in toy.triples().tolist():
        pair = min(head, tail) * 40 + max(head, tail)
        split = {8: "valid", 9: "test"}.get(pair % 10, "train")
        builder.add(split, names[head], relations[relation], names[tail])
    return builder.build()


def _write_betae(graph: KnowledgeGraph, folder: Path) -> None:
    folder.mkdir()
    for kind, vocabulary in (("ent", graph.entities), ("rel", graph.relations)):
        (folder / f"id2{kind}.pkl").write_bytes(pickle.dumps(dict(enumerate(vocabulary.names))))
    for split in graph.splits:
        rows = "".join("\t".join(map(str, row)) + "\n" for row in graph.triples(split).tolist())
        (folder / f"{split}.txt").write_text(rows)
    for split in ("valid", "test"):
        queries: dict[Any, set[Any]] = {}
        easy: dict[Any, set[int]] = {}
        hard: dict[Any, set[int]] = {}
        for name in SHAPES:
            protocol = Protocol(OBSERVED[split], FULL[split], 20)
            group = sample(shape(name), graph, protocol, COUNT, 0)
            for number in range(len(group)):
                row = (group.entities[number], group.relations[number])
                bound = instantiate(group.template, *row, len(graph.relations))
                nested = to_betae(bound, lambda relation: relation ^ 1)
                queries.setdefault(structure_of(nested), set()).add(nested)
                easy[nested] = set(group.easy[number].tolist())
                hard[nested] = set(group.hard[number].tolist())
        for name, table in (("queries", queries), ("easy-answers", easy), ("hard-answers", hard)):
            (folder / f"{split}-{name}.pkl").write_bytes(pickle.dumps(table))
