"""One yardstick for every reasoner: by hand, on real data, and in every form it is shown in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt import report as reports
from clmpt.config import pretraining
from clmpt.evaluation import Figures
from clmpt.graph.benchmarks import open_graph, read_queries
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.query_store import AnswerSets, QueryGroup
from clmpt.logic.parser import parse
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.neural.predictors.models import fresh_predictor
from clmpt.neural.predictors.predictor import EmbeddingPredictor
from clmpt.neural.reasoners.exact import ExactReasoner
from clmpt.neural.reasoners.hop_by_hop import HopByHop
from clmpt.report import Report, ShapeResult, evaluate
from clmpt.symbolic.sampling import Protocol, sample
from toy import films, random_graph


class Fixed:
    """Gives every query the scores that its first constant is the number of."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = torch.tensor(rows)

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.rows[np.concatenate([group.entities[:, 0] for group in groups])]


def sets(*answers: list[int]) -> AnswerSets:
    counts = [len(found) for found in answers]
    return AnswerSets(
        np.cumsum([0, *counts]), np.array([e for found in answers for e in found], np.int64)
    )


def one_hop(easy: AnswerSets, hard: AnswerSets) -> QueryGroup:
    numbers = np.arange(len(hard), dtype=np.int32)[:, None]
    return QueryGroup("1p", shape("1p"), numbers, np.zeros_like(numbers), easy, hard)


def test_figures_are_means_over_answers_then_queries() -> None:
    # Query 0: hard 2 and 3, easy 0; rivals 1 and 4. Scores put 1 above 2, and 3 above all: ranks 2
    # and 1, mean of inverses 3/4. Query 1: hard 0 ties with 1, 2, below 3, 4: 1 + 2 + 2/2 = 4.
    scores = [[0.9, 0.6, 0.5, 0.8, 0.1], [0.2, 0.2, 0.2, 0.3, 0.4]]
    group = one_hop(sets([0], []), sets([2, 3], [0]))
    (found,) = evaluate(Fixed(scores), [group], "fixed").shapes
    assert found.figures == Figures((3 / 4 + 1 / 4) / 2, 0.25, 0.5, 1.0, 2)
    # Two values, .75 and .25: their standard deviation is .5 / √2, over √2 queries .25.
    assert found.standard_error == pytest.approx(0.25)
    assert found.hard_answers == 3


def test_queries_without_hard_answers_do_not_count() -> None:
    group = one_hop(sets([0], [1]), sets([], [0]))
    (found,) = evaluate(Fixed([[0.0, 0.0], [1.0, 0.0]]), [group], "fixed").shapes
    assert found.figures == Figures(1.0, 1.0, 1.0, 1.0, 1)
    assert evaluate(Fixed([[0.0, 0.0]]), [one_hop(sets([0]), sets([]))], "fixed").shapes == ()


def test_small_chunks_give_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(True)
    protocol = Protocol(("train",), ("train", "test"), 100)
    groups = [sample(shape(name), graph, protocol, 30, 1) for name in ("2p", "2in", "up")]
    reasoner = HopByHop(predictor(), len(graph.relations))
    whole = evaluate(reasoner, groups, "hops", graph, ("train",))
    monkeypatch.setattr(reports, "_QUERIES_AT_FIRST", 1)
    monkeypatch.setattr(reports, "_SCORES_AT_ONCE", 3 * len(graph.entities))
    parts = evaluate(reasoner, groups, "hops", graph, ("train",))
    for one, two in zip(whole.shapes, parts.shapes, strict=True):
        assert one.figures.mrr == pytest.approx(two.figures.mrr)
        assert one.standard_error == pytest.approx(two.standard_error)
        assert one.by_missing.keys() == two.by_missing.keys()


