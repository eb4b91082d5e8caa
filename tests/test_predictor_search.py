"""The predictor's regularisation is chosen by trials on validation links."""

from __future__ import annotations

import json
from pathlib import Path

import clmpt
from clmpt.experiments.fit_settings import fit_settings
from clmpt.experiments.predictor_search import REGULARISATIONS, best_regularisation, trial
from clmpt.settings import Pretraining
from clmpt.storage.run_folder import read_summary
from small_fit import TABLES
from toy import random_graph


def test_the_best_trial_is_trained_in_full(fitted: Path) -> None:
    model = fitted / "model"
    figures = {
        value: read_summary(model / "trials" / f"regularisation-{value}")["best"]
        for value in REGULARISATIONS[:3]
    }
    best = max(figures, key=lambda value: figures[value])
    assert best_regularisation(3, model) == best
    about = json.loads((model / "predictor" / "predictor.json").read_text())
    assert about["settings"]["regularisation"] == best


def test_a_trial_is_shorter_and_differs_in_nothing_else() -> None:
    tried = trial(Pretraining(epochs=100, rank=7), 0.02)
    assert (tried.epochs, tried.regularisation, tried.rank) == (10, 0.02, 7)


def test_what_the_user_chose_is_not_searched(tmp_path: Path) -> None:
    graph = random_graph(False)
    chosen = {**TABLES, "pretraining": {"rank": 8, "epochs": 2, "regularisation": 0.03}}
    assert fit_settings(graph, chosen).fitting.tries == 1
    clmpt.fit(graph, tmp_path / "m", chosen, device="cpu")
    assert not (tmp_path / "m" / "trials").exists()
    about = json.loads((tmp_path / "m" / "predictor" / "predictor.json").read_text())
    assert about["settings"]["regularisation"] == 0.03
