"""CQD: it answers without training, keeps what it chose, and refuses what it cannot express."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clmpt.answering.answerer import Answerer
from clmpt.errors import SettingError, UnsupportedQuery
from clmpt.evaluation.measuring import evaluate
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse
from clmpt.logic.quantifiers import apart, narrowed, quantified, some_not
from clmpt.logic.shapes import shape
from clmpt.predictors.distmult import DistMult
from clmpt.predictors.predictor import EmbeddingPredictor, read_pretraining
from clmpt.predictors.predictor_folder import open_predictor
from clmpt.predictors.transe import TransE
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.decomposition.decomposition_model import DecompositionModel
from clmpt.reasoners.decomposition.fuzzy_logic import LOGICS
from clmpt.reasoners.decomposition.link_truth import LinkTruth, Truth
from clmpt.reasoners.model import Basis, build_model
from clmpt.reasoners.question_kinds import KINDS, kind_of
from clmpt.reasoners.reasoner_folder import open_reasoner
from clmpt.sampling.sampler import Protocol, sample
from clmpt.training.runs import pretrain, train
from models import random_predictor, reasoning
from small_training import districts, predictor, queries, settings, valid_graph

HELD_OUT = Protocol(("train", "valid"), ("train", "valid", "test"), 100)
NAMES = ("cqd-beam", "cqd-co")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[KnowledgeGraph, EmbeddingPredictor]:
    graph, folder = districts(), tmp_path_factory.mktemp("predictor") / "run"
    given = {"rank": 8, "batch": 60, "epochs": 15, "device": "cpu"}
    list(pretrain(graph, read_pretraining(given), folder))
    return graph, open_predictor(folder).predictor


def model(name: str, basis: Basis, **chosen: Any) -> DecompositionModel:
    made = build_model(basis, reasoning(reasoner=name, **chosen), 0)
    assert isinstance(made, DecompositionModel)
    return made


# --- answering ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_it_answers_without_training_and_from_a_folder(
    name: str, learnt: tuple[KnowledgeGraph, EmbeddingPredictor], tmp_path: Path
) -> None:
    graph, trained = learnt
    chosen, shapes = reasoning(reasoner=name), ("1p", "2p", "2i", "2in", "2u")
    list(train(graph, trained, queries(graph, 5, shapes), chosen, settings(), tmp_path / "run"))
    stored = open_reasoner(tmp_path / "run", graph).model
    assert stored.predictor is not None
    assert torch.equal(stored.predictor.entities_ED, trained.entities_ED)
    asked = [sample(shape(kind), graph, HELD_OUT, 60, 1) for kind in ("1p", "2p", "2i", "pi", "up")]
    chance = float(np.mean(1 / np.arange(1, len(graph.entities))))
    for each in evaluate(stored.reasoner(), asked).shapes:
        assert each.figures.mrr > 2 * chance, each.name
    answerer = Answerer.open(tmp_path / "run", graph)
    found = answerer.ask("?y : r0(p0, ?x) & r1(?x, ?y)", limit=100)
    assert found.answers


@pytest.mark.parametrize("name", NAMES)
def test_the_t_norm_is_chosen_on_validation_queries_for_each_kind_of_question(
    name: str, learnt: tuple[KnowledgeGraph, EmbeddingPredictor]
) -> None:
    graph, trained = learnt
    basis, given = (
        Basis(graph.view("train"), trained),
        {"iterations": 30} if name == "cqd-co" else {},
    )
    valid = [sample(shape(kind), graph, HELD_OUT, 40, 1) for kind in ("2i", "2p", "pi", "3in")]
    tried = ("product", "godel")
    mrr = {
        t_norm: {
            group.name: evaluate(
                model(name, basis, t_norm=t_norm, **given).reasoner(), [group]
            ).mean
            for group in valid
        }
        for t_norm in tried
    }
    tuned = model(name, basis, **given)
    tuned.tune(valid)
    for kind, names in (((1, False), ["2i"]), ((2, False), ["2p", "pi"]), ((1, True), ["3in"])):
        sums = [sum(mrr[t_norm][each] for each in names) for t_norm in tried]
        assert tried[int(tuned.norm_K[KINDS.index(kind)])] == tried[int(np.argmax(sums))]
        template = next(group.template for group in valid if group.name == names[0])
        assert KINDS[kind_of(template)] == kind
        assert tuned.logic_of(template) is LOGICS[tried[int(np.argmax(sums))]]
    fixed = model(name, basis, t_norm="godel", **given)
    fixed.tune(valid)
    assert fixed.logic_of(valid[0].template) is LOGICS["godel"]


# --- what cannot be expressed ---------------------------------------------------------------------


def asked(name: str, text: str, **chosen: Any) -> torch.Tensor:
    made = model(name, Basis(valid_graph(), predictor()), t_norm="product", **chosen)
    return made.reasoner().score([QueryGroup.single(parse(text))])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("?y : #0(?x, ?y)", r"what is said of \?x and \?y"),
        ("?y : #0(#1, ?y) & #1(?y, ?y)", r"what is said of \?y"),
        ("?y : #0(#1, ?y) & #1(?y, ?x)", r"what is said of \?x and \?y"),
        ("?y : #0(#1, ?y) & !exists ?x (#1(?y, ?x))", r"what is said of \?x and \?y"),
        ("?y : #0(#1, ?y) & (#0(#2, ?y) | #1(?y, ?x))", r"what is said of \?x and \?y"),
    ],
)
def test_beam_search_refuses_what_would_try_all_pairs_of_entities(text: str, why: str) -> None:
    with pytest.raises(UnsupportedQuery, match=why):
        asked("cqd-beam", text)
    assert asked("cqd-co", text, iterations=3).shape == (1, 40)


def test_beam_search_can_look_back_from_what_is_bound() -> None:
    # Of each ?x, the best ?z that it leads to; the free variable comes after both.
    found = asked("cqd-beam", "?y : #0(#1, ?x) & !exists ?z (#1(?x, ?z)) & #2(?x, ?y)", beam=40)
    truth = {
        relation: predictor().score_answers(torch.arange(40), torch.full((40,), relation)).sigmoid()
        for relation in (0, 1, 2)
    }
    worth_X = truth[0][1] * (1 - truth[1].amax(1))
    assert torch.allclose(found[0], (worth_X[:, None] * truth[2]).amax(0))


def test_raw_scores_are_neither_negated_nor_united() -> None:
    with pytest.raises(UnsupportedQuery, match="cannot be negated"):
        asked("cqd-beam", "?y : #0(#1, ?y) & !#1(#2, ?y)", truth="raw")
    union = "?y : #0(#1, ?y) | #1(#2, ?y)"
    assert torch.equal(asked("cqd-beam", union, truth="raw"), asked("cqd-beam", union))
    made = model("cqd-beam", Basis(valid_graph(), predictor()), truth="raw").reasoner()
    assert made.notes(parse("?y : #0(#1, ?y)")) == ()
    assert "by a sigmoid" in made.notes(parse(union))[0]
    with pytest.raises(SettingError, match="from 0 to 1"):
        model("cqd-beam", Basis(valid_graph(), predictor()), truth="raw", t_norm="lukasiewicz")


def test_continuous_optimisation_says_where_it_only_approximates() -> None:
    made = model("cqd-co", Basis(valid_graph(), predictor())).reasoner()
    assert made.notes(shape("pin")) == ()
    assert "'some … not'" in made.notes(shape("pni"))[0]


def test_distances_have_no_sigmoid() -> None:
    tables = torch.randn(40, 6), torch.randn(5, 6), torch.full((5,), -1)
    basis = Basis(valid_graph(), TransE(*tables))
    with pytest.raises(SettingError, match=r"those of TransE are distances.*truth = 'calibrated'"):
        model("cqd-co", basis, regularisation=0.0)
    with pytest.raises(SettingError, match=r"Scores of TransE are distances.*'softmax'"):
        model("cqd-beam", basis)
    model("cqd-beam", basis, truth="softmax")


def test_a_regulariser_needs_a_predictor_that_has_one() -> None:
    basis = Basis(valid_graph(), random_predictor("rescal", 40, 5))
    with pytest.raises(SettingError, match="RESCAL has no N3 regulariser"):
        model("cqd-co", basis)
    made = model("cqd-co", basis, regularisation=0.0, iterations=5)
    assert (
        made.reasoner()
        .score([QueryGroup.single(parse("?y : #0(#1, ?x) & #1(?x, ?y)"))])
        .isfinite()
        .all()
    )


# --- truth values and formulas, by hand -----------------------------------------------------------


@pytest.mark.parametrize(
    ("t_norm", "both", "either"),
    [("product", 0.32, 0.88), ("godel", 0.4, 0.8), ("lukasiewicz", 0.2, 1.0)],
)
def test_t_norms_and_their_conorms(t_norm: str, both: float, either: float) -> None:
    logic, (left, right) = LOGICS[t_norm], torch.tensor([0.4, 0.8])
    assert float(logic.both(left, right)) == pytest.approx(both)
    assert float(logic.either(left, right)) == pytest.approx(either)
    dual = logic.negated(logic.both(logic.negated(left), logic.negated(right)))
    assert float(dual) == pytest.approx(either)  # De Morgan


# Scores 0, 2, 4 of a, b, c: e² ≈ 7.389, e⁴ ≈ 54.598, and they sum up to 62.987.
@pytest.mark.parametrize(
    ("truth", "wanted"),
    [
        ("raw", [0, 2, 4]),
        ("sigmoid", [0.5, 0.88080, 0.98201]),
        ("min-max", [0, 0.5, 1]),
        ("softmax", [0.01588, 0.11731, 0.86681]),
        # No answer of b is known: σ(2 log p - 1 + 1) = p² / (1 + p²) of the softmax p.
        ("calibrated", [0.00025, 0.01357, 0.42902]),
    ],
)
def test_truth_values_of_links(truth: Truth, wanted: list[float]) -> None:
    builder = GraphBuilder(["a", "b", "c"], ["r"])
    builder.add("train", "a", "r", "b")
    made = DistMult(torch.tensor([[1.0], [3], [5]]), torch.ones(2, 1), torch.tensor([1]))
    made.entities_ED.data[:] = torch.tensor([[0.0], [1], [2]])
    made.calibration_SC.copy_(torch.tensor([2.0, 3.0, -1.0, 1.0]))
    made.relations_SW.data[:] = 2
    index = builder.build().index
    found = LinkTruth(made, index, truth)
    with torch.no_grad():
        assert found(torch.tensor([1]), torch.tensor([0]))[0].tolist() == pytest.approx(
            wanted, abs=1e-4
        )


@pytest.mark.parametrize(
    ("text", "narrow"),
    [
        # Into the alternative that has the variable; quantifiers of the same name are told apart.
        (
            "?y : (r(?x, ?y) & s(a, ?x)) | (r(?z, ?y) & s(b, ?z)) | t(c, ?y)",
            "?y : exists ?x (r(?x, ?y) & s(a, ?x)) | exists ?z (r(?z, ?y) & s(b, ?z)) | t(c, ?y)",
        ),
        (
            "?y : r(a, ?y) & (s(?x, ?y) & t(b, ?x) | t(c, ?y))",
            "?y : r(a, ?y) & (exists ?x (s(?x, ?y) & t(b, ?x)) | t(c, ?y))",
        ),
        ("?y : !exists ?x (r(a, ?x) & s(?x, ?y)) & t(b, ?y) & t(b, ?y)", None),
    ],
)
def test_quantifiers_move_inwards(text: str, narrow: str | None) -> None:
    query = parse(text)
    found = Query(query.free, narrowed(quantified(query), independently=True))
    wanted = narrow or "?y : !exists ?x (r(a, ?x) & s(?x, ?y)) & t(b, ?y)"
    assert str(found) == wanted


@pytest.mark.parametrize(
    ("text", "turned"),
    [
        ("?y : r(a, ?y) & !(s(b, ?y) & t(c, ?y))", "?y : r(a, ?y) & (!s(b, ?y) | !t(c, ?y))"),
        (
            "?y : r(a, ?y) & !exists ?x (s(b, ?x) & (t(?x, ?y) | t(?y, ?x)))",
            "?y : r(a, ?y) & exists ?x (s(b, ?x) & !t(?x, ?y) & !t(?y, ?x))",
        ),
        (
            "?y : r(a, ?y) & !exists ?x (s(b, ?x) & t(?x, ?y) | s(c, ?x) & t(?x, ?y))",
            "?y : r(a, ?y) & exists ?x (s(b, ?x) & !t(?x, ?y)) & exists ?x (s(c, ?x) & !t(?x, ?y))",
        ),
        (
            "?y : r(a, ?y) & !exists ?x (s(b, ?x) & !exists ?z (t(?x, ?z) & r(?z, ?y)))",
            "?y : r(a, ?y) & exists ?x (s(b, ?x) & exists ?z (t(?x, ?z) & r(?z, ?y)))",
        ),
    ],
)
def test_none_becomes_some_not(text: str, turned: str) -> None:
    assert apart(some_not(quantified(parse(text)))) == quantified(parse(turned))