def test_the_exact_solver_knows_nothing_of_hard_answers() -> None:
    """All its zeros tie: a hard answer is in the middle of the non-answers."""
    graph = random_graph(True)
    protocol = Protocol(("train",), ("train", "test"), 100)
    group = sample(shape("2i"), graph, protocol, 40, 1)
    (found,) = evaluate(ExactReasoner(graph.view("train")), [group], "exact").shapes
    middles = [
        1 / (1 + (len(graph.entities) - len(easy) - len(hard)) / 2)
        for easy, hard in zip(group.easy, group.hard, strict=True)
    ]
    assert found.figures.mrr == pytest.approx(float(np.mean(middles)))
    # Shown the full graph it knows them all.
    (told,) = evaluate(ExactReasoner(graph), [group], "exact").shapes
    assert told.figures == Figures(1.0, 1.0, 1.0, 1.0, 40)


def test_figures_are_split_by_missing_links() -> None:
    builder = GraphBuilder()
    for split, text in (
        ("train", "a r b"),
        ("test", "b r c"),
        ("test", "d r e"),
        ("test", "e r f"),
    ):
        builder.add(split, *text.split())
    graph = builder.build()  # a 0, b 1, c 2, d 3, e 4, f 5
    two_hops = np.array([[0], [3]], np.int32)
    group = QueryGroup(
        "2p", shape("2p"), two_hops, np.zeros((2, 2), np.int32), sets([], []), sets([2], [5])
    )
    (found,) = evaluate(Fixed([[0.0] * 6] * 4), [group], "fixed", graph, ("train",)).shapes
    # c misses the second link only, f both; each is one query with one answer among five rivals.
    assert {number: part.count for number, part in found.by_missing.items()} == {1: 1, 2: 1}
    assert found.by_missing[1].mrr == pytest.approx(1 / 3.5)


def result(name: str, mrr: float, approximate: bool = False) -> ShapeResult:
    figures = Figures(mrr, mrr, mrr, mrr, 10)
    return ShapeResult(name, figures, 0.01, 12, {1: figures, 3: figures}, approximate)


def test_averages_are_over_all_shapes_of_a_kind_or_not_given() -> None:
    positive = [result(name, 0.1 * number) for number, name in enumerate(EPFO)]
    negative = [result(name, 0.2) for name in NEGATION]
    assert Report("m", tuple(positive + negative)).averages == pytest.approx(
        {"Avg_p": 0.4, "Avg_n": 0.2}
    )
    assert Report("m", tuple(positive[1:] + negative)).averages == pytest.approx({"Avg_n": 0.2})


def test_a_report_in_every_form() -> None:
    made = Report("m <1>", (result("2p", 0.25), result("pni", 0.125, True)), ("train", "valid"))
    text = made.markdown()
    assert "| 2p | 25.0 | 1.0 | 25.0 | 25.0 | 25.0 | 10 | 25.0 (10) |  | 25.0 (10) |" in text
    assert "| pni* | 12.5" in text
    assert "Easy answers follow from train + valid." in text
    assert "pni is answered as 'no such ?x'" in text
    plain = made.as_plain()
    assert plain["shapes"][0]["by_missing_links"]["3"]["count"] == 10
    assert plain["observed"] == ["train", "valid"]
    drawn = ElementTree.fromstring(made.svg())
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"25.0", "12.5", "2p", "pni", "m <1>: MRR × 100"} <= set(texts)


# --- hop by hop -----------------------------------------------------------------------------------


def predictor() -> EmbeddingPredictor:
    made = fresh_predictor(random_graph(True), pretraining({"rank": 4, "initial_scale": 1.0}))
    return made.requires_grad_(False)


def all_ways(graph_relations: int, text: str, entities: int) -> list[float]:
    """Log-likelihoods of every ?y, trying every ?x: r0(e, ?x) & r1(?x, ?y) & !r2(?x, ?y)."""
    made = predictor()

    def log(entity: int, directed: int) -> Tensor:
        scores = made.score_answers(torch.tensor([entity]), torch.tensor([directed]))
        return scores.log_softmax(1)[0]

    first = log(0, 0)
    ways = [
        first[x] + log(x, 1) + torch.log1p(-log(x, 2).exp() * (1 - 1e-6)) for x in range(entities)
    ]
    assert graph_relations
    assert text
    return torch.stack(ways).amax(0).tolist()


