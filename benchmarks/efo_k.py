"""Questions about two variables on a benchmark: rows ranked together by truth values.

    python benchmarks/efo_k.py GRAPH MODEL QUERIES [--most N]

QUERIES is a file of sampled test queries about one variable (`clmpt sample`). Of every query with a
hidden variable, the first one is asked for as well. Figures are means over queries of the means
over their hard rows, in percent.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from clmpt.answering.asked_model import TRUTH_VALUES, open_model
from clmpt.compute.devices import find_device
from clmpt.errors import UnsafeQuery
from clmpt.evaluation.row_ranks import RowFigures, row_figures
from clmpt.graph.opening import open_graph
from clmpt.logic.formula import Query, atoms
from clmpt.logic.normal_form import variables_in
from clmpt.queries.sources import open_queries
from clmpt.queries.templates import instantiate
from clmpt.symbolic.solver import solve_rows

RANKED = 2_000_000  # rows


def with_two_variables(query: Query) -> Query | None:
    for variable in variables_in(atoms(query.body)):
        if variable != query.free:
            try:
                return Query((query.free, variable), query.body, None, query.limits)
            except UnsafeQuery:
                continue
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graph")
    parser.add_argument("model")
    parser.add_argument("queries")
    parser.add_argument("--most", type=int, default=100, help="queries of each shape")
    options = parser.parse_args()
    graph = open_graph(options.graph)
    observed, full = graph.view("train", "valid"), graph.view("train", "valid", "test")
    asked, _ = open_model(options.model, graph, find_device("cpu"), (), TRUTH_VALUES)
    assert asked.truth is not None
    print(f"{'shape':6} queries  joint MRR    @10  marginal  multiply@10")
    means = []
    for group in open_queries(Path(options.queries), graph, "test").groups:
        found: list[RowFigures] = []
        started = time.perf_counter()
        for number in range(min(len(group), options.most)):
            one = instantiate(
                *(group.template, group.entities[number], group.relations[number]),
                len(graph.relations),
            )
            query = with_two_variables(one)
            if query is None:
                break
            easy, true = solve_rows(query, observed), solve_rows(query, full)
            known = {tuple(row) for row in easy.tolist()}
            hard = np.array([row for row in true.tolist() if tuple(row) not in known], np.int64)
            if len(hard):
                rows, scores = asked.truth.best_of_rows(query, RANKED)
                every = np.concatenate([easy, true])
                found.append(row_figures(rows, scores, hard, every, len(graph.entities)))
        if found:
            figures = np.array(
                [
                    [f.joint_mrr, f.joint_hits_at_10, f.marginal_mrr, f.multiply_hits_at_10]
                    for f in found
                ]
            ).mean(0)
            means.append(figures)
            seconds = (time.perf_counter() - started) / len(found)
            shown = 100 * figures
            print(
                f"{group.name:6} {len(found):7} {shown[0]:10.1f} {shown[1]:6.1f} {shown[2]:9.1f} "
                f"{shown[3]:12.1f}   {1000 * seconds:.0f} ms each",
                flush=True,
            )
    shown = 100 * np.mean(means, axis=0)
    print(f"{'mean':6} {'':7} {shown[0]:10.1f} {shown[1]:6.1f} {shown[2]:9.1f} {shown[3]:12.1f}")


if __name__ == "__main__":
    main()
