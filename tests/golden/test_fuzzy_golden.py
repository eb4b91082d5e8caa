"""GNN-QE computes what the released code computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clmpt.reasoners.fuzzy.gnn_qe import GNNQE
from golden.rivals import (
    TRAINED,
    assert_close,
    golden_candidates,
    golden_group,
    golden_model,
    numbers,
    weights,
)

NUMBERS = numbers("gnnqe")
SHAPES = [key.removesuffix("_scores") for key in NUMBERS if key.endswith("_scores")]
RENAMED = {"relations_SD": "query", "layers.": "layer", "hidden.": "mlp1.", "odds.": "mlp2."}


def renamed(own: str) -> str:
    for ours, theirs in RENAMED.items():
        own = own.replace(ours, theirs)
    return own


def model(weighting: str = "queries") -> GNNQE:
    made = golden_model("gnn-qe", rank=8, layers=2, drop=0.0, weighting=weighting)
    assert isinstance(made, GNNQE)
    found = weights("gnnqe")
    made.load_state_dict({name: found[renamed(name)] for name, _ in made.named_parameters()})
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_and_probabilities(shape: str) -> None:
    made = model().eval()
    group = golden_group(shape)
    assert_close(made.reasoner().score([group]), NUMBERS[f"{shape}_scores"])
    assert_close(made(made.lay_out([group])), NUMBERS[f"{shape}_probability"])


def test_scores_of_a_mixed_batch_are_those_of_each_shape() -> None:
    made = model().eval()
    found = made.scores(made.lay_out([golden_group(shape) for shape in SHAPES]))
    assert_close(found, np.concatenate([NUMBERS[f"{shape}_scores"] for shape in SHAPES]))


def loss(made: GNNQE, *shapes: str) -> torch.Tensor:
    batch = made.lay_out([golden_group(shape) for shape in shapes])
    candidates = replace(golden_candidates(*shapes), negative_QK=None)
    return made.loss(batch, candidates, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", SHAPES)
def test_losses_of_each_shape(shape: str) -> None:
    assert_close(loss(model(), shape), NUMBERS[f"loss_{shape}"])


def test_the_loss_of_all_shapes_and_its_gradients() -> None:
    made = model()
    whole = loss(made, *TRAINED)
    assert_close(whole, NUMBERS["loss"])
    whole.backward()
    for name, weight in made.named_parameters():
        assert weight.grad is not None
        assert_close(weight.grad.norm(), NUMBERS[f"grad_norm.{renamed(name)}"])


def test_the_loss_of_all_shapes_by_answers() -> None:
    assert_close(loss(model("answers"), *TRAINED), NUMBERS["loss_weighted"])
