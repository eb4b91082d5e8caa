"""Training and inference: fractions of the machine's peak, and the evaluation of a benchmark.

    python benchmarks/reasoning.py [NELL995]

First what `clmpt bench` prints, on random queries. Then, if the benchmark's folder exists (by
default the one next to the checkout), a model of rank 200 answers and ranks all its official test
queries, in a process of its own; its weights are random, which costs the same.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from clmpt.cli.main import main as clmpt
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.opening import open_graph
from clmpt.logic.shapes import EPFO, NEGATION
from clmpt.predictors.complex import ComplEx
from clmpt.queries.benchmark_files import read_queries
from clmpt.reasoners.model import Basis, build_model, read_reasoning

DATA = Path(__file__).parents[2] / "shared" / "data"


def evaluate_all(folder: Path) -> None:
    graph, shapes = open_graph(folder), (*EPFO, *NEGATION)
    groups = [group for group in read_queries(folder, "test") if group.name in shapes]
    random, relations = torch.Generator().manual_seed(0), len(graph.relations)
    predictor = ComplEx(
        torch.randn(len(graph.entities), 400, generator=random) * 0.1,
        torch.randn(relations, 400, generator=random) * 0.3,
        torch.arange(relations) ^ 1,
    )
    chosen = read_reasoning({"encoder_layers": 1})
    model = build_model(Basis(graph.view("train"), predictor), chosen, seed=0)
    start, processor = time.perf_counter(), time.process_time()
    observed = ("train", "valid")
    report = evaluate(model.reasoner(), groups, "random", graph, observed)
    seconds, spent = time.perf_counter() - start, time.process_time() - processor
    queries = sum(shape.figures.count for shape in report.shapes)
    answers = sum(shape.hard_answers for shape in report.shapes)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{folder.name}: {queries:,} queries, {answers:,} hard answers in {seconds:.0f} s "
        f"({queries / spent:.0f} queries per processor second), {memory:.2f} GB peak"
    )


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--evaluate"]
    folder = Path(arguments[0]) if arguments else DATA / "NELL-betae"
    if "--evaluate" in sys.argv:
        evaluate_all(folder)
        return
    clmpt(["bench"])
    if folder.exists():
        subprocess.run([sys.executable, __file__, "--evaluate", str(folder)], check=True)


if __name__ == "__main__":
    main()
