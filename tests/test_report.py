"""Evaluation reports: by hand, on real data, and in every format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.evaluation.measuring import evaluate
from clmpt.evaluation.ranks import Figures
from clmpt.evaluation.report import Report, ShapeResult
from clmpt.graph.builder import GraphBuilder
from clmpt.graph.opening import open_graph
from clmpt.logic.formula import Id, Query
from clmpt.logic.parser import parse
from clmpt.logic.query_graph import QueryEdge, query_graphs
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.pages.report_folder import report_page
from clmpt.predictors.predictor import EmbeddingPredictor, fresh_predictor, read_pretraining
from clmpt.queries.benchmark_files import read_queries
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.beam_search import BeamSearch
from clmpt.reasoners.exact import ExactReasoner
from clmpt.sampling.sampler import Protocol, sample
from toy import films, random_graph


class Fixed:
    """Gives every query the row of scores that its first constant selects."""

    name = "fixed"

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = torch.tensor(rows)

    def score(self, groups: Sequence[QueryGroup]) -> Tensor:
        return self.rows[np.concatenate([group.entities[:, 0] for group in groups])]

    def notes(self, query: Query) -> tuple[str, ...]:
        return (f"{query.free.name} is fixed",)


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
    assert found.standard_error is None  # undefined for one query
    assert found.notes == ("y is fixed",)
    assert evaluate(Fixed([[0.0, 0.0]]), [one_hop(sets([0]), sets([]))], "fixed").shapes == ()


def test_small_chunks_give_the_same_report() -> None:
    graph = random_graph(True)
    protocol = Protocol(("train",), ("train", "test"), 100)
    groups = [sample(shape(name), graph, protocol, 90, 1) for name in ("2p", "2in", "up")]
    reasoner = BeamSearch(predictor(), len(graph.relations))
    asked: dict[str, Any] = {"graph": graph, "observed": ("train",)}
    assert min(map(len, groups)) > 64  # the first chunk
    whole = evaluate(reasoner, groups, **asked)
    parts = evaluate(reasoner, groups, **asked, scores_at_once=3 * len(graph.entities))
    for one, two in zip(whole.shapes, parts.shapes, strict=True):
        assert one.figures.mrr == pytest.approx(two.figures.mrr)
        assert one.standard_error == pytest.approx(two.standard_error)
        assert one.by_missing.keys() == two.by_missing.keys()


def test_the_exact_solver_does_not_know_hard_answers() -> None:
    """All zeros tie, so a hard answer ranks in the middle of the non-answers."""
    graph = random_graph(True)
    protocol = Protocol(("train",), ("train", "test"), 100)
    group = sample(shape("2i"), graph, protocol, 40, 1)
    (found,) = evaluate(ExactReasoner(graph.view("train")), [group], "exact").shapes
    middles = [
        1 / (1 + (len(graph.entities) - len(easy) - len(hard)) / 2)
        for easy, hard in zip(group.easy, group.hard, strict=True)
    ]
    assert found.figures.mrr == pytest.approx(float(np.mean(middles)))
    # Given the full graph, it knows them all.
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


def result(name: str, mrr: float, *notes: str) -> ShapeResult:
    figures = Figures(mrr, mrr, mrr, mrr, 10)
    return ShapeResult(name, figures, 0.01, 12, {1: figures, 3: figures}, notes)


def test_averages_need_all_shapes_of_a_kind() -> None:
    positive = [result(name, 0.1 * number) for number, name in enumerate(EPFO)]
    negative = [result(name, 0.2) for name in NEGATION]
    assert Report("m", tuple(positive + negative)).averages == pytest.approx(
        {"Avg_p": 0.4, "Avg_n": 0.2}
    )
    assert Report("m", tuple(positive[1:] + negative)).averages == pytest.approx({"Avg_n": 0.2})


def test_a_report_in_every_format() -> None:
    made = Report(
        "m <1>", (result("2p", 0.25), result("pni", 0.125, "Not quite.")), ("train", "valid")
    )
    page = report_page(made)
    text = page.markdown()
    assert "| 2p | 25.0 | 1.0 | 25.0 | 25.0 | 25.0 | 10 | 25.0 (10) |  | 25.0 (10) |" in text
    assert "| pni\\* | 12.5" in text
    assert "Easy answers follow from train + valid." in text
    assert "pni (\\*): Not quite." in text
    plain = made.as_plain()
    assert plain["shapes"][0]["by_missing_links"]["3"]["count"] == 10
    assert plain["observed"] == ["train", "valid"]
    drawn = ElementTree.fromstring(page.pictures[0].svg)
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"25.0", "12.5", "2p", "pni", "m <1>: MRR × 100"} <= set(texts)


# --- beam search ----------------------------------------------------------------------------------


def predictor() -> EmbeddingPredictor:
    made = fresh_predictor(random_graph(True), read_pretraining({"rank": 4, "initial_scale": 1.0}))
    return made.requires_grad_(False)


def brute_force(text: str) -> list[float]:
    """Log-likelihoods of every ?y, trying every entity for every other variable."""
    made, relations = predictor(), len(random_graph(True).relations)
    entities = len(made.entities_ED)
    (graph,) = query_graphs(parse(text)).alternatives
    variables = [n for n in range(len(graph.terms)) if not graph.is_constant(n) and n != graph.free]
    every = torch.arange(entities)
    likely = {}
    for relation in range(2 * relations):
        scores = made.score_answers(every, torch.full((entities,), relation))
        likely[relation] = scores.log_softmax(1)

    def atom(edge: QueryEdge, ends: dict[int, int], answer: int, order: list[int]) -> float:
        at = {**ends, graph.free: answer}
        relation: int = edge.relation.number  # type: ignore[union-attr]
        # As in beam search: from the end that is bound first to the other.
        if order.index(edge.head) <= order.index(edge.tail):
            value = likely[relation][at[edge.head], at[edge.tail]]
        else:
            value = likely[relation + relations][at[edge.tail], at[edge.head]]
        return float(torch.log1p(-value.exp() * (1 - 1e-6)) if edge.negated else value)

    constants = {n: t.number for n, t in enumerate(graph.terms) if isinstance(t, Id)}
    order = [*constants, *sorted(variables, key=lambda n: -graph.distance[n]), graph.free]
    return [
        max(
            sum(
                atom(edge, {**constants, **dict(zip(variables, way, strict=True))}, answer, order)
                for edge in graph.edges
            )
            for way in product(range(entities), repeat=len(variables))
        )
        for answer in (0, 3, 17)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "?y : #0(#0, ?x) & #1(?x, ?y) & !#2(?x, ?y)",  # two edges, one negated
        "?y : #0(#1, ?z) & #1(?z, ?x) & #2(?x, ?z) & #3(?x, ?y)",  # a cycle
        "?y : #0(?x, #1) & #1(?y, ?x) & #2(#3, ?y)",  # read backwards, a branch
    ],
)
def test_a_beam_as_wide_as_the_graph_is_exact(text: str) -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    group = QueryGroup.single(parse(text))
    wide = BeamSearch(made, relations, beam=len(made.entities_ED) ** 2).score([group])[0]
    assert wide[[0, 3, 17]].tolist() == pytest.approx(brute_force(text), abs=1e-3)
    narrow = BeamSearch(made, relations, beam=1).score([group])[0]
    assert bool((narrow <= wide + 1e-5).all())


def test_beam_search_does_not_depend_on_the_order_of_atoms() -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    atoms = ["#1(?y, ?x)", "#2(?z, ?y)", "#3(?z, ?x)", "#0(#1, ?z)"]
    found = [
        BeamSearch(made, relations, beam=5).score(
            [QueryGroup.single(parse("?x : " + " & ".join(o)))]
        )
        for o in permutations(atoms)
    ]
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("?y : #0(?x, ?y)", 1),
        ("?y : #0(#1, ?y) & #1(?y, ?y)", 1),
        ("?y : #0(#1, ?y) & #1(?y, ?x) & #2(?x, ?z)", 2),
        ("?y : #0(#1, ?x) & #1(?x, ?y)", 0),
    ],
)
def test_beam_search_notes_the_atoms_it_ignores(text: str, left_out: int) -> None:
    notes = BeamSearch(predictor(), len(random_graph(True).relations)).notes(parse(text))
    assert notes == ((f"{left_out} atoms that no constant leads to are ignored.",) * bool(left_out))


def test_one_hop_queries_are_ranked_by_score() -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    scores = BeamSearch(made, relations).score([QueryGroup.single(parse("?y : #3(#7, ?y)"))])[0]
    direct = made.score_answers(torch.tensor([7]), torch.tensor([3]))[0]
    assert scores.argsort().tolist() == direct.argsort().tolist()


def test_an_atom_read_backwards_uses_the_inverse() -> None:
    made, relations = predictor(), len(random_graph(True).relations)
    scores = BeamSearch(made, relations).score([QueryGroup.single(parse("?y : #3(?y, #7)"))])[0]
    direct = made.score_answers(torch.tensor([7]), torch.tensor([3 + relations]))[0]
    assert scores.argsort().tolist() == direct.argsort().tolist()


# --- real data ------------------------------------------------------------------------------------


def test_the_official_test_queries_do_not_leak(benchmarks: Path) -> None:
    """A few queries per shape of NELL995: knowing train and valid does not help."""
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
    """That Sansho won the Lion is held out, so it ties with all non-answers."""
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
