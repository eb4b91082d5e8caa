"""GNN-QE: message passing by hand and one message at a time; edges that training leaves out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.errors import WrongGraph
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.operator_tree import Project
from clmpt.logic.parser import parse
from clmpt.logic.shapes import shape
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.dropout import NO_DROPOUT, Dropout
from clmpt.reasoners.fuzzy.fact_edges import FactEdges
from clmpt.reasoners.fuzzy.gnn_qe import GNNQE, log_odds_of, membership_loss
from clmpt.reasoners.fuzzy.graph_layer import GraphLayer
from clmpt.reasoners.fuzzy.incoming import Dropped, IncomingEdges, Passing
from clmpt.reasoners.model import Basis, Candidates, build_model
from clmpt.reasoners.reasoner_folder import open_reasoner
from clmpt.sampling.sampler import Protocol, sample
from clmpt.training.runs import train
from clmpt.training.trainer import Trainer, part_of_groups
from models import reasoning
from small_training import queries, settings, valid_graph
from toy import random_graph

SHAPES = ("1p", "2p", "2i", "2in")


def graph_of(*facts: str) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples([tuple(fact.split()) for fact in facts])


def model(graph: KnowledgeGraph, **chosen: Any) -> GNNQE:
    sizes = {"rank": 4, "layers": 2, **chosen}
    made = build_model(Basis(graph), reasoning(reasoner="gnn-qe", **sizes), 0)
    assert isinstance(made, GNNQE)
    return made


# --- one layer by hand ----------------------------------------------------------------------------

MEAN, HIGHEST, LOWEST, DEVIATION = range(4)
PLAIN, RAISED, LOWERED = range(3)


@pytest.mark.parametrize(
    ("aggregate", "scale", "wanted"),
    [
        (MEAN, PLAIN, 1.0),
        (HIGHEST, PLAIN, 2.0),
        (LOWEST, PLAIN, 0.0),
        (DEVIATION, PLAIN, 0.8165),  # √(5/3 - 1²)
        (MEAN, RAISED, 1.3263),  # c has 3 messages, a and b 2: ln 3 / mean(ln 2, ln 2, ln 3)
        (HIGHEST, LOWERED, 1.5079),  # 2 / 1.3263
    ],
)
def test_what_a_node_makes_of_its_messages(aggregate: int, scale: int, wanted: float) -> None:
    """r(a, c), r(b, c); a is half in the set, b wholly. With r = 2, c receives ½ · 2, 1 · 2 and
    what it starts with, 0. Layer norm of two numbers only says which is larger: the number asked
    for, or the bias beside it."""
    edges = FactEdges(graph_of("a r c", "b r c"), np.array([1]), 2)
    incoming = IncomingEdges(edges)
    c = int(edges.target_X[0])
    member_EB = torch.ones(3, 1)
    member_EB[0], member_EB[c] = 0.5, 0.0
    query_BD = torch.ones(1, 2)
    layer = GraphLayer(2, 2, torch.Generator())
    with torch.no_grad():
        layer.relation.weight.zero_()
        layer.relation.bias.copy_(torch.tensor([2.0, 2.0, 3.0, 3.0]))
        layer.linear.weight.zero_()
        layer.linear.weight[0, 2 + aggregate * 3 + scale] = 1
        for beside, larger in ((wanted - 0.01, 0), (wanted + 0.01, 1)):
            layer.linear.bias.copy_(torch.tensor([0.0, beside]))
            passing = Passing.of(incoming, member_EB, None)
            found = layer(member_EB[..., None] * query_BD, query_BD, passing)[c, 0]
            assert found[larger] > 0.5
            assert found[1 - larger] == 0


# --- all of it, one message at a time -------------------------------------------------------------


def slow_probabilities(
    made: GNNQE, member_BE: Tensor, relation_B: Tensor, dropped: Dropped | None
) -> Tensor:
    """As the paper writes it: for each set, node and dimension, from a list of messages."""
    gone = dropped or Dropped(torch.empty(0), torch.empty(0))
    left_out = set(zip(gone.edge_P.tolist(), gone.set_P.tolist(), strict=True))
    arrays = made.incoming.source_X, made.incoming.row_X, made.incoming.target_X
    edges = list(enumerate(zip(*(array.tolist() for array in arrays), strict=True)))
    found = []
    for number, relation in enumerate(relation_B.tolist()):
        query = made.relations_SD[relation]
        state = start = member_BE[number][:, None] * query
        there = [edge for at, edge in edges if (at, number) not in left_out]
        into = [[edge for edge in there if edge[2] == node] for node in range(made.entities)]
        logs = torch.tensor([math.log(len(edges) + 1) for edges in into], dtype=query.dtype)
        for layer in made.layers:
            assert isinstance(layer, GraphLayer)
            rows = layer.relation(query).view(-1, len(query))
            new = []
            for node, incoming in enumerate(into):
                messages = [state[source] * rows[row] for source, row, _ in incoming]
                parts = aggregated(torch.stack([*messages, start[node]]), logs[node] / logs.mean())
                new.append(layer.norm(layer.linear(torch.cat([state[node], parts]))).relu())
            state = torch.stack(new) + state
        seen = torch.cat([state, query.expand(made.entities, -1)], 1)
        found.append(made.odds(made.hidden(seen).relu())[:, 0].sigmoid())
    return torch.stack(found)


def aggregated(messages: Tensor, scale: Tensor) -> Tensor:
    variance = messages.square().mean(0) - messages.mean(0).square()
    ends = messages.amax(0), messages.amin(0)
    several = torch.stack([messages.mean(0), *ends, variance.clamp_min(1e-6).sqrt()], -1)
    scales = torch.stack([torch.ones_like(scale), scale, 1 / scale.clamp_min(0.01)])
    return (several[..., None] * scales).flatten()


CHAIN = graph_of(*(f"n{number} r{number % 2} n{number + 1}" for number in range(12)))


@pytest.mark.parametrize("some_dropped", [False, True])
@pytest.mark.parametrize("graph", [random_graph(False), CHAIN], ids=["dense", "chain"])
@pytest.mark.parametrize("single", [False, True])
def test_probabilities_and_gradients_are_those_of_single_messages(
    graph: KnowledgeGraph, single: bool, some_dropped: bool
) -> None:
    """From sets of single entities most of a chain is too far away to learn of, in one layer."""
    made, random = model(graph).double(), torch.Generator().manual_seed(0)
    count, edges = made.entities, len(made.incoming.row_X)
    member_BE = torch.rand(3, count, generator=random, dtype=torch.float64)
    if single:
        member_BE = functional.one_hot(torch.tensor([5, 6, 5]), count).double()
    relation_B = torch.tensor([0, made.relation_rows - 1, 1])
    dropped = None
    if some_dropped:
        chosen_XB = torch.rand(edges, 3, generator=random) < 3 / edges
        dropped = Dropped(*chosen_XB.nonzero(as_tuple=True))
        assert len(dropped.edge_P)
    found = []
    for compute in (made.led_to, lambda *given: slow_probabilities(made, *given)):
        made.zero_grad()
        probabilities = compute(member_BE, relation_B, dropped)
        (probabilities * torch.arange(count)).sum().backward()
        found.append((probabilities.detach(), [p.grad.clone() for p in made.parameters()]))
    (fast, fast_slopes), (slow, slow_slopes) = found
    torch.testing.assert_close(fast, slow)
    for one, other in zip(fast_slopes, slow_slopes, strict=True):
        torch.testing.assert_close(one, other)
    assert some_dropped != bool(torch.equal(made.led_to(member_BE, relation_B, None), fast))


def test_a_graph_with_both_directions_has_each_edge_once_and_held_out_facts_none() -> None:
    for both in (False, True):
        graph = random_graph(both).view("train")
        made = model(graph)
        facts = {tuple(fact) for fact in graph.triples().tolist()}
        assert len(made.edges.row_X) == len(facts) * (1 if both else 2)
        pairs = zip(made.edges.source_X.tolist(), made.edges.target_X.tolist(), strict=True)
        assert set(pairs) == {(h, t) for h, _, t in facts} | {(t, h) for h, _, t in facts}


# --- edges that training leaves out ---------------------------------------------------------------


def test_edges_that_a_query_walks_are_dropped_in_both_directions() -> None:
    """From a along r to b and to c. Only r's edge leads to c, so that one stays, as does s."""
    graph = graph_of("a r b", "a r c", "b s d", "d r a")
    made = model(graph)
    ids = {name: graph.entities.names.find(name)[0] for name in "abcd"}
    key = torch.zeros(1, dtype=torch.int64)
    nearly_all = Dropout(1 - 2**-16, torch.Generator().manual_seed(0)).of_sets(key, ())
    start_NE = functional.one_hot(torch.tensor([ids["a"]]), 4).float()
    reached_NE, dropped = made.walked.walk(
        made.edges, made.incoming, start_NE, torch.tensor([0]), nearly_all
    )
    assert set(reached_NE[0].nonzero()[:, 0].tolist()) == {ids["b"], ids["c"]}
    gone = {(int(made.incoming.source_X[e]), int(made.incoming.row_X[e])) for e in dropped.edge_P}
    inverse = int(made.inverse_R[0])
    assert gone == {(ids["a"], 0), (ids["b"], inverse)}
    targets = made.incoming.target_X[dropped.edge_P].tolist()
    assert sorted(targets) == sorted([ids["a"], ids["b"]])


