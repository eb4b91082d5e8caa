"""How many steps of each recipe take as long as the first recipe's steps.

    python benchmarks/budget.py RECIPE… --data FOLDER --out RUN

Recipes in `recipes/laptop` give all variants the same time budget, as a number of steps so that
the same seed gives the same figures. This measures steps of all recipes alternately, in one
process, on the queries and predictor that `clmpt reproduce` made in RUN.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from clmpt.experiments.recipes import read_recipe
from clmpt.experiments.reproduction import Recipe, experiment_stages
from clmpt.graph.opening import open_graph
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.queries.store import QuerySet
from clmpt.reasoners.model import Basis, GradientModel, build_model
from clmpt.training.trainer import Trainer

ROUNDS = 40


def trainer_of(recipe: Recipe, data: Path, run: Path) -> Trainer:
    graph = open_graph(data)
    place = {stage.role: stage.path for stage in experiment_stages(recipe, graph, data, run)}
    predictor = open_predictor(place["predictor"]).predictor
    model = build_model(Basis(graph.view("train"), predictor), recipe.reasoning, seed=0)
    assert isinstance(model, GradientModel)
    return Trainer(model, QuerySet.open(place["train"]).groups, recipe.training)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    recipes = {path: Recipe.of(read_recipe(path)) for path in options.recipes}
    data, run = options.data, options.out
    trainers = {path: trainer_of(recipe, data, run) for path, recipe in recipes.items()}
    seconds: dict[str, list[float]] = {path: [] for path in recipes}
    for _ in range(ROUNDS):
        for path, trainer in trainers.items():
            start = time.perf_counter()
            trainer.step()
            seconds[path].append(time.perf_counter() - start)
    first = options.recipes[0]
    budget = recipes[first].training.steps * statistics.median(seconds[first])
    for path, recipe in recipes.items():
        took = statistics.median(seconds[path])
        print(
            f"{path}: {took:.3f} s per step, {recipe.training.steps:,} steps in the recipe; "
            f"{budget / took:,.0f} take as long as the first one's"
        )


if __name__ == "__main__":
    main()
