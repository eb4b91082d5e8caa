"""The parts of CLMPT and LMPNN, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.errors import SettingError
from clmpt.logic.parser import parse
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.dropout import KEYS_PER_QUERY, NO_DROPOUT, Dropout, SetDropout
from clmpt.reasoners.message_passing.candidates import lengths, pair_cosines
from clmpt.reasoners.message_passing.clmpt import CLMPT, cosine, nce_loss, unit
from clmpt.reasoners.message_passing.layout import lay_out_queries
from clmpt.registry import PREDICTORS
from models import fresh_reasoner, random_predictor, reasoning

WIDTH = 8


def predictor() -> ComplEx:
    random = torch.Generator().manual_seed(0)
    entities, relations = (torch.randn(rows, WIDTH, generator=random) for rows in (5, 2))
    return ComplEx(entities, relations, torch.tensor([-1, -1]))


def question(text: str) -> QueryGroup:
    return QueryGroup.single(parse(text))


def test_lmpnn_by_hand() -> None:
    """1p: the MLP of the constant's message plus ε times the free variable's initial embedding."""
    made = fresh_reasoner(predictor(), reasoning(reasoner="lmpnn", epsilon=0.5), seed=0)
    found = made(lay_out_queries([question("?y : #1(#3, ?y)")], made.passing()))
    head, relation = made.predictor.entities_ED[3], made.predictor.relations_SW[1]
    message = torch.view_as_complex(head.view(2, -1).T.contiguous()) * torch.view_as_complex(
        relation.view(2, -1).T.contiguous()
    )
    received = torch.cat([message.real, message.imag]) + 0.5 * made.free_D
    expected = made.contract(torch.relu(made.expand(received)))  # type: ignore[operator]
    torch.testing.assert_close(found[0], expected)


@pytest.mark.parametrize("kind", PREDICTORS.names())
@pytest.mark.parametrize("reasoner", ["clmpt", "lmpnn"])
def test_every_predictor_can_be_used(kind: str, reasoner: str) -> None:
    settings = reasoning(reasoner=reasoner, feed_forward=16, clmpt={"heads": 2})
    made = fresh_reasoner(random_predictor(kind, 5, 2), settings, seed=0)
    scores = made.reasoner().score([question("?y : #1(#3, ?x) & #0(?x, ?y) & !#0(#2, ?y)")])
    assert scores.shape == (1, 5)
    assert bool((scores.abs() <= 1 + 1e-6).all())


def test_pooling_takes_the_mean_sum_or_maximum_of_a_set() -> None:
    tokens = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(3))
    found = {}
    for pooling in ("mean", "sum", "max"):
        settings = reasoning(heads=2, feed_forward=16, pooling=pooling)
        made = fresh_reasoner(predictor(), settings, seed=0)
        found[pooling] = made.update(
            tokens,
            ((2, 1), (3, 1)),
            NO_DROPOUT.of_sets(torch.zeros(2, dtype=torch.int64), ((2, 1), (3, 1))),
            None,
        )
    torch.testing.assert_close(found["sum"][0], 2 * found["mean"][0])
    torch.testing.assert_close(found["sum"][1], 3 * found["mean"][1])
    assert bool((found["max"] >= found["mean"]).all())


def test_attention_weights_can_be_inspected() -> None:
    made = fresh_reasoner(predictor(), reasoning(heads=2, feed_forward=16), seed=0)
    asked = question("?y : #1(#3, ?y) & #0(#2, ?y)")
    batch, trace = made.reasoner().trace([asked])
    ((weight_UHss,),) = trace.attention
    assert weight_UHss.shape == (1, 2, 3, 3)  # one update, two heads, two messages and ?y
    torch.testing.assert_close(weight_UHss.sum(-1), torch.ones(1, 2, 3))
    answer = trace.items_ID[batch.variable_items[0].items[1]]
    with torch.inference_mode():
        torch.testing.assert_close(answer, made(batch))


def test_a_union_takes_the_best_of_its_alternatives() -> None:
    scores = torch.tensor([[0.1, 0.9], [0.5, 0.2], [0.3, 0.3]])
    best = best_alternative(scores, torch.tensor([0, 1, 0]), 2)
    assert torch.equal(best, torch.tensor([[0.3, 0.9], [0.5, 0.2]]))


def test_the_loss_by_hand() -> None:
    # cosines .5 | .4 .3 at T = .1: -log(e^5 / (e^5 + e^4 + e^3)) = log(1 + e^-1 + e^-2)
    loss = nce_loss(torch.tensor([[0.5]]), torch.tensor([[0.4, 0.3]]), 0.1)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1) + math.exp(-2)), rel=1e-6)


def test_a_small_temperature_does_not_overflow() -> None:
    """exp(1 / .01) is beyond float32."""
    loss = nce_loss(torch.tensor([[-1.0]]), torch.tensor([[1.0, 0.9]]), 0.01)
    assert loss.item() == pytest.approx(200, rel=1e-5)


def test_pair_cosines_and_their_gradients_are_those_of_all_cosines() -> None:
    random = torch.Generator().manual_seed(0)
    answers = torch.randn(4, 6, generator=random, dtype=torch.float64)
    rows = torch.randn(9, 6, generator=random, dtype=torch.float64)
    candidate = torch.randint(9, (4, 7), generator=random)
    candidate[0, 1] = candidate[0, 0]  # drawn twice
    weight = torch.randn(4, 7, generator=random, dtype=torch.float64)

    def outcome(score: object) -> list[Tensor]:
        leaves = [answers.clone().requires_grad_(), rows.clone().requires_grad_()]
        found = score(*leaves)  # type: ignore[operator]
        (found * weight).sum().backward()
        return [found.detach(), *(leaf.grad for leaf in leaves)]  # type: ignore[misc]

    pairs = outcome(lambda a, r: pair_cosines(unit(a), r, lengths(r), candidate))
    for got, expected in zip(
        pairs, outcome(lambda a, r: cosine(a, r).gather(1, candidate)), strict=True
    ):
        torch.testing.assert_close(got, expected)


def dropout(probability: float, seed: int, sets: int, first: int = 0) -> SetDropout:
    """Of sets of one member each."""
    made = Dropout(probability, torch.Generator().manual_seed(seed), first)
    return made.of_sets(torch.arange(sets) * KEYS_PER_QUERY, ((1, sets),))


def test_dropout_keeps_the_rate_and_the_mean_and_repeats_for_a_seed() -> None:
    ones = torch.ones(400, 401)
    first, second = (dropout(0.1, 5, 400).of_members(ones) for _ in range(2))
    assert torch.equal(first, second)
    assert (first == 0).float().mean().item() == pytest.approx(0.1, abs=0.005)
    assert first.mean().item() == pytest.approx(1, abs=0.005)


def test_masks_of_rows_columns_calls_and_seeds_are_independent() -> None:
    ones = torch.ones(1000, 1000)
    call = dropout(0.5, 5, 1000)
    masks = [call.of_members(ones) - 1, call.of_members(ones) - 1]
    masks.append(dropout(0.5, 6, 1000).of_members(ones) - 1)
    pairs = [(masks[0], masks[1]), (masks[0], masks[2]), (masks[0][1:], masks[0][:-1])]
    pairs += [(masks[0][:, shift:], masks[0][:, :-shift]) for shift in (1, 2)]
    for one, other in pairs:  # means of a million products of ±1: a deviation of 0.001
        assert abs((one * other).mean().item()) < 0.005
    for side in (0, 1):  # means of a thousand: a variance of 0.001
        assert masks[0].mean(side).var().item() == pytest.approx(0.001, rel=0.2)


def test_what_is_dropped_for_a_query_does_not_depend_on_the_others() -> None:
    ones = torch.ones(10, 64)
    together = dropout(0.5, 5, 10).of_members(ones)
    assert torch.equal(dropout(0.5, 5, 4, first=6).of_members(ones[6:]), together[6:])


def test_dropping_nearly_everything_still_keeps_the_mean() -> None:
    dropped = dropout(1 - 1e-9, 5, 1000).of_members(torch.ones(1000, 1000))
    assert set(dropped.unique().tolist()) == {0.0, 65536.0}


def test_dropped_relu_has_the_gradient_of_its_parts() -> None:
    values = torch.randn(50, 50, generator=torch.Generator().manual_seed(1))
    both, apart = values.clone().requires_grad_(), values.clone().requires_grad_()
    fused = dropout(0.3, 2, 50).relu_of_members(both)
    parts = dropout(0.3, 2, 50).of_members(torch.relu(apart))
    torch.testing.assert_close(fused, parts)
    (fused**2).sum().backward()
    (parts**2).sum().backward()
    torch.testing.assert_close(both.grad, apart.grad)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(SettingError, match="3 heads do not divide the predictor's width of 8"):
        fresh_reasoner(predictor(), reasoning(heads=3), seed=0)


def test_a_frozen_predictor_is_not_trained() -> None:
    made = fresh_reasoner(predictor(), reasoning(heads=2, feed_forward=16, frozen=True), seed=0)
    batch = lay_out_queries([question("?y : #1(#3, ?y)")], made.passing())
    made(batch).sum().backward()
    assert made.predictor.entities_ED.grad is None
    assert made.free_D.grad is not None


def test_constants_change_only_without_conditional_passing() -> None:
    asked = question("?y : #1(#3, ?x) & #0(?x, ?y)")
    for conditional, waves in ((True, 2), (False, 2)):
        settings = reasoning(heads=2, feed_forward=16, conditional=conditional)
        made = fresh_reasoner(predictor(), settings, seed=0)
        batch = lay_out_queries([asked], made.passing(share=False))
        assert len(batch.waves) == waves
        # Without it #3 receives ?x's message (two more tokens) in time for ?x's second update;
        # pruning skips that, because ?x's second update does not reach ?y.
        unpruned = lay_out_queries([asked], replace(made.passing(share=False), prune=False))
        assert (batch.tokens, unpruned.tokens) == (7, 10 if conditional else 14)


def test_same_seed_same_model() -> None:
    first, second, other = (
        fresh_reasoner(predictor(), reasoning(heads=2, feed_forward=16), seed=seed)
        for seed in (1, 1, 2)
    )
    assert isinstance(first, CLMPT)
    assert torch.equal(first.blocks[0].expand.weight, second.blocks[0].expand.weight)  # type: ignore[union-attr]
    assert not torch.equal(first.blocks[0].expand.weight, other.blocks[0].expand.weight)  # type: ignore[union-attr]
    assert bool(
        (np.asarray(first.free_D.detach()) >= 0).all()
    )  # the authors' initialisation: in [0, 1)
