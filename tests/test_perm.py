"""PERM's operators on numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import shape
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.dropout import NO_DROPOUT
from clmpt.reasoners.model import Basis, build_model
from clmpt.reasoners.operators.perm import PERM
from models import reasoning
from small_training import valid_graph

NOTHING = NO_DROPOUT.of_sets(torch.zeros(1, dtype=torch.int64), ())


def model(**chosen: Any) -> PERM:
    made = build_model(Basis(valid_graph()), reasoning(reasoner="perm", rank=4, **chosen), 1)
    assert isinstance(made, PERM)
    return made.double().eval()


def group(name: str, *ids: int) -> QueryGroup:
    template = shape(name)
    entities, relations = (
        np.array([ids[: len(slots)]], np.int32) for slots in placeholders(template)
    )
    none = AnswerSets(np.zeros(2, np.int64), np.empty(0, np.int64))
    return QueryGroup(name, template, entities, relations, none, none)


def test_an_intersection_is_the_product_of_gaussians() -> None:
    # Precisions 1 and 2 at 0 and 3: precision 3 at (1 · 0 + 2 · 3) / 3 = 2.
    parts_kNX = torch.tensor([[[0.0, 1.0]], [[3.0, 2.0]]])
    assert model().intersect(parts_kNX, NOTHING).tolist() == [[2.0, 3.0]]


def test_a_relation_moves_a_gaussian_and_adds_its_precision() -> None:
    made = model()
    mean_D, root_D = made.relations_RX[1].chunk(2)
    start_NX = torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.5, 0.5, 0.5, 0.5]], dtype=torch.float64)
    found_NX = made.project(start_NX, torch.tensor([1]), None, NOTHING)  # type: ignore[arg-type]
    wanted_X = torch.cat([start_NX[0, :4] + mean_D, start_NX[0, 4:] + root_D**2])
    assert torch.allclose(found_NX[0], wanted_X)


def distance(made: PERM, set_X: Tensor) -> Tensor:
    """Mahalanobis distances of all entities."""
    mean_D, precision_D = set_X.chunk(2)
    return ((made.entities_EW[:, :4] - mean_D) ** 2 * precision_D).sum(1)


def test_a_score_is_the_margin_less_the_distance() -> None:
    made, query = model(margin=6), group("3p", 3, 1, 2)
    (set_X,) = made(made.lay_out([query]))
    found = made.reasoner().score([query])[0]
    assert torch.allclose(found, 6 - distance(made, set_X))


@pytest.mark.parametrize("mixture", ["weighted", "nearest"])
def test_a_union_is_a_mixture(mixture: str) -> None:
    made = model(margin=6, mixture=mixture)
    torch.nn.init.normal_(made.attention.layer0.weight, generator=torch.Generator().manual_seed(0))
    path, union = group("2p", 3, 1), group("2u", 3, 4)
    one_X, two_X = made(made.lay_out([union]))
    weights = made.attention(torch.stack([one_X, two_X]))[:, 0].softmax(0).detach()
    apart = torch.stack([6 - distance(made, one_X), 6 - distance(made, two_X)])
    assert abs(float(weights[0]) - 0.5) > 0.01
    wanted = (weights[:, None] * apart).sum(0) if mixture == "weighted" else apart.amax(0)
    found = made.reasoner().score([path, union, path])
    assert torch.allclose(found[1], wanted)
    assert torch.allclose(found[[0, 2]], made.reasoner().score([path]).expand(2, -1))


def test_before_training_all_gaussians_of_a_mixture_weigh_the_same() -> None:
    made, union = model(margin=6), group("2u", 3, 4)
    sets_GX = made(made.lay_out([union]))
    wanted = 6 - torch.stack([distance(made, set_X) for set_X in sets_GX]).mean(0)
    assert torch.allclose(made.reasoner().score([union])[0], wanted)
