"""ENeSy by hand, on three entities with embeddings of one number."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import clmpt
from clmpt.errors import SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.distmult import DistMult
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.fuzzy.enesy import ENeSy
from clmpt.reasoners.model import Basis, Candidates, build_model
from clmpt.training.trainer import Trainer, part_of_groups
from models import reasoning
from small_training import predictor, queries, settings, valid_graph

GRAPH = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "s", "b")])
A, C = (GRAPH.entities.names.find(name)[0] for name in "ac")
NONE = torch.Generator()


def model(**chosen: Any) -> ENeSy:
    """The embeddings of a, b and c are 1, 2 and 0; those of r and s ln 2 and 0; their inverses
    are the same. All entities weigh the same."""
    tables = torch.tensor([[1.0], [2.0], [0.0]]), torch.tensor([[math.log(2)], [0.0]])
    made = build_model(
        Basis(GRAPH, DistMult(*tables, torch.tensor([-1, -1]))),
        reasoning(reasoner="enesy", hidden=2, **chosen),
        0,
    )
    assert isinstance(made, ENeSy)
    with torch.no_grad():
        for weight in made.weigher.parameters():
            weight.zero_()
    return made


def asked(text: str) -> list[QueryGroup]:
    return [QueryGroup.single(GRAPH.bind(clmpt.parse(text)))]


def set_of(text: str) -> tuple[Tensor, Tensor]:
    """An answer's embedding, and the memberships of a, b and c."""
    made = model()
    with torch.no_grad():
        set_QX, _ = made(made.lay_out(asked(text)))
    return set_QX[0, :1], set_QX[0, 1:]


def is_near(found: Tensor, *wanted: float) -> None:
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=1e-4, atol=1e-6)


def test_a_projection() -> None:
    """The embedding becomes 1 · ln 2. Its scores are ln 2, 2 ln 2 and 0, whose exponentials are 2,
    4 and 1: it resembles them by 2/7, 4/7 and 1/7. The facts lead to b alone. Half of the sum is
    (2/14, 11/14, 1/14), whose mean embedding is 2/14 · 1 + 11/14 · 2."""
    near, member = set_of("?y : r(a, ?y)")
    is_near(member, 2 / 14, 11 / 14, 1 / 14)
    is_near(near, 24 / 14)


def test_a_second_projection_starts_from_both() -> None:
    """Along s, whose embedding is 0, all entities score 0. Its inverse leads from b, of which the
    first set has 11/14, to c: normalised, to c wholly. So c has (1/3 + 1) / 2."""
    near, member = set_of("?y : r(a, ?x) & s(?y, ?x)")
    is_near(member, 1 / 6, 1 / 6, 4 / 6)
    is_near(near, 1 / 6 + 2 / 6)


def test_where_no_fact_leads_the_embedding_is_alone() -> None:
    near, member = set_of("?y : r(b, ?y)")
    is_near(member, 4 / 21, 16 / 21, 1 / 21)  # 2², 4², 1
    is_near(near, 36 / 21)


def test_logic() -> None:
    """Of the set (2, 11, 1) / 14: 10/3 less each, over 10 - 1, and what is left of products."""
    plain = torch.tensor([2.0, 11.0, 1.0]) / 14
    negated = (10 / 3 - plain) / 9
    both = plain * negated / (plain * negated).sum()
    near, member = set_of("?y : r(a, ?y) & !r(a, ?y)")
    is_near(member, *both.tolist())
    is_near(near, float(both[0] + 2 * both[1]))
    other = torch.tensor([4.0, 16.0, 1.0]) / 21
    near, member = set_of("?y : r(a, ?y) | r(b, ?y)")
    is_near(member, *((plain + other) / 2).tolist())


def test_a_relation_whose_inverse_has_no_row_is_reversed() -> None:
    """From c against s, where no fact leads. ComplEx reverses i to -i, and c · -i = i · -i = 1.
    That is b; -i and i are at right angles to it."""
    entities = torch.tensor([[0.0, -1.0], [1.0, 0.0], [0.0, 1.0]])  # -i, 1, i
    tables = entities, torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    no_rows = ComplEx(*tables, torch.tensor([-1, -1]))
    made = ENeSy(Basis(GRAPH, no_rows), model().settings, NONE)
    with torch.no_grad():
        set_QX, _ = made(made.lay_out(asked("?y : s(?y, c)")))
    is_near(set_QX[0, 2:], *torch.tensor([0.0, 1.0, 0.0]).softmax(0).tolist())


