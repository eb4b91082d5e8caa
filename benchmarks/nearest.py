"""Prints how fast an index of nearest neighbours is, and how much of the best it finds.

    python benchmarks/nearest.py
    python benchmarks/nearest.py --sizes 1000000x128 1000000x400
    python benchmarks/nearest.py --sizes 1000000x128 --ask

The tables are made up: rows scattered around centres, one for 200 rows, of different lengths;
questions are rows with noise. Real embeddings may be easier or harder: 'clmpt index' measures those
of a model. A row of the table is printed as soon as it is measured, so a run can be cut short. With
--ask, questions of one and of two hops are asked of models on such a table, without an index and
with one, one at a time: milliseconds from text to ten answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from clmpt.compute.processors import prepare_torch

prepare_torch()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from clmpt.answering.answerer import Answerer  # noqa: E402
from clmpt.compute.nearest_measuring import measured_lists  # noqa: E402
from clmpt.experiments.evaluating import Candidate  # noqa: E402
from clmpt.graph.edges import build_index  # noqa: E402
from clmpt.graph.knowledge_graph import KnowledgeGraph  # noqa: E402
from clmpt.graph.names import NameTable  # noqa: E402
from clmpt.graph.stored_names import StoredNames  # noqa: E402
from clmpt.graph.vocabulary import Vocabulary  # noqa: E402
from clmpt.predictors.predictor import fresh_predictor, read_pretraining  # noqa: E402
from clmpt.reasoners.model import Basis, build_model, read_reasoning  # noqa: E402
from clmpt.reasoners.reasoner_folder import replace_reasoner  # noqa: E402
from clmpt.storage.sealing import sealed_folder  # noqa: E402

_QUESTIONS = 400
_RELATIONS = 20
_LINE = "{:>12} {:>6} {:>8} {:>9} {:>9} {:>9} {:>10} {:>8} {:>7}\n"


def made_up(rows: int, width: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    centre_CD = torch.randn(max(50, rows // 200), width, generator=random)
    table_ED = centre_CD[torch.randint(len(centre_CD), (rows,), generator=random)]
    for part_ND in table_ED.split(2**16):
        part_ND += 0.7 * torch.randn(part_ND.shape, generator=random)
        part_ND *= 0.1 * (0.5 + torch.rand(len(part_ND), 1, generator=random))
    asked = torch.randint(rows, (_QUESTIONS,), generator=random)
    return table_ED, table_ED[asked] + 0.05 * torch.randn(_QUESTIONS, width, generator=random)


def measure(rows: int, width: int, recall: float) -> None:
    table_ED, question_BD = made_up(rows, width)
    for unit in (False, True):
        asked_BD = torch.nn.functional.normalize(question_BD, dim=-1) if unit else question_BD
        _, found = measured_lists(table_ED, unit, asked_BD, recall)
        kind = "cosine" if unit else "product"
        line = (
            *(f"{rows:,}", width, kind, f"{found.exact_ms:.1f}", f"{found.index_ms:.1f}"),
            *(f"{found.recall_at_10:.3f}", f"{found.recall_at_100:.3f}"),
            *(f"{found.build_seconds:.0f}", f"{found.bytes / 1e6:.0f}"),
        )
        sys.stdout.write(_LINE.format(*line))
        sys.stdout.flush()


def ask(rows: int, width: int, recall: float) -> None:
    graph = random_graph(rows)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        save_model(folder, graph, width)
        times = [answer_times(folder, graph)]
        Candidate.open(folder, graph, "cpu").make_indexes(recall)
        times.append(answer_times(folder, graph))
    for (reasoner, hops), exact in times[0].items():
        line = f"{rows:>12,} {width:>6} {reasoner:>14} {hops:>5} {exact:>9.1f}"
        sys.stdout.write(f"{line} {times[1][reasoner, hops]:>9.1f}\n")


def random_graph(rows: int) -> KnowledgeGraph:
    random = np.random.default_rng(0)
    entities, relations = (
        Vocabulary(kind, NameTable.of(f"{kind[0]}{number}" for number in range(size)))
        for kind, size in (("entity", rows), ("relation", _RELATIONS))
    )
    columns = [random.integers(size, size=3 * rows) for size in (rows, _RELATIONS, rows)]
    facts = np.stack(columns, 1).astype(np.int32)
    return KnowledgeGraph(entities, relations, build_index(rows, _RELATIONS, [facts]))


def save_model(folder: Path, graph: KnowledgeGraph, width: int) -> None:
    """CLMPT as it begins, on embeddings that are made up; relations turn them a little."""
    predictor = fresh_predictor(graph, read_pretraining({"rank": width // 2}))
    with torch.no_grad():
        predictor.entities_ED.copy_(made_up(len(graph.entities), width)[0])
        predictor.relations_SW.normal_(0, 0.2)[:, : width // 2] += 1
    model = build_model(Basis(graph, predictor), read_reasoning({"reasoner": "clmpt"}), 0)
    with sealed_folder(folder) as scratch:
        StoredNames.of(graph).save(scratch)
        replace_reasoner(scratch, model, {})


def answer_times(folder: Path, graph: KnowledgeGraph) -> dict[tuple[str, int], float]:
    """Milliseconds per question, by reasoner and number of hops."""
    found = {}
    for reasoner in ("clmpt", "truth-values"):
        model = Answerer.open(folder, graph, "cpu", reasoner=reasoner)
        for hops, text in ((1, "?x : r{1}(e{0}, ?x)"), (2, "?x : r{1}(e{0}, ?y) & r{2}(?y, ?x)")):
            model.ask(text.format(0, 0, 1))
            asked = [text.format(7 * n, n % _RELATIONS, (n + 1) % _RELATIONS) for n in range(1, 16)]
            begin = time.perf_counter()
            for question in asked:
                model.ask(question)
            found[reasoner, hops] = 1000 * (time.perf_counter() - begin) / len(asked)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = ["20000x64", "100000x128"]
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="ROWSxWIDTH")
    parser.add_argument("--recall", type=float, default=0.95, help="of the 100 best")
    parser.add_argument("--ask", action="store_true", help="ask whole questions")
    parser.add_argument("--keep", metavar="FOLDER", help="make a graph and a model only")
    options = parser.parse_args()
    headers = ("entities", "width", "scores", "exact ms", "index ms", "recall@10", "recall@100")
    if options.keep:
        rows, width = map(int, options.sizes[0].split("x"))
        graph = random_graph(rows)
        graph.save(Path(options.keep) / "graph")
        save_model(Path(options.keep) / "model", graph, width)
        return
    line = _LINE.format(*headers, "build s", "MB")
    if options.ask:
        line = (
            f"{'entities':>12} {'width':>6} {'reasoner':>14} {'hops':>5} {'exact ms':>9} index ms\n"
        )
    sys.stdout.write(line)
    for size in options.sizes:
        rows, width = map(int, size.split("x"))
        (ask if options.ask else measure)(rows, width, options.recall)


if __name__ == "__main__":
    main()
