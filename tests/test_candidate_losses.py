"""Which candidates are wrong, and losses of scores that are far apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clmpt.queries.store import AnswerSets
from clmpt.reasoners.operators.candidate_losses import is_wrong, joint_loss

CPU, ENTITIES = torch.device("cpu"), 9
ENTITY = st.integers(0, ENTITIES - 1)


@given(
    st.lists(st.sets(ENTITY), min_size=1, max_size=5),
    st.lists(ENTITY, min_size=1, max_size=12),
)
def test_a_candidate_is_wrong_unless_it_is_an_answer(
    answers: list[set[int]], drawn: list[int]
) -> None:
    found = AnswerSets(
        np.cumsum([0, *map(len, answers)]),
        np.array([entity for one in answers for entity in sorted(one)], np.int64),
    )
    expected = [[entity not in one for entity in drawn] for one in answers]
    shared_1K = torch.tensor([drawn])
    assert is_wrong(found, shared_1K, ENTITIES, CPU).expand(len(answers), -1).tolist() == expected
    own_QK = shared_1K.repeat(len(answers), 1)
    assert is_wrong(found, own_QK, ENTITIES, CPU).tolist() == expected


def test_scores_that_are_far_apart_have_the_loss_and_gradient_of_the_softmax() -> None:
    scores = torch.tensor(
        [[3.0, 1.0, -150.0, 500.0], [-90.0, 2.0, 1.0, 0.0]], dtype=torch.float64, requires_grad=True
    )
    wrong = torch.tensor([[True, True, False], [True, True, True]])
    loss = joint_loss(scores, wrong, None)
    (slope,) = torch.autograd.grad(loss, scores)
    rows = [[3.0, 1.0, -150.0], [-90.0, 2.0, 1.0, 0.0]]
    shares = [torch.tensor(row, dtype=torch.float64).softmax(0) for row in rows]
    terms = [torch.tensor(row, dtype=torch.float64).logsumexp(0) - row[0] for row in rows]
    assert loss.item() == pytest.approx(float(sum(terms)) / 2)
    expected = torch.zeros(2, 4, dtype=torch.float64)
    expected[0, :3], expected[1] = shares[0], shares[1]
    expected[:, 0] -= 1
    torch.testing.assert_close(slope, expected / 2)
