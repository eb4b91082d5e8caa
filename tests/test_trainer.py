"""Training steps: the loss, its inputs, and learning rates."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.errors import TrainingError
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QueryGroup, QuerySet
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.message_passing.clmpt import MessagePassing, cosine
from clmpt.reasoners.message_passing.layout import lay_out_queries
from clmpt.training.trainer import Order, Trainer
from models import changed, fresh_reasoner
from small_training import (
    ENTITIES,
    RELATIONS,
    SMALL,
    predictor,
    queries,
    settings,
    trainer,
)
from toy import random_graph


def slow_loss(made: Trainer, groups: list[QueryGroup], positive: Any, negative: Any) -> Tensor:
    """The paper's loss from all cosines, one query at a time, with plain exponentials."""

    model = made.model
    assert isinstance(model, MessagePassing)
    batch = lay_out_queries(groups, replace(model.passing(), share=False, prune=False))
    scores = cosine(model(batch).double(), model.predictor.entities_ED.double())
    scores_QE = best_alternative(scores, batch.query_G, batch.queries)
    share = (scores_QE / model.settings.temperature).exp()
    losses = []
    for row, wanted in enumerate(positive):
        others = share[row] if negative is None else share[row][negative[row % len(negative)]]
        own = share[row, wanted]
        whole = others.sum() if negative is None else own + others.sum()
        losses.append(-torch.log(own / whole))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("negatives", ["query", "batch", "all"])
def test_the_loss_and_its_gradients_match_the_paper(negatives: str, frozen: bool) -> None:
    chosen = changed(SMALL, dropout=0.0, frozen=frozen, temperature=0.2)
    made = trainer(chosen, negatives=negatives)
    groups = made.order.batch(0)
    drawn, batch = (made.positives(groups), made.negatives(groups)), made.model.lay_out(groups)
    fast_loss = made.model.loss(batch, made.candidates(groups), made.randomness())
    found = []
    for loss in (fast_loss, slow_loss(made, groups, *drawn)):
        made.model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        grads = [p.grad.clone() for p in made.model.parameters() if p.grad is not None]
        found.append((loss.item(), grads))
    (fast, fast_grads), (slow, slow_grads) = found
    assert fast == pytest.approx(slow, rel=1e-5)
    assert len(fast_grads) == len(slow_grads) == len(list(made.model.parameters())) - 2 * frozen
    for one, other in zip(fast_grads, slow_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_positives_are_answers_and_differ_from_epoch_to_epoch() -> None:
    made = trainer()
    groups = made.order.batch(0)
    drawn = []
    for step in (0, made.steps_per_epoch):
        made.steps_done = step
        positive = made.positives(groups)
        answers = [found.tolist() for group in groups for found in group.easy]
        assert all(one in known for one, known in zip(positive.tolist(), answers, strict=True))
        drawn.append(positive.tolist())
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("mixing", ["all", "shape"])
def test_an_epoch_has_every_query_once(mixing: str) -> None:
    groups = queries(random_graph(False), 25).groups
    order = Order(groups, settings(mixing=mixing, batch=10))
    seen: dict[str, list[list[int]]] = {}
    shapes_at_once = []
    for step in range(order.steps_per_epoch):
        batch = order.batch(step)
        shapes_at_once.append(len(batch))
        for group in batch:
            rows = np.hstack([group.entities, group.relations]).tolist()
            seen.setdefault(group.name, []).extend(rows)
    for group in groups:
        assert sorted(seen[group.name]) == sorted(
            np.hstack([group.entities, group.relations]).tolist()
        )
    assert (max(shapes_at_once) > 1) == (mixing == "all")
    second = [group.name for group in order.batch(order.steps_per_epoch)]
    assert second  # the next epoch follows directly


def test_queries_are_read_from_their_file(tmp_path: Path) -> None:
    queries(random_graph(False)).save(tmp_path / "q.queries")
    stored = QuerySet.open(tmp_path / "q.queries")
    made = Trainer(fresh_reasoner(predictor(), SMALL, seed=0), stored.groups, settings())
    for group in made.order.groups:
        assert isinstance(group.entities.base, np.memmap) or isinstance(group.entities, np.memmap)
    made.step()


def test_learning_rates() -> None:
    def rates(**changes: Any) -> list[float]:
        made = trainer(learning_rate=1.0, steps=8, **changes)
        found = []
        for step in range(8):
            made.steps_done = step
            found.append(round(made.learning_rate, 4))
        return found

    assert rates() == [1.0] * 8
    assert rates(warm_up=3) == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]
    per_epoch = trainer().steps_per_epoch  # 180 queries, 32 per step: six
    assert rates(decay="step", decay_epoch=1) == [1.0] * per_epoch + [0.1] * (8 - per_epoch)
    # Five times less from step 4, again from 6, again from 9.
    assert rates(decay="fifths") == [1.0] * 4 + [0.2] * 2 + [0.04] * 2
    # From 1 down to 0 in eight steps, along half a cosine: at the middle, a half.
    cosines = [round((1 + math.cos(math.pi * step / 8)) / 2, 4) for step in range(8)]
    assert rates(decay="cosine") == cosines
    assert cosines[4] == 0.5


def test_gradients_are_clipped() -> None:
    """Adam's first step does not depend on the gradient norm, but its first moment does."""
    lengths = {}
    for clip in (0.0, 1e-3):
        made = trainer(clip=clip)
        made.step()
        moments = [v for name, v in made.state().items() if name.endswith("exp_avg")]
        lengths[clip] = torch.stack([moment.norm() for moment in moments]).norm().item() / 0.1
    assert lengths[1e-3] == pytest.approx(1e-3, rel=1e-3)
    assert lengths[0.0] > 1e-2


@pytest.mark.parametrize("change", [{}, {"negatives": "batch"}, {"negatives": "all"}])
def test_large_steps_on_several_threads_are_deterministic(change: dict[str, Any]) -> None:
    threads, found = torch.get_num_threads(), []
    torch.set_num_threads(4)
    try:
        for _ in range(3):
            random = torch.Generator().manual_seed(0)
            tables = [torch.randn(n, 256, generator=random) for n in (ENTITIES, RELATIONS)]
            wide = ComplEx(*tables, torch.full((RELATIONS,), -1))
            made = Trainer(
                fresh_reasoner(wide, changed(SMALL, feed_forward=256), seed=0),
                queries(random_graph(False), 200).groups,
                settings(batch=1200, negative_count=64, **change),
            )
            for _ in range(2):
                made.step()
            found.append(made.state())
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(found[0][name], other[name]) for name in other)


def test_queries_without_answers_are_rejected() -> None:
    group = queries(random_graph(False)).groups[0].take(np.empty(0, np.int64))
    with pytest.raises(TrainingError, match="no queries"):
        Trainer(fresh_reasoner(predictor(), SMALL, seed=0), [group], settings())


def test_bfloat16_is_close() -> None:
    plain, half = trainer(), trainer(precision="bfloat16")
    assert float(half.step()) == pytest.approx(float(plain.step()), rel=0.05)