@pytest.mark.parametrize("ensemble", [0.0, 0.25, 1.0])
def test_a_score_is_the_fuzzy_set_s_and_the_embedding_s(ensemble: float) -> None:
    near, member = set_of("?y : r(a, ?y)")
    resembled = (near * torch.tensor([1.0, 2.0, 0.0])).softmax(0)
    found = model(ensemble=ensemble).reasoner().score(asked("?y : r(a, ?y)"))
    is_near(found[0], *(ensemble * resembled + (1 - ensemble) * member).tolist())


def test_entities_weigh_as_they_have_learnt() -> None:
    made = model()
    with torch.no_grad():  # softplus of 0 is ln 2; b's is softplus of 4
        made.weigher.layer1.weight[0] = 1
        made.weigher.layer1.bias[0] = -1
        made.weigher.layer0.weight[0, 0] = 4
        set_QX, _ = made(made.lay_out(asked("?y : r(a, ?y)")))
    weights = torch.tensor([2.0, 11.0, 1.0]) * torch.tensor([0.0, 4.0, 0.0]).exp().add(1).log()
    is_near(set_QX[0, :1], float((weights[0] + 2 * weights[1]) / weights.sum()))


def test_the_loss() -> None:
    """Of c as the answer to r(a, ?y), and a as the negative, with margin 1."""
    made = model(margin=1.0, consistency=2.0)
    batch = made.lay_out(asked("?y : r(a, ?y)"))
    negative, positive = 24 / 14 * 1 + 1, 1.0
    logistic = (math.log1p(math.exp(negative)) + math.log1p(math.exp(-positive))) / 2
    symbolic = math.log(1 + 14)  # -log σ(log(1/14))
    again = 2 / 7 + 2 * 4 / 7
    consistency = math.log1p(math.exp(-(math.log(2) * again + 1)))
    wanted = (2 * logistic + symbolic + 2 * consistency) / (3 + 2)
    found = made.loss(batch, Candidates(torch.tensor([C]), torch.tensor([[A]])), NONE)
    assert found.item() == pytest.approx(wanted, rel=1e-5)


def test_consistency_is_a_mean_over_a_query_s_projections() -> None:
    """The first is as in the loss, without a margin; the second leads to 0, which matches nothing
    better than anything else."""
    made = model()
    with torch.no_grad():
        _, lost_Q = made(made.lay_out(asked("?y : r(a, ?x) & s(?y, ?x)")), compared=True)
    first = math.log1p(math.exp(-math.log(2) * (2 / 7 + 2 * 4 / 7)))
    is_near(lost_Q, (first + math.log(2)) / 2)


@pytest.mark.parametrize("negatives", ["query", "batch", "all"])
def test_the_parts_of_a_step_add_up(negatives: str) -> None:
    graph = valid_graph()
    basis = Basis(graph.view("train"), predictor())
    made = build_model(basis, reasoning(reasoner="enesy", hidden=4), 0)
    assert isinstance(made, ENeSy)
    trainer = Trainer(made, queries(graph, 8).groups, settings(negatives=negatives))
    groups = trainer.order.batch(0)
    count = sum(map(len, groups))

    @torch.no_grad()
    def loss(start: int, stop: int) -> float:
        own = slice(start, stop)
        batch, candidates = (
            made.lay_out(part_of_groups(groups, own)),
            trainer.candidates(groups, own),
        )
        return float(made.loss(batch, candidates, NONE)) * (stop - start) / count

    assert loss(0, 9) + loss(9, count) == pytest.approx(loss(0, count), rel=1e-5)


def test_a_frozen_predictor_is_not_trained() -> None:
    for frozen in (False, True):
        made = model(frozen=frozen)
        candidates = Candidates(torch.tensor([C]), None)
        made.loss(made.lay_out(asked("?y : r(a, ?y)")), candidates, NONE).backward()
        assert (made.predictor.entities_ED.grad is None) == frozen
        assert made.weigher.layer0.bias.grad is not None


def test_updates_of_a_step_s_rows_alone_are_refused() -> None:
    made = model()
    candidates = Candidates(torch.tensor([C]), torch.tensor([[A]]), by_rows=True)
    with pytest.raises(SettingError, match="entity_rows = 'all'"):
        made.loss(made.lay_out(asked("?y : r(a, ?y)")), candidates, NONE)
