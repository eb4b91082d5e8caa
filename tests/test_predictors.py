"""Scores by hand, and ρ as the arg max it is meant to be."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clmpt.errors import DataError, SettingError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.complex import ComplEx
from clmpt.predictors.conve import ConvE
from clmpt.predictors.cp import CP
from clmpt.predictors.distmult import DistMult
from clmpt.predictors.inner_products import DiagonalPredictor
from clmpt.predictors.predictor import (
    EmbeddingPredictor,
    fresh_predictor,
    read_pretraining,
)
from clmpt.predictors.rescal import RESCAL
from clmpt.predictors.rotate import RotatE
from clmpt.predictors.transe import TransE
from clmpt.predictors.tucker import TuckER
from clmpt.registry import PREDICTORS

NO_INVERSES = torch.tensor([-1])
ITSELF = torch.tensor([0])  # the row of the inverse of a symmetric relation
BY_INNER_PRODUCT = [name for name in PREDICTORS.names() if PREDICTORS.find(name).has_penalty]
IRREVERSIBLE = [name for name in PREDICTORS.names() if not PREDICTORS.find(name).can_reverse()]


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_predictor(model: str, seed: int = 0) -> EmbeddingPredictor:
    """Six entities, three relations of which the first two have inverses in rows 3 and 4; the third
    has one in row 5 only if it needs it."""
    generator = torch.Generator().manual_seed(seed)
    kind = PREDICTORS.find(model)
    tables = kind.initial(6, 5 if kind.can_reverse() else 6, 4, 1.0, generator)
    inverse_R = torch.tensor([3, 4, -1 if kind.can_reverse() else 5])
    made = kind(*(table.double() for table in tables), inverse_R)
    made.initialise(generator)
    return made


def one(predictor: EmbeddingPredictor) -> float:
    index = torch.tensor([0])
    return predictor.score(index, index, torch.tensor([1])).item()


def test_complex_by_hand() -> None:
    # h = 1 + 2i, r = 3 - i, t = 2 + i. r h = (3 + 2) + (6 - 1)i = 5 + 5i.
    # Re((5 + 5i)(2 - i)) = 10 + 5 = 15.
    entities = torch.stack([numbers(1, 2), numbers(2, 1)])
    assert one(ComplEx(entities, numbers(3, -1)[None], NO_INVERSES)) == 15


def test_distmult_by_hand() -> None:
    # 1·3·2 + 2·(-1)·1 = 4
    entities = torch.stack([numbers(1, 2), numbers(2, 1)])
    assert one(DistMult(entities, numbers(3, -1)[None], NO_INVERSES)) == 4


def test_transe_by_hand() -> None:
    # |1 + 3 - 2| + |2 - 1 - 1| = 2
    entities = torch.stack([numbers(1, 2), numbers(2, 1)])
    assert one(TransE(entities, numbers(3, -1)[None], NO_INVERSES)) == -2


def test_rotate_by_hand() -> None:
    # A quarter turn takes 1 + 2i to -2 + i, at distance 4 from 2 + i.
    entities = torch.stack([numbers(1, 2), numbers(2, 1)])
    turn = RotatE(entities, numbers(math.pi / 2)[None], NO_INVERSES)
    assert one(turn) == pytest.approx(-4)


def test_rescal_by_hand() -> None:
    # hᵀ R = (1·1 + 2·3, 1·2 + 2·4) = (7, 10); with t: 7·2 + 10·1 = 24. Backwards: Rᵀ has rows
    # (1, 3) and (2, 4), so tᵀ Rᵀ = (2·1 + 1·2, 2·3 + 1·4) = (4, 10), and with h 4 + 20 = 24 again.
    entities, relation = torch.stack([numbers(1, 2), numbers(2, 1)]), numbers(1, 2, 3, 4)[None]
    predictor = RESCAL(entities, relation, NO_INVERSES)
    assert one(predictor) == 24
    assert predictor.project(entities[1:], predictor.reverse(relation)).tolist() == [[4, 10]]
    assert predictor.score_heads(torch.tensor([0]), torch.tensor([1]))[0, 0] == 24


def test_cp_by_hand() -> None:
    # As a head the first is (1, 2), as a tail the second is (5, 6): 1·3·5 + 2·(-1)·6 = 3.
    entities = torch.stack([numbers(1, 2, 9, 9), numbers(9, 9, 5, 6)])
    predictor = CP(entities, numbers(3, -1)[None], ITSELF)
    assert one(predictor) == 3
    assert to_tail(predictor, entities[:1], torch.tensor([0])).tolist() == [[0, 0, 3, -2]]


def test_tucker_by_hand() -> None:
    # R = 3 · (1 2; 3 4) - 1 · (0 1; 0 0) = (3 5; 9 12); hᵀ R = (21, 29); with t: 42 + 29 = 71.
    entities = torch.stack([numbers(1, 2), numbers(2, 1)])
    predictor = TuckER(entities, numbers(3, -1)[None], ITSELF)
    with torch.no_grad():
        predictor.core_WDD.copy_(torch.tensor([[[1, 2], [3, 4]], [[0, 1], [0, 0]]]))
    assert one(predictor) == 71


def test_conve_by_hand() -> None:
    # The column 1 2 3 3 2 1 less its mean, over its deviation, is -a 0 a a 0 -a. Filters that take
    # the first of three make -a 0 a a of it: normalised, -5 -1 3 3 over √11. A positive number is
    # picked, and 0 below it. Two numbers normalised are 1 and -1. Scaled by 2 and 1 and shifted by
    # 1 and 4: 3 and 3, and a 1 for the bias. With t: 3·1 + 3·2 + 5 = 14.
    entities = torch.stack([numbers(1, 2, 3), numbers(1, 2, 5)])
    predictor = ConvE(entities, numbers(3, 2, 1)[None], ITSELF)
    predictor.initialise(torch.Generator())
    with torch.no_grad():
        predictor.filters_C1hl.zero_()[:, 0, 0] = 1
        predictor.features_VX.zero_()[0, 2] = 100
        predictor.hidden_scale_V.copy_(numbers(2, 1))
        predictor.hidden_shift_V.copy_(numbers(1, 4))
    assert one(predictor) == pytest.approx(14, abs=1e-3)
    torch.nn.init.zeros_(predictor.hidden_shift_V)  # 2 and -1, of which the latter becomes 0
    assert one(predictor) == pytest.approx(2 + 0 + 5, abs=1e-3)


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_a_score_is_how_well_the_projected_head_matches_the_tail(model: str) -> None:
    predictor = random_predictor(model)
    head, relation, tail = (torch.tensor(ids) for ids in ([5, 0, 3, 3], [0, 4, 2, 0], [1, 1, 0, 3]))
    entities_ED, relation_AW = predictor.entities_ED, predictor.relations_SW[relation]
    projected_AD = predictor.project(entities_ED[head], relation_AW)
    scores = predictor.match(projected_AD, entities_ED[tail])
    torch.testing.assert_close(predictor.score(head, relation, tail), scores)
    along_AD = predictor.project_along(entities_ED[head], predictor.relations_SW, relation)
    torch.testing.assert_close(along_AD, projected_AD)


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_every_weight_has_a_part_in_the_scores(model: str) -> None:
    predictor = random_predictor(model)
    entity, directed = torch.arange(6), torch.tensor([0, 1, 2, 3, 4, 5])
    scores_BE = predictor.score_answers(entity, directed)
    (scores_BE.log_softmax(1) * torch.randn(6, 6, generator=torch.Generator())).sum().backward()
    for name, weight in predictor.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.flatten(1 if weight.dim() > 1 else 0).any(-1).all()), name


@pytest.mark.parametrize("model", IRREVERSIBLE)
def test_what_cannot_reverse_a_relation_needs_a_row_for_every_inverse(model: str) -> None:
    tables = PREDICTORS.find(model).initial(6, 5, 4, 1.0, torch.Generator())
    with pytest.raises(DataError, match="the inverse of each needs a row of its own"):
        PREDICTORS.find(model)(*tables, torch.tensor([3, 4, -1]))


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_scores_of_all_entities_agree_with_single_scores(model: str) -> None:
    predictor = random_predictor(model)
    relation, entity = torch.tensor([0, 1, 2, 4]), torch.tensor([5, 0, 3, 3])
    tails, heads = predictor.score_tails(entity, relation), predictor.score_heads(relation, entity)
    for other in range(6):
        others = torch.full_like(entity, other)
        torch.testing.assert_close(tails[:, other], predictor.score(entity, relation, others))
        torch.testing.assert_close(heads[:, other], predictor.score(others, relation, entity))


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_a_backward_question_uses_the_inverse_s_row_if_there_is_one(model: str) -> None:
    predictor = random_predictor(model)
    entity = torch.tensor([1, 2, 3])
    # Directed relations 3, 4, 5 are 0, 1, 2 read backwards; rows 3 and 4 are inverses, and 2 may
    # have none.
    answers = predictor.score_answers(entity, torch.tensor([3, 4, 5]))
    torch.testing.assert_close(answers[:2], predictor.score_tails(entity[:2], torch.tensor([3, 4])))
    if predictor.can_reverse():
        last = predictor.score_heads(torch.tensor([2]), entity[2:])
    else:
        last = predictor.score_tails(entity[2:], torch.tensor([5]))
    torch.testing.assert_close(answers[2:], last)
    forward = predictor.score_answers(entity, torch.tensor([0, 1, 2]))
    torch.testing.assert_close(forward, predictor.score_tails(entity, torch.tensor([0, 1, 2])))


# --- ρ --------------------------------------------------------------------------------------------


def inferred(
    predictor: EmbeddingPredictor, to_head: bool, negated: bool, penalty: float | None = None
) -> Tensor:
    """ρ from entity 0 across relation 1."""
    source, relation = predictor.entities_ED[:1].detach(), torch.tensor([1])
    ways = torch.tensor([to_head]), torch.tensor([negated])
    return predictor.infer(source, relation, *ways, penalty).detach()


def to_tail(
    predictor: EmbeddingPredictor, source: Tensor, relation: Tensor, penalty: float | None = None
) -> Tensor:
    """ρ from head to tail, not negated."""
    no = torch.zeros_like(relation, dtype=torch.bool)
    return predictor.infer(source, relation, no, no, penalty)


def truth(predictor: EmbeddingPredictor, to_head: bool, negated: bool, x_1D: Tensor) -> Tensor:
    """The score of the atom between entity 0 and x, or of its negation."""
    source, relation = predictor.entities_ED[:1].detach(), predictor.relations_SW[1:2].detach()
    if to_head and not predictor.can_reverse():  # what is asked is the tail of the inverse
        score = predictor.match(predictor.project(source, predictor.relations_SW[4:5]), x_1D)
    elif to_head:
        score = predictor.match(predictor.project(x_1D, relation), source)
    else:
        score = predictor.match(predictor.project(source, relation), x_1D)
    return -score.sum() if negated else score.sum()


CASES = [(to_head, negated) for to_head in (False, True) for negated in (False, True)]


@pytest.mark.parametrize(("to_head", "negated"), CASES)
@pytest.mark.parametrize("model", BY_INNER_PRODUCT)
@pytest.mark.parametrize("penalty", [0.01, 0.7])
def test_the_full_form_maximises_the_regularised_score(
    model: str, penalty: float, to_head: bool, negated: bool
) -> None:
    predictor = random_predictor(model)

    def objective(x_1D: Tensor) -> Tensor:
        return truth(predictor, to_head, negated, x_1D) - penalty * x_1D.norm() ** 3

    best = inferred(predictor, to_head, negated, penalty).requires_grad_()
    top = objective(best)
    (slope,) = torch.autograd.grad(top, best)
    assert slope.abs().max() < 1e-9 * max(1.0, float(best.detach().abs().max()))
    generator = torch.Generator().manual_seed(1)
    for size in (1e-3, 0.1, 1.0, 10.0):
        for _ in range(200):
            step = torch.randn(best.shape, generator=generator, dtype=torch.float64) * size
            assert objective(best.detach() + step) <= top + 1e-12


@pytest.mark.parametrize(("to_head", "negated"), CASES)
@pytest.mark.parametrize("model", BY_INNER_PRODUCT)
def test_the_simplified_form_is_best_among_vectors_of_its_length(
    model: str, to_head: bool, negated: bool
) -> None:
    predictor = random_predictor(model)
    best = inferred(predictor, to_head, negated)
    top = truth(predictor, to_head, negated, best)
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        other = torch.randn(best.shape, generator=generator, dtype=torch.float64)
        other *= best.norm() / other.norm()
        assert truth(predictor, to_head, negated, other) < top
    full = inferred(predictor, to_head, negated, 0.3)
    torch.testing.assert_close(full / full.norm(), best / best.norm())


@pytest.mark.parametrize("to_head", [False, True])
@pytest.mark.parametrize("model", ["transe", "rotate"])
def test_the_inferred_embedding_has_distance_zero(model: str, to_head: bool) -> None:
    predictor = random_predictor(model)
    best = inferred(predictor, to_head, negated=False)
    assert truth(predictor, to_head, False, best) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(inferred(predictor, to_head, negated=True), -best)


def test_complex_messages_by_hand() -> None:
    # z = 1 + 2i, r = 3 - i: r z = 5 + 5i to a tail; conj(r) z = (3 + i)(1 + 2i) = 1 + 7i to a head.
    entities, relation = numbers(1, 2)[None], numbers(3, -1)[None]
    predictor = ComplEx(entities, relation, NO_INVERSES)
    found = predictor.infer(
        entities.expand(4, 2),
        torch.zeros(4, dtype=torch.int64),
        to_head_A=torch.tensor([False, True, False, True]),
        negated_A=torch.tensor([False, False, True, True]),
    )
    assert found.tolist() == [[5, 5], [1, 7], [-5, -5], [-1, -7]]
    # With λ = 1/3 the denominator is the square root of the length: ‖5 + 5i‖ = √50.
    full = to_tail(predictor, entities, torch.tensor([0]), penalty=1 / 3)
    assert full.tolist()[0] == pytest.approx([5 / 50**0.25] * 2)


def test_there_is_no_division_by_zero() -> None:
    predictor = ComplEx(torch.zeros(1, 2), torch.zeros(1, 2), NO_INVERSES)
    found = to_tail(predictor, torch.zeros(1, 2), torch.tensor([0]), penalty=1.0)
    assert found.tolist() == [[0, 0]]


@pytest.mark.parametrize("model", ["transe", "rotate"])
def test_a_distance_has_no_penalised_form(model: str) -> None:
    with pytest.raises(SettingError, match="no closed form"):
        inferred(random_predictor(model), False, False, penalty=0.1)


def test_a_penalty_of_zero_is_rejected() -> None:
    with pytest.raises(SettingError, match="above 0"):
        inferred(random_predictor("complex"), False, False, penalty=0.0)


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_a_fresh_predictor_has_a_row_for_every_direction(model: str) -> None:
    plain = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    doubled = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r'", "a")])
    settings = read_pretraining({"model": model, "rank": 3})
    assert len(fresh_predictor(plain, settings).relations_SW) == 4
    assert fresh_predictor(plain, settings).inverse_R.tolist() == [2, 3]
    assert len(fresh_predictor(doubled, settings).relations_SW) == 2
    assert fresh_predictor(doubled, settings).inverse_R.tolist() == [1, 0]


def test_a_seed_gives_the_same_numbers() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    first, second, other = (
        fresh_predictor(graph, read_pretraining({"rank": 3, "seed": seed})).entities_ED
        for seed in (5, 5, 6)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("model", "widths"),
    [
        *(("complex", (5, 5)), ("transe", (4, 6)), ("rotate", (4, 4)), ("rescal", (4, 4))),
        *(("cp", (4, 4)), ("conve", (4, 6)), ("conve", (1, 1))),
    ],
)
def test_tables_that_do_not_fit_together_are_rejected(model: str, widths: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"width|wide"):
        PREDICTORS.find(model)(torch.zeros(2, widths[0]), torch.zeros(1, widths[1]), ITSELF)


def test_moduli_are_those_of_complex_numbers() -> None:
    predictor = random_predictor("complex")
    assert isinstance(predictor, DiagonalPredictor)
    embedding = numbers(3, 5, 0, 4, 12, 0)[None].requires_grad_()  # 3 + 4i, 5 + 12i and 0
    cubes = predictor.cubed_moduli(embedding)
    assert cubes.tolist() == [pytest.approx([5**3, 13**3, 0])]
    (slope,) = torch.autograd.grad(cubes.sum(), embedding)
    assert slope.isfinite().all()


@pytest.mark.parametrize("model", PREDICTORS.names())
def test_an_exact_match_stays_exact_among_many(model: str) -> None:
    tables = PREDICTORS.find(model).initial(200, 1, 100, 1.0, torch.Generator().manual_seed(0))
    predictor = PREDICTORS.find(model)(*tables, ITSELF)
    predictor.initialise(torch.Generator().manual_seed(0))
    head, relation = torch.arange(50), torch.zeros(50, dtype=torch.int64)
    with torch.no_grad():
        projected = to_tail(predictor, predictor.entities_ED[head], relation)
        predictor.entities_ED[100:150] = projected
        found = predictor.score_tails(head, relation)[:, 100:150].diagonal()
        torch.testing.assert_close(found, predictor.score(head, relation, head + 100))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"group": 5}, "Set 'candidates' too"),
        ({"model": "transe", "candidates": 5}, "always draws its negatives"),
        ({"candidates": 5, "relation_weight": 1.0}, "cannot be combined"),
        ({"model": "conve", "relation_weight": 1.0}, "cannot predict relations"),
        ({"divided": "tables", "relation_weight": 1.0}, "needs all of them"),
    ],
)
def test_settings_that_would_not_be_used_are_refused(chosen: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_pretraining(chosen)
