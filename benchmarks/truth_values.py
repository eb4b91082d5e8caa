"""Truth values: time per question, one at a time, and what following fewer values costs.

    python benchmarks/truth_values.py MODEL QUERIES [--count 40]

MODEL is a checkpoint of truth values or of a hybrid, QUERIES a query file. For each number of
values that are followed along predicted links: the mean MRR, the median and the 95th percentile
of the time per question, and how much of the answers' value lies below the bound on what was left
out. Rows are forgotten between settings.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from clmpt.answering.asked_model import TRUTH_VALUES, open_model
from clmpt.answering.model_folder import graph_of
from clmpt.evaluation.measuring import mrr_by_query
from clmpt.graph.opening import open_graph
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner


def measure(reasoner: TruthValueReasoner, groups: list[QueryGroup]) -> tuple[float, ...]:
    seconds, figures, exact, answers = [], [], 0, 0
    for group in groups:
        for number in range(len(group)):
            one = group.take(np.array([number]))
            start = time.perf_counter()
            values_QE, bound_Q = reasoner.score_with_bounds([one])
            seconds.append(time.perf_counter() - start)
            hard = values_QE[0, np.asarray(one.hard.entities, np.int64)]
            exact += int((hard > bound_Q[0]).sum())
            answers += len(hard)
            figures.append(mrr_by_query(values_QE, one).mean())
    middle, late = np.percentile(seconds, [50, 95])
    return 100 * float(np.mean(figures)), 1000 * middle, 1000 * late, 100 * exact / max(answers, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("queries", type=Path)
    parser.add_argument("--count", type=int, default=40, help="queries per shape")
    parser.add_argument("--sources", type=int, nargs="+", default=[1, 8, 32, 128])
    options = parser.parse_args()
    graph = open_graph(graph_of(options.model))
    groups = [
        group.take(slice(0, options.count)) for group in QuerySet.open(options.queries).groups
    ]
    print("followed  MRR × 100  median ms  95 % ms  hard answers above the bound, %")
    for sources in options.sources:
        asked, _ = open_model(options.model, graph, torch.device("cpu"), (), TRUTH_VALUES)
        reasoner = asked.reasoner
        assert isinstance(reasoner, TruthValueReasoner)
        effort = replace(reasoner.engine.effort, sources=sources)
        reasoner.engine = replace(reasoner.engine, effort=effort)
        print(
            "{:>8}  {:9.2f}  {:9.1f}  {:7.1f}  {:.0f}".format(sources, *measure(reasoner, groups))
        )


if __name__ == "__main__":
    main()
