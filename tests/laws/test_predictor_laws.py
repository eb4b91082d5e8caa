"""Properties that hold for every predictor, of any rank, whatever is asked at the same time."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.registry import PREDICTORS
from models import random_predictor

ENTITIES, RELATIONS = 5, 3
names, numbers = st.sampled_from(PREDICTORS.names()), st.integers(2, 24)
asked = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, 2 * RELATIONS - 1)),
    min_size=1,
    max_size=8,
)


def predictor(name: str, rank: int) -> EmbeddingPredictor:
    return random_predictor(
        name, ENTITIES, RELATIONS, rank * PREDICTORS.find(name).width(1)
    ).double()


def same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


@given(names, numbers, asked)
def test_all_ways_to_score_agree(name: str, rank: int, questions: list[tuple[int, int]]) -> None:
    made = predictor(name, rank)
    entity_B, row_B = torch.tensor(questions).T
    answers_BE, all_E = made.score_answers(entity_B, row_B), torch.arange(ENTITIES)
    for number, (entity, row) in enumerate(questions):
        head_E, row_E = torch.full_like(all_E, entity), torch.full_like(all_E, row)
        same(answers_BE[number], made.score(head_E, row_E, all_E))
        relation_EW = made.relations_SW[row_E]
        projected_ED = made.project(made.entities_ED[head_E], relation_EW)
        same(answers_BE[number], made.match(projected_ED, made.entities_ED))
    same(
        made.score_heads(row_B, entity_B),
        torch.stack(
            [
                made.score(all_E, torch.full_like(all_E, row), torch.full_like(all_E, entity))
                for entity, row in questions
            ]
        ),
    )


@given(names, numbers, asked)
def test_what_else_is_asked_changes_no_score(
    name: str, rank: int, questions: list[tuple[int, int]]
) -> None:
    made = predictor(name, rank)
    entity_B, row_B = torch.tensor(questions).T
    together = made.score_answers(entity_B, row_B)
    alone = [made.score_answers(entity_B[[at]], row_B[[at]]) for at in range(len(questions))]
    same(together, torch.cat(alone))
    same(together.flip(0), made.score_answers(entity_B.flip(0), row_B.flip(0)))


@given(names, numbers, asked)
def test_rho_along_a_relation_is_rho_against_its_inverse_if_both_have_rows(
    name: str, rank: int, questions: list[tuple[int, int]]
) -> None:
    made = predictor(name, rank)
    entity_B, row_B = torch.tensor(questions).T
    source_BD, no_B = made.entities_ED[entity_B], torch.zeros_like(row_B, dtype=torch.bool)
    to_tail_BD = made.infer(source_BD, row_B, no_B, no_B)
    same(to_tail_BD, made.project(source_BD, made.relations_SW[row_B]))
    inverse_B = (row_B + RELATIONS) % (2 * RELATIONS)
    same(made.opposite(row_B), inverse_B)
    to_head_BD = made.infer(source_BD, inverse_B, ~no_B, no_B)
    if made.can_reverse():
        same(to_head_BD, made.project(source_BD, made.reverse(made.relations_SW[inverse_B])))
    else:
        same(to_head_BD, to_tail_BD)
