"""kgTransformer computes what the released code computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from clmpt.logic.shapes import EPFO
from clmpt.reasoners.transformers.kgtransformer import KGTransformer
from golden.rivals import (
    TRAINED,
    assert_close,
    golden_candidates,
    golden_group,
    golden_model,
    numbers,
    weights,
)

STORED = numbers("kgtransformer")
SINGLE = [shape for shape in EPFO if f"{shape}_answer" in STORED]
LEARNT = [shape for shape in TRAINED if f"loss_{shape}" in STORED]
TABLES = {
    "entities_ED": "entities",
    "relations_RD": "relations",
    "mask_1D": "mask",
    "places_PD": "types",
    "head.weight_ED": "head.weight",
    "head.bias_E": "head.bias",
    "layers.": "layer",
    "attention_norm": "norm1",
    "experts_norm": "norm2",
    "experts.gate": "gate",
    "experts.expand_XFD": "experts1.weight",
    "experts.expand_bias_XF": "experts1.bias",
    "experts.contract_XDF": "experts2.weight",
    "experts.contract_bias_XD": "experts2.bias",
}
# Their table has the relations that are read forwards first; the odd ones are inverses.
RELATIONS = torch.arange(12) // 2 + 6 * (torch.arange(12) % 2)


def in_figures(own: str) -> str:
    """The name of a parameter of ours in the figures."""
    for part, other in TABLES.items():
        own = own.replace(part, other)
    return own


def model(**changes: Any) -> KGTransformer:
    sizes = {"rank": 16, "layers": 6, "heads": 4, "feed_forward": 16, "dropout": 0.0}
    made = golden_model("kgtransformer", **sizes, **changes)
    assert isinstance(made, KGTransformer)
    found = weights("kgtransformer")
    found["relations"] = found["relations"][RELATIONS]
    made.load_state_dict({name: found[in_figures(name)] for name, _ in made.named_parameters()})
    return made.eval()


@pytest.mark.parametrize("shape", SINGLE)
def test_answers_and_scores(shape: str) -> None:
    made, group = model(), golden_group(shape)
    assert_close(made(made.lay_out([group])), STORED[f"{shape}_answer"])
    assert_close(made.reasoner().score([group]), STORED[f"{shape}_scores"])


def test_scores_of_a_mixed_batch_are_those_of_each_shape() -> None:
    found = model().reasoner().score([golden_group(shape) for shape in SINGLE])
    assert_close(found, np.concatenate([STORED[f"{shape}_scores"] for shape in SINGLE]))


@pytest.mark.parametrize("shape", ["2u", "up"])
def test_alternatives_in_one_graph(shape: str) -> None:
    made, group = model(union="joint"), golden_group(shape)
    logits_GE = made.head(made(made.lay_out([group])))
    assert_close(logits_GE.view(2, 4, 40).transpose(0, 1), STORED[f"{shape}_disjunct_logits"])
    assert_close(made.reasoner().score([group]), STORED[f"{shape}_scores"])


@pytest.mark.parametrize(("smoothing", "name"), [(0.0, "loss"), (0.1, "loss_smoothed")])
def test_the_loss_of_each_shape(smoothing: float, name: str) -> None:
    made = model(smoothing=smoothing)
    for shape in SINGLE:
        assert_close(loss(made, shape), STORED[f"{name}_{shape}"])


def test_the_loss_of_a_mixed_batch_and_its_gradients() -> None:
    made = model(smoothing=0.0)
    whole = loss(made, *LEARNT)
    assert_close(whole, STORED["loss"])
    whole.backward()
    for ours, weight in made.named_parameters():
        assert weight.grad is not None
        assert_close(weight.grad.norm(), STORED[f"grad_norm.{in_figures(ours)}"])


def loss(made: KGTransformer, *shapes: str) -> torch.Tensor:
    batch = made.lay_out([golden_group(shape) for shape in shapes])
    candidates = replace(golden_candidates(*shapes), negative_QK=None)
    return made.loss(batch, candidates, torch.Generator().manual_seed(0))