@pytest.mark.parametrize("weighting", ["queries", "answers"])
def test_processes_that_share_a_step_drop_the_same_edges(weighting: str) -> None:
    graph = valid_graph()
    made = model(graph.view("train"), drop=0.5, weighting=weighting)
    trainer = Trainer(made, queries(graph, 8, SHAPES).groups, settings(negatives="all"))
    groups = trainer.order.batch(0)
    count = sum(map(len, groups))

    @torch.no_grad()
    def loss(start: int, stop: int) -> float:
        own = slice(start, stop)
        batch, candidates = (
            made.lay_out(part_of_groups(groups, own)),
            trainer.candidates(groups, own),
        )
        return float(made.loss(batch, candidates, trainer.randomness())) * (stop - start) / count

    whole = loss(0, count)
    assert loss(0, 9) + loss(9, 20) + loss(20, count) == pytest.approx(whole, rel=1e-5)
    assert whole == loss(0, count)
    trainer.steps_done = 1
    assert whole != pytest.approx(loss(0, count), rel=1e-5)


def test_a_restored_training_takes_the_same_steps() -> None:
    graph = valid_graph()

    def fresh() -> Trainer:
        made = model(graph.view("train"))
        return Trainer(made, queries(graph, 8, SHAPES).groups, settings(batch=8))

    first, second = fresh(), fresh()
    for _ in range(2):
        first.step()
    second.restore({name: tensor.clone() for name, tensor in first.state().items()}, 2)
    assert float(first.step()) == float(second.step())
    for name, tensor in first.state().items():
        assert torch.equal(tensor, second.state()[name]), name


