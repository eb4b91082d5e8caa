"""Ways to join a trained reasoner with truth values, on validation queries.

    python benchmarks/hybrids.py HYBRID QUERIES [--count 150]

HYBRID is a checkpoint of a hybrid, QUERIES a query file sampled from the split 'valid'. Rows:

- each part alone, and truth values that unite the ways to an answer or follow more values of a
  variable: the most that a proposer of values could add;
- sum: log-odds of the truth value + w · log softmax of the other's scores;
- positive part: the same, with the other's scores for the query without its negated parts;
- network: 16 units over both logarithms and the kind of question, trained with a softmax over
  the best candidates on every other query and measured on the rest, and the other way round.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from clmpt.answering.asked_model import open_model
from clmpt.answering.model_folder import graph_of
from clmpt.evaluation.measuring import mrr_by_query
from clmpt.graph.opening import open_graph
from clmpt.logic.formula import Atom, Query, children, conjunction, placeholders
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.hybrid import HybridReasoner
from clmpt.reasoners.question_kinds import KINDS, has_negation, kind_of
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner, log_odds

LEAST = 1e-7
WEIGHTS = (0.03, 0.1, 0.2, 0.3)
AT_ONCE, CANDIDATES, POSITIVES, STEPS = 50, 150, 5, 200


def positive_part(group: QueryGroup) -> QueryGroup:
    """The same queries without what is negated."""
    kept = [part for part in children(group.template.body) if isinstance(part, Atom)]
    template = Query(group.template.free, conjunction(list(kept)))
    columns = [
        [names.index(name) for name in left]
        for names, left in zip(placeholders(group.template), placeholders(template), strict=True)
    ]
    entities, relations = group.entities[:, columns[0]], group.relations[:, columns[1]]
    return QueryGroup(group.name, template, entities, relations, group.easy, group.hard)


def in_parts(score: Callable[[list[QueryGroup]], Tensor], group: QueryGroup) -> Tensor:
    starts = range(0, len(group), AT_ONCE)
    return torch.cat([score([group.take(slice(at, at + AT_ONCE))]).cpu() for at in starts])


class Table:
    """Mean MRR by row and shape."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[float]]] = {}
        self.negated: set[str] = set()

    def add(self, row: str, scores_QE: Tensor, group: QueryGroup) -> None:
        found = self.rows.setdefault(row, {}).setdefault(group.name, [])
        found += mrr_by_query(scores_QE.clone(), group).tolist()
        if has_negation(group.template):
            self.negated.add(group.name)

    def show(self) -> None:
        print(f"{'':24}  Avg_p  Avg_n  by shape")
        for row, shapes in self.rows.items():
            means = {name: 100 * float(np.mean(found)) for name, found in shapes.items()}
            averages = [
                np.mean([value for name, value in means.items() if (name in self.negated) == kind])
                for kind in (False, True)
            ]
            each = " ".join(f"{name} {value:.1f}" for name, value in means.items())
            print(f"{row:24}  {averages[0]:5.2f}  {averages[1]:5.2f}  {each}")


def variants(truth: TruthValueReasoner) -> dict[str, TruthValueReasoner]:
    """Truth values with other settings of their engine, over the same rows."""
    effort = replace(truth.engine.effort, sources=128)
    changed = {
        "truth values": {"unites": False},
        "truth values, united": {"unites": True},
        "truth values, 128": {"unites": False, "effort": effort},
    }
    found = {}
    for name, change in changed.items():
        found[name] = TruthValueReasoner(truth.source, truth.graph, truth.engine.scale)
        found[name].engine = replace(truth.engine, **change)
    return found


def features(log_QE: Tensor, other_QE: Tensor, kind: int) -> Tensor:
    impossible = (log_QE < np.log(2 * LEAST)).float()
    both = torch.stack([log_QE, other_QE.clamp_min(-30) / 3, impossible], -1)
    return torch.cat([both, torch.eye(len(KINDS))[kind].expand(*log_QE.shape, -1)], -1)


def trained(examples: list[tuple[Tensor, int]]) -> nn.Module:
    torch.manual_seed(0)
    width = examples[0][0].shape[1]
    model = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer, random = torch.optim.Adam(model.parameters(), 1e-2), np.random.default_rng(0)
    for _ in range(STEPS):
        loss = torch.zeros(())
        for number in random.choice(len(examples), 32):
            features_CF, positives = examples[number]
            scores_C = model(features_CF).squeeze(-1)
            others = scores_C[positives:].logsumexp(0)
            true_C = scores_C[:positives]
            loss = loss + (torch.logaddexp(true_C, others) - true_C).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def examples_of(group: QueryGroup, log_QE: Tensor, other_QE: Tensor) -> list[tuple[Tensor, int]]:
    found = []
    for row in range(len(group)):
        one = group.take(np.array([row]))
        hard = np.asarray(one.hard.entities, np.int64)
        known = {*hard.tolist(), *np.asarray(one.easy.entities).tolist()}
        best = (log_QE[row] + 0.1 * other_QE[row]).topk(CANDIDATES).indices.tolist()
        chosen = [*hard[:POSITIVES].tolist(), *(entity for entity in best if entity not in known)]
        part = features(log_QE[row][chosen], other_QE[row][chosen], kind_of(group.template))
        found.append((part, min(len(hard), POSITIVES)))
    return found


def learned(table: Table, scored: list[tuple[QueryGroup, Tensor, Tensor]]) -> None:
    for fold in (0, 1):
        examples = []
        for group, log_QE, other_QE in scored:
            rows = np.arange(fold, len(group), 2)
            examples += examples_of(group.take(rows), log_QE[rows], other_QE[rows])
        model = trained(examples)
        for group, log_QE, other_QE in scored:
            rows = np.arange(1 - fold, len(group), 2)
            kind = kind_of(group.template)
            with torch.no_grad():
                parts = [model(features(log_QE[q], other_QE[q], kind)).squeeze(-1) for q in rows]
            table.add("network", torch.stack(parts), group.take(rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("queries", type=Path)
    parser.add_argument("--count", type=int, default=150, help="queries per shape")
    options = parser.parse_args()
    graph = open_graph(graph_of(options.model))
    asked, _ = open_model(options.model, graph, torch.device("cpu"), (), "hybrid")
    hybrid = asked.reasoner
    assert isinstance(hybrid, HybridReasoner)
    table, scored = Table(), []
    for group in QuerySet.open(options.queries).groups:
        group = group.take(slice(0, options.count))
        for name, truth in variants(hybrid.truth).items():
            table.add(name, in_parts(truth.score, group), group)
        log_QE = log_odds(in_parts(hybrid.truth.score, group), LEAST)
        other_QE = hybrid.other_strengths(in_parts(hybrid.other.score, group))
        table.add("the other alone", other_QE, group)
        for weight in WEIGHTS:
            table.add(f"sum, w {weight}", log_QE + weight * other_QE, group)
        positive_QE = other_QE
        if has_negation(group.template):
            positive_QE = hybrid.other_strengths(in_parts(hybrid.other.score, positive_part(group)))
        for weight in WEIGHTS[:2]:
            table.add(f"positive part, w {weight}", log_QE + weight * positive_QE, group)
        table.add("hybrid", in_parts(hybrid.score, group), group)
        scored.append((group, log_QE, other_QE))
    learned(table, scored)
    table.show()


if __name__ == "__main__":
    main()
