"""The Python interface: from a file to answers without a command."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import clmpt
from clmpt.cli.main import main
from clmpt.experiments.costs import idle_peak, pretraining_work
from clmpt.experiments.fit_settings import fit_settings
from clmpt.experiments.fitting import divide, estimate, fit_stages
from clmpt.experiments.recipes import Fitting
from clmpt.graph.builder import GraphBuilder
from small_fit import STAGES, TABLES
from toy import random_graph


def test_fit_ask_save_load(fitted: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    facts = fitted / "facts.tsv"
    model = clmpt.fit(facts, tmp_path / "m", TABLES, lambda now: stages.append(now.stage), "cpu")
    assert list(dict.fromkeys(stages)) == STAGES
    found = model.ask("?y : r0(e0, ?y)", limit=5)
    assert len(found) == 5
    model.save(tmp_path / "shipped")
    (tmp_path / "m").rename(tmp_path / "elsewhere")
    shipped = clmpt.load(tmp_path / "shipped", device="cpu")
    assert shipped.ask("?y : r0(e0, ?y)", limit=5).answers == found.answers
    moved = clmpt.load(tmp_path / "elsewhere", device="cpu")
    assert moved.ask("?y : r0(e0, ?y)", limit=5).answers == found.answers
    assert main(["ask", str(tmp_path / "shipped"), "?y : r0(e0, ?y)"]) == 0
    with pytest.raises(clmpt.ClmptError, match="already exists"):
        model.save(tmp_path / "shipped")


def test_a_question_s_own_limit_is_respected(fitted: Path) -> None:
    model = clmpt.load(fitted / "model", "cpu")
    sparql = "SELECT ?y { :e0 :r0 ?y }"
    assert len(model.ask(sparql)) == 10
    assert len(model.ask(f"{sparql} LIMIT 3")) == 3
    assert len(model.ask(f"{sparql} LIMIT 3", limit=5)) == 5
    assert len(model.ask(sparql, limit=0)) == 0


def test_importing_is_fast_and_torch_is_loaded_lazily() -> None:
    program = (
        "import sys, clmpt\n"
        "clmpt.budget.Budget, clmpt.errors.OutOfBudget\n"
        "assert not {'torch', 'numpy', 'rdflib', 'rich'} & set(sys.modules), 'import'\n"
        "graph = clmpt.KnowledgeGraph.from_triples([('a', 'r', 'b')])\n"
        "assert graph.labels(clmpt.solve('?x : r(a, ?x)', graph)) == ['b']\n"
        "assert 'torch' not in sys.modules, 'solve'\n"
        "clmpt.fit\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_interface_exports_what_it_lists() -> None:
    for name in clmpt.__all__:
        assert getattr(clmpt, name) is not None
    assert set(clmpt.__all__) <= set(dir(clmpt))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = clmpt.nothing
    with pytest.raises(clmpt.ClmptError, match="no table 'fiting'"):
        fit_settings(random_graph(False), {"fiting": {}})


def test_an_estimate_counts_every_stage() -> None:
    """Including sampling and evaluation: it grows with the number of queries."""
    graph = divide(random_graph(False), Fitting())
    chosen = fit_settings(graph, {"training": {"steps": 1}, "pretraining": {"epochs": 1}})
    names = [stage.name for stage in fit_stages(graph, chosen, Path("anywhere"))]
    without_valid = [name for name in STAGES if not name.startswith("trying")]
    assert names == [*without_valid[:-1], "choosing", without_valid[-1]]
    for setting in ("queries", "test_queries"):
        few, many = (
            replace(chosen, fitting=replace(chosen.fitting, **{setting: count}))
            for count in (10_000, 1_000_000)
        )
        assert estimate(graph, many).seconds > 10 + estimate(graph, few).seconds


def test_an_estimate_grows_with_the_work() -> None:
    graph = random_graph(False)
    small, large = (fit_settings(graph, {"pretraining": {"rank": rank}}) for rank in (8, 800))
    assert estimate(graph, small).bytes < estimate(graph, large).bytes
    assert estimate(graph, small).seconds < estimate(graph, large).seconds


def test_a_large_graph_is_fitted_in_steps_that_do_not_grow_with_it() -> None:
    entities, facts = 400_000, 1_500_000
    builder = GraphBuilder(map("e{}".format, range(entities)), map("r{}".format, range(200)))
    rows = np.random.default_rng(0).integers((entities, 200, entities), size=(facts, 3))
    builder.add_ids("train", rows.astype(np.int32))
    graph = builder.build()
    chosen = fit_settings(graph)
    assert chosen.pretraining.candidates == 1024
    assert chosen.training.entity_rows == "step"
    whole = fit_settings(graph, {"pretraining": {"candidates": 0}, "training": {}})
    assert whole.pretraining.candidates == 0  # what is asked for is done
    sampled, full = (pretraining_work(graph, one.pretraining) for one in (chosen, whole))
    # The full softmax takes 6 × 2 × 1.5 million × 400,000 × 128 operations an epoch: 9 × 10¹⁴.
    assert full.products == pytest.approx(9e14, rel=0.1)
    assert sampled.products / chosen.pretraining.epochs < 0.01 * full.products


def test_measuring_the_processor_does_not_change_the_number_of_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert idle_peak() > 10**8
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
