"""Damaged files: with flipped bits, cut, longer, swapped, blanked, removed. Each use ends in one of
our errors or in the same result as before.

python tests/mutating.py 10000
python tests/mutating.py 1000 --bare    without checksums: only tracebacks and hangs count
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clmpt.answering.answerer import Answerer
from clmpt.cli.main import main
from clmpt.compute.tensor_files import checksum
from clmpt.errors import ClmptError
from clmpt.experiments.fitting import BASELINE_REPORT, REPORT
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.rdf_reading import LABEL, SAME_AS, RdfOptions
from clmpt.graph.readers import read_graph
from clmpt.pages.report_folder import read_cost, read_report
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.store import QuerySet
from clmpt.sparql.answering import answer_sparql
from clmpt.storage.run_folder import read_log, read_provenance, read_summary
from clmpt.symbolic.solver import solve
from tampering import without_checksums

SLOWEST = 20.0  # seconds; more is a hang, even on a busy machine
QUESTIONS = ["?y : r0(e0, ?y)", "?y : r1(?x, ?y) & !r2(?y, e3)", "?y : r0(e1, ?x) & r3(?x, ?y)"]


@dataclass(frozen=True)
class Subject:
    """Something stored, and how it is used: the result says all that it holds."""

    path: Path
    use: Callable[[Path], Any]

    @property
    def files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        return sorted(path for path in self.path.rglob("*") if path.is_file())


def use_graph(path: Path) -> Any:
    graph = KnowledgeGraph.open(path)
    answers = [sorted(graph.labels(solve(question, graph))) for question in QUESTIONS]
    return answers, _content(graph)


def _content(graph: KnowledgeGraph) -> Any:
    names = [
        list(table)
        for v in (graph.entities, graph.relations)
        for table in (v.names, v.labels or ())
    ]
    return names, graph.triples().tolist(), graph.identity, graph.inverse_ids.tolist()


def use_statements(path: Path) -> Any:
    """All that an RDF source said, in the default graph and in others."""
    graph = KnowledgeGraph.open(path)
    everything = "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
    rows = [tuple(map(str, row)) for row in answer_sparql(everything, graph)]
    return _content(graph), sorted(rows), solve('?x : likes("Anna", ?x)', graph)


def write_statements(folder: Path) -> Path:
    """A stored graph with literals, labels in two languages, blank nodes, a named graph and a thing
    with two names."""
    source = folder / "statements.trig"
    lines = [
        f":{n} :likes :{(n * 7) % 31} ; :age {n} ; <{LABEL}> "
        f"'{'Anna' if n == 3 else f'N {n}'}'@en , 'Nummer {n}'@de . [] :knows :{n} ."
        for n in range(31)
    ]
    lines += [f":3 <{SAME_AS}> :third . :third :likes :4 ."]
    lines = ["@prefix : <http://e/> .", *lines, ":g { :1 :likes :2 , 'a text' . }"]
    source.write_text("\n".join(lines))
    graph, _ = read_graph([source], rdf=RdfOptions(base="http://e/", same_as=True))
    graph.save(folder / "statements")
    return folder / "statements"


def use_queries(path: Path) -> Any:
    found = QuerySet.open(path)
    return [group.name for group in found.groups], found.checksum, found.about


def use_predictor(path: Path) -> Any:
    found = open_predictor(path)
    tables = list(found.predictor.state_dict().values())
    names = [list(found.names.entities), list(found.names.relations)]
    return checksum(tables), names, found.about, read_summary(path), read_log(path)


def use_model(path: Path) -> Any:
    model = Answerer.open(path, device="cpu")
    rows = [
        [(one.label, one.score, one.status, one.probability) for one in model.ask(question)]
        for question in QUESTIONS
    ]
    reports = [read_report(path / name) for name in (REPORT, BASELINE_REPORT)]
    return rows, model.asked.name, reports, read_cost(path / REPORT), read_provenance(path)


def subjects_in(fitted: Path) -> list[Subject]:
    """The graph, the queries, the predictor and all of a fitted model; and a graph from RDF."""
    return [
        Subject(fitted / "graph", use_graph),
        Subject(fitted / "train.queries", use_queries),
        Subject(fitted / "predictor", use_predictor),
        Subject(fitted, use_model),
        Subject(write_statements(Path(tempfile.mkdtemp(dir=fitted.parent))), use_statements),
    ]


# --- damage ---------------------------------------------------------------------------------------


def flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def early(data: bytes, rng: random.Random) -> bytes:
    """A flipped bit in the first bytes, where headers are."""
    return flipped(data[:200], rng) + data[200:]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def extended(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0", b" ", b"\n", data[-8:], rng.randbytes(rng.randrange(1, 100))))


def blanked(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    stop = start + rng.choice((1, 16, 512, len(data)))
    return data[:start] + b"\0" * len(data[start:stop]) + data[stop:]


DAMAGES = {one.__name__: one for one in (flipped, early, cut, extended, blanked)}


@contextmanager
def damaged(subject: Subject, rng: random.Random) -> Iterator[str]:
    """One or two files changed for the time of a block; what was done, in words."""
    files = subject.files
    one, other = rng.choice(files), rng.choice(files)
    before = {path: path.read_bytes() for path in (one, other)}
    kind = rng.choice(["swapped", "removed", *DAMAGES, *DAMAGES])
    try:
        if kind == "swapped":
            replace(one, before[other])
            replace(other, before[one])
        elif kind == "removed":
            one.unlink()
        else:
            replace(one, DAMAGES[kind](before[one], rng))
        also = f" with {other}" if kind == "swapped" else ""
        yield f"{kind} {one}{also}"
    finally:
        for path, data in before.items():
            replace(path, data)


def replace(path: Path, data: bytes) -> None:
    scratch = path.with_name(path.name + ".new")
    scratch.write_bytes(data)
    os.replace(scratch, path)


def mutate(subject: Subject, count: int, seed: int, silent_is_wrong: bool = True) -> Counter[str]:
    """How often each outcome occurred; fails on other exceptions, hangs and silent changes."""
    expected, outcomes, rng = repr(subject.use(subject.path)), Counter[str](), random.Random(seed)
    for number in range(count):
        with damaged(subject, rng) as what:
            start = time.perf_counter()
            try:
                found = repr(subject.use(subject.path))
            except ClmptError as error:
                if not str(error).strip():
                    raise AssertionError(f"{number}: an empty message: {what}") from error
                outcomes["refused"] += 1
            except BaseException as error:
                raise AssertionError(f"{number}: {type(error).__name__}: {what}") from error
            else:
                outcomes["same" if found == expected else "changed"] += 1
                if silent_is_wrong:
                    assert found == expected, f"{number}: a silent change: {what}"
            assert time.perf_counter() - start < SLOWEST, f"{number}: too slow: {what}"
    assert repr(subject.use(subject.path)) == expected
    return outcomes


if __name__ == "__main__":
    from small_fit import fit_words, write_facts

    total, bare = int(sys.argv[1]), "--bare" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        write_facts(Path(name))
        assert main(fit_words(Path(name), "model")) == 0
        subjects = subjects_in(Path(name) / "model")
        if bare:
            without_checksums(Path(name))
        for subject in subjects:
            outcomes = mutate(subject, total // 5, 0, not bare)
            sys.stdout.write(f"{subject.path.name}: {total // 5:,} mutations, {dict(outcomes)}\n")
            sys.stdout.flush()
