"""LMPNN computes what its released code computes, but that unions are unions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from clmpt.logic.shapes import EPFO, NEGATION
from clmpt.predictors.complex import ComplEx
from clmpt.reasoners.message_passing.lmpnn import LMPNN
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from golden.rivals import (
    TRAINED,
    assert_close,
    golden_candidates,
    golden_graph,
    golden_group,
    numbers,
    weights,
)

NUMBERS, WEIGHTS = numbers("lmpnn"), weights("lmpnn")
OWN = {
    "existential_D": "existential",
    "free_D": "free",
    "expand.weight": "ffn1.weight",
    "expand.bias": "ffn1.bias",
    "contract.weight": "ffn2.weight",
    "contract.bias": "ffn2.bias",
}


def model() -> LMPNN:
    tables = WEIGHTS["entities"], WEIGHTS["relations"]
    predictor = ComplEx(*tables, torch.arange(len(tables[1])) ^ 1)
    chosen = read_reasoning({"reasoner": "lmpnn", "feed_forward": 32, "dropout": 0.0})
    made = build_model(Basis(golden_graph(), predictor), chosen, seed=0)
    assert isinstance(made, LMPNN)
    parameters = dict(made.named_parameters())
    for ours, theirs in OWN.items():
        parameters[ours].data.copy_(WEIGHTS[theirs].view_as(parameters[ours]))
    return made


@pytest.mark.parametrize("shape", [*EPFO, *NEGATION])
def test_scores(shape: str) -> None:
    key = f"{shape}_dnf_scores" if shape in ("2u", "up") else f"{shape}_scores"
    assert_close(model().reasoner().score([golden_group(shape)]), NUMBERS[key])


def test_the_released_code_answers_unions_as_intersections() -> None:
    for union, asked in (("2u", "2i"), ("up", "ip")):
        group = replace(golden_group(union), template=golden_group(asked).template)
        assert_close(model().reasoner().score([group]), NUMBERS[f"{union}_scores"])


@pytest.mark.parametrize("shape", [*EPFO, *NEGATION])
def test_answer_embeddings(shape: str) -> None:
    group, made = golden_group(shape), model()
    if shape in ("2u", "up"):  # answered as intersections, see above
        group = replace(group, template=golden_group({"2u": "2i", "up": "ip"}[shape]).template)
    assert_close(made(made.lay_out([group])), NUMBERS[f"{shape}_answer"])


def test_losses_and_gradients() -> None:
    made = model()
    losses = []
    for shape in TRAINED:
        batch, candidates = made.lay_out([golden_group(shape)]), golden_candidates(shape)
        losses.append(made.loss(batch, candidates, torch.Generator().manual_seed(0)))
        assert_close(losses[-1], NUMBERS[f"loss_{shape}"])
    whole = torch.stack(losses).mean()
    assert_close(whole, NUMBERS["loss"])
    whole.backward()
    trained = {name: weight for name, weight in made.named_parameters() if weight.requires_grad}
    assert trained.keys() == OWN.keys()  # no gradient for the predictor
    for ours, theirs in OWN.items():
        grad = trained[ours].grad
        assert grad is not None
        assert_close(grad.norm(), NUMBERS[f"grad_norm.{theirs}"])