# --- the loss -------------------------------------------------------------------------------------


def test_given_negatives_are_the_only_ones() -> None:
    graph = random_graph(False).view("train")
    made = model(graph, drop=0.0)
    (group,) = queries(graph, 3, ("1p",)).groups
    batch, none = made.lay_out([group]), torch.Generator()
    all_of_them = torch.arange(len(graph.entities))[None]
    candidates = Candidates(torch.zeros(3, dtype=torch.int64), None)
    whole = made.loss(batch, candidates, none)
    assert made.loss(batch, replace(candidates, negative_QK=all_of_them), none) == whole
    other = next(e for e in range(len(graph.entities)) if e not in group.easy.entities)
    right_QE = torch.zeros(3, len(graph.entities), dtype=torch.bool)
    right_QE[torch.from_numpy(group.easy.owners), torch.from_numpy(group.easy.entities).long()] = (
        True
    )
    wrong_QE = torch.zeros_like(right_QE)
    wrong_QE[:, other] = True
    wanted = membership_loss(log_odds_of(made(batch)), right_QE, wrong_QE, 0.2).mean()
    one = torch.tensor([[other]])
    assert made.loss(batch, replace(candidates, negative_QK=one), none) == wanted != whole


def test_a_projection_that_another_follows_has_no_gradient() -> None:
    """Of 2p only the last relation learns: the embedding of the first has no slope."""
    graph = random_graph(False).view("train")
    made = model(graph, drop=0.0)
    (group,) = queries(graph, 1, ("2p",)).groups
    made.loss(made.lay_out([group]), Candidates(torch.zeros(1), None), torch.Generator()).backward()
    assert made.relations_SD.grad is not None
    learnt = made.relations_SD.grad.abs().sum(1).nonzero()[:, 0].tolist()
    assert learnt == [int(group.relations[0, 1])]


