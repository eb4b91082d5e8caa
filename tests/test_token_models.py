"""Models of tokens: paths, losses, what they tell apart and what they say they do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.errors import SettingError, UnsupportedQuery
from clmpt.logic.parser import parse
from clmpt.logic.query_graph import query_graphs
from clmpt.logic.query_paths import query_paths
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.model import Basis, Candidates, GradientModel, build_model, read_reasoning
from clmpt.reasoners.transformers.answer_losses import answers_loss, one_answer_loss
from small_training import valid_graph

GRAPH = valid_graph()
MODELS = ("kgtransformer", "biqe")
SIZES = {"rank": 8, "heads": 2, "layers": 4, "feed_forward": 8, "dropout": 0.0}


def model(name: str, **changes: Any) -> GradientModel:
    made = build_model(Basis(GRAPH), read_reasoning({"reasoner": name, **SIZES, **changes}), 0)
    assert isinstance(made, GradientModel)
    return made.double().eval()


def group(text: str) -> QueryGroup:
    return QueryGroup.single(GRAPH.bind(parse(text)))


def scores(made: GradientModel, text: str) -> Tensor:
    return made.reasoner().score([group(text)])


def are_equal(left: Tensor, right: Tensor) -> bool:
    return torch.allclose(left, right, rtol=1e-9, atol=1e-9)


def paths(text: str, most_hops: int = 99) -> list[str]:
    """The paths to ?y: what each begins in, and its relations, with ~ for those read backwards."""
    (graph,) = query_graphs(parse(text)).alternatives
    found = []
    for path in query_paths(graph, most_hops):
        start = path[0].start
        known = start is not None and graph.is_constant(start)
        words = [graph.terms[start].text if known else "?"]  # type: ignore[union-attr, index]
        words += [graph.edges[h.edge].relation.text + "~" * h.backwards for h in path]  # type: ignore[union-attr]
        found.append(" ".join(words))
    return sorted(found)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("?y : r(a, ?x) & s(?x, ?y)", ["a r s"]),
        ("?y : r(a, ?x) & r(b, ?x) & s(?y, ?x)", ["a r s~", "b r s~"]),
        ("?y : r(a, ?y) & s(?x, ?y)", ["? s", "a r"]),  # a branch without a constant
        ("?y : r(a, ?x) & s(?x, ?y) & t(?x, ?y)", ["a r s", "a r t"]),
        ("?y : r(a, ?x) & s(?x, ?y) & t(?x, ?z) & u(?z, ?y)", ["a r s", "a r t u"]),
        ("?y : r(a, ?y) & s(?y, ?y)", ["? s", "? s~", "a r"]),  # related to itself
        ("?y : s(?x, ?y) & t(?z, ?x) & u(?y, ?z)", ["? t s", "? t~ u~"]),  # a cycle alone
        ("?y : s(?x, ?y)", ["? s"]),
    ],
)
def test_paths_lead_from_constants_and_cover_every_atom(text: str, wanted: list[str]) -> None:
    assert paths(text) == wanted


def test_a_graph_with_too_many_paths_is_refused() -> None:
    """Between five variables that are all related there are 16 ways from one to another; among 21
    pairs of seven variables a search would not end in time."""
    few = " & ".join(f"r(?x{n}, ?x{m})" for n in range(4) for m in range(n))
    few = f"?y : r(a, ?x0) & {few} & " + " & ".join(f"r(?x{n}, ?y)" for n in range(4))
    assert len(paths(few)) == 16
    with pytest.raises(UnsupportedQuery, match="too many paths"):
        paths(few, 20)
    many = " & ".join(f"r(?x{n}, ?x{m})" for n in range(10) for m in range(n))
    with pytest.raises(UnsupportedQuery, match="too many paths"):
        paths(f"?y : r(?x0, ?y) & {many}")


# --- what they tell apart -------------------------------------------------------------------------

TWO = "?y : r0(e0, ?y) & r1(e1, ?y)"
SWAPPED = "?y : r1(e0, ?y) & r0(e1, ?y)"


def test_paths_together_do_not_tell_whose_relation_is_whose_and_say_so() -> None:
    together, apart = model("biqe"), model("biqe", paths="apart")
    assert are_equal(scores(together, TWO), scores(together, SWAPPED))
    assert not are_equal(scores(apart, TWO), scores(apart, SWAPPED))
    assert "one set of tokens" in " ".join(together.notes(parse(TWO)))
    assert together.notes(parse("?y : r0(e0, ?x) & r1(?x, ?y)")) == ()
    assert apart.notes(parse(TWO)) == ()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("?y : r0(e0, ?x) & r1(?x, ?y)", "?y : r1(e0, ?x) & r0(?x, ?y)"),  # their order
        ("?y : r0(e0, ?y)", "?y : r0(?y, e0)"),  # the direction
        ("?y : r0(e0, ?y)", "?y : r0(e0, ?y) & r1(?y, ?y)"),  # what closes a cycle
        ("?y : r0(?x, ?y)", "?y : r0(?x, ?y) & r1(?x, ?y)"),  # no constants at all
        ("?y : r0(?x, ?y)", "?y : r1(?x, ?y)"),
    ],
)
def test_queries_that_differ_have_other_scores(name: str, text: str, other: str) -> None:
    made = model(name)
    assert not are_equal(scores(made, text), scores(made, other))


def test_kgtransformer_tells_whose_relation_is_whose() -> None:
    made = model("kgtransformer")
    assert not are_equal(scores(made, TWO), scores(made, SWAPPED))
    assert made.notes(parse(TWO)) == ()


def test_a_constant_is_seen_in_two_layers_per_hop_and_a_note_says_so() -> None:
    near, far = "?y : r0({}, ?x) & r1(?x, ?y)", "?y : r0({}, ?x) & r1(?x, ?z) & r0(?z, ?y)"
    made = model("kgtransformer")  # of 4 layers
    assert not are_equal(scores(made, near.format("e0")), scores(made, near.format("e1")))
    assert are_equal(scores(made, far.format("e0")), scores(made, far.format("e1")))
    assert made.notes(parse(near.format("e0"))) == ()
    (note,) = made.notes(parse(far.format("e0")))
    assert note.startswith("1 of 3 atoms lead from something that is too far from ?y")


def test_alternatives_in_one_graph_are_scored_by_the_better_rank() -> None:
    made = model("kgtransformer", union="joint")
    found = scores(made, "?y : r0(e0, ?y) | r1(e1, ?y)")
    assert set(found.flatten().tolist()) <= set(range(40))
    assert float(found.max()) == 39
    alone = scores(model("kgtransformer"), "?y : r0(e0, ?y)")
    assert are_equal(scores(made, "?y : r0(e0, ?y)"), alone)


# --- losses ---------------------------------------------------------------------------------------

LOGITS = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.5, -0.5, 0.3], [0.1, 0.2, 0.3, 0.4]]
ANSWERS = AnswerSets(np.array([0, 1, 3, 7]), np.array([2, 0, 3, 0, 1, 2, 3]))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_and_its_gradients_are_those_of_the_formula(smoothing: float) -> None:
    def plain(table: Tensor) -> Tensor:
        losses = []
        for row, answers in zip(table, ANSWERS, strict=True):
            others = [e for e in range(4) if e not in answers]
            own = []
            for answer in answers.tolist():
                total = row[[answer, *others]].logsumexp(0)
                own.append(total - (1 - smoothing) * row[answer] - smoothing * row.mean())
            losses.append(torch.stack(own).mean())
        return torch.stack(losses).mean()

    ours, wanted = (torch.tensor(LOGITS).double().requires_grad_() for _ in range(2))
    loss, right = answers_loss(ours, ANSWERS, smoothing), plain(wanted)
    loss.backward()  # type: ignore[no-untyped-call]
    right.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(float(right.detach()))
    assert ours.grad is not None
    assert wanted.grad is not None
    assert torch.allclose(ours.grad, wanted.grad)


def test_large_scores_overflow_nothing() -> None:
    table = torch.tensor([[1e30, -1e30, 0.0, 5.0]], requires_grad=True)
    answers_loss(table, AnswerSets(np.array([0, 1]), np.array([1])), 0.1).backward()  # type: ignore[no-untyped-call]
    assert table.grad is not None
    assert bool(table.grad.isfinite().all())


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_sample_of_all_entities_has_the_loss_of_all(smoothing: float) -> None:
    """For a query with one answer. The answer is among the sample, where it counts for nothing."""
    table, answer = torch.tensor(LOGITS[:1]), AnswerSets(np.array([0, 1]), np.array([2]))
    sample = torch.cat([table[:, 2:3], table], 1)
    wrong_QK = torch.tensor([[True, True, False, True]])
    found = one_answer_loss(sample, wrong_QK, smoothing)
    assert float(found) == pytest.approx(float(answers_loss(table, answer, smoothing)))


@pytest.mark.parametrize("name", MODELS)
def test_negatives_may_be_all_entities_or_drawn_for_each_query_or_for_the_batch(name: str) -> None:
    """All entities, drawn in any order, give the loss of all entities."""
    made = model(name)
    one, two = (
        QueryGroup(each.name, each.template, each.entities, each.relations, known, each.hard)
        for each, known in (
            (group("?y : r0(e0, ?y) | r1(e1, ?y)"), AnswerSets(np.array([0, 1]), np.array([7]))),
            (group(TWO), AnswerSets(np.array([0, 1]), np.array([3]))),
        )
    )
    drawn = torch.stack([torch.randperm(40) for _ in range(2)])

    def loss(negative_QK: Tensor | None) -> float:
        batch, chosen = made.lay_out([one, two]), Candidates(torch.tensor([7, 3]), negative_QK)
        return float(made.loss(batch, chosen, torch.Generator()).detach())

    wanted = loss(None)
    assert math.isfinite(wanted)
    assert loss(drawn) == pytest.approx(wanted)
    assert loss(drawn[:1]) == pytest.approx(wanted)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("kgtransformer", {"rank": 10, "heads": 4}, "4 heads do not divide a width of 10"),
        ("biqe", {"rank": 10, "heads": 4}, "4 heads do not divide a width of 10"),
        (
            "kgtransformer",
            {"used": 5, "experts": 4},
            "'used' must be at most 'experts', which is 4",
        ),
    ],
)
def test_settings_that_do_not_fit_each_other_are_rejected(
    name: str, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(SettingError, match=why):
        read_reasoning({"reasoner": name, **changes})