def test_with_a_beam_as_wide_as_the_graph_nothing_is_missed() -> None:
    graph = random_graph(True)
    made, text = predictor(), "?y : #0(#0, ?x) & #1(?x, ?y) & !#2(?x, ?y)"
    entities, relations = len(graph.entities), len(graph.relations)
    expected = all_ways(relations, text, entities)
    group = QueryGroup.single(parse(text))
    wide = HopByHop(made, relations, beam=entities).score([group])[0]
    assert wide.tolist() == pytest.approx(expected, abs=1e-4)
    narrow = HopByHop(made, relations, beam=1).score([group])[0]
    assert bool((narrow <= wide + 1e-5).all())


def test_one_hop_is_ranked_as_by_score() -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    scores = HopByHop(made, relations).score([QueryGroup.single(parse("?y : #3(#7, ?y)"))])[0]
    direct = made.score_answers(torch.tensor([7]), torch.tensor([3]))[0]
    assert scores.argsort().tolist() == direct.argsort().tolist()


def test_an_atom_read_backwards_uses_the_inverse() -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    scores = HopByHop(made, relations).score([QueryGroup.single(parse("?y : #3(?y, #7)"))])[0]
    direct = made.score_answers(torch.tensor([7]), torch.tensor([3 + relations]))[0]
    assert scores.argsort().tolist() == direct.argsort().tolist()


@pytest.mark.parametrize(
    "text",
    [
        "?y : #0(#1, ?x) & #1(?x, ?z) & #2(?z, ?x) & #3(?z, ?y)",  # a cycle
        "?y : #0(?x, ?y)",  # nothing leads to ?x
        "?y : #0(#1, ?y) | #1(#2, ?x) & #2(?x, ?y)",
        "?y : #0(#1, ?y) & !exists ?x (#1(#2, ?x) & #2(?x, ?y))",
    ],
)
def test_any_query_graph_is_answered(text: str) -> None:
    relations = len(random_graph(True).relations)
    scores = HopByHop(predictor(), relations, beam=3).score([QueryGroup.single(parse(text))])
    assert bool(scores.isfinite().all())


# --- real data ------------------------------------------------------------------------------------


def test_the_official_test_queries_leak_nothing(benchmarks: Path) -> None:
    """A few queries of each shape of NELL995: knowing train and valid does not help."""
    graph = open_graph(benchmarks / "NELL-betae")
    groups = [g.take(slice(0, 20)) for g in read_queries(benchmarks / "NELL-betae", "test")]
    observed = ("train", "valid")
    found = evaluate(ExactReasoner(graph.view(*observed)), groups, "exact", graph, observed)
    assert len(found.shapes) == 16
    for one in found.shapes:
        assert one.figures.mrr < 2e-3, one.name
        assert set(one.by_missing) <= {1, 2, 3}
    assert not math.isnan(found.mean)


def test_films_by_hand() -> None:
    """Sansho won the Lion in truth only: among the non-answers it ties with all."""
    graph = films()
    names = graph.entities.names
    (mizoguchi, ugetsu, sansho, oharu) = (
        names.find(name)[0] for name in ("Mizoguchi", "Ugetsu", "Sansho", "Oharu")
    )
    directed, won = (graph.relations.names.find(name)[0] for name in ("directed", "won"))
    lion = names.find("Lion")[0]
    group = QueryGroup(
        "2i",
        parse("?y : $a($m, ?y) & $b(?y, $l)"),
        np.array([[mizoguchi, lion]], np.int32),
        np.array([[directed, won]], np.int32),
        sets([ugetsu]),
        sets([sansho]),
    )
    assert oharu not in (ugetsu, sansho)
    (found,) = evaluate(ExactReasoner(graph.view("train")), [group], "exact").shapes
    rivals = len(graph.entities) - 2
    assert found.figures.mrr == pytest.approx(1 / (1 + rivals / 2))