def test_a_set_that_is_an_answer_s_and_a_source_learns_as_the_answer_s_alone() -> None:
    made = model(random_graph(False), drop=0.0)
    (group,) = queries(random_graph(False), 1, ("1p",)).groups
    (step,) = (step for step in made.lay_out([group]).steps if step.operator is Project)
    set_NE = torch.rand(1, made.entities, requires_grad=True)
    made.project(set_NE, step, NO_DROPOUT.of_sets(step.key_N, ())).sum().backward()
    assert set_NE.grad is None


def test_probabilities_can_come_from_all_layers() -> None:
    made = model(random_graph(False), states="all")
    assert made.hidden.in_features == 4 * 3
    relation, member = torch.tensor([0]), torch.zeros(1, made.entities)
    before = made.led_to(member, relation, None)
    with torch.no_grad():
        made.hidden.weight[:, :4] += 1  # what it makes of the first layer
    assert not torch.equal(made.led_to(member, relation, None), before)


# --- a graph that grew ----------------------------------------------------------------------------

FACTS = ("a r b", "b s c", "c r d", "d s a")


def stored(name: str, folder: Path) -> None:
    graph = graph_of(*FACTS)
    course = settings(steps=1, validation_queries=1)
    asked = queries_of_all_facts(graph)
    list(train(graph, None, asked, reasoning(reasoner=name, rank=4), course, folder))


def queries_of_all_facts(graph: KnowledgeGraph) -> QuerySet:
    everything = Protocol(graph.splits, graph.splits)
    return QuerySet((sample(shape("1p"), graph, everything, 4, 0),), {"graph": graph.fingerprint})


def test_new_entities_need_no_training(tmp_path: Path) -> None:
    stored("gnn-qe", tmp_path / "run")
    grown = graph_of(*FACTS, "new r b", "new s a")
    opened = open_reasoner(tmp_path / "run", grown, newer=True).model.reasoner()
    before = open_reasoner(tmp_path / "run", graph_of(*FACTS)).model.reasoner()
    asked = [
        QueryGroup.single(graph.bind(parse("?y : r(a, ?y)"))) for graph in (grown, graph_of(*FACTS))
    ]
    found, without = opened.score(asked[:1]), before.score(asked[1:])
    assert found.shape == (1, 5)
    assert not torch.equal(found[:, :4], without)  # its facts count


def test_a_newer_graph_in_which_weights_mean_something_else_is_refused(tmp_path: Path) -> None:
    stored("gnn-qe", tmp_path / "graph-network")
    turned = graph_of("b s c", *FACTS)  # s comes first
    with pytest.raises(WrongGraph, match="GNN-QE knows the relations"):
        open_reasoner(tmp_path / "graph-network", turned, newer=True)
    stored("gqe", tmp_path / "embeddings")
    moved = graph_of("b r a", *FACTS)  # as many entities, in another order
    with pytest.raises(WrongGraph, match="GQE has embeddings of the entities"):
        open_reasoner(tmp_path / "embeddings", moved, newer=True)
