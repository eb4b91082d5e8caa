"""Models with set operators compute what the released code computes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from clmpt.logic.shapes import EPFO
from clmpt.reasoners.dropout import NO_DROPOUT
from clmpt.reasoners.operators.set_model import SetOperatorModel
from golden.rivals import (
    TRAINED,
    assert_close,
    golden_candidates,
    golden_group,
    golden_model,
    numbers,
    weights,
)

TABLES = {"entities_EW": "entities", "relations_RD": "relations"}


@dataclass(frozen=True)
class Rival:
    """A model's settings, and what its parameters are called in the figures.

    `renamed` has parts of names; a tuple stands for columns that are one table of ours.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    all_negatives: bool = False

    @property
    def stored(self) -> str:
        return self.name.replace("-", "_")

    def names(self, own: str) -> tuple[str, ...]:
        """The names of a parameter of ours in the figures."""
        for part, other in {**TABLES, **self.renamed}.items():
            if isinstance(other, tuple):
                if own == part:
                    return other
            else:
                own = own.replace(part, other)
        return (own,)

    def model(self, **changes: Any) -> SetOperatorModel:
        settings = {"rank": 16, **self.settings, **changes}
        made = golden_model(self.name, **settings)
        assert isinstance(made, SetOperatorModel)
        found = weights(self.stored)
        own = {}
        for name, parameter in made.named_parameters():
            parts = [found[other] for other in self.names(name)]
            parts = [part[:, None] if part.dim() < parameter.dim() else part for part in parts]
            own[name] = torch.cat(parts, -1).view(parameter.shape)
        made.load_state_dict(own)
        return made.eval()


HIDDEN = {"hidden": 32, "layers": 2}
CONES = {
    "relation_axis_RD": "relation_axis",
    "relation_aperture_RD": "relation_aperture",
    "relation_height_RD": "relation_height",
}
RIVALS = {
    rival.name: rival
    for rival in (
        Rival("gqe"),
        Rival("query2box", {"offsets": "raw"}, {"offsets_RD": "offsets"}),
        Rival("betae", HIDDEN),
        Rival("cone", HIDDEN, CONES),
        Rival("cyle", HIDDEN, {**CONES, "entities_EW": ("entities", "entity_height")}),
        Rival(
            "gammae",
            {**HIDDEN, "united": "scale"},
            {
                "relation_alpha_RD": "relation_alpha",
                "relation_beta_RD": "relation_beta",
                ".alpha.layer": ".alpha",
                ".beta.layer": ".beta",
            },
        ),
        Rival(
            "mlp",
            {"hidden": 32, "parts": "written"},
            {"layer0": "last", "conjunction": "and", "negation": "not"},
        ),
        Rival("mlp-mixer", {"parts": "written"}, {"conjunction": "and"}),
        Rival(
            "query2particles",
            {"parts": "written", "dropout": 0.0},
            {"entities_EW": ("entities", "entity_bias"), "offsets_PD": "offsets"},
            all_negatives=True,
        ),
    )
}


def trained_shapes(name: str) -> list[str]:
    return [shape for shape in TRAINED if f"loss_{shape}" in numbers(RIVALS[name].stored)]


CASES = [
    (name, key.removesuffix("_scores"))
    for name, rival in RIVALS.items()
    for key in numbers(rival.stored)
    if key.endswith("_scores") and "complement" not in key
]
UNIONS = ("2u", "up")


def as_written(shape: str) -> dict[str, Any]:
    """Settings for the order of the released code: a normal form puts what is negated last."""
    return {} if shape in UNIONS else {"union": "de-morgan"}


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_scores(name: str, shape: str) -> None:
    plain = shape.removesuffix("_dm")
    changes = as_written(shape) if name == "mlp" or plain != shape else {}
    model = RIVALS[name].model(**changes)
    found = model.reasoner().score([golden_group(plain)])
    assert_close(found, numbers(RIVALS[name].stored)[f"{shape}_scores"])


@pytest.mark.parametrize("name", RIVALS)
def test_scores_of_a_mixed_batch_are_those_of_each_shape(name: str) -> None:
    model, shapes = RIVALS[name].model(), [shape for shape in EPFO if (name, shape) in CASES]
    found = model.reasoner().score([golden_group(shape) for shape in shapes])
    stored = numbers(RIVALS[name].stored)
    assert_close(found, np.concatenate([stored[f"{shape}_scores"] for shape in shapes]))


@pytest.mark.parametrize("name", RIVALS)
def test_losses_and_gradients(name: str) -> None:
    rival = RIVALS[name]
    model, stored = rival.model(**as_written("") if name == "mlp" else {}), numbers(rival.stored)
    for shape in trained_shapes(name):
        assert_close(loss(rival, model, shape), stored[f"loss_{shape}"])
    whole = loss(rival, model, *trained_shapes(name))
    assert_close(whole, stored["loss"])
    whole.backward()
    for ours, weight in model.named_parameters():
        parts = [stored[f"grad_norm.{other}"] for other in rival.names(ours)]
        found = torch.zeros(()) if weight.grad is None else weight.grad.norm()
        assert_close(found, np.linalg.norm(parts))


def loss(rival: Rival, model: SetOperatorModel, *shapes: str) -> torch.Tensor:
    batch, candidates = (
        model.lay_out([golden_group(shape) for shape in shapes]),
        golden_candidates(*shapes),
    )
    if rival.all_negatives:
        candidates = replace(candidates, negative_QK=None)
    return model.loss(batch, candidates, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", ["1p", "2p", "3p", "2i", "3i"])
def test_complements_of_particles(shape: str) -> None:
    model, stored = RIVALS["query2particles"].model(), numbers("query2particles")
    batch = model.lay_out([golden_group(shape)])
    nothing_dropped = NO_DROPOUT.of_sets(torch.arange(4), ((1, 4),))
    found = model.match_all(model.negate(model(batch), nothing_dropped), model.entities_EW)
    assert_close(found, stored[f"{shape}_complement_scores"])
    candidates = replace(golden_candidates(shape), negative_QK=None)
    positive_Q1 = candidates.positive_Q[:, None]
    unlike_QK = -torch.cat([found.gather(1, positive_Q1), found], 1)
    lost = model.loss_of_scores(unlike_QK, torch.ones_like(found, dtype=torch.bool), candidates)
    assert_close(lost, stored[f"loss_complement_{shape}"])
