"""Grouping by question changes the cost, not the loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.cp import CP
from clmpt.predictors.inner_products import DiagonalPredictor, InnerProductPredictor
from clmpt.predictors.objectives import (
    FullSoftmax,
    SelfAdversarial,
    sampled_loss,
    softmax_loss,
)
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.predictors.sampled_softmax import RowAdagrad, SampledSoftmax, sampled_softmax_loss
from clmpt.predictors.transe import TransE
from clmpt.queries.links import links_of
from clmpt.registry import PREDICTORS
from clmpt.training.pretrainer import Pretrainer, batch_of
from toy import films, random_graph

CPU = torch.device("cpu")
SOFTMAX = [name for name in PREDICTORS.names() if PREDICTORS.find(name).objective == "softmax"]
LINEAR = [name for name in PREDICTORS.names() if PREDICTORS.find(name).predicts_relations]


def predictor_for(graph: KnowledgeGraph, model: str) -> InnerProductPredictor:
    settings = read_pretraining({"model": model, "rank": 4, "initial_scale": 0.7})
    predictor = fresh_predictor(graph, settings).double()
    assert isinstance(predictor, InnerProductPredictor)
    return predictor


def plain_loss(predictor: InnerProductPredictor, graph: KnowledgeGraph, weight: float) -> Tensor:
    """The objective as published: one row of scores and one term of N3, or DURA, per triple."""
    links = links_of(graph, "train").one_by_one()
    entity, answer = torch.from_numpy(links.entity_P), links.answers.entities.astype("int64")
    head = predictor.entities_ED[entity]
    tail = predictor.entities_ED[torch.from_numpy(answer)]
    relation = predictor.directed(torch.from_numpy(links.directed_P))
    projected = predictor.project(head, relation)
    scores = projected @ predictor.entities_ED.T
    loss = functional.cross_entropy(scores, torch.from_numpy(answer))
    if not isinstance(predictor, DiagonalPredictor):
        return loss + weight * ((projected**2).sum() + (tail**2).sum()) / len(entity)
    if isinstance(predictor, CP):
        head, tail = head[:, :4], tail[:, 4:]

    def moduli(table: Tensor) -> Tensor:
        halves = table.chunk(2, dim=-1)
        return torch.complex(*halves).abs() if isinstance(predictor, ComplEx) else table.abs()

    cubes = sum((moduli(table) ** 3).sum() for table in (head, relation, tail))
    return loss + weight * cubes / len(entity)


@pytest.mark.parametrize("model", SOFTMAX)
@pytest.mark.parametrize("both_directions", [False, True])
@pytest.mark.parametrize("at_once", [2**26, 70])
def test_one_row_per_question_gives_the_loss_of_one_row_per_triple(
    model: str,
    both_directions: bool,
    at_once: int,  # 70 scores: one or two rows
) -> None:
    graph = random_graph(both_directions)
    predictor = predictor_for(graph, model)
    tables = list(predictor.parameters())
    expected = plain_loss(predictor, graph, 0.3)
    links = links_of(graph, "train")
    assert links.facts > 1.5 * len(links)
    for questions in (links, links.one_by_one()):
        batch = batch_of(questions, CPU)
        grouped = softmax_loss(predictor, batch, 0.3, 0.0, links.facts, scores_at_once=at_once)
        torch.testing.assert_close(grouped, expected)
        for ours, theirs in zip(
            torch.autograd.grad(grouped, tables),
            torch.autograd.grad(expected, tables, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("model", SOFTMAX)
@pytest.mark.parametrize("batch", [7, 100, 344, 345, 1000])
def test_the_steps_of_an_epoch_add_up_to_the_objective(model: str, batch: int) -> None:
    """However facts are batched, and however small the last batch is."""
    graph = random_graph(False)
    settings = read_pretraining({"model": model, "rank": 4, "batch": batch, "learning_rate": 1e-30})
    links = links_of(graph, "train")
    assert len(links) == 345
    trainer = Pretrainer(predictor_for(graph, model), links, settings)
    expected = plain_loss(trainer.predictor, graph, settings.regularisation).item()
    losses = [trainer.step().item() for _ in range(trainer.steps_per_epoch)]
    assert sum(losses) * min(batch / 345, 1) == pytest.approx(expected)


def test_the_loss_by_hand() -> None:
    # All scores are zero, so every answer costs the logarithm of the number of entities.
    graph = films()
    predictor = predictor_for(graph, "complex")
    torch.nn.init.zeros_(predictor.entities_ED)
    links = links_of(graph, "train")
    loss = softmax_loss(predictor, batch_of(links, CPU), 0.0, 0.0, links.facts)
    assert loss.item() == pytest.approx(math.log(len(graph.entities)))


def test_large_scores_do_not_overflow() -> None:
    graph = films()
    predictor = predictor_for(graph, "complex").float()
    with torch.no_grad():
        predictor.entities_ED.mul_(100)
        predictor.relations_SW.mul_(100)
    links = links_of(graph, "train")
    loss = softmax_loss(predictor, batch_of(links, CPU), 0.0, 0.0, links.facts)
    loss.backward()
    assert loss.isfinite()
    assert predictor.entities_ED.grad is not None
    assert predictor.entities_ED.grad.isfinite().all()


def test_the_sampled_loss_by_hand() -> None:
    # On a line: h = 0, r = 1, t = 1, so the fact has distance 0. Negatives at 3 and 5 have
    # distances 2 and 4. Margin 2, temperature ln 2: weights 2⁻² : 2⁻⁴ = 4/5 : 1/5.
    predictor = TransE(
        torch.tensor([[0.0], [1.0], [3.0], [5.0]]), torch.tensor([[1.0]]), torch.tensor([-1])
    )
    graph = KnowledgeGraph.from_triples([("h", "r", "t")])
    batch = batch_of(links_of(graph).take([0]), CPU)
    loss = sampled_loss(predictor, batch, torch.tensor([2, 3]), 2.0, math.log(2), 1)

    def cost(x: float) -> float:
        return math.log1p(math.exp(-x))  # -log σ(x)

    expected = (cost(2) + 4 / 5 * cost(2 - 2) + 1 / 5 * cost(4 - 2)) / 2
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("model", ["transe", "rotate"])
def test_the_sampled_loss_is_the_same_grouped_or_not(model: str) -> None:
    graph = random_graph(False)
    settings = read_pretraining({"model": model, "rank": 4})
    predictor = fresh_predictor(graph, settings).double()
    links, negatives = links_of(graph, "train"), torch.tensor([3, 1, 4, 15])
    grouped, single = (
        sampled_loss(predictor, batch_of(questions, CPU), negatives, 1.0, 0.5, links.facts)
        for questions in (links, links.one_by_one())
    )
    torch.testing.assert_close(grouped, single)


@pytest.mark.parametrize("model", LINEAR)
def test_the_relation_is_predicted_among_all_relations(model: str) -> None:
    graph = random_graph(False)
    predictor = predictor_for(graph, model)
    links = links_of(graph, "train").one_by_one()
    batch = batch_of(links, CPU)
    plain, both = (
        softmax_loss(predictor, batch, 0.0, weight, links.facts) for weight in (0.0, 3.0)
    )
    row = torch.arange(len(predictor.relations_SW))
    costs = []
    for entity, directed, answer in zip(
        batch.entity_B.tolist(), batch.directed_B, batch.answer_T.tolist(), strict=True
    ):
        head, tail = (torch.full_like(row, end) for end in (entity, answer))
        scores = predictor.score(head, row, tail)
        costs.append(scores.logsumexp(0) - scores[predictor.rows(directed[None])])
    torch.testing.assert_close(both - plain, 3 * torch.cat(costs).mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("model", SOFTMAX)
def test_a_sample_of_all_entities_gives_the_full_softmax(model: str) -> None:
    graph = random_graph(False)
    predictor = predictor_for(graph, model)
    tables = list(predictor.parameters())
    links, all_K = links_of(graph, "train"), torch.arange(len(graph.entities))
    never_E = torch.zeros(len(graph.entities), dtype=torch.float64)
    batch = batch_of(links, CPU, never_E)  # each entity is drawn once: its correction is 0
    expected = softmax_loss(predictor, batch, 0.3, 0.0, 100.0)
    found = sampled_softmax_loss(predictor, batch, all_K, 0.3, 100.0)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    slopes = zip(
        torch.autograd.grad(found, tables), torch.autograd.grad(expected, tables), strict=True
    )
    for mine, theirs in slopes:
        torch.testing.assert_close(mine.to_dense() if mine.is_sparse else mine, theirs)


def test_the_correction_makes_up_for_what_is_drawn_often() -> None:
    """Samples of a skewed and of a flat distribution estimate the same sum of exponentials."""
    generator = torch.Generator().manual_seed(0)
    scores_E = torch.randn(1000, generator=generator, dtype=torch.float64)
    chance_E = torch.linspace(1, 20, 1000, dtype=torch.float64)
    chance_E /= chance_E.sum()
    drawn = torch.multinomial(chance_E, 200_000, replacement=True, generator=generator)
    corrected = (scores_E - (200_000 * chance_E).log())[drawn]
    assert corrected.logsumexp(0).item() == pytest.approx(scores_E.logsumexp(0).item(), abs=0.02)


def test_only_the_rows_of_a_step_are_touched() -> None:
    graph = random_graph(False)
    settings = read_pretraining({"rank": 4, "candidates": 2, "batch": 2, "initial_scale": 0.5})
    learner = Pretrainer(fresh_predictor(graph, settings), links_of(graph, "train"), settings)
    before = learner.predictor.entities_ED.detach().clone()
    batch, negative_K = learner._batch(), learner._negatives()
    assert negative_K is not None
    learner.step()
    touched = set(torch.cat([batch.entity_B, batch.answer_T, negative_K]).tolist())
    changed = (learner.predictor.entities_ED != before).any(1).nonzero()[:, 0].tolist()
    assert set(changed) <= touched < set(range(len(graph.entities)))
    assert isinstance(learner.optimizer, RowAdagrad)
    sums = learner.optimizer.state[learner.predictor.entities_ED]["row_sum"]
    assert set(sums.nonzero()[:, 0].tolist()) == set(changed)


def test_a_process_takes_only_the_questions_that_its_own_are_compared_with() -> None:
    own, questions = slice(7, 12), 16
    chosen = read_pretraining({"candidates": 6, "group": 5})
    # Groups of five: 5 to 9 and 10 to 14 have questions of 7 to 11. The last group is 15 alone.
    assert SampledSoftmax().seen(chosen, own, questions) == slice(5, 15)
    assert SampledSoftmax().seen(chosen, slice(15, 16), questions) == slice(15, 16)
    assert SampledSoftmax().seen(read_pretraining({"candidates": 6}), own, questions) == slice(
        0, 16
    )
    assert SelfAdversarial().seen(chosen, own, questions) == own
    assert FullSoftmax().seen(chosen, own, questions) == slice(0, 16)
