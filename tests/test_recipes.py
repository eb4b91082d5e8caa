"""Every recipe builds its model and takes a step; the paper's recipes match the paper."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from clmpt.errors import DataError, SettingError
from clmpt.experiments.model_table import read_model_table
from clmpt.experiments.recipes import changed, read_recipe
from clmpt.experiments.reproduction import Recipe
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.pages.published import columns, published, published_rows
from clmpt.predictors.predictor import fresh_predictor, read_pretraining
from clmpt.queries.links import links_of
from clmpt.queries.refusals import sort_out
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.cqd_beam import CQDBeamSettings
from clmpt.reasoners.decomposition.cqd_continuous import CQDContinuousSettings
from clmpt.reasoners.fuzzy.gnn_qe import GNNQESettings
from clmpt.reasoners.message_passing.clmpt_settings import CLMPTSettings
from clmpt.reasoners.message_passing.lmpnn import LMPNNSettings
from clmpt.reasoners.model import GradientModel, build_model
from clmpt.registry import REASONERS
from clmpt.sampling.sampler import Protocol, sample
from clmpt.settings import Reasoning
from clmpt.training.pretrainer import Pretrainer
from clmpt.training.trainer import Trainer
from models import basis_of
from models import changed as changed_settings
from toy import random_graph

ROOT = Path(__file__).parents[1] / "recipes"
LINKS = sorted((ROOT / "links").glob("*.toml"))
PAPER = sorted((ROOT / "paper").glob("*.toml"))
PUBLISHED = ("fb15k", "fb15k-237", "nell995", "fb15k-237-q2b", "nell995-q2b")
TRAINED = ["1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni"]
LAPTOP = sorted((ROOT / "laptop").glob("*.toml"))
TABLES = sorted((ROOT / "tables").glob("*.toml"))
# Those for other graphs differ in numbers, and so do most rows of hyper-parameters.
STEPPED = [path for path in PAPER if path.stem.endswith(("fb15k-237", "pooling"))]
OUR_OWN = ("clmpt", "lmpnn", "hybrid", "truth-values")  # or of the main recipes
WITHOUT_A_ROW = (
    *("truth-values", "hybrid", "gqe", "query2box", "mlp-mixer", "cqd-beam"),
    *("kgtransformer", "biqe", "perm"),
)


def recipe_of(path: Path) -> Recipe:
    return Recipe.of(read_recipe(path))


@pytest.mark.parametrize("path", LINKS, ids=lambda path: path.stem)
def test_a_recipe_for_links_takes_a_step(path: Path) -> None:
    tables = read_recipe(path)
    assert set(tables) == {"pretraining"}
    settings = read_pretraining(tables["pretraining"])
    graph = random_graph(True)
    trainer = Pretrainer(fresh_predictor(graph, settings), links_of(graph, "train"), settings)
    assert trainer.step().isfinite()


@pytest.fixture(scope="module")
def queries() -> dict[str, QueryGroup]:
    graph, protocol = random_graph(True), Protocol(("train",), ("train",))
    return {name: sample(shape(name), graph, protocol, 4, 0) for name in (*EPFO, *NEGATION)}


def in_fewer_layers(chosen: Reasoning) -> Reasoning:
    """The same with two layers of four experts: half a billion weights take half a minute."""
    fewer = {"layers": 2, "experts": 4}
    known = chosen.settings.__dataclass_fields__
    return changed_settings(chosen, **{key: fewer[key] for key in fewer if key in known})


@pytest.mark.parametrize("path", [*STEPPED, *LAPTOP], ids=lambda path: path.stem)
def test_a_recipe_takes_a_step_of_each_kind(path: Path, queries: dict[str, QueryGroup]) -> None:
    recipe, graph = recipe_of(path), random_graph(True)
    predictor = fresh_predictor(graph, recipe.pretraining)
    links = links_of(graph, "train")
    assert Pretrainer(predictor, links, recipe.pretraining).step().isfinite()
    groups = [queries[name] for name in recipe.queries.trained.split()]
    model = build_model(basis_of(predictor), in_fewer_layers(recipe.reasoning), 0)
    if not isinstance(model, GradientModel):  # nothing to train
        return
    mixed = replace(recipe.training, batch=8, mixing="all")
    groups, _ = sort_out(partial(model.check_query, model.settings), groups)
    assert Trainer(model, groups, mixed).step().isfinite()


def test_there_is_a_recipe_for_each_result_of_the_paper() -> None:
    """Three main results, their frozen variants, with and without conditional passing on two
    graphs, LMPNN in its variants, CLMPT-small in two on two, and nine rows of hyper-parameters;
    and the models that it is compared with on two graphs."""
    stems = {path.stem for path in PAPER}
    three, two = ("fb15k", "fb15k-237", "nell995"), ("fb15k-237", "nell995")
    for kind in ("clmpt", "clmpt-frozen", "lmpnn", "lmpnn-trainable"):
        assert {f"{kind}-{name}" for name in three} <= stems
    for kind in ("clmpt-without-c", "lmpnn-with-c", "clmpt-small", "clmpt-small-frozen"):
        assert {f"{kind}-{name}" for name in two} <= stems
    rivals = {name for name in REASONERS.own if name not in OUR_OWN}
    for kind in rivals:
        assert {f"{kind}-{name}" for name in two} <= stems, kind
    assert {f"clmpt-{name}-q2b" for name in two} <= stems
    assert len(stems) == 4 * 3 + 4 * 2 + 9 + 2 + 2 * len(rivals)
    assert {path.stem for path in LAPTOP} >= {"fb15k-237", "nell995"}


@pytest.mark.parametrize("path", [*PAPER, *LAPTOP], ids=lambda path: path.stem)
def test_a_recipe_names_the_row_that_it_reproduces(path: Path) -> None:
    """If there is one: the paper has no truth values, and GQE only on other queries."""
    asked = recipe_of(path).experiment
    published = not any(name in path.stem for name in WITHOUT_A_ROW)
    assert (asked.published in published_rows(asked.benchmark)) == published
    assert asked.benchmark in path.stem


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_row_of_a_table_has_settings_that_fit_and_a_budget(path: Path) -> None:
    table = read_model_table(path)
    assert len(table.rows) >= 5
    for row in table.rows:
        tried = list(row.study.sweep.recipes) if row.study.sweep else row.study.recipes()
        assert len(tried) in (1, 3)  # as many trials for every model
        for recipe in tried:
            assert recipe.experiment.benchmark.startswith(path.stem.removesuffix("-settings"))
            assert recipe.training.minutes == (2 if row.study.sweep else 15)
            assert recipe.training.steps == 0


def test_the_main_recipes_have_the_paper_s_settings() -> None:
    """Section 5.1, Appendix A and its table of query counts, by hand."""
    wanted = {
        "fb15k": (0.05, 1e-4, 1024, "pre", (273_710, 27_371, 66_990, 8_000)),
        "fb15k-237": (0.05, 5e-5, 512, "post", (149_689, 14_968, 22_804, 5_000)),
        "nell995": (0.1, 5e-5, 512, "pre", (107_982, 10_798, 17_021, 4_000)),
    }
    for name, (temperature, rate, batch, norm, counts) in wanted.items():
        recipe = recipe_of(ROOT / "paper" / f"clmpt-{name}.toml")
        model, training = recipe.reasoning.settings, recipe.training
        assert isinstance(model, CLMPTSettings)
        assert recipe.pretraining.rank == 1000
        assert recipe.pretraining.epochs == 100
        assert (model.encoder_layers, model.heads, model.feed_forward) == (2, 8, 8192)
        assert (model.pooling, model.norm, model.conditional) == ("mean", norm, True)
        assert not model.frozen
        assert (model.temperature, training.learning_rate) == (temperature, rate)
        assert (training.batch, training.epochs, training.negative_count) == (batch, 100, 128)
        assert training.weight_decay == 1e-4
        assert (training.decay, training.decay_epoch) == ("step", 50)
        assert (training.negatives, training.mixing, model.dropout) == ("query", "shape", 0.1)
        asked = recipe.queries
        assert (asked.train, asked.train_negated, asked.test_links, asked.test) == counts
        assert recipe.queries.trained.split() == TRAINED


@pytest.mark.parametrize("benchmark", ["fb15k", "fb15k-237", "nell995"])
def test_lmpnn_has_its_authors_settings(benchmark: str) -> None:
    recipe = recipe_of(ROOT / "paper" / f"lmpnn-{benchmark}.toml")
    usual = recipe_of(ROOT / "paper" / f"clmpt-{benchmark}.toml")
    model = recipe.reasoning.settings
    assert isinstance(model, LMPNNSettings)
    assert (model.conditional, model.frozen) == (False, True)
    assert (model.epsilon, model.dropout) == (0.1, 0.0)
    assert (recipe.training.batch, recipe.training.learning_rate) == (1024, 1e-4)
    assert (recipe.queries, recipe.pretraining) == (usual.queries, usual.pretraining)
    assert isinstance(usual.reasoning.settings, CLMPTSettings)
    assert model.temperature == usual.reasoning.settings.temperature


@pytest.mark.parametrize("benchmark", ["fb15k-237", "nell995"])
def test_cqd_has_its_authors_settings(benchmark: str) -> None:
    optimised = recipe_of(ROOT / "paper" / f"cqd-co-{benchmark}.toml")
    assert (optimised.pretraining.rank, optimised.pretraining.regularisation) == (1000, 0.05)
    assert (optimised.pretraining.epochs, optimised.pretraining.batch) == (100, 1000)
    model = optimised.reasoning.settings
    assert isinstance(model, CQDContinuousSettings)
    assert (model.rate, model.iterations, model.regularisation) == (0.1, 1000, 0.05)
    searched = recipe_of(ROOT / "paper" / f"cqd-beam-{benchmark}.toml")
    assert searched.pretraining == optimised.pretraining
    assert isinstance(searched.reasoning.settings, CQDBeamSettings)
    assert searched.reasoning.settings.beam == 64


@pytest.mark.parametrize(
    ("benchmark", "states", "weighting", "batch", "steps"),
    [("fb15k-237", "last", "queries", 48, 10_000), ("nell995", "all", "answers", 32, 30_000)],
)
def test_gnn_qe_has_its_authors_settings(
    benchmark: str, states: str, weighting: str, batch: int, steps: int
) -> None:
    recipe = recipe_of(ROOT / "paper" / f"gnn-qe-{benchmark}.toml")
    model, training = recipe.reasoning.settings, recipe.training
    assert isinstance(model, GNNQESettings)
    assert (model.rank, model.layers, model.drop, model.temperature) == (32, 4, 0.25, 0.2)
    assert (model.states, model.weighting) == (states, weighting)
    assert (training.batch, training.steps, training.learning_rate) == (batch, steps, 5e-3)
    assert (training.negatives, training.weight_decay) == ("all", 0)


@pytest.mark.parametrize(
    ("stem", "table", "name", "value"),
    [
        ("clmpt-fb15k-237-layers-1", "reasoning", "encoder_layers", 1),
        ("clmpt-fb15k-237-layers-3", "reasoning", "encoder_layers", 3),
        ("clmpt-fb15k-237-feed-forward-4096", "reasoning", "feed_forward", 4096),
        ("clmpt-fb15k-237-heads-4", "reasoning", "heads", 4),
        ("clmpt-fb15k-237-heads-16", "reasoning", "heads", 16),
        ("clmpt-fb15k-237-t-0.01", "reasoning", "temperature", 0.01),
        ("clmpt-fb15k-237-t-0.1", "reasoning", "temperature", 0.1),
        ("clmpt-fb15k-237-max-pooling", "reasoning", "pooling", "max"),
        ("clmpt-fb15k-237-sum-pooling", "reasoning", "pooling", "sum"),
        ("clmpt-frozen-fb15k", "reasoning", "frozen", True),
        ("clmpt-without-c-nell995", "reasoning", "conditional", False),
    ],
)
def test_a_variant_differs_in_one_setting(stem: str, table: str, name: str, value: object) -> None:
    benchmark = recipe_of(ROOT / "paper" / f"{stem}.toml").experiment.benchmark
    usual = recipe_of(ROOT / "paper" / f"clmpt-{benchmark}.toml").as_plain()
    own = recipe_of(ROOT / "paper" / f"{stem}.toml").as_plain()
    differing = {
        (where, key)
        for where in ("queries", "pretraining", "reasoning", "training")
        for key, found in own[where].items()
        if found != usual[where][key]
    }
    assert differing == {(table, name)}
    assert own[table][name] == value


@pytest.mark.parametrize("benchmark", PUBLISHED)
def test_published_figures_add_up(benchmark: str) -> None:
    """A typo of a point or more shows in an average; the next test finds smaller ones."""
    rows = published_rows(benchmark)
    assert len(rows) >= 7
    for name, row in rows.items():
        for average, shapes in (("Avg_p", EPFO), ("Avg_n", NEGATION)):
            found = [row[shape] for shape in shapes if shape in row]
            if found and average in row:
                slack = 0.2 if name in ("Q2P", "GammaE", "PERM") else 0.1  # as printed
                assert sum(found) / len(shapes) == pytest.approx(row[average], abs=slack), name
    assert set(published()) == {"source", "columns", "models", *PUBLISHED}


def test_published_figures_match_the_paper(benchmarks: Path) -> None:
    paper = (benchmarks.parent / "paper" / "clmpt.tex").read_text(encoding="utf-8")
    plain = re.sub(r"\\(?:textbf|underline)\{([\d.]+)\}", r"\1", paper)
    printed = [[cell.strip() for cell in line.split("&")] for line in plain.splitlines()]
    rows = {" ".join(f"{float(c):.1f}" if _is_figure(c) else c for c in row) for row in printed}
    for benchmark in PUBLISHED:
        for name, row in published_rows(benchmark).items():
            figures = " ".join(
                f"{row[column]:.1f}" for column in columns(benchmark) if column in row
            )
            assert any(figures in line for line in rows), (benchmark, name)


def _is_figure(cell: str) -> bool:
    return re.fullmatch(r"\d+(\.\d)?", cell) is not None


# --- how recipes are read -------------------------------------------------------------------------


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)


def test_our_recipes_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_recipe("recipes/laptop/nell995.toml") == read_recipe(ROOT / "laptop/nell995.toml")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_recipe("recipes/../recipes/laptop/nell995.toml")
    own = tmp_path / "recipes" / "laptop" / "nell995.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[training]\nbatch = 3\n")
    assert read_recipe("recipes/laptop/nell995.toml") == {"training": {"batch": 3}}


def test_a_recipe_overrides_its_base(tmp_path: Path) -> None:
    write(
        tmp_path,
        first="[training]\nbatch = 8\nepochs = 3\n",
        second='base = "first.toml"\n[training]\nbatch = 16\n[reasoning]\nheads = 2\n',
        third='base = "second.toml"\n[training]\nepochs = 4\n',
    )
    found = read_recipe(tmp_path / "third.toml")
    assert found == {"training": {"batch": 16, "epochs": 4}, "reasoning": {"heads": 2}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('base = "own.toml"', "or is its own"),
        ('base = "../own.toml"', "a file in the same folder"),
        ("base = 3", "a file in the same folder"),
        ("[trainin]\nbatch = 1", "Allowed tables"),
        ("training = 1", "Allowed tables"),
    ],
)
def test_a_wrong_recipe_is_reported(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path, own=text)
    with pytest.raises(SettingError, match=why):
        read_recipe(tmp_path / "own.toml")


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ("batch", "must be NAME=VALUE"),
        ("batch=1", "pretraining.batch or training.batch"),
        ("trainin.batch=1", "no table 'trainin'"),
        ("training.bach=1", "Did you mean 'batch'"),
        ("hedas=1", "Did you mean 'heads'"),
    ],
)
def test_a_wrong_change_is_reported(assignment: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        changed({}, [assignment])


def test_changes_have_the_right_types() -> None:
    made = changed(
        {}, ["rank=8", "frozen=true", "pooling=max", "training.clip=1e-2", "trained=1p 2p"]
    )
    assert made["pretraining"] == {"rank": 8}
    assert made["reasoning"] == {"frozen": True, "pooling": "max"}
    assert made["training"] == {"clip": 0.01}
    assert made["queries"] == {"trained": "1p 2p"}
