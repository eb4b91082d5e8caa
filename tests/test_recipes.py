"""Every recipe builds its model and takes a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from clmpt.config import pretraining, read_toml
from clmpt.graph.links import links_of
from clmpt.neural.predictors.models import fresh_predictor
from clmpt.neural.predictors.pretraining import Pretrainer
from toy import random_graph

ROOT = Path(__file__).parents[1] / "recipes"
RECIPES = sorted(ROOT.rglob("*.toml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recipe_takes_a_step(recipe: Path) -> None:
    tables = read_toml(recipe)
    assert set(tables) == {"pretraining"}
    settings = pretraining(tables["pretraining"])
    graph = random_graph(True)
    trainer = Pretrainer(fresh_predictor(graph, settings), links_of(graph, "train"), settings)
    assert trainer.step().isfinite()


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 3
